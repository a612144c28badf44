// Command bfloat16neon generates the products of bfloat16 matrices for arm64, and what makes their operands.
package main

import (
	"fmt"
	"math"

	"github.com/sluice-mt/sluice/kernels/_asm/neon"
)

type (
	v = neon.V
	r = neon.R
)

func main() {
	neon.Main(func(f *neon.File) {
		product(f)
		round(f)
		pack(f)
		transposeWords(f)
		dots(f)
		values(f)
	})
}

const (
	panel   = 32        // columns of a panel
	step    = 4 * panel // bytes of a panel's weights for a pair of k
	maxRows = 4         // whose results fit the registers, beside the elements of four pairs of each
	turn    = 4         // pairs of a turn of the loop along k: the elements of a row fill two registers then

	upperHalf = 0xffff0000 // of a lane
)

// Registers.
const (
	x, rowStep, w, y, blocks, block, row r = 0, 1, 2, 4, 6, 7, 8 // block: the first row of the block; row: that, and those that follow
	fromStep, fromStride, from, fromRow  r = 3, 5, 13, 14        // from: of the block
	left, flags, temporary               r = 15, 16, 17
	fromStrip, yStride, panels, strips   r = 20, 21, 22, 23
	weights, yStrip, control, pairs, end r = 24, 25, 26, 12, 19 // end: of the rows of a block that are done again

	odd, even           v = 16, 20 // elements of the rows, as float32: four pairs of each
	weight, widened     v = 24, 28 // three of each
	upper               v = 31     // mask of the upper halves of lanes
	element, scaled     v = 16, 17 // of one row that is done again
	sumScaled, size     v = 20, 21
	scale, edge, narrow v = 24, 25, 26 // constants, see again
	floor, less         v = 28, 29
)

// product generates accumulateBFloat16NEON. Of two elements of bfloat16 that lie together, the odd one is the upper half of a lane of 32 bits,
// and so a float32 if the lower half is made zero; the even one is a float32 if it is shifted up.
//
//	sum[r][j] = fma(x[r][2s], w[2s][j], fma(x[r][2s+1], w[2s+1][j], sum[r][j])),  s = 0, 1, …
//	y[r][j] = max(floor, sum[r][j])
//
// Denormals are zero, in operands and results. With FPCR.FZ the processor makes them so, but for one case: ARM looks at a result before it is
// rounded, and the reference, as x86 does, after. From 2^-126 - 2^-151 up to the normal range ARM gives zero, the reference 2^-126. That is
// rare, and cannot go unnoticed: where a result is made zero FPSR.UFC is set. A block that sets it is done again, row by row, see again.
func product(file *neon.File) {
	f := file.Func("accumulateBFloat16NEON", "height int, x *uint16, rowStep int, blocks int, w *uint16, wStep int, pairs int, "+
		"from *float32, fromStride int, fromStep int, y *float32, yStride int, panels int, floor float32", "",
		fmt.Sprintf("accumulateBFloat16NEON computes blocks of height (1 to %d) rows of accumulateBFloat16Generic for whole panels of 32 columns. pairs is at least 1.", maxRows),
		"Steps and strides are in bytes, wStep and fromStep from panel to panel. Sums begin at what is at from. floor is what results are at least.")
	const flushToZero = 1 << 24
	f.G("MRS FPCR, %v", control)
	f.G("ORR $%d, %v, %v", flushToZero, control, temporary)
	f.G("MSR %v, FPCR", temporary)
	f.Arg("height", temporary)
	for rows := 1; rows < maxRows; rows++ {
		f.G("CMP $%d, %v", rows, temporary)
		f.G("BEQ rows%d", rows)
	}
	for rows := maxRows; rows > 0; rows-- {
		f.Label(fmt.Sprintf("rows%d", rows))
		p := loops{f, rows, 4}
		if rows <= maxRows/2 {
			p.vectors = 8 // more chains of sums at a time, of which few rows have few
		}
		p.generate()
		f.G("MSR %v, FPCR", control)
		f.G("RET")
	}
}

// loops are those of one height. The sums of so many vectors of each row are in registers.
type loops struct {
	*neon.Func
	rows, vectors int
}

func (p loops) label(name string) string { return fmt.Sprintf("%s%d", name, p.rows) }

func (p loops) sum(row, j int) v { return v(row*p.vectors + j) }

func (p loops) generate() {
	strip := 4 * p.vectors // columns
	p.Args(x, "x", "rowStep", "w")
	p.Arg("from", fromStrip)
	p.Arg("fromStride", fromStride)
	p.Arg("fromStep", fromStep)
	p.Arg("y", yStrip)
	p.Arg("yStride", yStride)
	p.Arg("panels", panels)
	p.Arg("pairs", pairs)
	p.Splat(upperHalf, upper)
	p.Label(p.label("panel"))
	p.G("MOVD $%d, %v", panel/strip, strips)
	p.Label(p.label("strip"))
	p.Arg("blocks", blocks)
	p.G("MOVD %v, %v", x, block)
	p.G("MOVD %v, %v", fromStrip, from)
	p.G("MOVD %v, %v", yStrip, y)

	p.Label(p.label("block"))
	p.G("MSR ZR, FPSR")
	p.start()
	p.steps()
	p.G("MRS FPSR, %v", flags)
	const underflow = 3 // the bit UFC
	p.G("TBNZ $%d, %v, %s", underflow, flags, p.label("again"))
	p.ArgSplat("floor", floor)
	for i := range p.rows {
		p.store(i)
	}
	p.Label(p.label("next"))
	p.G("SUBS $1, %v", blocks)
	p.G("BNE %s", p.label("block"))
	p.Step(4*strip, w, fromStrip, yStrip)
	p.G("SUBS $1, %v", strips)
	p.G("BNE %s", p.label("strip"))
	p.Arg("wStep", temporary)
	p.G("ADD %v, %v", temporary, w)
	p.G("ADD %v, %v", fromStep, fromStrip)
	for _, register := range []r{w, fromStrip} { // on from where its panel ends
		p.G("SUB $%d, %v", step, register)
	}
	p.G("SUBS $1, %v", panels)
	p.G("BNE %s", p.label("panel"))
	p.G("B %s", p.label("done"))
	p.again()
	p.Label(p.label("done"))
}

// start sets the sums to what they begin at, and the addresses of rows and weights to those of the first pair.
func (p loops) start() {
	p.G("MOVD %v, %v", from, fromRow)
	p.G("MOVD %v, %v", block, row)
	for i := range p.rows {
		for j := range p.vectors {
			p.Load(p.sum(i, j), fromRow, 16*j)
		}
		if i < p.rows-1 {
			p.G("ADD %v, %v", fromStride, fromRow)
			p.G("ADD %v, %v, %v", rowStep, row+r(i), row+r(i+1))
		}
	}
	p.G("MOVD %v, %v", w, weights)
}

// steps runs through the pairs, four at a time, then one by one.
func (p loops) steps() {
	p.G("SUBS $%d, %v, %v", turn, pairs, left)
	p.G("BLT %s", p.label("rest"))
	p.Label(p.label("turn"))
	for i := range p.rows {
		p.LoadNext(odd+v(i), row+r(i))
	}
	p.products(turn)
	p.G("SUBS $%d, %v", turn, left)
	p.G("BGE %s", p.label("turn"))
	p.Label(p.label("rest"))
	p.G("ADDS $%d, %v", turn, left)
	p.G("BEQ %s", p.label("finish"))
	p.Label(p.label("single"))
	for i := range p.rows {
		p.LoadLaneNext(odd+v(i), row+r(i))
	}
	p.products(1)
	p.G("SUBS $1, %v", left)
	p.G("BNE %s", p.label("single"))
	p.Label(p.label("finish"))
}

// products adds the products of some pairs, whose elements are in the registers from odd on.
func (p loops) products(count int) {
	for i := range v(p.rows) {
		p.ShiftLeft(even+i, odd+i, 16)
		p.Op("and", odd+i, odd+i, upper)
	}
	for pair := range count {
		for j := range p.vectors {
			read, number := weight+v(j%3), widened+v(j%3)
			p.Load(read, weights, step*pair+16*j)
			p.Op("and", number, read, upper)
			for i := range p.rows {
				p.FMLALane(p.sum(i, j), number, odd+v(i), pair)
			}
			p.ShiftLeft(number, read, 16)
			for i := range p.rows {
				p.FMLALane(p.sum(i, j), number, even+v(i), pair)
			}
		}
	}
	p.Step(step*count, weights)
}

// store writes max(floor, sum) of a row, and moves to the next row.
func (p loops) store(i int) {
	for j := range p.vectors {
		s := p.sum(i, j)
		p.Op("fcmgt", less, floor, s) // keeps NaN, and -0
		p.Op("bit", s, floor, less)
		p.Store(s, y, 16*j)
	}
	p.G("ADD %v, %v", yStride, y)
	p.G("ADD %v, %v", fromStride, from)
	p.G("ADD %v, %v", rowStep, block)
}

// again does the rows of a block, one by one, so that results below the normal range are looked at after they are rounded: every
// multiply-add a second time on numbers that are 2^24 times as large, where nothing is denormal that matters,
//
//	sum' = fma(2^24·x, w, 2^24·sum),  sum = fma(x, w, sum)
//	sum = 2^-24·sum'  if |sum'| = 2^-102
//
// since only results of ±2^-126 may have been made zero wrongly. Those that overflow are infinite, or NaN, and so not equal.
func (p loops) again() {
	one := loops{p.Func, 1, p.vectors}
	p.Label(p.label("again"))
	p.Splat(math.Float32bits(0x1p24), scale)
	p.Splat(math.Float32bits(0x1p-102), edge)
	p.Splat(math.Float32bits(0x1p-24), narrow)
	p.G("MOVD $%d, %v", p.rows, end)
	p.Label(p.label("row"))
	one.start()
	p.G("MOVD %v, %v", pairs, left)
	p.Label(p.label("pair"))
	p.LoadLaneNext(odd+3, row)
	for _, isOdd := range []bool{true, false} {
		p.widen(isOdd, element, odd+3)
		p.Op("fmul", scaled, element, scale)
		for j := range p.vectors {
			p.Load(widened, weights, 16*j)
			p.widen(isOdd, widened, widened)
			p.exactly(one.sum(0, j), widened)
		}
	}
	p.Step(step, weights)
	p.G("SUBS $1, %v", left)
	p.G("BNE %s", p.label("pair"))
	p.ArgSplat("floor", floor)
	one.store(0)
	p.G("SUBS $1, %v", end)
	p.G("BNE %s", p.label("row"))
	p.G("B %s", p.label("next"))
}

// widen makes a float32 of one of the two bfloat16 in each lane.
func (p loops) widen(isOdd bool, d, n v) {
	if isOdd {
		p.Op("and", d, n, upper)
		return
	}
	p.ShiftLeft(d, n, 16)
}

// exactly adds the products of the element with some weights, see again.
func (p loops) exactly(sum, weights v) {
	p.Op("fmul", sumScaled, sum, scale)
	p.FMLALane(sumScaled, weights, scaled, 0)
	p.FMLALane(sum, weights, element, 0)
	p.Op2("fabs", size, sumScaled)
	p.Op("fcmeq", size, size, edge)
	p.Op("fmul", sumScaled, sumScaled, narrow)
	p.Op("bit", sum, sumScaled, size)
}
