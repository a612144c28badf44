// Command int16 generates the products of matrices of words.
package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"

	"github.com/sluice-mt/sluice/kernels/_asm/asm"
	"github.com/sluice-mt/sluice/kernels/_asm/product"
)

func main() {
	ConstraintExpr("!purego")
	// a step of the loops is two k: sum[r][j] += a[r][2s]·w[2s][j] + a[r][2s+1]·w[2s+1][j]
	pairs := func(weights Op, activations, sum, free reg.VecPhysical) {
		VPMADDWD(weights, activations, free)
		VPADDD(free, sum, sum)
	}
	kernel := func(name string, f product.MultiplyAdd) product.Kernel {
		return product.Kernel{Name: name, Doc: "mulInt16Generic", Activation: "int16", Weight: "int16", MultiplyAdd: f}
	}
	kernel("mulInt16AVX2", pairs).Generate256(false)
	kernel("mulInt16AVXVNNI", func(weights Op, activations, sum, _ reg.VecPhysical) {
		asm.VexVPDPWSSD(weights.(reg.VecPhysical), activations, sum)
	}).Generate256(true)
	kernel("mulInt16AVX512", pairs).Generate512(false)
	dotProduct := func(weights Op, activations, sum, _ reg.VecPhysical) { VPDPWSSD(weights, activations, sum) }
	kernel("mulInt16AVX512VNNI", dotProduct).Generate512(true)
	kernel("mulInt16AVX512VNNIDouble", dotProduct).GenerateDouble512()
	for _, isa := range []asm.ISA{asm.AVX512, asm.AVX2} {
		quantize(isa)
	}
	Generate()
}

// quantize generates the conversion of a row of activations to words.
func quantize(isa asm.ISA) {
	name := "quantizeInt16" + isa.String()
	asm.Kernel(name, "func(dst *int16, x *float32, n int, multiplier, limit float32)",
		name+" computes quantizeInt16Generic for n >= 1 elements and a multiplier that is not zero. It writes up to a multiple of 16.")
	dst, x := asm.Int("dst"), asm.Int("x")
	multiplier, limit := isa.Splat(asm.Addr("multiplier")), isa.Splat(asm.Addr("limit"))
	low := isa.Negate(limit)
	isa.NewRow(asm.Int("n")).Each(func(b asm.Block) {
		q := isa.KeepOrdered(isa.Mul(b.Load(x), multiplier))
		words(isa, isa.Max(isa.Min(q, limit), low), Mem{Base: dst, Index: b.Index(), Scale: 2})
	})
	VZEROUPPER()
	RET()
}

// words rounds to the nearest integers, halves to even, and stores them as 16 words.
func words(isa asm.ISA, v asm.V, at Mem) {
	if isa == asm.AVX512 {
		rounded := ZMM()
		VCVTPS2DQ(v[0], rounded)
		VPMOVDW(rounded, at)
		return
	}
	low, high := YMM(), YMM()
	VCVTPS2DQ(v[0], low)
	VCVTPS2DQ(v[1], high)
	VPACKSSDW(high, low, low) // in 128-bit lanes: elements 0-3, 8-11, 4-7, 12-15
	VPERMQ(Imm(0xd8), low, low)
	VMOVDQU(low, at)
}
