package product

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"

	"github.com/sluice-mt/sluice/kernels/_asm/asm"
)

const maxRows256 = 6 // most rows whose sums fit the registers, beside two vectors of weights and two more

// Generate256 generates the kernel for 256-bit registers: 16 columns at a time, in two of them, or a whole panel for one row
// or two, so that weights are read in one stream. If sets is set, few rows have several sets of sums, which take turns,
// since a MultiplyAdd takes longer than the others can wait for.
func (k Kernel) Generate256(sets bool) {
	k.start(maxRows256)
	dispatch(maxRows256, func(rows int) {
		p := product256{block: newBlock(k, rows), sets: 1, vectors: 2, free: asm.Y[12:]}
		if rows <= 2 {
			p.vectors, p.free = 4, asm.Y[8:]
		}
		if sets && (rows == 1 || rows == 3) {
			p.sets = 2
		}
		p.generate()
	})
}

type product256 struct {
	block
	sets    int
	vectors int               // of the columns in work
	free    []reg.VecPhysical // that are no sums
}

func (p product256) sum(set, row, j int) reg.VecPhysical {
	return asm.Y[(set*p.rows+row)*p.vectors+j]
}

// columns is how many are in work at a time.
func (p product256) columns() int { return 8 * p.vectors }

func (p product256) generate() {
	strips, y, aScales, blocks, w, k := GP64(), GP64(), GP64(), GP64(), GP64(), GP64()

	Label(p.label("panel"))
	MOVQ(U32(panel/p.columns()), strips)
	Label(p.label("strip"))
	MOVQ(asm.Addr("a"), p.row[0])
	MOVQ(asm.Addr("y"), y)
	MOVQ(asm.Addr("aScales"), aScales)
	MOVQ(asm.Addr("blocks"), blocks)

	Label(p.label("block"))
	p.address()
	p.startSums()
	p.multiply(w, k, func(step int) { p.step(w, step) })
	p.finish(y, aScales)
	p.next()
	DECQ(blocks)
	JNZ(LabelRef(p.label("block")))
	p.nextStrip(strips)
	JNZ(LabelRef(p.label("strip")))
	p.nextPanel()
	DECQ(asm.Addr("panels"))
	JNZ(LabelRef(p.label("panel")))
	VZEROUPPER()
	RET()
}

// startSums sets the first set of sums to the corrections, the others to zero.
func (p product256) startSums() {
	corrections := GP64()
	if p.Corrections {
		MOVQ(asm.Addr("corrections"), corrections)
	}
	for r := range p.rows {
		for j := range p.vectors {
			for set := range p.sets {
				if s := p.sum(set, r, j); p.Corrections && set == 0 {
					VMOVDQU(Mem{Base: corrections, Disp: 32 * j}, s)
				} else {
					VPXOR(s, s, s)
				}
			}
		}
	}
}

// step adds the products of a step: each row's four bytes, repeated, times four bytes of each column.
func (p product256) step(w reg.GPVirtual, step int) {
	var at []Mem
	for j := range p.vectors {
		at = append(at, Mem{Base: w, Disp: step*stepBytes + 32*j})
		if j%2 == 0 {
			PREFETCHT0(at[j].Offset(ahead))
		}
	}
	sum := func(r, j int) reg.VecPhysical { return p.sum(step%p.sets, r, j) }
	if p.Step != nil {
		p.Step(p.rows, at, func(row int) Mem { return p.at(row, step) }, sum, p.free)
		return
	}
	weights, a, free := p.free[:p.vectors], p.free[p.vectors], p.free[p.vectors+1]
	for j := range weights {
		VMOVDQU(at[j], weights[j])
	}
	for r := range p.rows {
		VPBROADCASTD(p.at(r, step), a)
		for j := range weights {
			p.MultiplyAdd(weights[j], a, sum(r, j), free)
		}
	}
}

// finish writes y = max(floor, float(sum)·(aScale·scale) + bias) for the rows of the block.
// (max in this order of operands keeps NaN.)
func (p product256) finish(y, aScales reg.GPVirtual) {
	for set := 1; set < p.sets; set++ {
		for r := range p.rows {
			for j := range p.vectors {
				VPADDD(p.sum(set, r, j), p.sum(0, r, j), p.sum(0, r, j))
			}
		}
	}
	exists, bias, floor, scale := p.free[0], p.free[1], p.free[2], p.free[3]
	biasAt, stride, scales, row := GP64(), GP64(), GP64(), GP64()
	VBROADCASTSS(asm.Addr("floor"), floor)
	MOVQ(asm.Addr("bias"), biasAt)
	MOVQ(asm.Addr("scales"), scales)
	MOVQ(asm.Addr("yStride"), stride)
	for j := range p.vectors {
		MOVQ(y, row)
		asm.WithLanes(asm.Addr("mask"), 8*j, exists, func(lanes asm.Lanes) {
			lanes.Load(Mem{Base: biasAt, Disp: 32 * j}, bias)
			for r := range p.rows {
				v := p.sum(0, r, j)
				VCVTDQ2PS(v, v)
				VBROADCASTSS(Mem{Base: aScales, Disp: 4 * r}, scale)
				VMULPS(Mem{Base: scales, Disp: 32 * j}, scale, scale)
				VMULPS(scale, v, v)
				VADDPS(bias, v, v)
				VMAXPS(v, floor, v)
				lanes.Store(v, Mem{Base: row, Disp: 32 * j})
				ADDQ(stride, row)
			}
		})
	}
	MOVQ(row, y)
	ADDQ(U32(4*p.rows), aScales)
}

// nextStrip steps to the next columns; the flags say whether the panel has more.
func (p product256) nextStrip(strips reg.GPVirtual) {
	p.advance(p.columns(), "w", "scales", "y")
	noBias := asm.Unique("noBias")
	CMPQ(asm.Addr("biasStep"), U32(0))
	JEQ(LabelRef(noBias))
	ADDQ(U32(4*p.columns()), asm.Addr("bias"))
	Label(noBias)
	if p.columns() < panel {
		RORL(Imm(uint64(p.columns())), asm.Addr("mask"))
	}
	DECQ(strips)
}

// nextPanel moves w from the end of the first step of its panel to the next panel.
func (p product256) nextPanel() {
	bytes := GP64()
	MOVQ(asm.Addr("steps"), bytes)
	DECQ(bytes)
	SHLQ(Imm(7), bytes) // times stepBytes
	ADDQ(bytes, asm.Addr("w"))
}
