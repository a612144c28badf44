package marian

import "math"

// halfToFloat widens an IEEE half. Every half, denormals and NaN payloads included, has an exact single.
func halfToFloat(h uint16) float32 {
	sign := uint32(h&0x8000) << 16
	magnitude := uint32(h&0x7fff) << 13
	// Moved into place, a normal half has an exponent that is too small by 127-15.
	const bias = (127 - 15) << 23
	switch {
	case magnitude-0x400<<13 < 0x7800<<13:
		return math.Float32frombits(sign | (magnitude + bias))
	case magnitude >= 0x7c00<<13: // infinity or NaN
		return math.Float32frombits(sign | 0x7f800000 | magnitude)
	}
	// A denormal is a multiple of 2^-24.
	value := float32(h&0x3ff) * 0x1p-24
	return math.Float32frombits(sign | math.Float32bits(value))
}

// halvesToFloats widens as many halves, stored in little-endian order, as there are values.
func halvesToFloats(values []float32, data []byte) {
	data = data[:2*len(values)]
	for i := range values {
		values[i] = halfToFloat(uint16(data[2*i]) | uint16(data[2*i+1])<<8)
	}
}

// floatToHalf rounds a single to the nearest half, ties to even. Values from 65520 on become infinite.
func floatToHalf(f float32) uint16 {
	bits := math.Float32bits(f)
	sign := uint16(bits >> 16 & 0x8000)
	magnitude := bits & 0x7fffffff
	switch {
	case magnitude > 0x7f800000: // NaN: keep it one, and quiet
		return sign | 0x7e00 | uint16(magnitude>>13&0x3ff)
	case magnitude >= 0x477ff000: // 65520
		return sign | 0x7c00
	case magnitude < 0x38800000: // below 2^-14: the result is a denormal, a multiple of 2^-24
		// Adding 0.5 lines up the last bit of the sum with 2^-24, so that the addition itself rounds.
		sum := math.Float32frombits(magnitude) + 0.5
		return sign | uint16(math.Float32bits(sum)-math.Float32bits(0.5))
	}
	magnitude -= (127 - 15) << 23
	odd := magnitude >> 13 & 1
	return sign | uint16((magnitude+0xfff+odd)>>13)
}
