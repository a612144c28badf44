package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"

	"github.com/sluice-mt/sluice/kernels/_asm/asm"
)

// softmaxOfHeads replaces the scores of all heads by weights, four heads at a time while there are as many.
func softmaxOfHeads() {
	x, bytes, heads := asm.Int("scores"), asm.Int("pitch"), asm.Int("heads")
	SHLQ(Imm(2), bytes)
	SUBQ(U32(4), heads)
	JLT(LabelRef("fewHeads"))
	Label("fourHeads")
	softmaxRows(4, x, bytes)
	LEAQ(Mem{Base: x, Index: bytes, Scale: 4}, x)
	SUBQ(U32(4), heads)
	JGE(LabelRef("fourHeads"))
	Label("fewHeads")
	ADDQ(U32(4), heads)
	JZ(LabelRef("weights"))
	Label("lastHeads")
	softmaxRows(1, x, bytes)
	ADDQ(bytes, x)
	DECQ(heads)
	JNZ(LabelRef("lastHeads"))
	Label("weights")
}

// softmaxRows replaces n rows of scores, 1 or 4, by weights. A row has a multiple of 64 bytes, the next follows it.
// The operations of four rows fill the time that those of one would wait for each other.
func softmaxRows(n int, x, bytes reg.GPVirtual) {
	isa := asm.AVX512
	third, i := GP64(), GP64()
	LEAQ(Mem{Base: bytes, Index: bytes, Scale: 2}, third)
	each := func(body func(row int, m Mem)) {
		at, loop := GP64(), asm.Unique("block")
		XORQ(i, i)
		Label(loop)
		LEAQ(Mem{Base: x, Index: i, Scale: 1}, at)
		for row := range n {
			body(row, rowAt(at, bytes, third, row))
		}
		ADDQ(U32(64), i)
		CMPQ(i, bytes)
		JLT(LabelRef(loop))
	}
	var largest, sums []reg.VecVirtual
	for range n {
		largest = append(largest, isa.Register(minusInfinity)[0])
		sums = append(sums, isa.Zero()[0])
	}
	each(func(row int, m Mem) { VMAXPS(m, largest[row], largest[row]) })
	largest = allLanes(VMAXPS, largest, func(v reg.VecVirtual) {})
	each(func(row int, m Mem) {
		e := isa.Exp(isa.Sub(isa.Load(m), asm.V{largest[row]}))
		isa.Store(e, m)
		VADDPS(e[0], sums[row], sums[row])
	})
	sums = allLanes(VADDPS, sums, func(v reg.VecVirtual) { VDIVPS(v, isa.Register(asm.F(1))[0], v) })
	each(func(row int, m Mem) {
		weight := ZMM()
		VMULPS(m, sums[row], weight)
		VMOVUPS(weight, m)
	})
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

// allLanes reduces each of 1 or 4 registers in the fixed tree, finishes the results with f, and returns each in all lanes.
func allLanes(op func(...Op), v []reg.VecVirtual, f func(reg.VecVirtual)) []reg.VecVirtual {
	if len(v) == 1 {
		all := asm.AVX512.Splat(asm.AVX512.Reduce(op, asm.V{v[0]}))
		f(all[0])
		return []reg.VecVirtual{all[0]}
	}
	quarters := asm.Quarters(op, v[0], v[1], v[2], v[3])
	for _, order := range []uint64{0x4e, 0xb1} { // lanes 2, 3, 0, 1, then 1, 0, 3, 2
		other := ZMM()
		VPERMILPS(Imm(order), quarters, other)
		op(other, quarters, quarters)
	}
	f(quarters)
	var all []reg.VecVirtual
	for lane := range 4 {
		all = append(all, ZMM())
		VSHUFF32X4(Imm(uint64(0x55*lane)), quarters, quarters, all[lane])
	}
	return all
}
