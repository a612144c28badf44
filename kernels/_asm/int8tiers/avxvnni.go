package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"

	"github.com/sluice-mt/sluice/kernels/_asm/asm"
)

const mulInt8Signature = "func(height int, a *uint8, aStride int, aScales *float32, blocks int, w *int8, steps int, " +
	"corrections *int32, scales *float32, bias *float32, biasStep int, y *float32, yStride int, panels int, floor float32, mask uint32)"

const (
	strip      = 16 // columns that 256-bit registers do at a time: half a panel
	maxRows256 = 6  // most rows whose sums fit the registers, beside two vectors of weights and two of activations
)

// mulInt8AVXVNNI is mulInt8AVX512 with 16 columns at a time, in two registers.
func mulInt8AVXVNNI() {
	asm.Kernel("mulInt8AVXVNNI", mulInt8Signature,
		"mulInt8AVXVNNI computes blocks of height (1 to 6) rows of mulInt8Generic for panels of 32 columns. See mulInt8AVX512.")
	dispatch(maxRows256, func(rows int) {
		m := mulInt8x256{block: newBlock(rows), sets: 1}
		switch rows {
		case 1:
			m.sets = 4
		case 2, 3:
			m.sets = 2
		}
		m.generate()
	})
}

type mulInt8x256 struct {
	block
	sets int // of sums, which take turns where few rows have too few to keep the processor busy
}

func (m mulInt8x256) sum(set, row, half int) reg.VecPhysical { return asm.Y[(set*m.rows+row)*2+half] }

func (m mulInt8x256) label(name string) string { return fmt.Sprintf("%s%d", name, m.rows) }

func (m mulInt8x256) generate() {
	strips, y, aScales, blocks, w, k := GP64(), GP64(), GP64(), GP64(), GP64(), GP64()

	Label(m.label("panel"))
	MOVQ(U32(panel/strip), strips)
	Label(m.label("strip"))
	MOVQ(asm.Addr("a"), m.row[0])
	MOVQ(asm.Addr("y"), y)
	MOVQ(asm.Addr("aScales"), aScales)
	MOVQ(asm.Addr("blocks"), blocks)

	Label(m.label("block"))
	m.start()
	m.startSums()
	MOVQ(asm.Addr("w"), w)
	MOVQ(asm.Addr("steps"), k)
	Label(m.label("steps"))
	for step := range unroll {
		m.step(w, step)
	}
	ADDQ(U32(unroll*stepBytes), w)
	m.turn()
	SUBQ(Imm(unroll), k)
	JNZ(LabelRef(m.label("steps")))
	m.finish(y, aScales)
	m.next()
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

// startSums sets the first set of sums to the corrections, the others to zero.
func (m mulInt8x256) startSums() {
	corrections := GP64()
	MOVQ(asm.Addr("corrections"), corrections)
	for r := range m.rows {
		for half := range 2 {
			VMOVDQU(Mem{Base: corrections, Disp: 32 * half}, m.sum(0, r, half))
			for set := 1; set < m.sets; set++ {
				VPXOR(m.sum(set, r, half), m.sum(set, r, half), m.sum(set, r, half))
			}
		}
	}
}

// step adds the products of four k: each row's four bytes, repeated, times four weights of each column.
func (m mulInt8x256) step(w reg.GPVirtual, step int) {
	weights := asm.Y[12:14]
	for half := range weights {
		VMOVDQU(Mem{Base: w, Disp: step*stepBytes + 32*half}, weights[half])
	}
	PREFETCHT0(Mem{Base: w, Disp: step*stepBytes + ahead})
	for r := range m.rows {
		a := asm.Y[14+r%2]
		VPBROADCASTD(m.at(r, step), a)
		for half := range weights {
			asm.VexVPDPBUSD(weights[half], a, m.sum(step%m.sets, r, half))
		}
	}
}

// finish writes y = max(floor, float(sum)·(aScale·scale) + bias) for the rows of the block.
func (m mulInt8x256) finish(y, aScales reg.GPVirtual) {
	for set := 1; set < m.sets; set++ {
		for r := range m.rows {
			for half := range 2 {
				VPADDD(m.sum(set, r, half), m.sum(0, r, half), m.sum(0, r, half))
			}
		}
	}
	exists, bias, floor, scale := asm.Y[12], asm.Y[13], asm.Y[14], asm.Y[15]
	biasAt, stride, scales, row := GP64(), GP64(), GP64(), GP64()
	VBROADCASTSS(asm.Addr("floor"), floor)
	MOVQ(asm.Addr("bias"), biasAt)
	MOVQ(asm.Addr("scales"), scales)
	MOVQ(asm.Addr("yStride"), stride)
	for half := range 2 {
		asm.LanesOfBits(asm.Addr("mask"), 8*half, exists)
		VMASKMOVPS(Mem{Base: biasAt, Disp: 32 * half}, exists, bias)
		MOVQ(y, row)
		for r := range m.rows {
			v := m.sum(0, r, half)
			VCVTDQ2PS(v, v)
			VBROADCASTSS(Mem{Base: aScales, Disp: 4 * r}, scale)
			VMULPS(Mem{Base: scales, Disp: 32 * half}, scale, scale)
			VMULPS(scale, v, v)
			VADDPS(bias, v, v)
			VMAXPS(v, floor, v)
			VMASKMOVPS(v, exists, Mem{Base: row, Disp: 32 * half})
			ADDQ(stride, row)
		}
	}
	MOVQ(row, y)
	ADDQ(U32(4*m.rows), aScales)
}

// nextStrip steps to the next 16 columns; the flags say whether the panel has more.
func (m mulInt8x256) nextStrip(strips reg.GPVirtual) {
	for _, advance := range []string{"w", "corrections", "scales", "y"} {
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
func (m mulInt8x256) nextPanel() {
	bytes := GP64()
	MOVQ(asm.Addr("steps"), bytes)
	DECQ(bytes)
	SHLQ(Imm(7), bytes) // times stepBytes
	ADDQ(bytes, asm.Addr("w"))
}

// dotsInt8AVXVNNI sums the products of a row of activations with chosen rows: four rows at a time, 64 bytes in a turn, then
// single rows.
func dotsInt8AVXVNNI() {
	asm.Kernel("dotsInt8AVXVNNI", "func(y *int32, a *uint8, base *int8, ids *int32, stride, n int)",
		"dotsInt8AVXVNNI stores Σ a·row for the rows that start ids[i]·stride bytes from base. Rows have stride bytes, a multiple of 64.")
	for _, rows := range []int{4, 1} {
		next := fmt.Sprintf("after%d", rows)
		group := fmt.Sprintf("group%d", rows)
		Label(group)
		CMPQ(asm.Addr("n"), U32(rows))
		JLT(LabelRef(next))
		dotRows(rows)
		for _, advance := range []string{"ids", "y"} {
			ADDQ(U32(4*rows), asm.Addr(advance))
		}
		SUBQ(U32(rows), asm.Addr("n"))
		JMP(LabelRef(group))
		Label(next)
	}
	VZEROUPPER()
	RET()
}

// dotRows stores the sums of the next rows.
func dotRows(rows int) {
	ids, stride, base, a, d, y := asm.Int("ids"), asm.Int("stride"), asm.Int("base"), asm.Int("a"), GP64(), asm.Int("y")
	var row []reg.GPVirtual
	for j := range rows {
		address := GP64()
		MOVLQSX(Mem{Base: ids, Disp: 4 * j}, address)
		IMULQ(stride, address)
		ADDQ(base, address)
		row = append(row, address)
	}
	sums := asm.Y[:2*rows] // two for each row: of the lower and of the upper half of 64 bytes
	for _, s := range sums {
		VPXOR(s, s, s)
	}
	XORQ(d, d)
	loop := asm.Unique("bytes")
	Label(loop)
	activations, weights := asm.Y[12:14], asm.Y[14:16]
	for half := range activations {
		VMOVDQU(Mem{Base: a, Index: d, Scale: 1, Disp: 32 * half}, activations[half])
	}
	for j := range rows {
		for half := range activations {
			VMOVDQU(Mem{Base: row[j], Index: d, Scale: 1, Disp: 32 * half}, weights[half])
			asm.VexVPDPBUSD(weights[half], activations[half], sums[2*j+half])
		}
	}
	ADDQ(U32(64), d)
	CMPQ(d, stride)
	JLT(LabelRef(loop))
	for j := range rows {
		VPADDD(sums[2*j+1], sums[2*j], sums[j]) // sums[j] is free: its own row is j/2
	}
	high := asm.Y[12].AsX()
	for level := rows; level > 1; level /= 2 {
		for j := range level / 2 {
			VPHADDD(sums[2*j+1], sums[2*j], sums[j])
		}
	}
	if rows == 1 {
		VPHADDD(sums[0], sums[0], sums[0])
		VPHADDD(sums[0], sums[0], sums[0])
	}
	VEXTRACTI128(Imm(1), sums[0], high)
	VPADDD(high, sums[0].AsX(), high)
	if rows == 1 {
		VMOVD(high, Mem{Base: y})
		return
	}
	VMOVDQU(high, Mem{Base: y})
}
