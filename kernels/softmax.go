package kernels

import "math"

// Softmax replaces each row of n elements by e^x/Σe^x. stride: elements from row to row.
// A row that contains NaN or +Inf, or nothing but -Inf, becomes NaN.
func Softmax(x []float32, rows, n, stride int) {
	need(len(x), span(rows, stride, n), "rows of a softmax")
	if rows == 0 || n == 0 {
		return
	}
	softmax(x, rows, n, stride)
}

func softmaxGeneric(x []float32, rows, n, stride int) {
	for r := range rows {
		row := x[r*stride : r*stride+n]
		inverse := 1 / expGeneric(row, row, maxGeneric(row))
		for i := range row {
			row[i] *= inverse
		}
	}
}

// LogSoftmax replaces x by x - log(Σe^x). Elements of -Inf stay -Inf.
func LogSoftmax(x []float32) {
	if len(x) == 0 {
		return
	}
	largest := maximum(x)
	if largest == 0 {
		largest = 0 // not -0, which would show where the result is zero
	}
	logSum := float32(math.Log(float64(expSum(x, largest))))
	shift(x, largest, logSum)
}

// expSumGeneric returns the striped sum of e^(x-largest).
func expSumGeneric(x []float32, largest float32) float32 {
	var s stripes
	for i, v := range x {
		s[i%16] += exp32(v - largest)
	}
	return s.sum()
}

// expGeneric sets dst to e^(x-largest) and returns the striped sum.
func expGeneric(dst, x []float32, largest float32) float32 {
	var s stripes
	for i, v := range x {
		e := exp32(v - largest)
		dst[i] = e
		s[i%16] += e
	}
	return s.sum()
}

// shiftGeneric replaces x by (x - a) - b.
func shiftGeneric(x []float32, a, b float32) {
	for i, v := range x {
		x[i] = (v - a) - b
	}
}

// maxGeneric returns the largest element, ignoring NaN, -Inf if there is none.
func maxGeneric(x []float32) float32 {
	largest := float32(math.Inf(-1))
	for _, v := range x {
		if v > largest {
			largest = v
		}
	}
	return largest
}

// ArgMax returns the place of the first maximum of x and its value. If x contains NaN, it returns the first NaN and its
// place. It returns -1 and -Inf if x is empty.
func ArgMax(x []float32) (index int, value float32) {
	if len(x) == 0 {
		return -1, float32(math.Inf(-1))
	}
	index = argMax(x)
	return index, x[index]
}

func argMaxGeneric(x []float32) int {
	best := 0
	for i, v := range x {
		if v != v {
			return i
		}
		if v > x[best] {
			best = i
		}
	}
	return best
}
