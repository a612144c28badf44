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

// Log4 returns the model with its matrices as Log4, all else as float32, and without alphas: what has one row only, biases and
// norms, stays as it is (as in Marian's --quantize-bits). steps are those of FitLogGrid; a matrix that was trained to lie on
// such a grid keeps its values, whatever steps are. Data that do not change alias those of f, which must not be closed before.
func (f *File) Log4(steps int) (*File, error) {
	var tensors []*Tensor
	for _, t := range f.Tensors {
		if t.IsAlpha() {
			continue
		}
		stored, err := t.log4(steps)
		if err != nil {
			return nil, withPath(err, f.Path)
		}
		tensors = append(tensors, stored)
	}
	return newFile(f.Path, f.Format, f.Config, tensors), nil
}

func (t *Tensor) log4(steps int) (*Tensor, error) {
	rows, _ := t.Matrix()
	switch {
	case t.Type == Log4:
		return t.view(), nil
	case rows == 1 || t.Type.isInteger():
		return t.toFloat(Float32)
	}
	values, err := t.finite()
	if err != nil {
		return nil, err
	}
	grid := FitLogGrid(values, log4Bits, steps)
	data := make([]byte, len(values)/2+len(values)%2, log4Bytes(uint64(len(values))))
	multiplier := grid.multiplier()
	for i, v := range values {
		code := byte(0)
		if grid.Scale > 0 {
			code = byte(grid.exponent(v, multiplier))
		}
		if math.Signbit(float64(v)) {
			code |= 8
		}
		data[i/2] |= code << (4 * (i % 2))
	}
	data = binary.LittleEndian.AppendUint32(data, math.Float32bits(grid.Scale))
	return &Tensor{Name: t.Name, Shape: t.Shape, Type: Log4, Data: data, Offset: nowhere}, nil
}

// expandLog4 computes the elements of a Log4 tensor.
func (t *Tensor) expandLog4(values []float32) error {
	at := len(t.Data) - log4Scale
	scale := math.Float32frombits(binary.LittleEndian.Uint32(t.Data[at:]))
	if !(scale >= 0) || math.IsInf(float64(scale), 0) {
		return problemf(t.Name, t.Offset+int64(at), remedyDamaged, "has the scale %v", scale)
	}
	levels := LogGrid{scale, log4Bits}.levels()
	var table [16]float32
	for k := range 8 {
		table[k], table[k|8] = levels[k], -levels[k]
	}
	for i := range values {
		values[i] = table[t.Data[i/2]>>(4*(i%2))&15]
	}
	return nil
}
