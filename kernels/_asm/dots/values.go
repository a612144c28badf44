package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"

	"github.com/sluice-mt/sluice/kernels/_asm/asm"
)

// weighted generates sums of weighted rows, one query or two at a time.
type weighted struct {
	row *asm.Row
	v   reg.GPVirtual
	// of each query
	out, weights []reg.GPVirtual
}

// valuesAVX2 sums weighted rows: out[d] = (Σ_j weight[j]·v[j][d])·inverse. Each sum is one chain of additions, of which a
// processor needs eight at a time: 32 elements of two queries.
func valuesAVX2() {
	asm.Kernel("valuesAVX2", "func(out *float32, outStride int, weights *float32, pitch int, inverses *float32, v *float32, offsets *int32, queries, nk, headDim int)",
		"valuesAVX2 computes the weighted values of queries in one head; value j starts at element offsets[j] of v.",
		"outStride and pitch are the bytes from a query to the next. All counts are at least 1.")
	c := weighted{
		row: asm.AVX2.NewRow(asm.Int("headDim")), v: asm.Int("v"),
		out: []reg.GPVirtual{GP64(), GP64()}, weights: []reg.GPVirtual{GP64(), GP64()},
	}
	for _, n := range []int{2, 1} {
		group, next := asm.Unique("group"), asm.Unique("next")
		Label(group)
		CMPQ(asm.Addr("queries"), U32(n))
		JLT(LabelRef(next))
		c.place("out", "outStride", c.out[:n])
		c.place("weights", "pitch", c.weights[:n])
		c.row.EachTwo(func(blocks [2]asm.Block) { c.sum(n, blocks[:]) }, func(b asm.Block) { c.sum(n, []asm.Block{b}) })
		ADDQ(U32(4*n), asm.Addr("inverses"))
		SUBQ(U32(n), asm.Addr("queries"))
		JMP(LabelRef(group))
		Label(next)
	}
	VZEROUPPER()
	RET()
}

// place sets the addresses of the next queries' rows and moves the parameter behind them.
func (c *weighted) place(parameter, stride string, rows []reg.GPVirtual) {
	next := GP64()
	MOVQ(asm.Addr(parameter), next)
	for _, row := range rows {
		MOVQ(next, row)
		ADDQ(asm.Addr(stride), next)
	}
	MOVQ(next, asm.Addr(parameter))
}

// sum computes blocks of n queries.
func (c *weighted) sum(n int, blocks []asm.Block) {
	isa := asm.AVX2
	sums := make([][]asm.V, n)
	for q := range sums {
		for range blocks {
			sums[q] = append(sums[q], isa.Zero())
		}
	}
	j, offsets, from := GP64(), asm.Int("offsets"), GP64()
	XORQ(j, j)
	keys := asm.Unique("keys")
	Label(keys)
	MOVLQSX(Mem{Base: offsets, Index: j, Scale: 4}, from)
	LEAQ(Mem{Base: c.v, Index: from, Scale: 4}, from)
	var weight []asm.V
	for q := range n {
		w := YMM()
		VBROADCASTSS(Mem{Base: c.weights[q], Index: j, Scale: 4}, w)
		weight = append(weight, asm.V{w, w})
	}
	for i, b := range blocks {
		for q := range n {
			b.FMA(sums[q][i], weight[q], from)
		}
	}
	INCQ(j)
	CMPQ(j, asm.Addr("nk"))
	JLT(LabelRef(keys))
	inverses := asm.Int("inverses")
	for q := range n {
		inverse := isa.Splat(Mem{Base: inverses, Disp: 4 * q})
		for i, b := range blocks {
			b.Store(isa.Mul(sums[q][i], inverse), c.out[q])
		}
	}
}
