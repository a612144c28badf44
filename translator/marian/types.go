package marian

import "fmt"

// A Type is the type of a tensor's elements, independent of the file format that stores it.
type Type uint8

const (
	Invalid Type = iota
	Float32
	Float16
	Int8
	Int16
	Int32
	Int64
	Uint8
	Uint16
	Uint32
	Uint64
	Float64
	Intgemm8  // int8, stored transposed (embeddings are not), followed by one float32 multiplier
	Intgemm16 // int16, stored transposed, followed by one float32 multiplier
	Log4      // numbers of a LogGrid, two in a byte, followed by its float32 scale: of sluice, Marian does not know it

	// Log4Blocks are numbers of LogGrids with halves, one for each 64 numbers, each with its float16 scale before it: of sluice.
	Log4Blocks

	// Log4Mixed is Log4Blocks but for the first rows of the matrix, which are in 8 bits: of sluice.
	Log4Mixed
)

var typeNames = [...]string{"invalid", "float32", "float16", "int8", "int16", "int32", "int64", "uint8", "uint16",
	"uint32", "uint64", "float64", "intgemm8", "intgemm16", "log4", "log4blocks", "log4mixed"}

// String returns Marian's name of the type.
func (t Type) String() string {
	if int(t) < len(typeNames) {
		return typeNames[t]
	}
	return fmt.Sprintf("type(%d)", uint8(t))
}

// Size returns the bytes that one element takes; 0 for those In4Bits, where it is half a byte or so.
func (t Type) Size() int {
	switch t {
	case Int8, Uint8, Intgemm8:
		return 1
	case Float16, Int16, Uint16, Intgemm16:
		return 2
	case Float32, Int32, Uint32:
		return 4
	case Float64, Int64, Uint64:
		return 8
	}
	return 0
}

// IsIntgemm tells whether the elements are quantised weights followed by their multiplier.
func (t Type) IsIntgemm() bool { return t == Intgemm8 || t == Intgemm16 }

// In4Bits tells whether the elements, or most of them, are logarithmic weights of 4 bits with their scales.
func (t Type) In4Bits() bool { return t == Log4 || t == Log4Blocks || t == Log4Mixed }

func (t Type) isInteger() bool { return t >= Int8 && t <= Uint64 }

// A Family is one of the two lines of Marian that share the .bin container but number their types differently.
type Family uint8

const (
	// Mainline is marian-nmt/marian-dev.
	Mainline Family = iota + 1
	// Browsermt is browsermt/marian-dev, the fork behind bergamot and Firefox.
	Browsermt
)

func (f Family) String() string {
	switch f {
	case Mainline:
		return "mainline"
	case Browsermt:
		return "browsermt"
	}
	return "unknown family"
}

// Type codes of .bin files. A code is a class in the high bits and the element size in the low byte
// (src/common/types.h of both families).
const (
	codeInt8       = 0x101
	codeInt16      = 0x102
	codeInt32      = 0x104
	codeInt64      = 0x108
	codeUint8      = 0x201
	codeUint16     = 0x202
	codeUint32     = 0x204
	codeUint64     = 0x208
	codeFloat16    = 0x402
	codeFloat32    = 0x404
	codeFloat64    = 0x408
	codeIntgemm8B  = 0x4101 // browsermt
	codeIntgemm16B = 0x4102
	codeIntgemm8M  = 0x10001 // mainline
	codeIntgemm16M = 0x10002
	codeLog4       = 0x1000004 // ours, in a class that no Marian uses: 4 bits
	codeLog4Blocks = 0x2000004 // likewise
	codeLog4Mixed  = 0x3000004
)

// typeOfCode returns the type of a .bin type code of either family.
func typeOfCode(code uint64) (Type, bool) {
	switch code {
	case codeInt8:
		return Int8, true
	case codeInt16:
		return Int16, true
	case codeInt32:
		return Int32, true
	case codeInt64:
		return Int64, true
	case codeUint8:
		return Uint8, true
	case codeUint16:
		return Uint16, true
	case codeUint32:
		return Uint32, true
	case codeUint64:
		return Uint64, true
	case codeFloat16:
		return Float16, true
	case codeFloat32:
		return Float32, true
	case codeFloat64:
		return Float64, true
	case codeIntgemm8B, codeIntgemm8M:
		return Intgemm8, true
	case codeIntgemm16B, codeIntgemm16M:
		return Intgemm16, true
	case codeLog4:
		return Log4, true
	case codeLog4Blocks:
		return Log4Blocks, true
	case codeLog4Mixed:
		return Log4Mixed, true
	}
	return Invalid, false
}

// codeOfType returns the code that a family writes for a type.
func codeOfType(t Type, family Family) uint64 {
	if family == Browsermt && t == Intgemm8 {
		return codeIntgemm8B
	}
	if family == Browsermt && t == Intgemm16 {
		return codeIntgemm16B
	}
	codes := [...]uint64{Float32: codeFloat32, Float16: codeFloat16, Int8: codeInt8, Int16: codeInt16, Int32: codeInt32,
		Int64: codeInt64, Uint8: codeUint8, Uint16: codeUint16, Uint32: codeUint32, Uint64: codeUint64,
		Float64: codeFloat64, Intgemm8: codeIntgemm8M, Intgemm16: codeIntgemm16M, Log4: codeLog4, Log4Blocks: codeLog4Blocks,
		Log4Mixed: codeLog4Mixed}
	return codes[t]
}

// tiledType returns Marian's name of a type whose bytes are laid out for one kind of processor, or "".
func tiledType(code uint64) string {
	switch code {
	case 0x802:
		return "packed16"
	case 0x1801:
		return "packed8avx2"
	case 0x2801:
		return "packed8avx512"
	case 0x18001:
		return "intgemm8ssse3"
	case 0x11001:
		return "intgemm8avx2"
	case 0x12001:
		return "intgemm8avx512"
	case 0x13001:
		return "intgemm8avx512vnni"
	case 0x14002:
		return "intgemm16sse2"
	case 0x11002:
		return "intgemm16avx2"
	case 0x12002:
		return "intgemm16avx512"
	}
	return ""
}
