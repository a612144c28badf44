package main

import (
	"math"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"

	"github.com/sluice-mt/sluice/kernels/_asm/asm"
)

var minusInfinity = float32(math.Inf(-1))

func softmax(isa asm.ISA) {
	asm.Kernel("softmax"+isa.String(), "func(x *float32, rows, n, stride int)",
		"softmax"+isa.String()+" computes softmaxGeneric. rows and n are at least 1, stride is in bytes.")
	x, rows := asm.Int("x"), asm.Int("rows")
	row := isa.NewRow(asm.Int("n"))
	Label("row")
	largest := isa.Splat(rowMaximum(isa, row, x))
	sum := isa.Zero()
	row.Each(func(b asm.Block) {
		e := isa.Exp(isa.Sub(b.Load(x), largest))
		b.Store(e, x)
		isa.Accumulate(sum, b.Keep(e))
	})
	s, one := isa.Sum(sum), XMM()
	VMOVSS(asm.F(1).Mem(), one)
	VDIVSS(s, one, s)
	inverse := isa.Splat(s)
	row.Each(func(b asm.Block) { b.Store(isa.Mul(b.Load(x), inverse), x) })
	ADDQ(asm.Addr("stride"), x)
	DECQ(rows)
	JNZ(LabelRef("row"))
	VZEROUPPER()
	RET()

	asm.Kernel("expSum"+isa.String(), "func(x *float32, n int, largest float32, sums *[16]float32)",
		"expSum"+isa.String()+" adds e^(x-largest) to the stripes of sums, as expSumGeneric does.")
	x, stripes := asm.Int("x"), asm.Int("sums")
	largest = isa.Splat(asm.Addr("largest"))
	sum = isa.Load(Mem{Base: stripes})
	isa.NewRow(asm.Int("n")).Each(func(b asm.Block) {
		isa.Accumulate(sum, b.Keep(isa.Exp(isa.Sub(b.Load(x), largest))))
	})
	isa.Store(sum, Mem{Base: stripes})
	VZEROUPPER()
	RET()
}

// attentionWeights generates the softmax of attention before its division.
func attentionWeights(isa asm.ISA) {
	asm.Kernel("attentionWeights"+isa.String(), "func(x *float32, n int, scale float32) float32",
		"attentionWeights"+isa.String()+" replaces n >= 1 dot products by e^(x·scale-max) and returns one over their striped sum.")
	x, factor := asm.Int("x"), isa.Splat(asm.Addr("scale"))
	row := isa.NewRow(asm.Int("n"))
	row.Each(func(b asm.Block) { b.Store(isa.Mul(b.Load(x), factor), x) })
	largest := isa.Splat(rowMaximum(isa, row, x))
	sum := isa.Zero()
	row.Each(func(b asm.Block) {
		e := isa.Exp(isa.Sub(b.Load(x), largest))
		b.Store(e, x)
		isa.Accumulate(sum, b.Keep(e))
	})
	s, one := isa.Sum(sum), XMM()
	VMOVSS(asm.F(1).Mem(), one)
	VDIVSS(s, one, s)
	Store(s, ReturnIndex(0))
	VZEROUPPER()
	RET()
}

// rowMaximum returns the largest element of the row at x, ignoring NaN, in lane 0.
func rowMaximum(isa asm.ISA, row *asm.Row, x reg.Register) reg.VecVirtual {
	largest := isa.Register(asm.F(minusInfinity))
	row.Each(func(b asm.Block) {
		isa.Accumulate2(VMAXPS, largest, b.LoadOr(x, asm.F(minusInfinity)))
	})
	return isa.Reduce(VMAXPS, largest)
}
