package marian

import (
	"encoding/binary"
	"math"
)

// A tensor of Log4Mixed has its first rows in 8 bits, each with a scale, and the others as if they were a tensor of Log4Blocks:
//
//	uint32 R, little-endian; R times {float32 scale, little-endian; one int8 q for each column}; blocks of the other rows
//
// A number of the first rows is q·scale. It is meant for tables of vectors, whose first rows are those of the most frequent
// words: few rows that most products with the table meet.
const (
	mixedCount = 4
	mixedScale = 4
)

// limit8 is the largest magnitude of an element in 8 bits.
const limit8 = 127

// mixedBytes returns how many bytes a rows×cols matrix takes with its first rows in 8 bits. It must have no more than 1<<62
// elements, and eight must not be more than 1<<32 or the rows.
func mixedBytes(rows, cols, eight uint64) uint64 {
	return mixedCount + eight*(mixedScale+cols) + logBlocksBytes((rows-eight)*cols)
}

// RowsIn8Bits returns how many rows of a tensor of Log4Mixed are in 8 bits, and 0 for others.
func (t *Tensor) RowsIn8Bits() int {
	if t.Type != Log4Mixed || len(t.Data) < mixedCount {
		return 0
	}
	return int(binary.LittleEndian.Uint32(t.Data))
}

// mixedLength returns how many bytes the data of a tensor of Log4Mixed have to have, as they themselves begin to say.
func mixedLength(shape []int, data []byte) (n uint64, ok bool) {
	rows, cols := (&Tensor{Shape: shape}).Matrix()
	if len(data) < mixedCount {
		return 0, false
	}
	eight := uint64(binary.LittleEndian.Uint32(data))
	if eight > uint64(rows) {
		return 0, false
	}
	return mixedBytes(uint64(rows), uint64(cols), eight), true
}

// scale8 returns the scale of a row in 8 bits. It is rounded up to 16 significant bits, so that all its products with elements
// are exact, and a row of such products gets the same scale again. Rows so small that their scale has fewer bits are zeros, and so is their
// scale.
func scale8(row []float32) float32 {
	const low, smallest = 0xff, 0x1p-126
	scale := math.Float32frombits((math.Float32bits(largest(row)/limit8) + low) &^ low)
	if scale < smallest {
		return 0
	}
	return scale
}

func element8(v, scale float32) int8 {
	return int8(math.RoundToEven(float64(min(max(v/scale, -limit8), limit8))))
}

// RoundRow8 writes the numbers that a row of src has in 8 bits into dst, which may be the same slice.
func RoundRow8(dst, src []float32) {
	dst = dst[:len(src)]
	scale := scale8(src)
	if scale == 0 {
		clear(dst)
		return
	}
	for i, v := range src {
		dst[i] = float32(element8(v, scale)) * scale
	}
}

// packMixed returns the data of a tensor of Log4Mixed.
func packMixed(values []float32, cols, eight, steps int) []byte {
	data := make([]byte, 0, mixedBytes(uint64(len(values)/cols), uint64(cols), uint64(eight)))
	data = binary.LittleEndian.AppendUint32(data, uint32(eight))
	for ; eight > 0; eight-- {
		scale := scale8(values[:cols])
		data = binary.LittleEndian.AppendUint32(data, math.Float32bits(scale))
		for _, v := range values[:cols] {
			q := int8(0)
			if scale > 0 {
				q = element8(v, scale)
			}
			data = append(data, byte(q))
		}
		values = values[cols:]
	}
	return append(data, packLogBlocks(values, steps)...)
}

// expandMixed computes the elements of a tensor of Log4Mixed.
func (t *Tensor) expandMixed(values []float32) error {
	_, cols := t.Matrix()
	at := mixedCount
	for range t.RowsIn8Bits() {
		scale := math.Float32frombits(binary.LittleEndian.Uint32(t.Data[at:]))
		if !(scale >= 0) || math.IsInf(float64(scale), 0) {
			return problemf(t.Name, t.Offset+int64(at), remedyDamaged, "has the scale %v", scale)
		}
		at += mixedScale
		for i, q := range bytesAsInt8(t.Data[at : at+cols]) {
			values[i] = float32(q) * scale
		}
		values, at = values[cols:], at+cols
	}
	return t.expandLogBlocks(values, at)
}
