package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"

	"github.com/sluice-mt/sluice/kernels/_asm/asm"
)

const (
	panel   = 32 // columns of a panel
	vectors = panel / 16
	unroll  = 4
	ahead   = 4 << 10 // distance in bytes at which weights are prefetched

	// maxRows is the most rows whose sums fit the registers, beside two vectors of weights and six of activations.
	maxRows = 12
)

const mulFloat32Signature = "func(height int, x *float32, xStride, blocks int, w *float32, k int, bias *float32, biasStep int, " +
	"y *float32, yStride, panels int, floor float32, mask uint32)"

// mulFloat32AVX512 multiplies blocks of height rows with panels of 32 columns. Each height has code of its own.
//
// The block's sums stay in registers, two vectors of 16 columns for a row, while k runs; each is one chain:
//
//	sum[r][j] = fma(x[r][i], w[i][j], sum[r][j]),  i = 0, 1, …, k-1
func mulFloat32AVX512() {
	asm.Kernel("mulFloat32AVX512", mulFloat32Signature,
		"mulFloat32AVX512 computes blocks of height (1 to 12) rows of mulFloat32Generic for panels of 32 columns. k is at least 1.",
		"Strides and biasStep are in bytes. mask has a bit for each column of a panel that exists. floor is what results are at least.")
	height := asm.Int("height")
	for rows := 1; rows < maxRows; rows++ {
		CMPQ(height, U32(rows))
		JEQ(LabelRef(fmt.Sprintf("rows%d", rows)))
	}
	for rows := maxRows; rows > 0; rows-- {
		m := mulFloat32{rows: rows, free: asm.Z[rows*vectors:]}
		Label(m.label("rows"))
		m.generate()
	}
}

type mulFloat32 struct {
	rows int
	free []reg.VecPhysical // not sums

	xStride reg.GPVirtual
	row     []reg.GPVirtual // of rows 0, 3, 6, 9
}

func (m *mulFloat32) label(name string) string { return fmt.Sprintf("%s%d", name, m.rows) }

func (m *mulFloat32) sum(row, j int) reg.VecPhysical { return asm.Z[row*vectors+j] }

// activation addresses the element of a row at a step of the current turn.
func (m *mulFloat32) activation(row, step int) Mem {
	mem := Mem{Base: m.row[row/3], Disp: 4 * step}
	if row%3 > 0 {
		mem.Index, mem.Scale = m.xStride, uint8(row%3)
	}
	return mem
}

func (m *mulFloat32) generate() {
	m.xStride = asm.Int("xStride")
	for range (m.rows + 2) / 3 {
		m.row = append(m.row, GP64())
	}
	w, y, blocks, k := GP64(), GP64(), GP64(), GP64()
	columns := GP32()
	MOVL(asm.Addr("mask"), columns)
	KMOVW(columns, reg.K1)
	SHRL(Imm(16), columns)
	KMOVW(columns, reg.K2)

	Label(m.label("panel"))
	MOVQ(asm.Addr("x"), m.row[0])
	MOVQ(asm.Addr("y"), y)
	MOVQ(asm.Addr("blocks"), blocks)

	Label(m.label("block"))
	for i := 1; i < len(m.row); i++ {
		LEAQ(Mem{Base: m.row[i-1], Index: m.xStride, Scale: 2}, m.row[i])
		ADDQ(m.xStride, m.row[i])
	}
	for r := range m.rows {
		for j := range vectors {
			VXORPS(m.sum(r, j), m.sum(r, j), m.sum(r, j))
		}
	}
	MOVQ(asm.Addr("w"), w)
	MOVQ(asm.Addr("k"), k)
	m.steps(w, k)
	m.finish(y)
	m.nextBlock()
	DECQ(blocks)
	JNZ(LabelRef(m.label("block")))

	MOVQ(w, asm.Addr("w")) // w has come to the next panel
	ADDQ(U32(4*panel), asm.Addr("y"))
	biasStep := GP64()
	MOVQ(asm.Addr("biasStep"), biasStep)
	ADDQ(biasStep, asm.Addr("bias"))
	DECQ(asm.Addr("panels"))
	JNZ(LabelRef(m.label("panel")))
	VZEROUPPER()
	RET()
}

// steps runs through k, four at a time, then one by one.
func (m *mulFloat32) steps(w, k reg.GPVirtual) {
	turn := func(steps int) {
		for step := range steps {
			m.step(w, step)
		}
		ADDQ(U32(4*panel*steps), w)
		for _, r := range m.row {
			ADDQ(Imm(uint64(4*steps)), r)
		}
		SUBQ(U32(steps), k)
	}
	SUBQ(U32(unroll), k)
	JLT(LabelRef(m.label("rest")))
	Label(m.label("turn"))
	turn(unroll)
	JGE(LabelRef(m.label("turn")))
	Label(m.label("rest"))
	ADDQ(U32(unroll), k)
	JZ(LabelRef(m.label("finish")))
	Label(m.label("single"))
	turn(1)
	JNZ(LabelRef(m.label("single")))
	Label(m.label("finish"))
}

// step adds the products of one k: each row's element, repeated, times the weights of 32 columns.
func (m *mulFloat32) step(w reg.GPVirtual, step int) {
	weights, repeated := m.free[:vectors], m.free[vectors:]
	for j := range vectors {
		at := step*4*panel + 64*j
		VMOVUPS(Mem{Base: w, Disp: at}, weights[j])
		PREFETCHT0(Mem{Base: w, Disp: at + ahead})
	}
	for r := range m.rows {
		x := repeated[r%len(repeated)]
		VBROADCASTSS(m.activation(r, step), x)
		for j := range vectors {
			VFMADD231PS(weights[j], x, m.sum(r, j))
		}
	}
}

// finish writes y = max(floor, sum + bias) for the rows of the block. (max in this order of operands keeps NaN.)
func (m *mulFloat32) finish(y reg.GPVirtual) {
	bias, floor := m.free[:2], m.free[2]
	biasAt, yStride := GP64(), GP64()
	MOVQ(asm.Addr("bias"), biasAt)
	MOVQ(asm.Addr("yStride"), yStride)
	VBROADCASTSS(asm.Addr("floor"), floor)
	exists := []reg.Register{reg.K1, reg.K2}
	for j := range vectors {
		VMOVUPS_Z(Mem{Base: biasAt, Disp: 64 * j}, exists[j], bias[j])
	}
	for r := range m.rows {
		for j := range vectors {
			v := m.sum(r, j)
			VADDPS(bias[j], v, v)
			VMAXPS(v, floor, v)
			VMOVUPS(v, exists[j], Mem{Base: y, Disp: 64 * j})
		}
		ADDQ(yStride, y)
	}
}

// nextBlock moves the first row pointer from the end of its row to the start of the block that follows.
func (m *mulFloat32) nextBlock() {
	last := len(m.row) - 1
	if last > 0 {
		MOVQ(m.row[last], m.row[0])
	}
	bytes := GP64()
	MOVQ(asm.Addr("k"), bytes)
	SHLQ(Imm(2), bytes)
	SUBQ(bytes, m.row[0])
	for range m.rows - 3*last {
		ADDQ(m.xStride, m.row[0])
	}
}
