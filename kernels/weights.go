package kernels

import "math"

// QuantizeColumns quantises a k×n row-major matrix with a scale for each column (weight ≈ q·scale) and writes it into dst,
// whose rows have stride elements. Weights beyond the mean of their column ± saturation standard deviations are cut off;
// saturation 0 keeps them all.
func QuantizeColumns(dst []int8, stride int, scales []float32, w []float32, k, n int, saturation float64) {
	limits := columnLimits(w, k, n, saturation)
	multipliers := make([]float32, n)
	for j, limit := range limits {
		scales[j], multipliers[j] = scaleOf(limit)
	}
	for i := range k {
		row, out := w[i*n:(i+1)*n], dst[i*stride:i*stride+n]
		for j, v := range row {
			out[j] = round8(v * multipliers[j])
		}
	}
}

// QuantizeTable quantises an n×k row-major table with a scale for each row: as QuantizeColumns does its transpose.
func QuantizeTable(dst []int8, scales []float32, w []float32, n, k int, saturation float64) {
	for i := range n {
		row := w[i*k : (i+1)*k]
		var m moments
		for _, v := range row {
			m.add(v)
		}
		var multiplier float32
		scales[i], multiplier = scaleOf(m.limit(k, saturation))
		for j, v := range row {
			dst[i*k+j] = round8(v * multiplier)
		}
	}
}

// columnLimits returns the largest magnitude to keep in each column.
func columnLimits(w []float32, k, n int, saturation float64) []float32 {
	columns := make([]moments, n)
	for i := range k {
		for j, v := range w[i*n : (i+1)*n] {
			columns[j].add(v)
		}
	}
	limits := make([]float32, n)
	for j := range columns {
		limits[j] = columns[j].limit(k, saturation)
	}
	return limits
}

// moments gathers what the limit of a set of weights depends on.
type moments struct {
	largest     float32
	sum, square float64
}

func (m *moments) add(v float32) {
	m.largest = max(m.largest, v, -v)
	f := float64(v)
	m.sum += f
	m.square += f * f
}

func (m *moments) limit(count int, saturation float64) float32 {
	if saturation <= 0 {
		return m.largest
	}
	mean := m.sum / float64(count)
	deviation := math.Sqrt(max(0, m.square/float64(count)-mean*mean))
	return min(m.largest, float32(math.Abs(mean)+saturation*deviation))
}

// scaleOf returns the scale of a limit and its inverse. Weights so small that there is no inverse become zero.
func scaleOf(limit float32) (scale, multiplier float32) {
	multiplier = 127 / limit
	if !(multiplier <= math.MaxFloat32) {
		return 0, 0
	}
	return limit / 127, multiplier
}

// round8 rounds to the nearest integer in [-127, 127], halves to even.
func round8(v float32) int8 {
	const magic = 3 << 22 // adding it leaves no bits for a fraction
	v = max(-127, min(127, v))
	return int8(int32(math.Float32bits(v+magic)) - int32(math.Float32bits(magic)))
}
