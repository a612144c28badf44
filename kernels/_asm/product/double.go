package product

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"

	"github.com/sluice-mt/sluice/kernels/_asm/asm"
)

const (
	doubleVectors = 2 * vectors
	lineBytes     = 64
	maxRowsDouble = 6 // most rows whose sums fit the registers, beside eight others
)

// GenerateDouble512 generates the kernel for 512-bit registers and two whole panels at a time. The sums of 6 rows fill as many registers
// as those of 12 rows of one panel, but a step loads 10 vectors for its 24 MultiplyAdds, not 14. Alone on a processor's core both
// keep it busy; where another thread of the core loads and decodes as well, this one does a tenth more.
//
// While the blocks of rows pass, the weights of the next pair are fetched into the second-level cache, a line at each step, so that the
// first block finds them there: its few rows would have to wait for what is further away. Four blocks fetch all of the next pair, those
// that follow fetch what comes after it. Past the end of a matrix that may be anything, which a prefetch does not mind, but is the
// next matrix if they lie in a row (see Together).
func (k Kernel) GenerateDouble512() {
	k.startDouble(maxRowsDouble)
	dispatch(maxRowsDouble, func(rows int) {
		p := double512{Kernel: k, rows: rows, sets: 1, row: make([]reg.GPVirtual, rows)}
		switch rows {
		case 1:
			p.sets = 4
		case 2:
			p.sets = 2
		}
		p.generate()
	})
}

type double512 struct {
	Kernel
	rows, sets int
	row        []reg.GPVirtual // the ends of the rows of a block
}

func (p double512) label(name string) string { return block{rows: p.rows}.label(name) }

func (p double512) sum(set, row, j int) reg.VecPhysical {
	return asm.Z[(set*p.rows+row)*doubleVectors+j]
}

func (p double512) generate() {
	for r := range p.row {
		p.row[r] = GP64()
	}
	y, aScales, blocks, w, panelBytes, at, next := GP64(), GP64(), GP64(), GP64(), GP64(), GP64(), GP64()
	MOVQ(asm.Addr("steps"), panelBytes)
	IMUL3Q(U32(stepBytes), panelBytes, panelBytes)

	Label(p.label("panel"))
	MOVQ(asm.Addr("steps"), p.row[0])
	SHLQ(Imm(2), p.row[0])
	ADDQ(asm.Addr("a"), p.row[0])
	MOVQ(asm.Addr("y"), y)
	MOVQ(asm.Addr("aScales"), aScales)
	MOVQ(asm.Addr("blocks"), blocks)
	MOVQ(asm.Addr("w"), next)
	LEAQ(Mem{Base: next, Index: panelBytes, Scale: 2}, next)

	Label(p.label("block"))
	for r := 1; r < p.rows; r++ {
		MOVQ(asm.Addr("aStride"), p.row[r])
		ADDQ(p.row[r-1], p.row[r])
	}
	p.startSums()
	MOVQ(asm.Addr("w"), w)
	MOVQ(asm.Addr("steps"), at)
	SHLQ(Imm(2), at)
	NEGQ(at)
	Label(p.label("steps"))
	for i := range unroll {
		p.step(w, panelBytes, at, next, i)
	}
	ADDQ(U32(unroll*stepBytes), w)
	ADDQ(U32(unroll*lineBytes), next)
	ADDQ(Imm(4*unroll), at)
	JNZ(LabelRef(p.label("steps")))
	p.finish(y, aScales)
	last := p.row[p.rows-1]
	ADDQ(asm.Addr("aStride"), last)
	if p.rows > 1 {
		MOVQ(last, p.row[0])
	}
	DECQ(blocks)
	JNZ(LabelRef(p.label("block")))

	ADDQ(panelBytes, w) // which has come to the end of the first panel
	MOVQ(w, asm.Addr("w"))
	block{Kernel: p.Kernel}.advance(2*panel, "scales", "y")
	biasStep := GP64()
	MOVQ(asm.Addr("biasStep"), biasStep)
	ADDQ(biasStep, asm.Addr("bias"))
	DECQ(asm.Addr("pairs"))
	JNZ(LabelRef(p.label("panel")))
	VZEROUPPER()
	RET()
}

// startSums sets the first set of sums to the corrections, the others to zero.
func (p double512) startSums() {
	corrections := GP64()
	if p.Corrections {
		MOVQ(asm.Addr("corrections"), corrections)
	}
	for set := range p.sets {
		for r := range p.rows {
			for j := range doubleVectors {
				if s := p.sum(set, r, j); p.Corrections && set == 0 {
					VMOVDQU32(Mem{Base: corrections, Disp: 64 * j}, s)
				} else {
					VPXORD(s, s, s)
				}
			}
		}
	}
}

// step adds the products of a step: each row's four bytes, repeated, times four bytes of each column.
func (p double512) step(w, panelBytes, at, next reg.GPVirtual, step int) {
	weights, repeated, products := free[:4], free[4:6], free[6:8]
	for j := range weights {
		from := Mem{Base: w, Disp: step*stepBytes + 64*(j%vectors)}
		if j >= vectors {
			from.Index, from.Scale = panelBytes, 1
		}
		VMOVDQU32(from, weights[j])
	}
	PREFETCHT1(Mem{Base: next, Disp: lineBytes * step})
	for r := range p.rows {
		a := repeated[r%len(repeated)]
		VPBROADCASTD(Mem{Base: p.row[r], Index: at, Scale: 1, Disp: 4 * step}, a)
		for j := range weights {
			p.MultiplyAdd(weights[j], a, p.sum(step%p.sets, r, j), products[j%2])
		}
	}
}

// finish is that of product512, for columns that all exist.
func (p double512) finish(y, aScales reg.GPVirtual) {
	for set := 1; set < p.sets; set++ {
		for r := range p.rows {
			for j := range doubleVectors {
				VPADDD(p.sum(set, r, j), p.sum(0, r, j), p.sum(0, r, j))
			}
		}
	}
	scales, floor, aScale, scale := free[0:4], free[4], free[5], free[6]
	scalesAt, biasAt := GP64(), GP64()
	MOVQ(asm.Addr("scales"), scalesAt)
	MOVQ(asm.Addr("bias"), biasAt)
	VBROADCASTSS(asm.Addr("floor"), floor)
	for j := range scales {
		VMOVUPS(Mem{Base: scalesAt, Disp: 64 * j}, scales[j])
	}
	for r := range p.rows {
		VBROADCASTSS(Mem{Base: aScales, Disp: 4 * r}, aScale)
		for j := range scales {
			v := p.sum(0, r, j)
			VCVTDQ2PS(v, v)
			VMULPS(scales[j], aScale, scale)
			VMULPS(scale, v, v)
			VADDPS(Mem{Base: biasAt, Disp: 64 * j}, v, v)
			VMAXPS(v, floor, v)
			VMOVUPS(v, Mem{Base: y, Disp: 64 * j})
		}
		ADDQ(asm.Addr("yStride"), y)
	}
	ADDQ(U32(4*p.rows), aScales)
}
