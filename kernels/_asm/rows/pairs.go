package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"

	"github.com/sluice-mt/sluice/kernels/_asm/asm"
)

// packBFloat16 generates the packing of whole panels of bfloat16, whose words of 32 bits are made of two rows:
//
//	word[p][j] = bfloat16(x[2p][j]) | bfloat16(x[2p+1][j])<<16
func packBFloat16(isa asm.ISA) {
	const panel = 32 // words
	name := "packBFloat16" + isa.String()
	asm.Kernel(name, "func(dst *uint16, x *float32, stride int, pairs int)",
		name+" computes packBFloat16Generic for a whole panel and pairs >= 1 of its rows.", "", "stride: bytes from row to row of x.")
	dst, x, stride, pairs := asm.Int("dst"), asm.Int("x"), asm.Int("stride"), asm.Int("pairs")
	Label("pair")
	for at := 0; at < 4*panel; at += 64 {
		lower, upper := isa.Load(Mem{Base: x, Disp: at}), isa.Load(Mem{Base: x, Index: stride, Scale: 1, Disp: at})
		for i := range lower {
			lower[i], upper[i] = rounded(isa, lower[i]), rounded(isa, upper[i])
			VPSLLD(Imm(16), upper[i], upper[i])
			if isa == asm.AVX512 {
				VPORD(upper[i], lower[i], lower[i])
			} else {
				VPOR(upper[i], lower[i], lower[i])
			}
		}
		isa.Store(lower, Mem{Base: dst, Disp: at})
	}
	LEAQ(Mem{Base: x, Index: stride, Scale: 2}, x)
	ADDQ(U32(4*panel), dst)
	DECQ(pairs)
	JNZ(LabelRef("pair"))
	VZEROUPPER()
	RET()
}

// transposeWords generates the transposition of blocks of eight by eight words of 32 bits. Half a block at a time is loaded as
//
//	word 0 … 3 of row 0 | word 0 … 3 of row 4
//	                    …
//	word 0 … 3 of row 3 | word 0 … 3 of row 7
//
// so that what is transposed within the halves of the registers are whole columns.
func transposeWords() {
	asm.Kernel("transposeWordsAVX2", "func(dst *uint16, dstStride int, dstStep int, src *uint16, srcStride int, srcStep int, blocks int)",
		"transposeWordsAVX2 writes the columns of blocks >= 1 of eight rows of eight words of 32 bits as rows.", "",
		"dstStride, srcStride: bytes from row to row. dstStep, srcStep: bytes from block to block.")
	dst, src := eightRows("dst"), eightRows("src")
	blocks := asm.Int("blocks")
	Label("block")
	for half := range 2 {
		columns := transposedQuarters(src, 16*half)
		for i, column := range columns {
			VMOVUPS(column, dst.row(4*half+i, 0))
		}
	}
	src.next()
	dst.next()
	DECQ(blocks)
	JNZ(LabelRef("block"))
	VZEROUPPER()
	RET()
}

// transposedQuarters returns the four columns from a byte of the rows on.
func transposedQuarters(src rows, at int) [4]reg.VecVirtual {
	var row, pairs [4]reg.VecVirtual
	for i := range row {
		row[i], pairs[i] = YMM(), YMM()
		VMOVUPS(src.row(i, at), row[i].AsX())
		VINSERTF128(Imm(1), src.row(i+4, at), row[i], row[i])
	}
	VUNPCKLPS(row[1], row[0], pairs[0]) // elements 0 and 1 of rows 0 and 1
	VUNPCKHPS(row[1], row[0], pairs[1]) // 2 and 3
	VUNPCKLPS(row[3], row[2], pairs[2])
	VUNPCKHPS(row[3], row[2], pairs[3])
	VUNPCKLPD(pairs[2], pairs[0], row[0])
	VUNPCKHPD(pairs[2], pairs[0], row[1])
	VUNPCKLPD(pairs[3], pairs[1], row[2])
	VUNPCKHPD(pairs[3], pairs[1], row[3])
	return row
}

// rows are the addresses of eight rows.
type rows struct {
	first, fifth        reg.GPVirtual
	stride, three, step reg.GPVirtual
}

// eightRows loads the parameters for the rows of a name.
func eightRows(name string) rows {
	r := rows{asm.Int(name), GP64(), asm.Int(name + "Stride"), GP64(), asm.Int(name + "Step")}
	LEAQ(Mem{Base: r.first, Index: r.stride, Scale: 4}, r.fifth)
	LEAQ(Mem{Base: r.stride, Index: r.stride, Scale: 2}, r.three)
	return r
}

// row is what is in a row from a byte on.
func (r rows) row(i, at int) Mem {
	m := Mem{Base: r.first, Disp: at}
	if i >= 4 {
		m.Base = r.fifth
	}
	switch i % 4 {
	case 1:
		m.Index, m.Scale = r.stride, 1
	case 2:
		m.Index, m.Scale = r.stride, 2
	case 3:
		m.Index, m.Scale = r.three, 1
	}
	return m
}

// next goes on to the rows of the next block.
func (r rows) next() {
	ADDQ(r.step, r.first)
	ADDQ(r.step, r.fifth)
}
