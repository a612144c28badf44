package product

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"

	"github.com/sluice-mt/sluice/kernels/_asm/asm"
)

const (
	strip      = 16 // columns that 256-bit registers do at a time: half a panel
	maxRows256 = 6  // most rows whose sums fit the registers, beside two vectors of weights and two more
)

// Generate256 generates the kernel for 256-bit registers: 16 columns at a time, in two of them. If sets is set, few rows
// have several sets of sums, which take turns, since a MultiplyAdd takes longer than the others can wait for.
func (k Kernel) Generate256(sets bool) {
	k.start(maxRows256)
	dispatch(maxRows256, func(rows int) {
		p := product256{block: newBlock(k, rows), sets: 1}
		switch {
		case !sets:
		case rows == 1:
			p.sets = 4
		case rows <= 3:
			p.sets = 2
		}
		p.generate()
	})
}

type product256 struct {
	block
	sets int
}

func (p product256) sum(set, row, half int) reg.VecPhysical { return asm.Y[(set*p.rows+row)*2+half] }

func (p product256) generate() {
	strips, y, aScales, blocks, w, k := GP64(), GP64(), GP64(), GP64(), GP64(), GP64()

	Label(p.label("panel"))
	MOVQ(U32(panel/strip), strips)
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
		for half := range 2 {
			for set := range p.sets {
				if s := p.sum(set, r, half); p.Corrections && set == 0 {
					VMOVDQU(Mem{Base: corrections, Disp: 32 * half}, s)
				} else {
					VPXOR(s, s, s)
				}
			}
		}
	}
}

// free256 are the registers that are no sums.
var free256 = asm.Y[12:]

// step adds the products of a step: each row's four bytes, repeated, times four bytes of each column.
func (p product256) step(w reg.GPVirtual, step int) {
	at := []Mem{{Base: w, Disp: step * stepBytes}, {Base: w, Disp: step*stepBytes + 32}}
	PREFETCHT0(at[0].Offset(ahead))
	sum := func(r, half int) reg.VecPhysical { return p.sum(step%p.sets, r, half) }
	if p.Step != nil {
		p.Step(p.rows, at, func(row int) Mem { return p.at(row, step) }, sum, free256)
		return
	}
	weights, a, free := free256[:2], free256[2], free256[3]
	for half := range weights {
		VMOVDQU(at[half], weights[half])
	}
	for r := range p.rows {
		VPBROADCASTD(p.at(r, step), a)
		for half := range weights {
			p.MultiplyAdd(weights[half], a, sum(r, half), free)
		}
	}
}

// finish writes y = max(floor, float(sum)·(aScale·scale) + bias) for the rows of the block.
// (max in this order of operands keeps NaN.)
func (p product256) finish(y, aScales reg.GPVirtual) {
	for set := 1; set < p.sets; set++ {
		for r := range p.rows {
			for half := range 2 {
				VPADDD(p.sum(set, r, half), p.sum(0, r, half), p.sum(0, r, half))
			}
		}
	}
	exists, bias, floor, scale := free256[0], free256[1], free256[2], free256[3]
	biasAt, stride, scales, row := GP64(), GP64(), GP64(), GP64()
	VBROADCASTSS(asm.Addr("floor"), floor)
	MOVQ(asm.Addr("bias"), biasAt)
	MOVQ(asm.Addr("scales"), scales)
	MOVQ(asm.Addr("yStride"), stride)
	for half := range 2 {
		asm.LanesOfBits(asm.Addr("mask"), 8*half, exists)
		VMASKMOVPS(Mem{Base: biasAt, Disp: 32 * half}, exists, bias)
		MOVQ(y, row)
		for r := range p.rows {
			v := p.sum(0, r, half)
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
	ADDQ(U32(4*p.rows), aScales)
}

// nextStrip steps to the next 16 columns; the flags say whether the panel has more.
func (p product256) nextStrip(strips reg.GPVirtual) {
	p.advance(strip, "w", "scales", "y")
	noBias := asm.Unique("noBias")
	CMPQ(asm.Addr("biasStep"), U32(0))
	JEQ(LabelRef(noBias))
	ADDQ(U32(4*strip), asm.Addr("bias"))
	Label(noBias)
	RORL(Imm(strip), asm.Addr("mask"))
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
