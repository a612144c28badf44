//go:build !purego

package kernels

import (
	"github.com/sluice-mt/sluice/internal/cpu"
)

// callElements bounds the elements of one call of assembly to some 10 µs, which is how long the garbage collector may
// have to wait for it. Longer slices are halved, and each half passes a function's prologue.
const callElements = 1 << 15

// half returns where to cut n elements: in the middle, at a multiple of 16.
func half(n int) int { return n / 2 &^ 15 }

func add(dst, a, b []float32) {
	switch level := cpu.Active(); {
	case level == cpu.Generic || len(dst) == 0:
		addGeneric(dst, a, b)
	case len(dst) > callElements:
		cut := half(len(dst))
		add(dst[:cut], a[:cut], b[:cut])
		add(dst[cut:], a[cut:], b[cut:])
	case level == cpu.AVX2:
		addAVX2(&dst[0], &a[0], &b[0], len(dst))
	default:
		addAVX512(&dst[0], &a[0], &b[0], len(dst))
	}
}

func scale(dst, x []float32, s float32) {
	switch level := cpu.Active(); {
	case level == cpu.Generic || len(dst) == 0:
		scaleGeneric(dst, x, s)
	case len(dst) > callElements:
		cut := half(len(dst))
		scale(dst[:cut], x[:cut], s)
		scale(dst[cut:], x[cut:], s)
	case level == cpu.AVX2:
		scaleAVX2(&dst[0], &x[0], len(dst), s)
	default:
		scaleAVX512(&dst[0], &x[0], len(dst), s)
	}
}

func shift(x []float32, a, b float32) {
	switch level := cpu.Active(); {
	case level == cpu.Generic || len(x) == 0:
		shiftGeneric(x, a, b)
	case len(x) > callElements:
		cut := half(len(x))
		shift(x[:cut], a, b)
		shift(x[cut:], a, b)
	case level == cpu.AVX2:
		shiftAVX2(&x[0], len(x), a, b)
	default:
		shiftAVX512(&x[0], len(x), a, b)
	}
}

func average(a, x []float32, t, t1 float32) {
	switch level := cpu.Active(); {
	case level == cpu.Generic || len(a) == 0:
		averageGeneric(a, x, t, t1)
	case len(a) > callElements:
		cut := half(len(a))
		average(a[:cut], x[:cut], t, t1)
		average(a[cut:], x[cut:], t, t1)
	case level == cpu.AVX2:
		averageAVX2(&a[0], &x[0], len(a), t, t1)
	default:
		averageAVX512(&a[0], &x[0], len(a), t, t1)
	}
}

func relu(x []float32) {
	switch level := cpu.Active(); {
	case level == cpu.Generic || len(x) == 0:
		reluGeneric(x)
	case len(x) > callElements:
		cut := half(len(x))
		relu(x[:cut])
		relu(x[cut:])
	case level == cpu.AVX2:
		reluAVX2(&x[0], len(x))
	default:
		reluAVX512(&x[0], len(x))
	}
}

func sigmoid(x []float32) {
	switch level := cpu.Active(); {
	case level == cpu.Generic || len(x) == 0:
		sigmoidGeneric(x)
	case len(x) > callElements:
		cut := half(len(x))
		sigmoid(x[:cut])
		sigmoid(x[cut:])
	case level == cpu.AVX2:
		sigmoidAVX2(&x[0], len(x))
	default:
		sigmoidAVX512(&x[0], len(x))
	}
}

func tanh(x []float32) {
	switch level := cpu.Active(); {
	case level == cpu.Generic || len(x) == 0:
		tanhGeneric(x)
	case len(x) > callElements:
		cut := half(len(x))
		tanh(x[:cut])
		tanh(x[cut:])
	case level == cpu.AVX2:
		tanhAVX2(&x[0], len(x))
	default:
		tanhAVX512(&x[0], len(x))
	}
}

func swish(x []float32, slope float32) {
	switch level := cpu.Active(); {
	case level == cpu.Generic || len(x) == 0:
		swishGeneric(x, slope)
	case len(x) > callElements:
		cut := half(len(x))
		swish(x[:cut], slope)
		swish(x[cut:], slope)
	case level == cpu.AVX2:
		swishAVX2(&x[0], len(x), slope)
	default:
		swishAVX512(&x[0], len(x), slope)
	}
}

func gelu(x []float32) {
	switch level := cpu.Active(); {
	case level == cpu.Generic || len(x) == 0:
		geluGeneric(x)
	case len(x) > callElements:
		cut := half(len(x))
		gelu(x[:cut])
		gelu(x[cut:])
	case level == cpu.AVX2:
		geluAVX2(&x[0], len(x))
	default:
		geluAVX512(&x[0], len(x))
	}
}

func ssru(c, h, f, x []float32) {
	switch level := cpu.Active(); {
	case level == cpu.Generic || len(c) == 0:
		ssruGeneric(c, h, f, x)
	case len(c) > callElements:
		cut := half(len(c))
		ssru(c[:cut], h[:cut], f[:cut], x[:cut])
		ssru(c[cut:], h[cut:], f[cut:], x[cut:])
	case level == cpu.AVX2:
		ssruAVX2(&c[0], &h[0], &f[0], &x[0], len(c))
	default:
		ssruAVX512(&c[0], &h[0], &f[0], &x[0], len(c))
	}
}

func sru(c, h, f, r, wx, x []float32) {
	switch level := cpu.Active(); {
	case level == cpu.Generic || len(c) == 0:
		sruGeneric(c, h, f, r, wx, x)
	case len(c) > callElements:
		cut := half(len(c))
		sru(c[:cut], h[:cut], f[:cut], r[:cut], wx[:cut], x[:cut])
		sru(c[cut:], h[cut:], f[cut:], r[cut:], wx[cut:], x[cut:])
	case level == cpu.AVX2:
		sruAVX2(&c[0], &h[0], &f[0], &r[0], &wx[0], &x[0], len(c))
	default:
		sruAVX512(&c[0], &h[0], &f[0], &r[0], &wx[0], &x[0], len(c))
	}
}

func gatedSum(dst, gi, x, gf, y []float32) {
	switch level := cpu.Active(); {
	case level == cpu.Generic || len(dst) == 0:
		gatedSumGeneric(dst, gi, x, gf, y)
	case len(dst) > callElements:
		cut := half(len(dst))
		gatedSum(dst[:cut], gi[:cut], x[:cut], gf[:cut], y[:cut])
		gatedSum(dst[cut:], gi[cut:], x[cut:], gf[cut:], y[cut:])
	case level == cpu.AVX2:
		gatedSumAVX2(&dst[0], &gi[0], &x[0], &gf[0], &y[0], len(dst))
	default:
		gatedSumAVX512(&dst[0], &gi[0], &x[0], &gf[0], &y[0], len(dst))
	}
}

func highway(dst, gate, x, y []float32) {
	switch level := cpu.Active(); {
	case level == cpu.Generic || len(dst) == 0:
		highwayGeneric(dst, gate, x, y)
	case len(dst) > callElements:
		cut := half(len(dst))
		highway(dst[:cut], gate[:cut], x[:cut], y[:cut])
		highway(dst[cut:], gate[cut:], x[cut:], y[cut:])
	case level == cpu.AVX2:
		highwayAVX2(&dst[0], &gate[0], &x[0], &y[0], len(dst))
	default:
		highwayAVX512(&dst[0], &gate[0], &x[0], &y[0], len(dst))
	}
}

func embed(dst, row []float32, s float32, position []float32) {
	switch level := cpu.Active(); {
	case level == cpu.Generic || len(dst) == 0:
		embedGeneric(dst, row, s, position)
	case level == cpu.AVX2:
		embedAVX2(&dst[0], &row[0], &position[0], len(dst), s)
	default:
		embedAVX512(&dst[0], &row[0], &position[0], len(dst), s)
	}
}

func layerNorm(dst, x, residual, scale, bias []float32, rows, n int, eps float32) {
	level := cpu.Active()
	if level == cpu.Generic {
		layerNormGeneric(dst, x, residual, scale, bias, rows, n, eps)
		return
	}
	for first := 0; first < rows; {
		part := evenPart(rows-first, max(1, callElements/n))
		layerNormCall(level, dst, x, residual, scale, bias, first, part, n, eps)
		first += part
	}
}

// layerNormCall normalises rows in one call of assembly; not inlined so that the garbage collector gets in between.
//
//go:noinline
func layerNormCall(level cpu.Level, dst, x, residual, scale, bias []float32, first, rows, n int, eps float32) {
	at := first * n
	if level == cpu.AVX2 {
		layerNormAVX2(&dst[at], &x[at], element(residual, at), &scale[0], element(bias, 0), rows, n, eps)
		return
	}
	layerNormAVX512(&dst[at], &x[at], element(residual, at), &scale[0], element(bias, 0), rows, n, eps)
}

func rmsNorm(dst, x, residual, scale []float32, rows, n int, eps float32) {
	level := cpu.Active()
	if level == cpu.Generic {
		rmsNormGeneric(dst, x, residual, scale, rows, n, eps)
		return
	}
	for first := 0; first < rows; {
		part := evenPart(rows-first, max(1, callElements/n))
		rmsNormCall(level, dst, x, residual, scale, first, part, n, eps)
		first += part
	}
}

//go:noinline
func rmsNormCall(level cpu.Level, dst, x, residual, scale []float32, first, rows, n int, eps float32) {
	at := first * n
	if level == cpu.AVX2 {
		rmsNormAVX2(&dst[at], &x[at], element(residual, at), &scale[0], rows, n, eps)
		return
	}
	rmsNormAVX512(&dst[at], &x[at], element(residual, at), &scale[0], rows, n, eps)
}

func layerNormQuantised(bytes []uint8, scales, dst, x, residual, scale, bias []float32, rows, n int, eps float32) {
	level := cpu.Active()
	if level == cpu.Generic {
		layerNormGeneric(dst, x, residual, scale, bias, rows, n, eps)
		quantizeRowsGeneric(bytes, scales, dst, rows, n)
		return
	}
	for first := 0; first < rows; {
		part := evenPart(rows-first, max(1, callElements/n))
		layerNormQuantisedCall(level, bytes, scales, dst, x, residual, scale, bias, first, part, n, eps)
		first += part
	}
}

//go:noinline
func layerNormQuantisedCall(level cpu.Level, bytes []uint8, scales, dst, x, residual, scale, bias []float32, first, rows, n int, eps float32) {
	at, stride := first*n, Int8Stride(n)
	if level == cpu.AVX2 {
		layerNormQuantisedAVX2(&dst[at], &x[at], element(residual, at), &scale[0], element(bias, 0), &bytes[first*stride], stride, &scales[first], rows, n, eps)
		return
	}
	layerNormQuantisedAVX512(&dst[at], &x[at], element(residual, at), &scale[0], element(bias, 0), &bytes[first*stride], stride, &scales[first], rows, n, eps)
}

func rmsNormQuantised(bytes []uint8, scales, dst, x, residual, scale []float32, rows, n int, eps float32) {
	level := cpu.Active()
	if level == cpu.Generic {
		rmsNormGeneric(dst, x, residual, scale, rows, n, eps)
		quantizeRowsGeneric(bytes, scales, dst, rows, n)
		return
	}
	for first := 0; first < rows; {
		part := evenPart(rows-first, max(1, callElements/n))
		rmsNormQuantisedCall(level, bytes, scales, dst, x, residual, scale, first, part, n, eps)
		first += part
	}
}

//go:noinline
func rmsNormQuantisedCall(level cpu.Level, bytes []uint8, scales, dst, x, residual, scale []float32, first, rows, n int, eps float32) {
	at, stride := first*n, Int8Stride(n)
	if level == cpu.AVX2 {
		rmsNormQuantisedAVX2(&dst[at], &x[at], element(residual, at), &scale[0], &bytes[first*stride], stride, &scales[first], rows, n, eps)
		return
	}
	rmsNormQuantisedAVX512(&dst[at], &x[at], element(residual, at), &scale[0], &bytes[first*stride], stride, &scales[first], rows, n, eps)
}

// element returns the address of an element, nil if there is no slice.
func element(s []float32, i int) *float32 {
	if s == nil {
		return nil
	}
	return &s[i]
}

func softmax(x []float32, rows, n, stride int) {
	level := cpu.Active()
	if level == cpu.Generic {
		softmaxGeneric(x, rows, n, stride)
		return
	}
	for first := 0; first < rows; {
		part := evenPart(rows-first, max(1, callElements/n))
		softmaxCall(level, &x[first*stride], part, n, stride)
		first += part
	}
}

//go:noinline
func softmaxCall(level cpu.Level, x *float32, rows, n, stride int) {
	if level == cpu.AVX2 {
		softmaxAVX2(x, rows, n, 4*stride)
		return
	}
	softmaxAVX512(x, rows, n, 4*stride)
}

func expSum(x []float32, largest float32) float32 {
	level := cpu.Active()
	if level == cpu.Generic {
		return expSumGeneric(x, largest)
	}
	var sums stripes
	for len(x) > 0 {
		n := min(len(x), callElements)
		expSumCall(level, x[:n], largest, &sums)
		x = x[n:]
	}
	return sums.sum()
}

//go:noinline
func expSumCall(level cpu.Level, x []float32, largest float32, sums *stripes) {
	if level == cpu.AVX2 {
		expSumAVX2(&x[0], len(x), largest, (*[16]float32)(sums))
		return
	}
	expSumAVX512(&x[0], len(x), largest, (*[16]float32)(sums))
}

func maximum(x []float32) float32 {
	switch level := cpu.Active(); {
	case level == cpu.Generic || len(x) == 0:
		return maxGeneric(x)
	case len(x) > callElements:
		cut := half(len(x))
		return max(maximum(x[:cut]), maximum(x[cut:])) // neither is NaN
	case level == cpu.AVX2:
		return maximumAVX2(&x[0], len(x))
	}
	return maximumAVX512(&x[0], len(x))
}

func absMax(x []float32) float32 {
	switch level := cpu.Active(); {
	case level == cpu.Generic || len(x) == 0:
		return absMaxGeneric(x)
	case len(x) > callElements:
		cut := half(len(x))
		return max(absMax(x[:cut]), absMax(x[cut:])) // NaN if one of them is
	case level == cpu.AVX2:
		return absMaxAVX2(&x[0], len(x))
	}
	return absMaxAVX512(&x[0], len(x))
}

func argMax(x []float32) int {
	level := cpu.Active()
	if level == cpu.Generic {
		return argMaxGeneric(x)
	}
	value := largest(level, x)
	for first := 0; ; first += callElements {
		part := x[first:min(first+callElements, len(x))]
		if i := firstOf(level, part, value); i >= 0 {
			return first + i
		}
	}
}

// largest returns the largest element, NaN if one is.
func largest(level cpu.Level, x []float32) float32 {
	switch {
	case len(x) > callElements:
		cut := half(len(x))
		return max(largest(level, x[:cut]), largest(level, x[cut:]))
	case level == cpu.AVX2:
		return largestAVX2(&x[0], len(x))
	}
	return largestAVX512(&x[0], len(x))
}

// firstOf returns the place of the first element that equals value, or is NaN if value is; -1 if none.
//
//go:noinline
func firstOf(level cpu.Level, x []float32, value float32) int {
	isNaN := value != value
	switch {
	case level == cpu.AVX2 && isNaN:
		return firstNaNAVX2(&x[0], len(x))
	case level == cpu.AVX2:
		return firstEqualAVX2(&x[0], len(x), value)
	case isNaN:
		return firstNaNAVX512(&x[0], len(x))
	}
	return firstEqualAVX512(&x[0], len(x), value)
}
