package gpukernels

import "math"

// A Storage is the type of numbers in memory, of 16 bits. Kernels compute in float32 with either.
type Storage int

const (
	Float16  Storage = iota // 10 bits of fraction, up to 65504
	BFloat16                // 7 bits of fraction, as far as float32
)

func (s Storage) String() string {
	if s == BFloat16 {
		return "bfloat16"
	}
	return "float16"
}

// folder is where the PTX lies, and suffix what the kernels' names end with.
func (s Storage) folder() string {
	if s == BFloat16 {
		return "ptx/bfloat16/"
	}
	return "ptx/"
}

func (s Storage) suffix() string {
	if s == BFloat16 {
		return "_bfloat16"
	}
	return ""
}

// Round returns the nearest number of the type, of two the even one, as it is stored. What is too large becomes an infinity.
func (s Storage) Round(x float32) uint16 {
	if s == Float16 {
		return uint16(ToHalf(x))
	}
	bits := math.Float32bits(x)
	if x != x {
		return uint16(bits>>16) | 0x40 // the fraction must not become 0
	}
	return uint16((bits + 0x7fff + bits>>16&1) >> 16)
}

// Float32 returns the number that is stored so, exactly.
func (s Storage) Float32(stored uint16) float32 {
	if s == Float16 {
		return Half(stored).Float32()
	}
	return math.Float32frombits(uint32(stored) << 16)
}
