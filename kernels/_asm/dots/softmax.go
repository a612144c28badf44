package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"

	"github.com/sluice-mt/sluice/kernels/_asm/asm"
)

// expRowsAVX512 replaces scores by weights, the softmax before its division, four rows at a time while there are as many:
// w = exp(s - max s), inverse = 1/Σ w.
func expRowsAVX512() {
	asm.Kernel("expRowsAVX512", "func(scores, maxima, inverses *float32, rows, pitch int)",
		"expRowsAVX512 replaces each of the rows of pitch elements, a multiple of 16, by e^(s-max); inverses gets 4 elements for each row,",
		"of which the first is one over the striped sum. maxima has 16 elements for each row, of which the largest is the row's.")
	e := expRows{scores: asm.Int("scores"), maxima: asm.Int("maxima"), inverses: asm.Int("inverses"), bytes: asm.Int("pitch")}
	rows := asm.Int("rows")
	SHLQ(Imm(2), e.bytes)
	SUBQ(U32(4), rows)
	JLT(LabelRef("few"))
	Label("four")
	e.rows(4)
	SUBQ(U32(4), rows)
	JGE(LabelRef("four"))
	Label("few")
	ADDQ(U32(4), rows)
	JZ(LabelRef("done"))
	Label("one")
	e.rows(1)
	DECQ(rows)
	JNZ(LabelRef("one"))
	Label("done")
	VZEROUPPER()
	RET()
}

type expRows struct {
	scores, maxima, inverses reg.GPVirtual // of the next row
	bytes                    reg.GPVirtual // of a row of scores
}

// rows does n rows, 1 or 4, and steps on. The operations of four rows fill the time that those of one would wait for
// each other.
func (e *expRows) rows(n int) {
	isa := asm.AVX512
	var largest, sums []reg.VecVirtual
	for row := range n {
		largest = append(largest, isa.Load(Mem{Base: e.maxima, Disp: 64 * row})[0])
		sums = append(sums, isa.Zero()[0])
	}
	largest = allLanes(VMAXPS, largest)
	third, at, end, loop := GP64(), GP64(), GP64(), asm.Unique("block")
	LEAQ(Mem{Base: e.bytes, Index: e.bytes, Scale: 2}, third)
	MOVQ(e.scores, at)
	LEAQ(Mem{Base: e.scores, Index: e.bytes, Scale: 1}, end)
	Label(loop)
	for row := range n {
		m := rowAt(at, e.bytes, third, row)
		weight := isa.Exp(isa.Sub(isa.Load(m), asm.V{largest[row]}))
		isa.Store(weight, m)
		VADDPS(weight[0], sums[row], sums[row])
	}
	ADDQ(U32(64), at)
	CMPQ(at, end)
	JLT(LabelRef(loop))
	e.storeInverses(sums)
	ADDQ(U32(64*n), e.maxima)
	ADDQ(U32(16*n), e.inverses)
	for range n {
		ADDQ(e.bytes, e.scores)
	}
}

// storeInverses stores one over the sum of each register, 16 bytes apart.
func (e *expRows) storeInverses(sums []reg.VecVirtual) {
	isa := asm.AVX512
	if len(sums) == 1 {
		one := XMM()
		VMOVSS(asm.F(1).Mem(), one)
		VDIVSS(isa.Sum(asm.V{sums[0]}), one, one)
		VMOVSS(one, Mem{Base: e.inverses})
		return
	}
	inverses := isa.Div(isa.Register(asm.F(1)), asm.V{fourLanes(VADDPS, sums)})
	isa.Store(inverses, Mem{Base: e.inverses})
}

// rowAt is the memory of one of four rows from base, with the bytes from row to row and three times as many.
func rowAt(base, bytes, third reg.GPVirtual, row int) Mem {
	switch row {
	case 0:
		return Mem{Base: base}
	case 3:
		return Mem{Base: base, Index: third, Scale: 1}
	}
	return Mem{Base: base, Index: bytes, Scale: uint8(row)}
}

// allLanes reduces each of 1 or 4 registers in the fixed tree and returns each result in all lanes.
func allLanes(op func(...Op), v []reg.VecVirtual) []reg.VecVirtual {
	if len(v) == 1 {
		return asm.AVX512.Splat(asm.AVX512.Reduce(op, asm.V{v[0]}))
	}
	four := fourLanes(op, v)
	var all []reg.VecVirtual
	for lane := range 4 {
		all = append(all, ZMM())
		VSHUFF32X4(Imm(uint64(0x55*lane)), four, four, all[lane])
	}
	return all
}

// fourLanes reduces each of 4 registers in the fixed tree and returns the i-th result in the i-th 128 bits.
func fourLanes(op func(...Op), v []reg.VecVirtual) reg.VecVirtual {
	four := asm.Quarters(op, v[0], v[1], v[2], v[3])
	for _, order := range []uint64{0x4e, 0xb1} { // lanes 2, 3, 0, 1, then 1, 0, 3, 2
		other := ZMM()
		VPERMILPS(Imm(order), four, other)
		op(other, four, four)
	}
	return four
}
