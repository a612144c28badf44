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

// mulFloat32AVX2 is mulFloat32AVX512 with 16 columns at a time, in two registers.
func mulFloat32AVX2() {
	asm.Kernel("mulFloat32AVX2", mulFloat32Signature,
		"mulFloat32AVX2 computes blocks of height (1 to 6) rows of mulFloat32Generic for panels of 32 columns. See mulFloat32AVX512.")
	height := asm.Int("height")
	for rows := 1; rows < maxRows256; rows++ {
		CMPQ(height, U32(rows))
		JEQ(LabelRef(fmt.Sprintf("rows%d", rows)))
	}
	for rows := maxRows256; rows > 0; rows-- {
		m := mulFloat32x256{rows: rows}
		Label(m.label("rows"))
		m.generate()
	}
}

type mulFloat32x256 struct {
	rows    int
	xStride reg.GPVirtual
	row     []reg.GPVirtual // of rows 0 and 3
}

func (m *mulFloat32x256) label(name string) string { return fmt.Sprintf("%s%d", name, m.rows) }

func (m *mulFloat32x256) sum(row, half int) reg.VecPhysical { return asm.Y[2*row+half] }

func (m *mulFloat32x256) generate() {
	m.xStride = asm.Int("xStride")
	for range (m.rows + 2) / 3 {
		m.row = append(m.row, GP64())
	}
	strips, y, blocks, w, k := GP64(), GP64(), GP64(), GP64(), GP64()

	Label(m.label("panel"))
	MOVQ(U32(panel/strip), strips)
	Label(m.label("strip"))
	MOVQ(asm.Addr("x"), m.row[0])
	MOVQ(asm.Addr("y"), y)
	MOVQ(asm.Addr("blocks"), blocks)

	Label(m.label("block"))
	if len(m.row) > 1 {
		LEAQ(Mem{Base: m.row[0], Index: m.xStride, Scale: 2}, m.row[1])
		ADDQ(m.xStride, m.row[1])
	}
	for r := range m.rows {
		for half := range 2 {
			VXORPS(m.sum(r, half), m.sum(r, half), m.sum(r, half))
		}
	}
	MOVQ(asm.Addr("w"), w)
	MOVQ(asm.Addr("k"), k)
	Label(m.label("step"))
	m.step(w)
	ADDQ(U32(4*panel), w)
	for _, r := range m.row {
		ADDQ(Imm(4), r)
	}
	DECQ(k)
	JNZ(LabelRef(m.label("step")))
	m.finish(y)
	m.nextBlock()
	DECQ(blocks)
	JNZ(LabelRef(m.label("block")))
	m.nextStrip(strips)
	JNZ(LabelRef(m.label("strip")))
	m.nextPanel()
	DECQ(asm.Addr("panels"))
	JNZ(LabelRef(m.label("panel")))
	VZEROUPPER()
	RET()
}

// step adds the products of one k.
func (m *mulFloat32x256) step(w reg.GPVirtual) {
	weights := asm.Y[12:14]
	for half := range weights {
		VMOVUPS(Mem{Base: w, Disp: 32 * half}, weights[half])
	}
	for r := range m.rows {
		mem, x := Mem{Base: m.row[r/3]}, asm.Y[14+r%2]
		if r%3 > 0 {
			mem.Index, mem.Scale = m.xStride, uint8(r%3)
		}
		VBROADCASTSS(mem, x)
		for half := range weights {
			VFMADD231PS(weights[half], x, m.sum(r, half))
		}
	}
}

// finish writes y = max(floor, sum + bias) for the rows of the block.
func (m *mulFloat32x256) finish(y reg.GPVirtual) {
	bias, floor, exists := asm.Y[12], asm.Y[13], asm.Y[14]
	biasAt, row, stride := GP64(), GP64(), GP64()
	VBROADCASTSS(asm.Addr("floor"), floor)
	MOVQ(asm.Addr("yStride"), stride)
	MOVQ(asm.Addr("bias"), biasAt)
	for half := range 2 {
		MOVQ(y, row)
		asm.WithLanes(asm.Addr("mask"), 8*half, exists, func(lanes asm.Lanes) {
			lanes.Load(Mem{Base: biasAt, Disp: 32 * half}, bias)
			for r := range m.rows {
				v := m.sum(r, half)
				VADDPS(bias, v, v)
				VMAXPS(v, floor, v)
				lanes.Store(v, Mem{Base: row, Disp: 32 * half})
				ADDQ(stride, row)
			}
		})
	}
	MOVQ(row, y)
}

// nextBlock moves the first row pointer from the end of its row to the start of the block that follows.
func (m *mulFloat32x256) nextBlock() {
	last, bytes := len(m.row)-1, GP64()
	if last > 0 {
		MOVQ(m.row[last], m.row[0])
	}
	MOVQ(asm.Addr("k"), bytes)
	SHLQ(Imm(2), bytes)
	SUBQ(bytes, m.row[0])
	for range m.rows - 3*last {
		ADDQ(m.xStride, m.row[0])
	}
}

// nextStrip steps to the next 16 columns; the flags say whether the panel has more.
func (m *mulFloat32x256) nextStrip(strips reg.GPVirtual) {
	for _, advance := range []string{"w", "y"} {
		ADDQ(U32(4*strip), asm.Addr(advance))
	}
	noBias := asm.Unique("noBias")
	CMPQ(asm.Addr("biasStep"), U32(0))
	JEQ(LabelRef(noBias))
	ADDQ(U32(4*strip), asm.Addr("bias"))
	Label(noBias)
	RORL(Imm(strip), asm.Addr("mask"))
	DECQ(strips)
}

// nextPanel moves w from the end of the first step of its panel to the next panel.
func (m *mulFloat32x256) nextPanel() {
	bytes := GP64()
	MOVQ(asm.Addr("k"), bytes)
	DECQ(bytes)
	SHLQ(Imm(7), bytes) // times the bytes of a step
	ADDQ(bytes, asm.Addr("w"))
}
