package marian

import (
	"encoding/binary"
	"math"
)

// A tensor of Log4Blocks is cut into blocks of 64 numbers, in the order in which they lie in the matrix, the last one filled up
// with zeros. Each has a LogGrid with halves of its own, whose scale is a float16:
//
//	scale, 2 bytes, little-endian; 32 bytes with the numbers 2i and 2i+1 of the block in the lower and upper half of byte i
//
// A number is its k, plus 8 if it is negative. With scales for so few numbers, that of a block need not reach as far as the
// whole matrix does, which is why steps by half a power of two suffice.
const (
	logBlockScale = 2
	logBlockBytes = logBlockScale + LogBlock/2
	maxFloat16    = 65504
)

// LogBlock is how many numbers of a matrix have a scale together in Log4Blocks.
const LogBlock = 64

// logBlocksBytes returns how many bytes n elements take.
func logBlocksBytes(n uint64) uint64 { return (n + LogBlock - 1) / LogBlock * logBlockBytes }

// FitLogBlock returns the grid of a block, with halves. Its scale is a float16, and such that the largest of the values has k = 0:
// so a block that lies on its grid gets the same one again, whatever steps are.
func FitLogBlock(values []float32, bits, steps int) LogGrid {
	top := largest(values)
	g := LogGrid{Scale: top, Bits: bits, Halves: true}.fitted(values, steps)
	g.Scale = nearestFloat16(g.Scale)
	for g.Scale > 0 {
		k := g.exponent(top, g.multiplier())
		lower := nearestFloat16(g.Scale * float32(math.Exp2(-float64(k)/2)))
		if lower == g.Scale { // k is 0, or this is as low as a float16 can be
			break
		}
		g.Scale = lower
	}
	return g
}

func nearestFloat16(v float32) float32 { return halfToFloat(floatToHalf(min(v, maxFloat16))) }

// RoundLogBlocks writes the number nearest to each of src into dst, which may be the same slice: of a LogGrid with halves for
// each 64 numbers. Those of 4 bits are what a tensor of Log4Blocks holds. steps are those of FitLogGrid.
func RoundLogBlocks(dst, src []float32, bits, steps int) {
	for len(src) > 0 {
		n := min(LogBlock, len(src))
		FitLogBlock(src[:n], bits, steps).Round(dst[:n], src[:n])
		dst, src = dst[n:], src[n:]
	}
}

// packLogBlocks returns the data of a tensor of Log4Blocks.
func packLogBlocks(values []float32, steps int) []byte {
	data := make([]byte, logBlocksBytes(uint64(len(values))))
	for rest := data; len(values) > 0; rest = rest[logBlockBytes:] {
		n := min(LogBlock, len(values))
		g := FitLogBlock(values[:n], log4Bits, steps)
		binary.LittleEndian.PutUint16(rest, floatToHalf(g.Scale))
		g.pack(rest[logBlockScale:logBlockBytes], values[:n])
		values = values[n:]
	}
	return data
}

// expandLogBlocks computes elements from the blocks that begin at a byte of the data.
func (t *Tensor) expandLogBlocks(values []float32, at int) error {
	for ; len(values) > 0; at += logBlockBytes {
		n := min(LogBlock, len(values))
		scale := halfToFloat(binary.LittleEndian.Uint16(t.Data[at:]))
		if !(scale >= 0) || math.IsInf(float64(scale), 0) {
			return problemf(t.Name, t.Offset+int64(at), remedyDamaged, "has the scale %v", scale)
		}
		LogGrid{scale, log4Bits, true}.unpack(values[:n], t.Data[at+logBlockScale:])
		values = values[n:]
	}
	return nil
}
