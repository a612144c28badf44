package gpukernels

import "math"

// A Half is a number of IEEE 754's binary16: 1 bit of sign, 5 of exponent, 10 of fraction.
type Half uint16

// ToHalf rounds to the nearest Half, ties to the even one. What is too large becomes an infinity.
func ToHalf(x float32) Half {
	bits := math.Float32bits(x)
	sign, magnitude := Half(bits>>16&0x8000), bits&0x7fffffff
	switch {
	case magnitude > 0x7f800000: // NaN
		return sign | 0x7e00
	case magnitude >= 0x477ff000: // 65520, half way from the largest Half to the next that there would be
		return sign | 0x7c00
	case magnitude < 0x38800000: // 2⁻¹⁴: multiples of 2⁻²⁴
		scaled := math.RoundToEven(float64(math.Float32frombits(magnitude)) * (1 << 24))
		return sign | Half(scaled)
	}
	rounded := magnitude + 0xfff + magnitude>>13&1
	return sign | Half((rounded-0x38000000)>>13)
}

// Float32 returns the number, exactly.
func (h Half) Float32() float32 {
	sign, exponent, fraction := uint32(h&0x8000)<<16, uint32(h>>10&31), uint32(h&0x3ff)
	switch exponent {
	case 0:
		x := float32(fraction) / (1 << 24)
		return math.Float32frombits(math.Float32bits(x) | sign)
	case 31:
		return math.Float32frombits(sign | 0x7f800000 | fraction<<13)
	}
	return math.Float32frombits(sign | (exponent+112)<<23 | fraction<<13)
}

// Halves rounds all numbers.
func Halves(x []float32) []Half {
	h := make([]Half, len(x))
	for i, v := range x {
		h[i] = ToHalf(v)
	}
	return h
}
