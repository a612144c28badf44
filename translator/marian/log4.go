package marian

import (
	"encoding/binary"
	"math"
)

// log4Bits is how many bits an element of a Log4 tensor takes.
const log4Bits = 4

// log4Scale is the size of the scale behind the elements.
const log4Scale = 4

// log4Bytes returns how many bytes n elements take with their scale.
func log4Bytes(n uint64) uint64 { return n/2 + n%2 + log4Scale }

// Log4 returns the model with its matrices in 4 bits, all else as float32, and without alphas: what has one row only, biases
// and norms, stays as it is (as in Marian's --quantize-bits). Each matrix is stored as Log4Blocks or, if that is closer to it,
// as Log4. Those that eight names have that many of their first rows in 8 bits (RowsIn8Bits): they are stored as Log4Mixed,
// unless they lie on grids of 4 bits anyway. steps are those of FitLogGrid; a matrix that was trained to lie on such grids keeps
// its values, whatever steps are. Data that do not change alias those of f, which must not be closed before.
func (f *File) Log4(steps int, eight map[string]int) (*File, error) {
	var tensors []*Tensor
	for _, t := range f.Tensors {
		if t.IsAlpha() {
			continue
		}
		stored, err := t.log4(steps, eight[t.Name])
		if err != nil {
			return nil, withPath(err, f.Path)
		}
		tensors = append(tensors, stored)
	}
	return newFile(f.Path, f.Format, f.Config, tensors), nil
}

func (t *Tensor) log4(steps, eight int) (*Tensor, error) {
	rows, cols := t.Matrix()
	switch {
	case t.Type.In4Bits():
		return t.view(), nil
	case rows == 1 || t.Type.isInteger():
		return t.toFloat(Float32)
	}
	values, err := t.finite()
	if err != nil {
		return nil, err
	}
	grid, rounded := FitLogGrid(values, log4Bits, steps), make([]float32, len(values))
	grid.Round(rounded, values)
	apart := squaredDistance(rounded, values)
	RoundLogBlocks(rounded, values, log4Bits, steps)
	blocksApart := squaredDistance(rounded, values)
	stored := &Tensor{Name: t.Name, Shape: t.Shape, Offset: nowhere}
	switch {
	case eight > 0 && min(apart, blocksApart) > 0:
		stored.Type, stored.Data = Log4Mixed, packMixed(values, cols, min(eight, rows), steps)
	case blocksApart < apart:
		stored.Type, stored.Data = Log4Blocks, packLogBlocks(values, steps)
	default:
		stored.Type, stored.Data = Log4, grid.packLog4(values)
	}
	return stored, nil
}

func squaredDistance(a, b []float32) float64 {
	sum := 0.0
	for i, v := range a {
		d := float64(v) - float64(b[i])
		sum += d * d
	}
	return sum
}

// packLog4 returns the data of a Log4 tensor.
func (g LogGrid) packLog4(values []float32) []byte {
	data := make([]byte, len(values)/2+len(values)%2, log4Bytes(uint64(len(values))))
	g.pack(data, values)
	return binary.LittleEndian.AppendUint32(data, math.Float32bits(g.Scale))
}

// pack writes the numbers of a grid of 4 bits that are nearest to the values, two into each byte, which must be zero.
func (g LogGrid) pack(data []byte, values []float32) {
	multiplier := g.multiplier()
	for i, v := range values {
		code := byte(0)
		if g.Scale > 0 {
			code = byte(g.exponent(v, multiplier))
		}
		if math.Signbit(float64(v)) {
			code |= 8
		}
		data[i/2] |= code << (4 * (i % 2))
	}
}

// unpack is the inverse of pack.
func (g LogGrid) unpack(values []float32, data []byte) {
	levels := g.levels()
	var table [16]float32
	for k := range 8 {
		table[k], table[k|8] = levels[k], -levels[k]
	}
	for i := range values {
		values[i] = table[data[i/2]>>(4*(i%2))&15]
	}
}

// expandLog4 computes the elements of a Log4 tensor.
func (t *Tensor) expandLog4(values []float32) error {
	at := len(t.Data) - log4Scale
	scale := math.Float32frombits(binary.LittleEndian.Uint32(t.Data[at:]))
	if !(scale >= 0) || math.IsInf(float64(scale), 0) {
		return problemf(t.Name, t.Offset+int64(at), remedyDamaged, "has the scale %v", scale)
	}
	LogGrid{Scale: scale, Bits: log4Bits}.unpack(values, t.Data)
	return nil
}
