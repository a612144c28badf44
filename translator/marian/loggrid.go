package marian

import "math"

// A LogGrid is the numbers ±Scale·2^-k with k from 0 to 2^(Bits-1)-1: weights in few bits, one for the sign and the others for
// a power of two (Aji and Heafield 2020, "Compressing Neural Machine Translation Models with 4-bit Precision"). Small weights,
// of which there are most, lie close together on it. Zero is not on it. With Halves, the numbers are ±Scale·2^(-k/2), which
// reach less far down and lie closer to each other.
type LogGrid struct {
	Scale  float32 // of the largest numbers; 0 if all numbers are zero
	Bits   int     // 2 to maxLogBits
	Halves bool
}

const maxLogBits = 8

// logLevels are the magnitudes of a grid, for every k.
type logLevels [1 << (maxLogBits - 1)]float32

func (g LogGrid) levels() (levels logLevels) {
	for k := range 1 << (g.Bits - 1) {
		whole, factor := k, 1.0
		if g.Halves {
			whole, factor = k/2, [2]float64{1, math.Sqrt2 / 2}[k%2]
		}
		levels[k] = float32(math.Ldexp(float64(g.Scale)*factor, -whole))
	}
	return levels
}

// FitLogGrid returns a grid for the values, which must be finite. It begins with the largest magnitude as its scale. Each step
// of the iteration rounds the values to a_i times the scale and replaces the scale by Σ a_i·v_i / Σ a_i², the one with the
// smallest squared error for these a_i. Values beyond the scale are cut off. Sums go over ascending i, in double precision.
func FitLogGrid(values []float32, bits, steps int) LogGrid {
	return LogGrid{Scale: largest(values), Bits: bits}.fitted(values, steps)
}

func largest(values []float32) float32 {
	var largest float32
	for _, v := range values {
		largest = max(largest, v, -v)
	}
	return largest
}

// fitted returns the grid after some steps of the iteration.
func (g LogGrid) fitted(values []float32, steps int) LogGrid {
	for range steps {
		next := g.refined(values)
		if next == g.Scale {
			break
		}
		g.Scale = next
	}
	return g
}

// refined returns the scale after a step of the iteration.
func (g LogGrid) refined(values []float32) float32 {
	if g.Scale == 0 {
		return 0
	}
	units, multiplier := LogGrid{1, g.Bits, g.Halves}.levels(), g.multiplier()
	var along, square float64
	for _, v := range values {
		a := float64(units[g.exponent(v, multiplier)])
		along += a * math.Abs(float64(v))
		square += a * a
	}
	return float32(along / square)
}

// Round writes the number of the grid that is nearest to each of src into dst, which may be the same slice.
func (g LogGrid) Round(dst, src []float32) {
	dst = dst[:len(src)]
	if g.Scale == 0 {
		clear(dst)
		return
	}
	levels, multiplier := g.levels(), g.multiplier()
	for i, v := range src {
		dst[i] = withSign(levels[g.exponent(v, multiplier)], v)
	}
}

const float32Sign = 1 << 31

// withSign returns a magnitude with the sign of v.
func withSign(magnitude, v float32) float32 {
	return math.Float32frombits(math.Float32bits(magnitude) | math.Float32bits(v)&float32Sign)
}

// multiplier is what exponent takes values times, so that the border between a number and the next smaller one, which is midway,
// becomes a power of two, where the exponent of a floating-point number changes. With halves, its square does.
func (g LogGrid) multiplier() float32 {
	if g.Halves {
		return 2 / (1 + math.Sqrt2/2) / g.Scale
	}
	return 4.0 / 3 / g.Scale
}

// exponent returns the k of the number that is nearest to v.
func (g LogGrid) exponent(v, multiplier float32) int {
	const bias, mantissa = 127, 23
	ratio := v * multiplier
	if g.Halves {
		ratio *= ratio
	}
	return min(max(bias-int(math.Float32bits(ratio)&^float32Sign>>mantissa), 0), 1<<(g.Bits-1)-1)
}
