//go:build !purego

package kernels

import "github.com/sluice-mt/sluice/internal/cpu"

// callElements bounds the elements of one call of assembly to some 10 µs, which is how long the garbage collector may
// have to wait for it.
const callElements = 1 << 14

// wholePart returns how many of n elements the next call of assembly does: a multiple of 4, or of 16 where sums are
// striped, zero if there is nothing left for it. The reference does the rest. Kernels call themselves for what follows,
// so that a function's prologue lets the garbage collector in between.
func wholePart(n, multiple int) int {
	if cpu.Active() == cpu.Generic {
		return 0
	}
	return min(n&^(multiple-1), callElements)
}

func add(dst, a, b []float32) {
	if n := wholePart(len(dst), 4); n > 0 {
		addNEON(&dst[0], &a[0], &b[0], n)
		add(dst[n:], a[n:], b[n:])
		return
	}
	addGeneric(dst, a, b)
}

func scale(dst, x []float32, s float32) {
	if n := wholePart(len(dst), 4); n > 0 {
		scaleNEON(&dst[0], &x[0], n, s)
		scale(dst[n:], x[n:], s)
		return
	}
	scaleGeneric(dst, x, s)
}

func shift(x []float32, a, b float32) {
	if n := wholePart(len(x), 4); n > 0 {
		shiftNEON(&x[0], n, a, b)
		shift(x[n:], a, b)
		return
	}
	shiftGeneric(x, a, b)
}

func average(a, x []float32, t, t1 float32) {
	if n := wholePart(len(a), 4); n > 0 {
		averageNEON(&a[0], &x[0], n, t, t1)
		average(a[n:], x[n:], t, t1)
		return
	}
	averageGeneric(a, x, t, t1)
}

func relu(x []float32) {
	if n := wholePart(len(x), 4); n > 0 {
		reluNEON(&x[0], n)
		relu(x[n:])
		return
	}
	reluGeneric(x)
}

func sigmoid(x []float32) {
	if n := wholePart(len(x), 4); n > 0 {
		sigmoidNEON(&x[0], n)
		sigmoid(x[n:])
		return
	}
	sigmoidGeneric(x)
}

func tanh(x []float32) {
	if n := wholePart(len(x), 4); n > 0 {
		tanhNEON(&x[0], n)
		tanh(x[n:])
		return
	}
	tanhGeneric(x)
}

func swish(x []float32, slope float32) {
	if n := wholePart(len(x), 4); n > 0 {
		swishNEON(&x[0], n, slope)
		swish(x[n:], slope)
		return
	}
	swishGeneric(x, slope)
}

func gelu(x []float32) {
	if n := wholePart(len(x), 4); n > 0 {
		geluNEON(&x[0], n)
		gelu(x[n:])
		return
	}
	geluGeneric(x)
}

func ssru(c, h, f, x []float32) {
	if n := wholePart(len(c), 4); n > 0 {
		ssruNEON(&c[0], &h[0], &f[0], &x[0], n)
		ssru(c[n:], h[n:], f[n:], x[n:])
		return
	}
	ssruGeneric(c, h, f, x)
}

func sru(c, h, f, r, wx, x []float32) {
	if n := wholePart(len(c), 4); n > 0 {
		sruNEON(&c[0], &h[0], &f[0], &r[0], &wx[0], &x[0], n)
		sru(c[n:], h[n:], f[n:], r[n:], wx[n:], x[n:])
		return
	}
	sruGeneric(c, h, f, r, wx, x)
}

func gatedSum(dst, gi, x, gf, y []float32) {
	if n := wholePart(len(dst), 4); n > 0 {
		gatedSumNEON(&dst[0], &gi[0], &x[0], &gf[0], &y[0], n)
		gatedSum(dst[n:], gi[n:], x[n:], gf[n:], y[n:])
		return
	}
	gatedSumGeneric(dst, gi, x, gf, y)
}

func highway(dst, gate, x, y []float32) {
	if n := wholePart(len(dst), 4); n > 0 {
		highwayNEON(&dst[0], &gate[0], &x[0], &y[0], n)
		highway(dst[n:], gate[n:], x[n:], y[n:])
		return
	}
	highwayGeneric(dst, gate, x, y)
}

func embed(dst, row []float32, s float32, position []float32) {
	if n := wholePart(len(dst), 4); n > 0 {
		embedNEON(&dst[0], &row[0], &position[0], n, s)
		embed(dst[n:], row[n:], s, position[n:])
		return
	}
	embedGeneric(dst, row, s, position)
}

// maximum returns the largest element, ignoring NaN.
func maximum(x []float32) float32 {
	if cpu.Active() == cpu.Generic {
		return maxGeneric(x)
	}
	largest, first := maxGeneric(nil), 0
	for first < len(x) {
		n := wholePart(len(x)-first, 16)
		if n == 0 {
			largest = max(largest, maxGeneric(x[first:]))
			break
		}
		largest = max(largest, maximumNEON(&x[first], n))
		first += n
	}
	if largest == 0 {
		return maxGeneric(x) // which of 0 and -0 depends on the order
	}
	return largest
}

func absMax(x []float32) float32 {
	n := wholePart(len(x), 16)
	if n == 0 {
		return absMaxGeneric(x)
	}
	return max(absMaxNEON(&x[0], n), absMax(x[n:])) // NaN if one of them is
}

// argMaxBlock is how many elements argMax searches for its maximum once it knows where it is.
const argMaxBlock = 512

// argMax finds the first block with the largest element, or NaN, and then its place in the block.
func argMax(x []float32) int {
	if cpu.Active() == cpu.Generic {
		return argMaxGeneric(x)
	}
	best, largest := 0, float32(0)
	for first := 0; first < len(x); first += argMaxBlock {
		value := blockMaximum(x[first:min(first+argMaxBlock, len(x))])
		if first == 0 || value > largest || value != value {
			best, largest = first, value
		}
		if largest != largest {
			break
		}
	}
	return best + argMaxGeneric(x[best:min(best+argMaxBlock, len(x))])
}

// blockMaximum returns the largest element, NaN if one is.
func blockMaximum(x []float32) float32 {
	n := wholePart(len(x), 16)
	if n == 0 {
		return x[argMaxGeneric(x)]
	}
	largest := largestNEON(&x[0], n)
	for _, v := range x[n:] {
		largest = max(largest, v)
	}
	return largest
}

func layerNorm(dst, x, residual, scale, bias []float32, rows, n int, eps float32) {
	if cpu.Active() == cpu.Generic {
		layerNormGeneric(dst, x, residual, scale, bias, rows, n, eps)
		return
	}
	for r := range rows {
		v := startNorm(dst, x, residual, r*n, n)
		mean := sum(v) / float32(n)
		normalise(v, scale, mean, inverseRoot(squares(v, mean)/float32(n)+eps))
		if bias != nil {
			add(v, v, bias[:n])
		}
	}
}

func rmsNorm(dst, x, residual, scale []float32, rows, n int, eps float32) {
	if cpu.Active() == cpu.Generic {
		rmsNormGeneric(dst, x, residual, scale, rows, n, eps)
		return
	}
	for r := range rows {
		v := startNorm(dst, x, residual, r*n, n)
		normalise(v, scale, 0, inverseRoot(squares(v, 0)/float32(n)+eps))
	}
}

// startNorm returns the row of dst that starts at first, after setting it to x plus residual.
func startNorm(dst, x, residual []float32, first, n int) []float32 {
	v := dst[first : first+n]
	if residual == nil {
		copy(v, x[first:])
	} else {
		add(v, x[first:first+n], residual[first:first+n])
	}
	return v
}

// sum returns the striped sum.
func sum(x []float32) float32 {
	var s stripes
	i := 0
	for n := wholePart(len(x), 16); n > 0; n = wholePart(len(x)-i, 16) {
		sumNEON(&x[i], n, (*[16]float32)(&s))
		i += n
	}
	for ; i < len(x); i++ {
		s[i%16] += x[i]
	}
	return s.sum()
}

// squares returns the striped sum of (x - mean)².
func squares(x []float32, mean float32) float32 {
	var s stripes
	i := 0
	for n := wholePart(len(x), 16); n > 0; n = wholePart(len(x)-i, 16) {
		squaresNEON(&x[i], n, mean, (*[16]float32)(&s))
		i += n
	}
	for ; i < len(x); i++ {
		d := x[i] - mean
		s[i%16] += float32(d * d)
	}
	return s.sum()
}

// normalise replaces x by ((x - mean)·inverse)·scale.
func normalise(x, scale []float32, mean, inverse float32) {
	if n := wholePart(len(x), 4); n > 0 {
		normaliseNEON(&x[0], &scale[0], n, mean, inverse)
		normalise(x[n:], scale[n:], mean, inverse)
		return
	}
	for i, e := range x {
		x[i] = float32((e-mean)*inverse) * scale[i]
	}
}

func softmax(x []float32, rows, n, stride int) {
	if cpu.Active() == cpu.Generic {
		softmaxGeneric(x, rows, n, stride)
		return
	}
	for r := range rows {
		row := x[r*stride : r*stride+n]
		scale(row, row, 1/exp(row, maximum(row)))
	}
}

// exp replaces x by e^(x-largest) and returns the striped sum.
func exp(x []float32, largest float32) float32 {
	var s stripes
	i := 0
	for n := wholePart(len(x), 16); n > 0; n = wholePart(len(x)-i, 16) {
		expNEON(&x[i], &x[i], n, largest, (*[16]float32)(&s))
		i += n
	}
	for ; i < len(x); i++ {
		x[i] = exp32(x[i] - largest)
		s[i%16] += x[i]
	}
	return s.sum()
}

func expSum(x []float32, largest float32) float32 {
	if cpu.Active() == cpu.Generic {
		return expSumGeneric(x, largest)
	}
	var s stripes
	i := 0
	for n := wholePart(len(x), 16); n > 0; n = wholePart(len(x)-i, 16) {
		expSumNEON(&x[i], n, largest, (*[16]float32)(&s))
		i += n
	}
	for ; i < len(x); i++ {
		s[i%16] += exp32(x[i] - largest)
	}
	return s.sum()
}

func quantizeRows(dst []uint8, scales []float32, x []float32, rows, k int) {
	if cpu.Active() == cpu.Generic {
		quantizeRowsGeneric(dst, scales, x, rows, k)
		return
	}
	stride := Int8Stride(k)
	for r := range rows {
		row := x[r*k : (r+1)*k]
		scale, multiplier := quantizer(absMax(row))
		scales[r] = scale
		quantize(dst[r*stride:], row, multiplier)
	}
}

func quantizeRowsFixed(dst []uint8, x []float32, rows, k int, multiplier float32) {
	if cpu.Active() == cpu.Generic {
		quantizeRowsFixedGeneric(dst, x, rows, k, multiplier)
		return
	}
	stride := Int8Stride(k)
	for r := range rows {
		quantize(dst[r*stride:], x[r*k:(r+1)*k], multiplier)
	}
}

// quantize quantises a row with a multiplier; zero makes zeros of all elements, which the assembly cannot (of NaN, say).
func quantize(dst []uint8, x []float32, multiplier float32) {
	if n := wholePart(len(x), 16); n > 0 && multiplier != 0 {
		quantizeNEON(&dst[0], &x[0], n, multiplier)
		quantize(dst[n:], x[n:], multiplier)
		return
	}
	quantizeGeneric(dst, x, multiplier)
}
