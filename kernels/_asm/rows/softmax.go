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

// attentionRows generates attentionWeights for the rows of a pitch, two at a time: what one has to wait for, its reductions above all, the
// other fills. Rows are filled up to whole blocks, since storing less than a register takes longer than all of a block's arithmetic.
func attentionRows() {
	asm.Kernel("attentionRowsAVX2", "func(x, inverses *float32, rows, n, pitch int, scale float32)",
		"attentionRowsAVX2 does what attentionWeightsAVX2 does to each of rows of n >= 1 dot products, pitch elements apart, a multiple of 16 that n fits",
		"without another 16; what is behind the n-th becomes zero. inverses gets one over each sum.")
	x, inverses, rows, bytes := asm.Int("x"), asm.Int("inverses"), asm.Int("rows"), asm.Int("pitch")
	SHLQ(Imm(2), bytes)
	for _, count := range []int{2, 1} {
		group, next := asm.Unique("group"), asm.Unique("next")
		Label(group)
		CMPQ(rows, U32(count))
		JLT(LabelRef(next))
		row := []reg.GPVirtual{x, GP64()}[:count]
		if count == 2 {
			LEAQ(Mem{Base: x, Index: bytes, Scale: 1}, row[1])
		}
		exponentials(row, bytes, inverses)
		LEAQ(Mem{Base: row[count-1], Index: bytes, Scale: 1}, x)
		ADDQ(U32(4*count), inverses)
		SUBQ(U32(count), rows)
		JMP(LabelRef(group))
		Label(next)
	}
	VZEROUPPER()
	RET()
}

// exponentials generates attentionRows for some rows of so many bytes.
func exponentials(rows []reg.GPVirtual, bytes, inverses reg.GPVirtual) {
	isa := asm.AVX2
	factor := isa.Splat(asm.Addr("scale"))
	var largest, sums []asm.V
	for range rows {
		largest = append(largest, isa.Register(asm.F(minusInfinity)))
	}
	isa.NewRow(asm.Int("n")).Each(func(b asm.Block) {
		for r, x := range rows {
			scores := b.Or(isa.Mul(b.Load(x), factor), asm.F(minusInfinity))
			isa.Store(scores, b.At(x))
			isa.Accumulate2(VMAXPS, largest[r], scores)
		}
	})
	for r := range rows {
		all := YMM() // one register: there are no more
		VBROADCASTSS(isa.Reduce(VMAXPS, largest[r]), all)
		largest[r] = asm.V{all, all}
		sums = append(sums, isa.Zero())
	}
	at, loop := GP64(), asm.Unique("block")
	XORQ(at, at)
	Label(loop)
	for r, x := range rows {
		m := Mem{Base: x, Index: at, Scale: 1}
		weights := isa.Exp(isa.Sub(isa.Load(m), largest[r]))
		isa.Store(weights, m)
		isa.Accumulate(sums[r], weights)
	}
	ADDQ(U32(64), at)
	CMPQ(at, bytes)
	JLT(LabelRef(loop))
	for r, sum := range sums {
		one := XMM()
		VMOVSS(asm.F(1).Mem(), one)
		VDIVSS(isa.Sum(sum), one, one)
		VMOVSS(one, Mem{Base: inverses, Disp: 4 * r})
	}
}

// rowMaximum returns the largest element of the row at x, ignoring NaN, in lane 0.
func rowMaximum(isa asm.ISA, row *asm.Row, x reg.Register) reg.VecVirtual {
	largest := isa.Register(asm.F(minusInfinity))
	row.Each(func(b asm.Block) {
		isa.Accumulate2(VMAXPS, largest, b.LoadOr(x, asm.F(minusInfinity)))
	})
	return isa.Reduce(VMAXPS, largest)
}
