package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"

	"github.com/sluice-mt/sluice/kernels/_asm/asm"
)

const (
	panel      = 32        // columns of a panel
	stepBytes  = 4 * panel // weights of a panel for four k
	unroll     = 4         // steps of a turn of the loop: k is a multiple of 16
	strip      = 8         // columns that AVX2 does at a time: a quarter of a panel
	maxRows256 = 6         // most rows whose sums fit the registers
)

const mulInt8Signature = "func(height int, a *uint8, aStride int, aScales *float32, blocks int, w *int8, steps int, " +
	"corrections *int32, scales *float32, bias *float32, biasStep int, y *float32, yStride int, panels int, floor float32, mask uint32)"

// mulInt8AVX2 multiplies blocks of rows, each height with code of its own, with 8 columns at a time.
//
// VPMADDUBSW would multiply bytes directly, but it saturates. So bytes are widened to words, and VPMADDWD adds the
// products of pairs exactly:
//
//	weights of 4 columns:  w0 w1 w2 w3 | w0 w1 w2 w3 | …    (signed words, column after column)
//	activations:           a0 a1 a2 a3 | a0 a1 a2 a3 | …    (unsigned words)
//	products:              a0w0+a1w1, a2w2+a3w3 | …
//
// A column has two partial sums side by side, which are added at the end.
func mulInt8AVX2() {
	asm.Kernel("mulInt8AVX2", mulInt8Signature,
		"mulInt8AVX2 computes blocks of height (1 to 6) rows of mulInt8Generic for panels of 32 columns. See mulInt8AVX512.")
	height := asm.Int("height")
	for rows := 1; rows < maxRows256; rows++ {
		CMPQ(height, U32(rows))
		JEQ(LabelRef(fmt.Sprintf("rows%d", rows)))
	}
	for rows := maxRows256; rows > 0; rows-- {
		m := mulInt8x256{rows: rows}
		Label(m.label("rows"))
		m.generate()
	}
}

type mulInt8x256 struct {
	rows    int
	aStride reg.GPVirtual
	row     []reg.GPVirtual // of rows 0 and 3
}

func (m *mulInt8x256) label(name string) string { return fmt.Sprintf("%s%d", name, m.rows) }

// sum holds the partial sums of four columns: the first (0) or the last (1) of the strip.
func (m *mulInt8x256) sum(row, half int) reg.VecPhysical { return asm.Y[2*row+half] }

func (m *mulInt8x256) generate() {
	m.aStride = asm.Int("aStride")
	for range (m.rows + 2) / 3 {
		m.row = append(m.row, GP64())
	}
	strips, y, aScales, blocks, w, k := GP64(), GP64(), GP64(), GP64(), GP64(), GP64()

	Label(m.label("panel"))
	MOVQ(U32(panel/strip), strips)
	Label(m.label("strip"))
	MOVQ(asm.Addr("a"), m.row[0])
	MOVQ(asm.Addr("y"), y)
	MOVQ(asm.Addr("aScales"), aScales)
	MOVQ(asm.Addr("blocks"), blocks)

	Label(m.label("block"))
	if len(m.row) > 1 {
		LEAQ(Mem{Base: m.row[0], Index: m.aStride, Scale: 2}, m.row[1])
		ADDQ(m.aStride, m.row[1])
	}
	for r := range m.rows {
		for half := range 2 {
			VPXOR(m.sum(r, half), m.sum(r, half), m.sum(r, half))
		}
	}
	MOVQ(asm.Addr("w"), w)
	MOVQ(asm.Addr("steps"), k)
	Label(m.label("steps"))
	for step := range unroll {
		m.step(w, step)
	}
	ADDQ(U32(unroll*stepBytes), w)
	for _, r := range m.row {
		ADDQ(Imm(4*unroll), r)
	}
	SUBQ(Imm(unroll), k)
	JNZ(LabelRef(m.label("steps")))
	m.finish(y, aScales)
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

// step adds the products of four k.
func (m *mulInt8x256) step(w reg.GPVirtual, step int) {
	weights, a, product := asm.Y[12:14], asm.Y[14], asm.Y[15]
	for half := range weights {
		VPMOVSXBW(Mem{Base: w, Disp: step*stepBytes + 16*half}, weights[half])
	}
	for r := range m.rows {
		mem := Mem{Base: m.row[r/3], Disp: 4 * step}
		if r%3 > 0 {
			mem.Index, mem.Scale = m.aStride, uint8(r%3)
		}
		VPBROADCASTD(mem, a.AsX())
		VPMOVZXBW(a.AsX(), a)
		for half := range weights {
			VPMADDWD(weights[half], a, product)
			VPADDD(product, m.sum(r, half), m.sum(r, half))
		}
	}
}

// finish writes y = max(floor, float(sum + correction)·(aScale·scale) + bias) for the rows of the block.
func (m *mulInt8x256) finish(y, aScales reg.GPVirtual) {
	exists, bias, floor, scale := asm.Y[12], asm.Y[13], asm.Y[14], asm.Y[15]
	at, biasAt, stride, scales := GP64(), GP64(), GP64(), GP64()
	VBROADCASTSS(asm.Addr("floor"), floor)
	MOVQ(asm.Addr("bias"), biasAt)
	MOVQ(asm.Addr("corrections"), at)
	MOVQ(asm.Addr("scales"), scales)
	MOVQ(asm.Addr("yStride"), stride)
	asm.WithLanes(asm.Addr("mask"), 0, exists, func(lanes asm.Lanes) {
		lanes.Load(Mem{Base: biasAt}, bias)
		for r := range m.rows {
			v := m.sum(r, 0)
			VPHADDD(m.sum(r, 1), v, v) // columns 0 1 4 5 | 2 3 6 7
			VPERMQ(Imm(0xd8), v, v)
			VPADDD(Mem{Base: at}, v, v)
			VCVTDQ2PS(v, v)
			VBROADCASTSS(Mem{Base: aScales, Disp: 4 * r}, scale)
			VMULPS(Mem{Base: scales}, scale, scale)
			VMULPS(scale, v, v)
			VADDPS(bias, v, v)
			VMAXPS(v, floor, v)
			lanes.Store(v, Mem{Base: y})
			ADDQ(stride, y)
		}
	})
	ADDQ(U32(4*m.rows), aScales)
}

// nextBlock moves the first row pointer from the end of its row to the start of the block that follows.
func (m *mulInt8x256) nextBlock() {
	last, bytes := len(m.row)-1, GP64()
	if last > 0 {
		MOVQ(m.row[last], m.row[0])
	}
	MOVQ(asm.Addr("steps"), bytes)
	SHLQ(Imm(2), bytes)
	SUBQ(bytes, m.row[0])
	for range m.rows - 3*last {
		ADDQ(m.aStride, m.row[0])
	}
}

// nextStrip steps to the next 8 columns; the flags say whether the panel has more.
func (m *mulInt8x256) nextStrip(strips reg.GPVirtual) {
	ADDQ(U32(4*strip), asm.Addr("w"))
	for _, advance := range []string{"corrections", "scales", "y"} {
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
func (m *mulInt8x256) nextPanel() {
	bytes := GP64()
	MOVQ(asm.Addr("steps"), bytes)
	DECQ(bytes)
	SHLQ(Imm(7), bytes) // times stepBytes
	ADDQ(bytes, asm.Addr("w"))
}
