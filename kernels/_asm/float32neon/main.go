// Command float32neon generates the products of float32 matrices for arm64.
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
		product(f, false)
		product(f, true)
	})
}

const (
	panel   = 32 // columns of a panel
	columns = 16 // of the results in registers: half a panel
	vectors = columns / 4
	maxRows = 6 // whose results fit the registers, beside four vectors of weights and four elements
)

// Registers.
const (
	x, rowStep, w, k, y, blocks, block r = 0, 1, 2, 3, 4, 6, 7 // block: the first row of the block
	row                                r = 8                   // and those that follow
	kStep, bias, temporary             r = 14, 20, 17
	yStride, panels, strips            r = 21, 22, 23
	weights, yStrip                    r = 24, 25

	weight, element v = 24, 28 // four of each
)

// product generates mulFloat32NEON, or accumulateFloat32NEON, which continues the chains that are in y.
//
//	sum[r][j] = fma(x[r·rowStep + i·kStep], w[i][j], sum[r][j]),  i = 0, 1, …, k-1
func product(file *neon.File, accumulate bool) {
	var f *neon.Func
	if accumulate {
		f = file.Func("accumulateFloat32NEON", "height int, x *float32, rowStep int, kStep int, blocks int, w *float32, wStep int, k int, "+
			"y *float32, yStride int, panels int", "",
			fmt.Sprintf("accumulateFloat32NEON computes blocks of height (1 to %d) rows of accumulateFloat32Generic for whole panels of 32 columns. k is at least 1.", maxRows),
			"Steps and yStride are in bytes, wStep from panel to panel.")
	} else {
		f = file.Func("mulFloat32NEON", "height int, x *float32, rowStep int, blocks int, w *float32, k int, bias *float32, biasStep int, "+
			"y *float32, yStride int, panels int, floor float32", "",
			fmt.Sprintf("mulFloat32NEON computes blocks of height (1 to %d) rows of mulFloat32Generic for whole panels of 32 columns. k is at least 1.", maxRows),
			"Steps and yStride are in bytes. floor is what results are at least.")
	}
	f.Arg("height", 16)
	for rows := 1; rows <= maxRows; rows++ {
		f.G("CMP $%d, R16", rows)
		f.G("BEQ rows%d", rows)
	}
	f.G("RET")
	for rows := maxRows; rows > 0; rows-- {
		f.Label(fmt.Sprintf("rows%d", rows))
		p := loops{f, rows, accumulate}
		p.generate()
	}
}

type loops struct {
	*neon.Func
	rows       int
	accumulate bool
}

func (p loops) label(name string) string { return fmt.Sprintf("%s%d", name, p.rows) }

func (p loops) sum(row, j int) v { return v(row*vectors + j) }

func (p loops) generate() {
	p.Args(x, "x", "rowStep", "w")
	p.Arg("y", yStrip)
	p.Arg("yStride", yStride)
	p.Arg("panels", panels)
	if p.accumulate {
		p.Arg("kStep", kStep)
	} else {
		p.Arg("bias", bias)
		p.G("MOVD $4, %v", kStep)
	}
	p.Label(p.label("panel"))
	p.G("MOVD $%d, %v", panel/columns, strips)
	p.Label(p.label("strip"))
	p.Arg("blocks", blocks)
	p.G("MOVD %v, %v", x, block)
	p.G("MOVD %v, %v", yStrip, y)
	p.Label(p.label("block"))
	p.G("MOVD %v, %v", block, row)
	for i := r(1); i < r(p.rows); i++ {
		p.G("ADD %v, %v, %v", rowStep, row+i-1, row+i)
	}
	p.G("ADD %v, %v, %v", rowStep, row+r(p.rows)-1, block)
	p.G("MOVD %v, %v", w, weights)
	p.Arg("k", k)
	p.start()
	p.Label(p.label("step"))
	p.step()
	p.G("SUBS $1, %v", k)
	p.G("BNE %s", p.label("step"))
	p.finish()
	p.G("SUBS $1, %v", blocks)
	p.G("BNE %s", p.label("block"))
	p.Step(4*columns, w, yStrip)
	if !p.accumulate {
		p.Step(4*columns, bias)
	}
	p.G("SUBS $1, %v", strips)
	p.G("BNE %s", p.label("strip"))
	p.nextPanel()
	p.G("SUBS $1, %v", panels)
	p.G("BNE %s", p.label("panel"))
	p.G("RET")
}

// start sets the sums to zero, or to the results so far.
func (p loops) start() {
	p.G("MOVD %v, %v", y, temporary)
	for i := range p.rows {
		for j := range vectors {
			if p.accumulate {
				p.Load(p.sum(i, j), temporary, 16*j)
			} else {
				p.Zero(p.sum(i, j))
			}
		}
		if p.accumulate {
			p.G("ADD %v, %v", yStride, temporary)
		}
	}
}

// step adds the products of one k.
func (p loops) step() {
	for j := range vectors {
		p.LoadNext(weight+v(j), weights)
	}
	p.Step(4*(panel-columns), weights)
	for i := range p.rows {
		e := element + v(i%4)
		p.LoadLane(e, row+r(i))
		p.G("ADD %v, %v", kStep, row+r(i))
		for j := range vectors {
			p.FMLALane(p.sum(i, j), weight+v(j), e, 0)
		}
	}
}

// finish writes the sums, or max(floor, sum + bias), and moves y to the next block.
func (p loops) finish() {
	const floor, less = element, element + 1
	if !p.accumulate {
		p.ArgSplat("floor", floor)
		for j := range vectors {
			p.Load(weight+v(j), bias, 16*j)
		}
	}
	for i := range p.rows {
		for j := range vectors {
			s := p.sum(i, j)
			if !p.accumulate {
				p.Op("fadd", s, s, weight+v(j))
				p.Op("fcmgt", less, floor, s) // keeps NaN, and -0
				p.Op("bit", s, floor, less)
			}
			p.Store(s, y, 16*j)
		}
		p.G("ADD %v, %v", yStride, y)
	}
}

// nextPanel moves w from the end of the first step of its panel to the next panel, and bias by its step.
func (p loops) nextPanel() {
	if p.accumulate {
		p.Arg("wStep", temporary)
	} else {
		p.Arg("k", temporary)
		p.G("LSL $7, %v", temporary) // times the bytes of a step
	}
	p.G("ADD %v, %v", temporary, w)
	p.G("SUB $%d, %v", 4*panel, w)
	if p.accumulate {
		return
	}
	p.G("SUB $%d, %v", 4*panel, bias)
	p.Arg("biasStep", temporary)
	p.G("ADD %v, %v", temporary, bias)
}
