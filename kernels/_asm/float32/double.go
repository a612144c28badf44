package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"

	"github.com/sluice-mt/sluice/kernels/_asm/asm"
)

const (
	doubleVectors = 2 * vectors
	doubleRows    = 6 // most rows whose sums fit the registers, beside eight others
	lineBytes     = 64
)

// mulFloat32AVX512Double multiplies blocks of height rows with two panels of 32 columns at a time, with the sums of
// mulFloat32AVX512: product.GenerateDouble512 says what for, and what is prefetched.
func mulFloat32AVX512Double() {
	asm.Kernel("mulFloat32AVX512Double", "func(height int, x *float32, xStride, blocks int, w *float32, k int, bias *float32, biasStep int, "+
		"y *float32, yStride, pairs int, floor float32)",
		"mulFloat32AVX512Double computes blocks of height (1 to 6) rows of mulFloat32Generic for pairs of panels of 32 columns, which all exist.",
		"k is at least 1. Strides and biasStep, from a pair to the next, are in bytes. floor is what results are at least.")
	height := asm.Int("height")
	for rows := 1; rows < doubleRows; rows++ {
		CMPQ(height, U32(rows))
		JEQ(LabelRef(fmt.Sprintf("rows%d", rows)))
	}
	for rows := doubleRows; rows > 0; rows-- {
		m := double{row: make([]reg.GPVirtual, rows)}
		Label(m.label("rows"))
		m.generate()
	}
}

type double struct {
	row                        []reg.GPVirtual // the ends of the rows of a block
	w, panelBytes, at, next, y reg.GPVirtual
}

func (m *double) label(name string) string { return fmt.Sprintf("%s%d", name, len(m.row)) }

func (m *double) sum(row, j int) reg.VecPhysical { return asm.Z[row*doubleVectors+j] }

// free are the registers that are no sums.
var free = asm.Z[doubleRows*doubleVectors:]

func (m *double) generate() {
	for r := range m.row {
		m.row[r] = GP64()
	}
	m.w, m.panelBytes, m.at, m.next, m.y = GP64(), GP64(), GP64(), GP64(), GP64()
	blocks, last := GP64(), m.row[len(m.row)-1]
	MOVQ(asm.Addr("k"), m.panelBytes)
	SHLQ(Imm(7), m.panelBytes) // times 4·panel

	Label(m.label("panel"))
	MOVQ(asm.Addr("k"), m.row[0])
	SHLQ(Imm(2), m.row[0])
	ADDQ(asm.Addr("x"), m.row[0])
	MOVQ(asm.Addr("y"), m.y)
	MOVQ(asm.Addr("blocks"), blocks)
	MOVQ(asm.Addr("w"), m.next)
	LEAQ(Mem{Base: m.next, Index: m.panelBytes, Scale: 2}, m.next)

	Label(m.label("block"))
	for r := 1; r < len(m.row); r++ {
		MOVQ(asm.Addr("xStride"), m.row[r])
		ADDQ(m.row[r-1], m.row[r])
	}
	for r := range m.row {
		for j := range doubleVectors {
			VXORPS(m.sum(r, j), m.sum(r, j), m.sum(r, j))
		}
	}
	m.steps()
	m.finish()
	ADDQ(asm.Addr("xStride"), last)
	if len(m.row) > 1 {
		MOVQ(last, m.row[0])
	}
	DECQ(blocks)
	JNZ(LabelRef(m.label("block")))

	ADDQ(m.panelBytes, m.w) // which has come to the end of the first panel
	MOVQ(m.w, asm.Addr("w"))
	ADDQ(U32(2*4*panel), asm.Addr("y"))
	biasStep := GP64()
	MOVQ(asm.Addr("biasStep"), biasStep)
	ADDQ(biasStep, asm.Addr("bias"))
	DECQ(asm.Addr("pairs"))
	JNZ(LabelRef(m.label("panel")))
	VZEROUPPER()
	RET()
}

// steps runs through k, four at a time, then one by one. at counts the bytes of a row up to zero, its end.
func (m *double) steps() {
	MOVQ(asm.Addr("w"), m.w)
	MOVQ(asm.Addr("k"), m.at)
	SHLQ(Imm(2), m.at)
	NEGQ(m.at)
	ADDQ(Imm(4*unroll), m.at)
	JG(LabelRef(m.label("rest")))
	Label(m.label("turn"))
	for step := range unroll {
		m.step(step, 4*(step-unroll))
		PREFETCHT1(Mem{Base: m.next, Disp: lineBytes * step})
	}
	ADDQ(U32(4*panel*unroll), m.w)
	ADDQ(U32(lineBytes*unroll), m.next)
	ADDQ(Imm(4*unroll), m.at)
	JLE(LabelRef(m.label("turn")))
	Label(m.label("rest"))
	SUBQ(Imm(4*unroll), m.at)
	JZ(LabelRef(m.label("finish")))
	Label(m.label("single"))
	m.step(0, 0)
	ADDQ(U32(4*panel), m.w)
	ADDQ(Imm(4), m.at)
	JNZ(LabelRef(m.label("single")))
	Label(m.label("finish"))
}

// step adds the products of one k: each row's element, repeated, times the weights of 64 columns.
func (m *double) step(step, element int) {
	weights, repeated := free[:doubleVectors], free[doubleVectors:]
	for j := range weights {
		from := Mem{Base: m.w, Disp: step*4*panel + 64*(j%vectors)}
		if j >= vectors {
			from.Index, from.Scale = m.panelBytes, 1
		}
		VMOVUPS(from, weights[j])
	}
	for r, row := range m.row {
		x := repeated[r%len(repeated)]
		VBROADCASTSS(Mem{Base: row, Index: m.at, Scale: 1, Disp: element}, x)
		for j := range weights {
			VFMADD231PS(weights[j], x, m.sum(r, j))
		}
	}
}

// finish is that of mulFloat32, for columns that all exist.
func (m *double) finish() {
	bias, floor, biasAt := free[:doubleVectors], free[doubleVectors], GP64()
	MOVQ(asm.Addr("bias"), biasAt)
	VBROADCASTSS(asm.Addr("floor"), floor)
	for j := range bias {
		VMOVUPS(Mem{Base: biasAt, Disp: 64 * j}, bias[j])
	}
	for r := range m.row {
		for j := range bias {
			v := m.sum(r, j)
			VADDPS(bias[j], v, v)
			VMAXPS(v, floor, v)
			VMOVUPS(v, Mem{Base: m.y, Disp: 64 * j})
		}
		ADDQ(asm.Addr("yStride"), m.y)
	}
}
