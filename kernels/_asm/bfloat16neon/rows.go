package main

import (
	"fmt"

	"github.com/sluice-mt/sluice/kernels/_asm/neon"
)

// rounding are the registers of what rounds float32 to bfloat16, on their bits:
//
//	upper half of (x + 0x7fff + (x>>16 & 1)), of NaN that of x, made quiet
type rounding struct{ nearlyHalf, one, quiet, oddness, isNumber v }

func newRounding(f *neon.Func) rounding {
	c := rounding{31, 30, 29, 28, 27}
	f.Splat(0x7fff, c.nearlyHalf)
	f.Splat(1, c.one)
	f.Splat(1<<22, c.quiet)
	return c
}

// round leaves in the upper halves of lanes what they are rounded to.
func (c rounding) round(f *neon.Func, x v) {
	f.Op("fcmeq", c.isNumber, x, x)
	f.ShiftRight(c.oddness, x, 16)
	f.Op("and", c.oddness, c.oddness, c.one)
	f.Op("add", c.oddness, c.oddness, c.nearlyHalf)
	f.Op("add", c.oddness, c.oddness, x)
	f.Op("orr", x, x, c.quiet)
	f.Op("bit", x, c.oddness, c.isNumber)
}

// round generates the rounding of a row.
func round(file *neon.File) {
	f := file.Func("roundBFloat16NEON", "dst *uint16, x *float32, n int", "",
		"roundBFloat16NEON computes roundToBFloat16Generic for n elements, a multiple of 16 and at least 16.")
	const dst, x, n r = 0, 1, 2
	f.Args(dst, "dst", "x", "n")
	c := newRounding(f)
	f.Label("block")
	for i := range v(4) {
		f.LoadNext(i, x)
		c.round(f, i)
	}
	for i := range v(2) {
		f.OpOn("8h", "uzp2", i, 2*i, 2*i+1)
		f.StoreNext(i, dst)
	}
	f.G("SUBS $16, %v", n)
	f.G("BNE block")
	f.G("RET")
}

// pack generates the rounding of two rows to pairs: of both rows' elements the upper halves, in turns.
func pack(file *neon.File) {
	f := file.Func("packBFloat16NEON", "panel *uint16, b *float32, stride int, pairs int", "",
		"packBFloat16NEON computes packBFloat16Generic for pairs of rows of 32 columns. stride is in bytes. pairs is at least 1.")
	const dst, b, stride, pairs, first, second r = 0, 1, 2, 3, 4, 5
	f.Args(dst, "panel", "b", "stride", "pairs")
	c := newRounding(f)
	f.Label("pair")
	f.G("MOVD %v, %v", b, first)
	f.G("ADD %v, %v, %v", stride, b, second)
	for range panel / 4 {
		f.LoadNext(0, first)
		f.LoadNext(1, second)
		c.round(f, 0)
		c.round(f, 1)
		f.OpOn("8h", "trn2", 0, 0, 1)
		f.StoreNext(0, dst)
	}
	f.G("ADD %v<<1, %v, %v", stride, b, b)
	f.G("SUBS $1, %v", pairs)
	f.G("BNE pair")
	f.G("RET")
}

// transposeWords generates the transposition of blocks of eight by eight words of 32 bits: of each quarter by itself, with ZIP1 and ZIP2 of rows
// 0 and 2, and 1 and 3, and then of what these give.
func transposeWords(file *neon.File) {
	const (
		dst, dstStride, dstStep, src, srcStride, srcStep, blocks r = 0, 1, 2, 3, 4, 5, 6
		from, to                                                 r = 7, 8

		rows, between, left, right v = 0, 16, 20, 24 // eight rows of two registers; four registers each
	)
	f := file.Func("transposeWordsNEON", "dst *uint16, dstStride int, dstStep int, src *uint16, srcStride int, srcStep int, blocks int", "",
		"transposeWordsNEON writes the columns of blocks of eight rows of eight words of 32 bits as rows. Strides, from row to row, and steps, from block to block,",
		"are in bytes. blocks is at least 1.")
	f.Args(dst, "dst", "dstStride", "dstStep", "src", "srcStride", "srcStep", "blocks")
	f.Label("block")
	f.G("MOVD %v, %v", src, from)
	for i := range v(8) {
		f.Load(rows+2*i, from, 0)
		f.Load(rows+2*i+1, from, 16)
		f.G("ADD %v, %v", srcStride, from)
	}
	f.G("MOVD %v, %v", dst, to)
	for half := range v(2) {
		for _, quarter := range []struct{ first, columns v }{{rows + half, left}, {rows + 8 + half, right}} {
			for i := range v(2) {
				f.Op("zip1", between+2*i, quarter.first+2*i, quarter.first+2*i+4)
				f.Op("zip2", between+2*i+1, quarter.first+2*i, quarter.first+2*i+4)
			}
			for i := range v(2) {
				f.Op("zip1", quarter.columns+2*i, between+i, between+2+i)
				f.Op("zip2", quarter.columns+2*i+1, between+i, between+2+i)
			}
		}
		for column := range v(4) {
			f.Store(left+column, to, 0)
			f.Store(right+column, to, 16)
			f.G("ADD %v, %v", dstStride, to)
		}
	}
	f.G("ADD %v, %v", srcStep, src)
	f.G("ADD %v, %v", dstStep, dst)
	f.G("SUBS $1, %v", blocks)
	f.G("BNE block")
	f.G("RET")
}

// dots generates dot products of float32 with chosen rows of bfloat16, which are widened as they are read.
func dots(file *neon.File) {
	const (
		y, x, table, ids, stride, n r = 0, 1, 2, 3, 4, 5
		left, row, element          r = 6, 8, 9
	)
	f := file.Func("dotsBFloat16NEON", "y *float32, x *float32, table *uint16, ids *int32, stride int, n int, k int", "",
		"dotsBFloat16NEON stores the striped sums of x and the rows of k elements that start ids[i]·stride bytes from table. k is a multiple of 16, n and k are not zero.")
	f.Args(y, "y", "x", "table", "ids", "stride", "n")
	f.Label("row")
	f.G("MOVW.P 4(%v), %v", ids, row)
	f.G("MADD %v, %v, %v, %v", stride, table, row, row)
	f.G("MOVD %v, %v", x, element)
	f.Arg("k", left)
	for i := range v(4) {
		f.Zero(i)
	}
	f.Label("turn")
	for i := range v(4) {
		if i%2 == 0 {
			f.LoadNext(8+i, row)
		}
		f.WidenHalves(12+i, 8+i&^1, i%2 == 1)
		f.LoadNext(4+i, element)
		f.Op("fmla", i, 4+i, 12+i)
	}
	f.G("SUBS $16, %v", left)
	f.G("BNE turn")
	f.SumStripes()
	f.StoreLane(0, y)
	f.Step(4, y)
	f.G("SUBS $1, %v", n)
	f.G("BNE row")
	f.G("RET")
}

// values generates weighted sums of rows, which are widened as they are read.
func values(file *neon.File) {
	const (
		out, weights, rows, offsets, n r = 0, 1, 2, 3, 4
		row                            r = 8

		number, read, weight v = 16, 24, 28 // eight, and four
	)
	for _, columns := range []int{32, 16} {
		vectors, name := v(columns/4), fmt.Sprintf("valuesBFloat16x%dNEON", columns)
		f := file.Func(name, "out *float32, weights *float32, v *uint16, offsets *int32, n int, inverse float32", "",
			name+" sets out to (Σ_j weights[j]·v[offsets[j]…])·inverse, one chain of fused multiply-adds for each of "+fmt.Sprint(columns)+" elements. n is at least 1.")
		f.Args(out, "out", "weights", "v", "offsets", "n")
		for i := range vectors {
			f.Zero(i)
		}
		f.Label("turn")
		f.G("MOVW.P 4(%v), %v", offsets, row)
		f.G("ADD %v<<1, %v, %v", row, rows, row)
		f.LoadLaneNext(weight, weights)
		for i := range vectors {
			if i%2 == 0 {
				f.Load(read+i/2, row, 8*int(i))
			}
			f.WidenHalves(number+i, read+i/2, i%2 == 1)
			f.FMLALane(i, number+i, weight, 0)
		}
		f.G("SUBS $1, %v", n)
		f.G("BNE turn")
		f.ArgSplat("inverse", weight)
		for i := range vectors {
			f.Op("fmul", i, i, weight)
			f.Store(i, out, 16*int(i))
		}
		f.G("RET")
	}
}
