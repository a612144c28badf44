package marian

import (
	"encoding/binary"
	"hash/crc32"
	"math"
)

// A Row describes a tensor without looking at its data.
type Row struct {
	Name   string `json:"name"`
	Shape  []int  `json:"shape"`
	Type   string `json:"type"`
	Bytes  int    `json:"bytes"` // of the data, without padding
	Eight  int    `json:"rowsIn8Bits,omitempty"`
	Offset int64  `json:"offset"` // of the data in the file, see Tensor.Offset
}

// Rows describes all tensors in the order of the file.
func (f *File) Rows() []Row {
	rows := make([]Row, len(f.Tensors))
	for i, t := range f.Tensors {
		rows[i] = Row{Name: t.Name, Shape: t.Shape, Type: t.Type.String(), Bytes: len(t.Data), Eight: t.RowsIn8Bits(), Offset: t.Offset}
	}
	return rows
}

// Parameters returns the number of elements of all tensors that are not alphas.
func (f *File) Parameters() int {
	n := 0
	for _, t := range f.Tensors {
		if !t.IsAlpha() {
			n += t.Elements()
		}
	}
	return n
}

// A Check is what Verify found about one tensor.
type Check struct {
	Name      string  `json:"name"`
	Elements  int     `json:"elements"`
	NotFinite int     `json:"notFinite"`         // elements that are infinite or not a number
	Saturated int     `json:"saturated"`         // quantised elements at the end of their range, the largest weight included
	MaxAbs    float32 `json:"maxAbs"`            // largest magnitude among the finite elements
	Problem   string  `json:"problem,omitempty"` // why the tensor cannot be used, or empty
}

// Verify reads the whole model and reports on every tensor, in the order of the file. ok tells whether none has a problem:
// a checksum that does not fit, an element that is not finite, a multiplier or an alpha that is not a positive number.
func (f *File) Verify() (checks []Check, ok bool) {
	corrupt := make(map[string]bool)
	ok = true
	for _, m := range f.members {
		if crc32.ChecksumIEEE(m.data) != m.crc {
			corrupt[m.name] = true
		}
	}
	for _, t := range f.Tensors {
		c := t.verify()
		if corrupt[t.Name] {
			c.Problem = "the data do not fit their checksum"
		}
		ok = ok && c.Problem == ""
		checks = append(checks, c)
	}
	if corrupt[ConfigName] {
		ok = false
		checks = append(checks, Check{Name: ConfigName, Elements: len(f.Config),
			Problem: "the description does not fit its checksum"})
	}
	return checks, ok
}

func (t *Tensor) verify() Check {
	c := Check{Name: t.Name, Elements: t.Elements()}
	values, err := t.Float32()
	if err != nil {
		c.Problem = err.Error()
		return c
	}
	for _, v := range values {
		if v-v != 0 {
			c.NotFinite++
			continue
		}
		c.MaxAbs = max(c.MaxAbs, float32(math.Abs(float64(v))))
	}
	c.Saturated = t.saturated()
	switch {
	case c.NotFinite > 0:
		c.Problem = "holds elements that are infinite or not a number"
	case t.IsAlpha() && !(c.Elements == 1 && values[0] > 0):
		c.Problem = "is not a positive number, as an alpha must be"
	}
	return c
}

// saturated counts quantised elements at ±127 or at an end of 16 bits.
func (t *Tensor) saturated() int {
	n := 0
	for i := range t.Elements() {
		switch t.Type {
		case Intgemm8:
			if q := int8(t.Data[i]); q == 127 || q <= -127 {
				n++
			}
		case Intgemm16:
			if q := int16(binary.LittleEndian.Uint16(t.Data[2*i:])); q == math.MaxInt16 || q == math.MinInt16 {
				n++
			}
		}
	}
	return n
}
