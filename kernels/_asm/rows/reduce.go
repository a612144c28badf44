package main

import (
	. "github.com/mmcloughlin/avo/build"
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
	largest := isa.Zero()
	row.Each(func(b asm.Block) {
		isa.Accumulate2(VPMAXSD, largest, isa.Abs(b.Load(x)))
	})
	return isa.Reduce(VPMAXSD, largest)
}
