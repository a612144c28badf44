package gpukernels

import "math"

// A Float8 is a number of 8 bits in the form e4m3: 1 bit of sign, 4 of exponent, 3 of fraction, without infinities.
type Float8 uint8

// LargestFloat8 is the largest of them.
const LargestFloat8 = 448

// ToFloat8 rounds to the nearest Float8, ties to the even one. What is too large becomes the largest, of its sign.
func ToFloat8(x float32) Float8 {
	if x != x {
		return 0x7f
	}
	var sign Float8
	if math.Signbit(float64(x)) {
		sign = 0x80
	}
	magnitude := min(math.Abs(float64(x)), LargestFloat8)
	exponent := -6 // of what is smaller, too: multiples of 2⁻⁹
	if magnitude >= 1.0/64 {
		_, e := math.Frexp(magnitude)
		exponent = e - 1
	}
	eighths := math.RoundToEven(math.Ldexp(magnitude, 3-exponent)) // 16 if it is rounded up to the next exponent
	return sign | Float8(int(eighths)+8*(exponent+6))
}

// Float32 returns the number, exactly.
func (f Float8) Float32() float32 {
	exponent, fraction := int(f>>3&15), float64(f&7)
	x := math.Ldexp(fraction, -9)
	if exponent > 0 {
		x = math.Ldexp(8+fraction, exponent-10)
	}
	switch {
	case f&0x7f == 0x7f:
		return float32(math.NaN())
	case f&0x80 != 0:
		return float32(math.Copysign(x, -1))
	}
	return float32(x)
}

// RowsToFloat8 sets rows to those of Kernels.Quantise: each row of k numbers is rounded to Float8 in units of its scale, the largest magnitude
// to LargestFloat8. A row whose magnitudes are too small for that becomes zeros, with the scale 0, and so does one that is not finite, with
// a scale that is not.
func RowsToFloat8(to []int8, scales, rows []float32, k int) {
	for i := range scales {
		row, largest := rows[i*k:(i+1)*k], float32(0)
		for _, x := range row {
			largest = max(largest, -x, x)
		}
		multiplier := LargestFloat8 / largest
		switch {
		case !(largest <= math.MaxFloat32):
			scales[i] = largest
			continue
		case multiplier > math.MaxFloat32:
			continue
		}
		scales[i] = largest / LargestFloat8
		for j, x := range row {
			to[i*k+j] = int8(ToFloat8(x * multiplier))
		}
	}
}
