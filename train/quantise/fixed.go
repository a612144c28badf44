package quantise

import "math"

// fixed rounds groups of numbers that lie side by side: number i of group g is src[i·stride+g]. Each group has a scale.
func (c *Config) fixed(dst, src []float32, groups, count, stride int) {
	levels := float32(int(1)<<(c.Bits-1) - 1)
	scales := c.limits(src, groups, count, stride)
	for g, limit := range scales {
		scales[g] = limit / levels
	}
	for range c.Steps {
		refine(scales, src, levels, count, stride)
	}
	multipliers := make([]float32, groups)
	for g, scale := range scales {
		multipliers[g] = inverse(scale)
	}
	for i := range count {
		row, out := src[i*stride:i*stride+groups], dst[i*stride:i*stride+groups]
		for g, v := range row {
			out[g] = whole(v, multipliers[g], levels) * scales[g]
		}
	}
}

// whole returns the whole number for v.
func whole(v, multiplier, levels float32) float32 {
	return float32(math.RoundToEven(float64(min(max(v*multiplier, -levels), levels))))
}

// inverse returns 1/scale, or zero where there is none: numbers so small become zero.
func inverse(scale float32) float32 {
	if m := 1 / scale; m <= math.MaxFloat32 {
		return m
	}
	return 0
}

// limits returns the largest magnitude to keep of each group: the largest there is, but if scales are not fitted no more than
// the mean and Cut standard deviations.
func (c *Config) limits(src []float32, groups, count, stride int) []float32 {
	largest := make([]float32, groups)
	sums, squares := make([]float64, groups), make([]float64, groups)
	for i := range count {
		for g, v := range src[i*stride : i*stride+groups] {
			largest[g] = max(largest[g], v, -v)
			sums[g] += float64(v)
			squares[g] += float64(v) * float64(v)
		}
	}
	if c.Cut == 0 || c.Steps > 0 {
		return largest
	}
	for g := range largest {
		mean := sums[g] / float64(count)
		deviation := math.Sqrt(max(0, squares[g]/float64(count)-mean*mean))
		largest[g] = min(largest[g], float32(math.Abs(mean)+c.Cut*deviation))
	}
	return largest
}

// refine replaces each scale by Σ q·v / Σ q², the one with the smallest squared error for the whole numbers q that it gives.
func refine(scales, src []float32, levels float32, count, stride int) {
	groups := len(scales)
	multipliers, along, square := make([]float32, groups), make([]float64, groups), make([]float64, groups)
	for g, scale := range scales {
		multipliers[g] = inverse(scale)
	}
	for i := range count {
		for g, v := range src[i*stride : i*stride+groups] {
			q := float64(whole(v, multipliers[g], levels))
			along[g] += q * float64(v)
			square[g] += q * q
		}
	}
	for g := range scales {
		if square[g] > 0 {
			scales[g] = float32(along[g] / square[g])
		}
	}
}
