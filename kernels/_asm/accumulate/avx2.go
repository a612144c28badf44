package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"

	"github.com/sluice-mt/sluice/kernels/_asm/asm"
)

const (
	strip      = 16 // columns that AVX2 does at a time: half a panel
	maxRows256 = 6  // most rows whose sums fit the registers
)

// accumulateFloat32AVX2 is accumulateFloat32AVX512 with 16 columns at a time, in two registers.
func accumulateFloat32AVX2() {
	asm.Kernel("accumulateFloat32AVX2", signature,
		"accumulateFloat32AVX2 computes blocks of height (1 to 6) rows of accumulateFloat32Generic for panels of 32 columns. See accumulateFloat32AVX512.")
	height := asm.Int("height")
	for rows := 1; rows < maxRows256; rows++ {
		CMPQ(height, U32(rows))
		JEQ(LabelRef(fmt.Sprintf("rows%d", rows)))
	}
	for rows := maxRows256; rows > 0; rows-- {
		Label(fmt.Sprintf("rows%d", rows))
		product256{newBlock(rows)}.generate()
	}
}

type product256 struct{ block }

func (m product256) sum(row, half int) reg.VecPhysical { return asm.Y[2*row+half] }

func (m product256) generate() {
	strips, y, blocks, w, k := GP64(), GP64(), GP64(), GP64(), GP64()

	Label(m.label("panel"))
	MOVQ(U32(panel/strip), strips)
	Label(m.label("strip"))
	MOVQ(asm.Addr("x"), m.first)
	MOVQ(asm.Addr("y"), y)
	MOVQ(asm.Addr("blocks"), blocks)

	Label(m.label("block"))
	m.start()
	MOVQ(asm.Addr("w"), w)
	MOVQ(asm.Addr("k"), k)
	m.results(y, func(v, exists reg.VecPhysical, at Mem) { VMASKMOVPS(at, exists, v) })
	Label(m.label("step"))
	m.products(w)
	m.step()
	ADDQ(U32(4*panel), w)
	DECQ(k)
	JNZ(LabelRef(m.label("step")))
	m.results(y, func(v, exists reg.VecPhysical, at Mem) { VMASKMOVPS(v, exists, at) })
	for range m.rows {
		ADDQ(asm.Addr("yStride"), y)
	}
	m.next()
	DECQ(blocks)
	JNZ(LabelRef(m.label("block")))
	for _, advance := range []string{"w", "y"} {
		ADDQ(U32(4*strip), asm.Addr(advance))
	}
	RORL(Imm(strip), asm.Addr("mask"))
	DECQ(strips)
	JNZ(LabelRef(m.label("strip")))
	step := GP64()
	MOVQ(asm.Addr("wStep"), step)
	SUBQ(U32(4*panel), step)
	ADDQ(step, asm.Addr("w"))
	DECQ(asm.Addr("panels"))
	JNZ(LabelRef(m.label("panel")))
	VZEROUPPER()
	RET()
}

// results moves the results of the block between registers and memory.
func (m product256) results(y reg.GPVirtual, move func(v, exists reg.VecPhysical, at Mem)) {
	row, stride, exists := GP64(), GP64(), asm.Y[12]
	MOVQ(asm.Addr("yStride"), stride)
	for half := range 2 {
		asm.LanesOfBits(asm.Addr("mask"), 8*half, exists)
		MOVQ(y, row)
		for r := range m.rows {
			move(m.sum(r, half), exists, Mem{Base: row, Disp: 32 * half})
			if r < m.rows-1 {
				ADDQ(stride, row)
			}
		}
	}
}

// products adds the products of one k.
func (m product256) products(w reg.GPVirtual) {
	weights := asm.Y[12:14]
	for half := range weights {
		VMOVUPS(Mem{Base: w, Disp: 32 * half}, weights[half])
	}
	for r := range m.rows {
		x := asm.Y[14+r%2]
		VBROADCASTSS(m.at(r), x)
		for half := range weights {
			VFMADD231PS(weights[half], x, m.sum(r, half))
		}
	}
}
