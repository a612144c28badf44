// Command int8neon generates the products of quantised matrices, of bytes and of words, for arm64.
package main

import (
	"fmt"

	"github.com/sluice-mt/sluice/kernels/_asm/neon"
)

type (
	v = neon.V
	r = neon.R
)

func main() {
	neon.Main(func(f *neon.File) {
		multiply(f, "mulInt8NEON", "mulInt8Generic", signature("uint8", "int8"), bytePairs{})
		multiply(f, "mulInt8SDOT", "mulInt8Generic", signature("uint8", "int8"), sdot{})
		multiply(f, "mulInt16NEON", "mulInt16Generic", signature("int16", "int16"), wordPairs{})
		mulInt8SMMLA(f)
		dots(f, "dotsInt8NEON", bytePairs{}.dot)
		dots(f, "dotsInt8SDOT", (*neon.Func).SDOT)
		finishDots(f)
		gatherPanel(f)
		countInt8(f)
		fetchInt8(f)
		sparse(f)
		bursts(f)
	})
}

const (
	panel     = 32        // columns of a panel
	stepBytes = 4 * panel // weights of a panel for four k of bytes, or two of words
)

func signature(activation, weight string) string {
	return fmt.Sprintf("height int, a *%s, aStride int, aScales *float32, blocks int, w *%s, steps int, "+
		"scales *float32, bias *float32, biasStep int, y *float32, yStride int, panels int, floor float32", activation, weight)
}

// Registers of the products.
const (
	a, aStride, w, k, y, aScales, blocks, block r = 0, 1, 2, 3, 4, 5, 6, 7 // block: the first row of the block
	row                                         r = 8                      // and those that follow, up to 8
	temporary                                   r = 17
	scales, bias, yStride, panels, strips       r = 19, 20, 21, 22, 23
	weights, yStrip                             r = 24, 25

	signs, floor v = 31, 30
)

// product is what the kernels for blocks of rows have in common: the loops over panels, strips of a panel and blocks.
type product struct {
	*neon.Func
	rows, columns int // of the results in registers
	body          func()
	finish        func()
}

func (p product) label(name string) string { return fmt.Sprintf("%s%d", name, p.rows) }

// dispatch jumps to the code for the height of the blocks, and generates it.
func dispatch(f *neon.Func, heights []int, generate func(rows int)) {
	f.Arg("height", 16)
	for _, h := range heights {
		f.G("CMP $%d, R16", h)
		f.G("BEQ rows%d", h)
	}
	f.G("RET")
	for _, h := range heights {
		f.Label(fmt.Sprintf("rows%d", h))
		generate(h)
	}
}

// generate writes the loops. body multiplies the block, from zero, with the weights at the register weights, which it
// leaves behind the last; finish writes the results of the block at y and moves y and aScales to the next block.
func (p product) generate() {
	p.Arg("a", a)
	p.Arg("aStride", aStride)
	p.Arg("w", w)
	p.Arg("scales", scales)
	p.Arg("bias", bias)
	p.Arg("yStride", yStride)
	p.Arg("panels", panels)
	p.Arg("y", yStrip)
	p.SignBits(signs)
	p.ArgSplat("floor", floor)
	p.Label(p.label("panel"))
	p.G("MOVD $%d, %v", panel/p.columns, strips)
	p.Label(p.label("strip"))
	p.Arg("blocks", blocks)
	p.Arg("aScales", aScales)
	p.G("MOVD %v, %v", a, block)
	p.G("MOVD %v, %v", yStrip, y)
	p.Label(p.label("block"))
	p.G("MOVD %v, %v", block, row)
	for i := r(1); i < r(p.rows); i++ {
		p.G("ADD %v, %v, %v", aStride, row+i-1, row+i)
	}
	p.G("ADD %v, %v, %v", aStride, row+r(p.rows)-1, block)
	p.G("MOVD %v, %v", w, weights)
	p.Arg("steps", k)
	p.body()
	p.finish()
	p.G("SUBS $1, %v", blocks)
	p.G("BNE %s", p.label("block"))
	p.Step(4*p.columns, w, scales, bias, yStrip)
	p.G("SUBS $1, %v", strips)
	p.G("BNE %s", p.label("strip"))
	p.nextPanel()
	p.G("SUBS $1, %v", panels)
	p.G("BNE %s", p.label("panel"))
	p.G("RET")
}

// nextPanel moves w from the end of the first step of its panel to the next panel, and bias by its step.
func (p product) nextPanel() {
	p.Arg("steps", temporary)
	p.G("SUB $1, %v", temporary)
	p.G("ADD %v<<7, %v", temporary, w) // times stepBytes
	p.G("SUB $%d, %v", 4*panel, bias)
	p.Arg("biasStep", temporary)
	p.G("ADD %v, %v", temporary, bias)
}

// scaled writes y = max(floor, float(sum)·(aScale·scale) + bias) for four columns of a row. aScale is in lane 0.
func (p product) scaled(sum, scale, bias, aScale, temporary v) {
	p.Op2("scvtf", sum, sum)
	p.MulLane(temporary, scale, aScale, 0)
	p.Op("fmul", sum, sum, temporary)
	p.Op("fadd", sum, sum, bias)
	p.Op("fcmgt", temporary, floor, sum) // keeps NaN, and -0
	p.Op("bit", sum, floor, temporary)
}

// kind multiplies bytes.
type kind interface {
	// signed reports whether activations are, or come as a + 128.
	signed() bool
	// maxRows is the rows of the highest block of 16 columns.
	maxRows() int
	// sums is how many registers hold the sums of four columns.
	sums() int
	// add adds the products of four columns of weights with the four bytes of a at a step. It may use registers 28 and 29.
	add(f *neon.Func, sums []v, weights, a v, step int)
	// join leaves the sums of four columns in the first register.
	join(f *neon.Func, sums []v)
}

// sdot is FEAT_DotProd: each lane of a sum is a column.
type sdot struct{}

func (sdot) signed() bool { return false }
func (sdot) maxRows() int { return 4 }
func (sdot) sums() int    { return 1 }
func (sdot) add(f *neon.Func, sums []v, weights, a v, step int) {
	f.SDOTLane(sums[0], weights, a, step)
}
func (sdot) join(*neon.Func, []v) {}

// bytePairs is plain NEON: products of bytes are words, of which pairs are added to a sum. (Adding two products before
// would overflow a word, if only for -128·-128 twice.) Two lanes make a column.
type bytePairs struct{}

func (bytePairs) signed() bool { return false }
func (bytePairs) maxRows() int { return 2 }
func (bytePairs) sums() int    { return 2 }

func (bytePairs) add(f *neon.Func, sums []v, weights, a v, step int) {
	const repeated, products = 28, 29
	f.DupLane(repeated, a, step)
	for i, sum := range sums {
		f.SMULL(products, weights, repeated, i == 1)
		f.SADALP(sum, products)
	}
}

func (bytePairs) join(f *neon.Func, sums []v) { f.Op("addp", sums[0], sums[0], sums[1]) }

// dot adds the products of 16 bytes to the lanes of a sum.
func (bytePairs) dot(f *neon.Func, sum, weights, a v) {
	const products = 29
	for _, upper := range []bool{false, true} {
		f.SMULL(products, weights, a, upper)
		f.SADALP(sum, products)
	}
}

// wordPairs is plain NEON for words: products of words are added to a sum. Two lanes make a column.
type wordPairs struct{}

func (wordPairs) signed() bool { return true }
func (wordPairs) maxRows() int { return 2 }
func (wordPairs) sums() int    { return 2 }

func (wordPairs) add(f *neon.Func, sums []v, weights, a v, step int) {
	const repeated = 28
	f.DupLane(repeated, a, step)
	for i, sum := range sums {
		f.SMLAL(sum, weights, repeated, i == 1)
	}
}

func (wordPairs) join(f *neon.Func, sums []v) { f.Op("addp", sums[0], sums[0], sums[1]) }

// multiply generates blocks of a few rows by 16 columns.
//
// Bytes of activations come as a + 128; flipping the highest bit makes them signed, so that no correction is needed:
//
//	sum[r][j] += Σ_{i<4} (a[r][4s+i]-128)·w[4s+i][j]
func multiply(file *neon.File, name, reference, signature string, kind kind) {
	f := file.Func(name, signature, "",
		fmt.Sprintf("%s computes blocks of height (1 to %d) rows of %s for whole panels of 32 columns.", name, kind.maxRows(), reference),
		"steps counts groups of 4 bytes along k, a multiple of 4; strides and biasStep are in bytes. floor is what results are at least.")
	const columns, vectors = 16, 4
	var heights []int
	for h := kind.maxRows(); h > 0; h-- {
		heights = append(heights, h)
	}
	dispatch(f, heights, func(rows int) {
		p := product{Func: f, rows: rows, columns: columns}
		sum := func(r, j int) (sums []v) {
			for i := range kind.sums() {
				sums = append(sums, v((r*vectors+j)*kind.sums()+i))
			}
			return sums
		}
		p.body = func() {
			for r := range rows {
				for j := range vectors {
					for _, s := range sum(r, j) {
						f.Zero(s)
					}
				}
			}
			const activations, weight = 16, 20 // four of each
			f.Label(p.label("turn"))
			for i := range rows {
				f.LoadNext(activations+v(i), row+r(i))
				if !kind.signed() {
					f.Op("eor", activations+v(i), activations+v(i), signs)
				}
			}
			for step := range 4 {
				for j := range vectors {
					f.Load(weight+v(j), weights, step*stepBytes+16*j)
					for i := range rows {
						kind.add(f, sum(i, j), weight+v(j), activations+v(i), step)
					}
				}
			}
			f.Step(4*stepBytes, weights)
			f.G("SUBS $4, %v", k)
			f.G("BNE %s", p.label("turn"))
		}
		p.finish = func() {
			for j := range vectors {
				f.Load(16+v(j), scales, 16*j)
				f.Load(20+v(j), bias, 16*j)
			}
			for i := range rows {
				f.LoadLaneNext(24, aScales)
				for j := range vectors {
					s := sum(i, j)
					kind.join(f, s)
					p.scaled(s[0], 16+v(j), 20+v(j), 24, 25+v(j%3))
					f.Store(s[0], y, 16*j)
				}
				f.G("ADD %v, %v", yStride, y)
			}
		}
		p.generate()
	})
}
