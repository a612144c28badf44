package gpukernels

import (
	"fmt"
	"maps"
)

// Products says what matrices are multiplied in.
type Products int

const (
	Stored Products = iota // as weights and activations are stored, in 16 bits
	Int8                   // 8-bit weights and activations, exact sums; what lies between products is stored in 16 bits
)

// An Arithmetic is how numbers are stored, and what matrices are multiplied in. The zero Arithmetic is float16.
type Arithmetic struct {
	Stored   Storage
	Products Products
}

// String names it. What the processor's arithmetic is called is another name: its bits are others.
func (a Arithmetic) String() string {
	if a.Products == Int8 {
		return "int8 on " + a.Stored.String()
	}
	return a.Stored.String()
}

// sources are the files of src/ whose kernels it takes. See sources.
func (a Arithmetic) sources() (map[string]map[string]int, error) {
	switch {
	case a.Products == Stored:
		return sources, nil
	case a.Stored != Float16:
		return nil, fmt.Errorf("there are no kernels for %v: products in 8 bits are there for %v", a, Float16)
	}
	all := maps.Clone(sources)
	all["int8"] = int8Kernels
	return all, nil
}

// int8Kernels are those that multiply integers.
var int8Kernels = map[string]int{
	"quantise": 0, "product_int8_128x128": large.shared(), "product_int8_64x64": middle.shared(), "product_int8_16x64": small.shared(),
	"output_int8_64": middle.shared(), "output_int8_16": small.shared(), "output_int8_scores": small.shared(),
}
