package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"

	"github.com/sluice-mt/sluice/kernels/_asm/asm"
)

const (
	panel     = 32        // columns of a panel
	stepBytes = 4 * panel // weights of a panel for four k
	vectors   = panel / 16
	unroll    = 4       // steps of a turn of the loop: k is a multiple of 16
	ahead     = 4 << 10 // distance in bytes at which weights are prefetched
)

const mulInt8Signature = "func(height int, a *uint8, aStride int, aScales *float32, blocks int, w *int8, steps int, " +
	"corrections *int32, scales *float32, bias *float32, biasStep int, y *float32, yStride int, panels int, floor float32, mask uint32)"

// maxRows is the most rows whose sums fit the registers, beside two vectors of weights and six of activations.
const maxRows = 12

// mulInt8AVX512 multiplies blocks of height rows with panels of 32 columns. Each height has code of its own.
//
// The block's sums stay in registers, two vectors of 16 columns for a row, while k runs:
//
//	sum[r][j] += Σ_{i<4} a[r][4s+i]·w[4s+i][j]      (VPDPBUSD: unsigned times signed bytes, exact)
//
// starting at the column's correction, -128·Σw. VPDPBUSD takes 4 or 5 cycles and two start in each: few rows have too
// few sums to keep it busy, so they have several sets of sums that take turns and are added at the end.
func mulInt8AVX512() {
	asm.Kernel("mulInt8AVX512", mulInt8Signature,
		"mulInt8AVX512 computes blocks of height (1 to 12) rows of mulInt8Generic for panels of 32 columns.",
		"steps counts groups of 4 along k, a multiple of 4; strides and biasStep are in bytes.",
		"mask has a bit for each column of a panel that exists. floor is what results are at least.")
	height := asm.Int("height")
	for rows := 1; rows < maxRows; rows++ {
		CMPQ(height, U32(rows))
		JEQ(LabelRef(fmt.Sprintf("rows%d", rows)))
	}
	for rows := maxRows; rows > 0; rows-- {
		m := mulInt8{rows: rows, sets: 1}
		switch {
		case rows <= 2:
			m.sets = 4
		case rows <= 4:
			m.sets = 2
		}
		m.free = asm.Z[m.sets*rows*vectors:]
		Label(m.label("rows"))
		m.generate()
	}
}

type mulInt8 struct {
	rows, sets int
	free       []reg.VecPhysical // not sums

	aStride reg.GPVirtual
	row     []reg.GPVirtual // of rows 0, 3, 6, 9
	k       reg.GPVirtual
}

func (m *mulInt8) sum(set, row, j int) reg.VecPhysical { return asm.Z[(set*m.rows+row)*vectors+j] }

func (m *mulInt8) label(name string) string { return fmt.Sprintf("%s%d", name, m.rows) }

// activation addresses the four bytes of a row at a step of the current turn.
func (m *mulInt8) activation(row, step int) Mem {
	mem := Mem{Base: m.row[row/3], Disp: 4 * step}
	if row%3 > 0 {
		mem.Index, mem.Scale = m.aStride, uint8(row%3)
	}
	return mem
}

func (m *mulInt8) generate() {
	m.aStride, m.k = asm.Int("aStride"), GP64()
	for range (m.rows + 2) / 3 {
		m.row = append(m.row, GP64())
	}
	w, y, aScales := GP64(), GP64(), GP64()
	columns := GP32()
	MOVL(asm.Addr("mask"), columns)
	KMOVW(columns, reg.K1)
	SHRL(Imm(16), columns)
	KMOVW(columns, reg.K2)

	Label(m.label("panel"))
	MOVQ(asm.Addr("a"), m.row[0])
	MOVQ(asm.Addr("y"), y)
	MOVQ(asm.Addr("aScales"), aScales)
	blocks := GP64()
	MOVQ(asm.Addr("blocks"), blocks)

	Label(m.label("block"))
	for i := 1; i < len(m.row); i++ {
		LEAQ(Mem{Base: m.row[i-1], Index: m.aStride, Scale: 2}, m.row[i])
		ADDQ(m.aStride, m.row[i])
	}
	m.start()
	MOVQ(asm.Addr("w"), w)
	MOVQ(asm.Addr("steps"), m.k)
	Label(m.label("steps"))
	for step := range unroll {
		m.step(w, step)
	}
	ADDQ(U32(unroll*stepBytes), w)
	for _, r := range m.row {
		ADDQ(Imm(4*unroll), r)
	}
	SUBQ(Imm(unroll), m.k)
	JNZ(LabelRef(m.label("steps")))
	m.finish(y, aScales)
	m.nextBlock()
	DECQ(blocks)
	JNZ(LabelRef(m.label("block")))

	MOVQ(w, asm.Addr("w")) // w has come to the next panel
	for _, advance := range []string{"corrections", "scales", "y"} {
		ADDQ(U32(4*panel), asm.Addr(advance))
	}
	biasStep := GP64()
	MOVQ(asm.Addr("biasStep"), biasStep)
	ADDQ(biasStep, asm.Addr("bias"))
	DECQ(asm.Addr("panels"))
	JNZ(LabelRef(m.label("panel")))
	VZEROUPPER()
	RET()
}

// start sets the first set of sums to the corrections, the others to zero.
func (m *mulInt8) start() {
	corrections := GP64()
	MOVQ(asm.Addr("corrections"), corrections)
	for r := range m.rows {
		for j := range vectors {
			VMOVDQU32(Mem{Base: corrections, Disp: 64 * j}, m.sum(0, r, j))
			for set := 1; set < m.sets; set++ {
				VPXORD(m.sum(set, r, j), m.sum(set, r, j), m.sum(set, r, j))
			}
		}
	}
}

// step adds the products of four k: each row's four bytes, repeated, times four weights of each column.
func (m *mulInt8) step(w reg.GPVirtual, step int) {
	weights, repeated := m.free[:vectors], m.free[vectors:]
	for j := range vectors {
		VMOVDQU32(Mem{Base: w, Disp: step*stepBytes + 64*j}, weights[j])
		PREFETCHT0(Mem{Base: w, Disp: step*stepBytes + 64*j + ahead})
	}
	for r := range m.rows {
		a := repeated[r%len(repeated)]
		VPBROADCASTD(m.activation(r, step), a)
		for j := range vectors {
			VPDPBUSD(weights[j], a, m.sum(step%m.sets, r, j))
		}
	}
}

// finish writes y = max(floor, float(sum)·(aScale·scale) + bias) for the rows of the block and steps on to the next.
// (max in this order of operands keeps NaN.)
func (m *mulInt8) finish(y, aScales reg.GPVirtual) {
	for set := 1; set < m.sets; set++ {
		for r := range m.rows {
			for j := range vectors {
				VPADDD(m.sum(set, r, j), m.sum(0, r, j), m.sum(0, r, j))
			}
		}
	}
	scales, bias, floor, aScale, scale := m.free[0:2], m.free[2:4], m.free[4], m.free[5], m.free[6]
	scalesAt, biasAt, yStride := GP64(), GP64(), GP64()
	MOVQ(asm.Addr("scales"), scalesAt)
	MOVQ(asm.Addr("bias"), biasAt)
	MOVQ(asm.Addr("yStride"), yStride)
	VBROADCASTSS(asm.Addr("floor"), floor)
	exists := []reg.Register{reg.K1, reg.K2}
	for j := range vectors {
		VMOVUPS(Mem{Base: scalesAt, Disp: 64 * j}, scales[j])
		VMOVUPS_Z(Mem{Base: biasAt, Disp: 64 * j}, exists[j], bias[j])
	}
	for r := range m.rows {
		VBROADCASTSS(Mem{Base: aScales, Disp: 4 * r}, aScale)
		for j := range vectors {
			v := m.sum(0, r, j)
			VCVTDQ2PS(v, v)
			VMULPS(scales[j], aScale, scale)
			VMULPS(scale, v, v)
			VADDPS(bias[j], v, v)
			VMAXPS(v, floor, v)
			VMOVUPS(v, exists[j], Mem{Base: y, Disp: 64 * j})
		}
		ADDQ(yStride, y)
	}
	ADDQ(U32(4*m.rows), aScales)
}

// nextBlock moves the first row pointer from the end of its row to the start of the block that follows.
func (m *mulInt8) nextBlock() {
	last := len(m.row) - 1
	if last > 0 {
		MOVQ(m.row[last], m.row[0])
	}
	MOVQ(asm.Addr("steps"), m.k)
	SHLQ(Imm(2), m.k)
	SUBQ(m.k, m.row[0])
	for range m.rows - 3*last {
		ADDQ(m.aStride, m.row[0])
	}
}
