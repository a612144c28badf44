package gpukernels

import (
	"fmt"
	"maps"

	"github.com/sluice-mt/sluice/gpukernels/cuda"
)

// Products says what matrices are multiplied in.
type Products int

const (
	Stored Products = iota // as weights and activations are stored, in 16 bits
	Int8                   // 8-bit weights and activations, exact sums; what lies between products is stored in 16 bits
	FP8                    // the same of e4m3, with sums in float32
)

// An Arithmetic is how numbers are stored, and what matrices are multiplied in. The zero Arithmetic is float16.
type Arithmetic struct {
	Stored   Storage
	Products Products
}

// String names it. What the processor's arithmetic is called is another name: its bits are others.
func (a Arithmetic) String() string {
	if a.Products == Stored {
		return a.Stored.String()
	}
	return a.Products.String() + " on " + a.Stored.String()
}

// String is what they are called: those of 8 bits also in the names of kernels and sources.
func (p Products) String() string { return [...]string{"stored", "int8", "fp8"}[p] }

// leastCapability is 10 times the compute capability that the kernels need: for tensor cores and asynchronous copies, and for e4m3.
func (a Arithmetic) leastCapability() int {
	if a.Products == FP8 {
		return 89
	}
	return 80
}

// Check refuses a device of a driver on which the kernels do not run.
func (a Arithmetic) Check(d *cuda.Driver, p cuda.Properties) error {
	least := a.leastCapability()
	switch {
	case 10*p.Major+p.Minor < least:
		return fmt.Errorf("%w: %v is too old for %v: compute capability %d.%d (%s) or later is needed", cuda.ErrUnavailable, p, a, least/10, least%10,
			map[int]string{80: "Ampere, of 2020", 89: "Ada, of 2022"}[least])
	case a.Products == FP8 && d.Version() < float8Version:
		return fmt.Errorf("%w: the NVIDIA driver is for CUDA %v, and %v needs one for %v (550) or later", cuda.ErrUnavailable, d.Version(), a,
			float8Version)
	}
	return nil
}

// float8Version is the first version of CUDA whose drivers know the tensor instructions of fp8 (PTX 8.4).
const float8Version cuda.Version = 12040

// sources are the files of src/ whose kernels it takes. See sources.
func (a Arithmetic) sources() (map[string]map[string]int, error) {
	switch {
	case a.Products == Stored:
		return sources, nil
	case a.Stored != Float16:
		return nil, fmt.Errorf("there are no kernels for %v: products in 8 bits are there for %v", a, Float16)
	}
	all := maps.Clone(sources)
	all[a.Products.String()] = a.Products.kernels()
	return all, nil
}

// kernels are those of that source.
func (p Products) kernels() map[string]int {
	what := p.String()
	return map[string]int{
		"quantise_" + what: 0, "product_" + what + "_128x128": large.shared(), "product_" + what + "_64x64": middle.shared(),
		"product_" + what + "_16x64": small.shared(), "product_" + what + "_16x16": narrow.shared(), "output_" + what + "_64": middle.shared(), "output_" + what + "_16": small.shared(),
		"output_" + what + "_scores": small.shared(),
	}
}
