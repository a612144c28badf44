package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"

	"github.com/sluice-mt/sluice/kernels/_asm/asm"
)

const (
	vectors    = panel / 16
	maxRows512 = 12 // most rows whose sums fit the registers, beside four vectors of weights, two of activations, a product and a constant
)

// mulInt8AVX512BW is mulInt8AVX512 without VPDPBUSD.
//
// VPMADDUBSW, the other instruction that multiplies bytes, saturates: 255·127·2 does not fit 16 bits. VPMADDWD adds the
// products of two pairs of words exactly. So the bytes of each word are taken apart, into words:
//
//	four k of a column:     b0 b1 b2 b3 → even b0 b2, odd b1 b3
//	sum[r][j] += a0·w0 + a2·w2              (VPMADDWD of the even ones)
//	sum[r][j] += a1·w1 + a3·w3              (VPMADDWD of the odd ones)
//
// Activations are unsigned and weights are signed, which shifts and a mask do in place: no shuffles, and every sum stays
// in the lane of its column.
func mulInt8AVX512BW() {
	asm.Kernel("mulInt8AVX512BW", mulInt8Signature,
		"mulInt8AVX512BW computes blocks of height (1 to 12) rows of mulInt8Generic for panels of 32 columns. See mulInt8AVX512.")
	dispatch(maxRows512, func(rows int) { mulInt8x512{newBlock(rows)}.generate() })
}

type mulInt8x512 struct{ block }

func (m mulInt8x512) sum(row, j int) reg.VecPhysical { return asm.Z[row*vectors+j] }

func (m mulInt8x512) label(name string) string { return fmt.Sprintf("%s%d", name, m.rows) }

func (m mulInt8x512) generate() {
	w, y, aScales, blocks, k := GP64(), GP64(), GP64(), GP64(), GP64()
	columns := GP32()
	MOVL(asm.Addr("mask"), columns)
	KMOVW(columns, reg.K1)
	SHRL(Imm(16), columns)
	KMOVW(columns, reg.K2)

	Label(m.label("panel"))
	MOVQ(asm.Addr("a"), m.row[0])
	MOVQ(asm.Addr("y"), y)
	MOVQ(asm.Addr("aScales"), aScales)
	MOVQ(asm.Addr("blocks"), blocks)

	Label(m.label("block"))
	m.start()
	corrections := GP64()
	MOVQ(asm.Addr("corrections"), corrections)
	for r := range m.rows {
		for j := range vectors {
			VMOVDQU32(Mem{Base: corrections, Disp: 64 * j}, m.sum(r, j))
		}
	}
	VPBROADCASTD(asm.Bits(0x00ff00ff).Mem(), evenBytes)
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

// evenBytes is the mask of the even bytes of words.
var evenBytes = asm.Z[31]

// step adds the products of four k.
func (m mulInt8x512) step(w reg.GPVirtual, step int) {
	even, odd, aEven, aOdd, product := asm.Z[24:26], asm.Z[26:28], asm.Z[28], asm.Z[29], asm.Z[30]
	for j := range vectors {
		at := Mem{Base: w, Disp: step*stepBytes + 64*j}
		VMOVDQU32(at, odd[j])
		PREFETCHT0(at.Offset(ahead))
		VPSLLW(Imm(8), odd[j], even[j])
		VPSRAW(Imm(8), even[j], even[j])
		VPSRAW(Imm(8), odd[j], odd[j])
	}
	for r := range m.rows {
		VPBROADCASTD(m.at(r, step), aOdd)
		VPANDD(evenBytes, aOdd, aEven)
		VPSRLW(Imm(8), aOdd, aOdd)
		for j := range vectors {
			VPMADDWD(even[j], aEven, product)
			VPADDD(product, m.sum(r, j), m.sum(r, j))
			VPMADDWD(odd[j], aOdd, product)
			VPADDD(product, m.sum(r, j), m.sum(r, j))
		}
	}
}

// finish writes y = max(floor, float(sum)·(aScale·scale) + bias) for the rows of the block and steps on to the next.
func (m mulInt8x512) finish(y, aScales reg.GPVirtual) {
	scales, bias, floor, aScale, scale := asm.Z[24:26], asm.Z[26:28], asm.Z[28], asm.Z[29], asm.Z[30]
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
			v := m.sum(r, j)
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

// bursts generates the loops that measure what a core can do at most.
func bursts() {
	asm.Kernel("int8BurstAVXVNNI", "func(turns int)", "int8BurstAVXVNNI does 12 independent VPDPBUSD of 32 bytes in each turn.")
	turns := asm.Int("turns")
	for _, y := range asm.Y {
		VPXOR(y, y, y)
	}
	Label("turn")
	for i := range 12 {
		asm.VexVPDPBUSD(asm.Y[12+i%2], asm.Y[14+i%2], asm.Y[i])
	}
	DECQ(turns)
	JNZ(LabelRef("turn"))
	VZEROUPPER()
	RET()

	asm.Kernel("int8BurstAVX512BW", "func(turns int)", "int8BurstAVX512BW does 24 independent VPMADDWD of 32 words, and as many additions, in each turn.")
	turns = asm.Int("turns")
	for _, z := range asm.Z {
		VPXORD(z, z, z)
	}
	Label("turn")
	for i := range 24 {
		product := asm.Z[24+i%4]
		VPMADDWD(asm.Z[28+i%2], asm.Z[30+i%2], product)
		VPADDD(product, asm.Z[i], asm.Z[i])
	}
	DECQ(turns)
	JNZ(LabelRef("turn"))
	VZEROUPPER()
	RET()
}
