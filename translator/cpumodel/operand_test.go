package cpumodel

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/sluice-mt/sluice/kernels"
	"github.com/sluice-mt/sluice/translator/model"
)

// Bytes that were made with a norm serve the very next operand, and only if it is those rows.
func TestMadeOperand(t *testing.T) {
	const k = 10
	x, other := make([]float32, 6*k), make([]float32, 3*k)
	for what, c := range map[string]struct {
		want bool
		set  func(o *operand)
	}{
		"those rows":      {true, func(o *operand) { o.set(x, 3, k) }},
		"fewer rows":      {false, func(o *operand) { o.set(x, 2, k) }},
		"longer rows":     {false, func(o *operand) { o.set(x, 1, 3*k) }},
		"rows apart":      {false, func(o *operand) { o.setApart(x, 3, k, 2*k) }},
		"other rows":      {false, func(o *operand) { o.set(other, 3, k) }},
		"others between":  {false, func(o *operand) { o.set(other, 3, k); o.set(x, 3, k) }},
		"those rows anew": {false, func(o *operand) { o.set(x, 3, k); o.set(x, 3, k) }},
	} {
		var o operand
		o.make(x, 3, k)
		if c.set(&o); o.quantised != c.want {
			t.Errorf("%s: quantised %v, want %v", what, o.quantised, c.want)
		}
	}
}

// What comes after a block is normalised and quantised as by one after the other, if its products want a scale for each row.
func TestNormToOperand(t *testing.T) {
	const rows = 5
	for _, c := range []struct {
		file string
		with bool
	}{{"model.npz", true}, {"model.intgemm.alphas.bin", false}} {
		w := student(t, c.file, Int8, 1).weights
		random, dim := rand.New(rand.NewPCG(1, 1)), w.dim
		numbers := func(n int) []float32 {
			x := make([]float32, n)
			for i := range x {
				x[i] = float32(random.NormFloat64())
			}
			return x
		}
		p := process{{operation: model.Add}, {operation: model.Normalize, scale: numbers(dim), bias: numbers(dim)}}
		x, y := numbers(rows*dim), numbers(rows*dim)
		plain, fused := w.NewStepper(1), w.NewStepper(1)
		want, got := make([]float32, rows*dim), make([]float32, rows*dim)
		plain.after(p, want, slices.Clone(y), x, rows)
		plain.operand.set(want, rows, dim)
		plain.operand.quantise(0)
		fused.afterToOperand(p, got, slices.Clone(y), x, rows)
		fused.operand.set(got, rows, dim)
		if fused.operand.quantised != c.with {
			t.Errorf("%s: quantised with the norm: %v, want %v", c.file, fused.operand.quantised, c.with)
		}
		fused.operand.quantise(0)
		if !slices.Equal(got, want) || !slices.Equal(fused.operand.scales[:rows], plain.operand.scales[:rows]) ||
			!bytes.Equal(fused.operand.bytes[:rows*kernels.Int8Stride(dim)], plain.operand.bytes[:rows*kernels.Int8Stride(dim)]) {
			t.Errorf("%s: other rows, scales or bytes than one after the other", c.file)
		}
	}
}

// The encoders of further sources quantise with their norms as the first one does.
func TestNormToOperandOfFurtherSources(t *testing.T) {
	encoders := 0
	for _, c := range subjects(t, 1) {
		if c.weights.network != nil {
			continue // which have no such norms
		}
		for _, further := range c.weights.further {
			if encoders++; further.rowScales != c.weights.rowScales {
				t.Errorf("%s: quantised with the norm: %v, by the first encoder: %v", c.name, further.rowScales, c.weights.rowScales)
			}
		}
	}
	if encoders == 0 {
		t.Error("no model has several sources")
	}
}
