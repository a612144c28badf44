package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"

	"github.com/sluice-mt/sluice/kernels/_asm/asm"
)

func reductions(isa asm.ISA) {
	asm.Kernel("maximum"+isa.String(), "func(x *float32, n int) float32", "maximum"+isa.String()+" computes maxGeneric.")
	x := asm.Int("x")
	Store(rowMaximum(isa, isa.NewRow(asm.Int("n")), x), ReturnIndex(0))
	VZEROUPPER()
	RET()

	asm.Kernel("absMax"+isa.String(), "func(x *float32, n int) float32", "absMax"+isa.String()+" computes absMaxGeneric.")
	x = asm.Int("x")
	Store(absMaximum(isa, isa.NewRow(asm.Int("n")), x), ReturnIndex(0))
	VZEROUPPER()
	RET()
}

// absMaximum returns the largest magnitude of the row at x in lane 0. Magnitudes compare as integers, so that NaN is
// the largest of all.
func absMaximum(isa asm.ISA, row *asm.Row, x reg.Register) reg.VecVirtual {
	largest := [2]asm.V{isa.Zero(), isa.Zero()}
	body := func(i int, b asm.Block) { isa.Accumulate2(VPMAXSD, largest[i%2], isa.Abs(b.Load(x))) }
	row.EachFour(func(blocks [4]asm.Block) {
		for i, b := range blocks {
			body(i, b)
		}
	}, func(b asm.Block) { body(0, b) })
	isa.Accumulate2(VPMAXSD, largest[0], largest[1])
	return isa.Reduce(VPMAXSD, largest[0])
}

// argMax generates the two passes of ArgMax: the largest element, or NaN if there is one; then its first place.
func argMax(isa asm.ISA) {
	asm.Kernel("largest"+isa.String(), "func(x *float32, n int) float32",
		"largest"+isa.String()+" returns the largest element, NaN if one is. n is at least 1.")
	x := asm.Int("x")
	largest, magnitude := isa.Register(asm.F(minusInfinity)), isa.Zero()
	isa.NewRow(asm.Int("n")).Each(func(b asm.Block) {
		v := b.LoadOr(x, asm.F(minusInfinity))
		isa.Accumulate2(VMAXPS, largest, v)
		isa.Accumulate2(VPMAXSD, magnitude, isa.Abs(v))
	})
	result, m, bits := isa.Reduce(VMAXPS, largest), isa.Reduce(VPMAXSD, magnitude), GP32()
	VMOVD(m, bits)
	CMPL(bits, U32(0x7f800000)) // larger magnitudes are NaN
	JLE(LabelRef("number"))
	VMOVAPS(m, result)
	Label("number")
	Store(result, ReturnIndex(0))
	VZEROUPPER()
	RET()

	first(isa, "firstEqual", "func(x *float32, n int, value float32) int", "returns the place of the first element that equals value, -1 if none does.")
	first(isa, "firstNaN", "func(x *float32, n int) int", "returns the place of the first NaN, -1 if there is none.")
}

// first generates a search.
func first(isa asm.ISA, name, signature, doc string) {
	asm.Kernel(name+isa.String(), signature, name+isa.String()+" "+doc)
	x, n := asm.Int("x"), asm.Int("n")
	var value asm.V
	if name == "firstEqual" {
		value = isa.Splat(asm.Addr("value"))
	}
	place, bits := GP64(), GP32()
	row := isa.NewRow(n)
	row.Each(func(b asm.Block) {
		v := b.LoadOr(x, asm.F(minusInfinity))
		if value != nil {
			isa.Matches(asm.EqualTo, v, value, bits)
		} else {
			isa.Matches(asm.Unordered, v, v, bits)
		}
		MOVQ(b.Index(), place)
		TESTL(bits, bits)
		JNZ(LabelRef("found"))
	})
	MOVQ(I32(-1), place)
	JMP(LabelRef("done"))
	Label("found")
	BSFL(bits, bits)
	ADDQ(bits.As64(), place)
	CMPQ(place, n) // lanes that the row does not have hold -Inf
	JLT(LabelRef("done"))
	MOVQ(I32(-1), place)
	Label("done")
	Store(place, ReturnIndex(0))
	VZEROUPPER()
	RET()
}
