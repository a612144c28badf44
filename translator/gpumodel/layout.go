package gpumodel

// Kernels read rows eight elements at a time, and those of attention know heads of a few sizes. Rows of other sizes are filled up with
// zeros when a model is loaded, in the matrices and vectors that belong to them: then what fills a row up stays zero through products,
// activations, cells and sums, and adds nothing to any; a sigmoid, which makes a half of it, is followed by a product, which reads nothing
// there and gives zeros. Norms are told how many elements count, and attention by which factor its scores are scaled.

// A unit is elements that belong together, and how many they are with what fills them up.
type unit struct{ own, filled int }

// multiple is the number of elements that kernels read at a time.
const multiple = 8

// whole is a unit that is filled up to what kernels read at a time.
func whole(own int) unit { return unit{own, (own + multiple - 1) / multiple * multiple} }

// A layout says how the elements of a row lie on the device: each unit is filled up.
type layout []unit

// rowOf is a layout of one unit.
func rowOf(own int) layout { return layout{whole(own)} }

// of divides so many elements into units.
func (u unit) of(elements int) layout {
	var l layout
	for range elements / u.own {
		l = append(l, u)
	}
	return l
}

// width is the elements of a row on the device.
func (l layout) width() int {
	n := 0
	for _, u := range l {
		n += u.filled
	}
	return n
}

// own is the elements that are the model's.
func (l layout) own() int {
	n := 0
	for _, u := range l {
		n += u.own
	}
	return n
}

// places yields for each element that is the model's its place on the device.
func (l layout) places(yield func(element, place int) bool) {
	element, first := 0, 0
	for _, u := range l {
		for i := range u.own {
			if !yield(element, first+i) {
				return
			}
			element++
		}
		first += u.filled
	}
}

// fill lays out a row; nothing stays nothing.
func fill[T any](from []T, l layout) []T { return fillMatrix(from, layout{{1, 1}}, l) }

// fillMatrix lays out the rows of a matrix and the elements of each; nothing stays nothing.
func fillMatrix[T any](from []T, rows, columns layout) []T {
	width, own := columns.width(), columns.own()
	if len(from) == 0 || width == own && rows.width() == rows.own() {
		return from
	}
	to := make([]T, rows.width()*width)
	for i, place := range rows.places {
		for j, at := range columns.places {
			to[place*width+at] = from[i*own+j]
		}
	}
	return to
}
