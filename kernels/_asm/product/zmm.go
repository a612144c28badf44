package product

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"

	"github.com/sluice-mt/sluice/kernels/_asm/asm"
)

const (
	vectors    = panel / 16
	maxRows512 = 12 // most rows whose sums fit the registers, beside eight others
	fewRows512 = 2  // most rows of a block that is Unfetched
)

// Generate512 generates the kernel for 512-bit registers. sets is as for Generate256.
func (k Kernel) Generate512(sets bool) {
	most := maxRows512
	if k.Unfetched {
		most = fewRows512
	}
	k.start(most)
	dispatch(most, func(rows int) {
		p := product512{block: newBlock(k, rows), sets: 1}
		switch {
		case !sets:
		case rows <= 2:
			p.sets = 4
		case rows <= 4:
			p.sets = 2
		}
		p.generate()
	})
}

type product512 struct {
	block
	sets int
}

func (p product512) sums512() sums512 { return sums512{p.sets, p.rows, vectors, p.Corrections} }

func (p product512) sum(set, row, j int) reg.VecPhysical { return p.sums512().at(set, row, j) }

// free are the registers that are no sums.
var free = asm.Z[24:]

func (p product512) generate() {
	w, y, aScales, blocks, k := GP64(), GP64(), GP64(), GP64(), GP64()
	columns := GP32()
	MOVL(asm.Addr("mask"), columns)
	KMOVW(columns, reg.K1)
	SHRL(Imm(16), columns)
	KMOVW(columns, reg.K2)

	Label(p.label("panel"))
	MOVQ(asm.Addr("a"), p.row[0])
	MOVQ(asm.Addr("y"), y)
	MOVQ(asm.Addr("aScales"), aScales)
	MOVQ(asm.Addr("blocks"), blocks)

	Label(p.label("block"))
	p.address()
	p.sums512().start()
	p.multiply(w, k, func(step int) { p.step(w, step) })
	p.finish(y, aScales)
	p.next()
	DECQ(blocks)
	JNZ(LabelRef(p.label("block")))

	MOVQ(w, asm.Addr("w")) // w has come to the next panel
	p.advance(panel, "scales", "y")
	biasStep := GP64()
	MOVQ(asm.Addr("biasStep"), biasStep)
	ADDQ(biasStep, asm.Addr("bias"))
	DECQ(asm.Addr("panels"))
	JNZ(LabelRef(p.label("panel")))
	VZEROUPPER()
	RET()
}

// step adds the products of a step: each row's four bytes, repeated, times four bytes of each column.
func (p product512) step(w reg.GPVirtual, step int) {
	var at []Mem
	for j := range vectors {
		at = append(at, Mem{Base: w, Disp: step*stepBytes + 64*j})
		if !p.Unfetched {
			PREFETCHT0(at[j].Offset(ahead))
		}
	}
	sum := func(r, j int) reg.VecPhysical { return p.sum(step%p.sets, r, j) }
	if p.Step != nil {
		p.Step(p.rows, at, func(row int) Mem { return p.at(row, step) }, sum, free)
		return
	}
	weights, repeated, products := free[:2], free[2:6], free[6:8]
	for j := range vectors {
		VMOVDQU32(at[j], weights[j])
	}
	for r := range p.rows {
		a := repeated[r%len(repeated)]
		VPBROADCASTD(p.at(r, step), a)
		for j := range vectors {
			p.MultiplyAdd(weights[j], a, sum(r, j), products[j])
		}
	}
}

// finish writes y = max(floor, float(sum)·(aScale·scale) + bias) for the rows of the block and steps on to the next.
// (max in this order of operands keeps NaN.)
func (p product512) finish(y, aScales reg.GPVirtual) {
	p.sums512().join()
	scales, bias, floor, aScale, scale := free[0:2], free[2:4], free[4], free[5], free[6]
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
	for r := range p.rows {
		VBROADCASTSS(Mem{Base: aScales, Disp: 4 * r}, aScale)
		for j := range vectors {
			v := p.sum(0, r, j)
			VCVTDQ2PS(v, v)
			VMULPS(scales[j], aScale, scale)
			VMULPS(scale, v, v)
			VADDPS(bias[j], v, v)
			VMAXPS(v, floor, v)
			VMOVUPS(v, exists[j], Mem{Base: y, Disp: 64 * j})
		}
		ADDQ(yStride, y)
	}
	ADDQ(U32(4*p.rows), aScales)
}

// sums512 are the registers of sums: sets of rows of vectors.
type sums512 struct {
	sets, rows, vectors int
	corrections         bool
}

func (s sums512) at(set, row, j int) reg.VecPhysical { return asm.Z[(set*s.rows+row)*s.vectors+j] }

// start sets the first set of sums to the corrections, the others to zero.
func (s sums512) start() {
	corrections := GP64()
	if s.corrections {
		MOVQ(asm.Addr("corrections"), corrections)
	}
	for r := range s.rows {
		for j := range s.vectors {
			for set := range s.sets {
				if sum := s.at(set, r, j); s.corrections && set == 0 {
					VMOVDQU32(Mem{Base: corrections, Disp: 64 * j}, sum)
				} else {
					VPXORD(sum, sum, sum)
				}
			}
		}
	}
}

// join adds the other sets to the first.
func (s sums512) join() {
	for set := 1; set < s.sets; set++ {
		for r := range s.rows {
			for j := range s.vectors {
				VPADDD(s.at(set, r, j), s.at(0, r, j), s.at(0, r, j))
			}
		}
	}
}
