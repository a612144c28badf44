package autodiff

import "math"

// embedding is y[i] = factor·table[ids[i]].
type embedding[T Float] struct {
	y, table *Matrix[T]
	ids      []int32
	factor   T
}

// Embed returns the vectors of tokens: rows of the table times the factor. A negative id has a vector of zeros. ids must stay
// as they are until Backward.
func (t *Tape[T]) Embed(table *Matrix[T], ids []int32, factor float64) *Matrix[T] {
	y := t.matrix(len(ids), table.Cols)
	for i, id := range ids {
		row := y.Row(i)
		if id < 0 {
			clear(row)
			continue
		}
		for j, v := range table.Row(int(id)) {
			row[j] = v * T(factor)
		}
	}
	o := t.embeddings.next()
	*o = embedding[T]{y, table, ids, T(factor)}
	t.record(o)
	return y
}

// AddPositions adds row p of positions to the vector of the token at position p of its sentence. It works in place, and positions
// do not learn.
func (t *Tape[T]) AddPositions(x *Matrix[T], sentences Segments, positions *Matrix[T]) {
	checkSegments(sentences, x.Rows, "positions")
	for s := range sentences.Sentences() {
		for i := sentences[s]; i < sentences[s+1]; i++ {
			addTo(x.Row(i), positions.Row(i-sentences[s]))
		}
	}
}

func (o *embedding[T]) backward(*Tape[T]) {
	d := o.table.Cols
	for i, id := range o.ids {
		if id >= 0 && o.table.Grad != nil {
			addScaled(o.table.Grad[int(id)*d:(int(id)+1)*d], o.y.Grad[i*d:(i+1)*d], o.factor)
		}
	}
}

// Sinusoids returns the vectors of the first n positions: with ω_i = e^(-i·ln(10000)/(dim/2-1)), element i is sin(p·ω_i) and
// element dim/2+i is cos(p·ω_i), rounded to single precision where Marian does.
func Sinusoids[T Float](n, dim int) *Matrix[T] {
	m := &Matrix[T]{Rows: n, Cols: dim, Value: make([]T, n*dim)}
	half := dim / 2
	increment := float32(math.Log(10000)) / (float32(half) - 1)
	for i := range half {
		frequency := float32(math.Exp(float64(float32(i) * -increment)))
		for p := range n {
			sin, cos := math.Sincos(float64(float32(p) * frequency))
			m.Value[p*dim+i], m.Value[p*dim+half+i] = T(float32(sin)), T(float32(cos))
		}
	}
	return m
}
