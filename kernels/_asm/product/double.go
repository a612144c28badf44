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
// first block finds them there: its few rows would have to wait for what is further away. Therefore blocks of two heights take turns in each
// pair. Four blocks fetch all of the next pair, those that follow fetch what comes after it. Past the end of a matrix that may be anything, which a prefetch does not mind, but is the
// next matrix if they lie in a row (see Together).
//
// The last turn of a block goes row by row, with weights from memory, and the sums of a row become results while those of the next row are
// added up. After that only the last row is left to be finished before the next block can begin, and the processor, which looks no
// further ahead than a hundred instructions or two, always finds something to multiply.
func (k Kernel) GenerateDouble512() {
	k.startDouble(maxRowsDouble)
	p := newDouble512(k)
	current, height := AllocLocal(8), GP64() // the height of the blocks in work

	Label("pair")
	p.startPair()
	MOVQ(asm.Addr("height"), height)
	MOVQ(asm.Addr("higher"), p.blocks)
	INCQ(height)
	TESTQ(p.blocks, p.blocks)
	JNZ(LabelRef("blocks"))
	Label("lower")
	MOVQ(asm.Addr("height"), height)
	MOVQ(asm.Addr("lower"), p.blocks)
	Label("blocks")
	MOVQ(height, current)
	jumpToRows(height, maxRowsDouble)
	eachRows(maxRowsDouble, func(rows int) {
		p.ofHeight(rows).generate()
		JMP(LabelRef("passed"))
	})
	Label("passed")
	MOVQ(current, height)
	CMPQ(height, asm.Addr("height"))
	JNE(LabelRef("lower"))
	p.nextPair()
	JNZ(LabelRef("pair"))
	VZEROUPPER()
	RET()
}

type double512 struct {
	Kernel
	sums               sums512
	row                []reg.GPVirtual // the ends of the rows of a block
	w, panelBytes      reg.GPVirtual
	at, next           reg.GPVirtual // bytes of a row from its end, below zero; what to fetch
	y, aScales, blocks reg.GPVirtual
}

func newDouble512(k Kernel) double512 {
	p := double512{Kernel: k, w: GP64(), panelBytes: GP64(), at: GP64(), next: GP64(), y: GP64(), aScales: GP64(), blocks: GP64()}
	for range maxRowsDouble {
		p.row = append(p.row, GP64())
	}
	MOVQ(asm.Addr("steps"), p.panelBytes)
	IMUL3Q(U32(stepBytes), p.panelBytes, p.panelBytes)
	return p
}

// ofHeight is p for blocks of so many rows.
func (p double512) ofHeight(rows int) double512 {
	p.row, p.sums = p.row[:rows], sums512{1, rows, doubleVectors, p.Corrections}
	if rows <= 2 && !p.Float {
		p.sums.sets = 4 / rows
	}
	return p
}

func (p double512) label(name string) string { return block{rows: len(p.row)}.label(name) }

// startPair returns to the first row.
func (p double512) startPair() {
	MOVQ(asm.Addr("steps"), p.row[0])
	SHLQ(Imm(2), p.row[0])
	ADDQ(asm.Addr("a"), p.row[0])
	MOVQ(asm.Addr("y"), p.y)
	if !p.Float {
		MOVQ(asm.Addr("aScales"), p.aScales)
	}
	MOVQ(asm.Addr("w"), p.next)
	LEAQ(Mem{Base: p.next, Index: p.panelBytes, Scale: 2}, p.next)
}

// nextPair steps to the next pair of panels; the flags say whether there is one.
func (p double512) nextPair() {
	ADDQ(p.panelBytes, p.w) // which has come to the end of the first panel
	MOVQ(p.w, asm.Addr("w"))
	var parameters []string
	if !p.Float {
		parameters = append(parameters, "scales")
	}
	if p.Bytes {
		ADDQ(Imm(2*panel), asm.Addr("y"))
	} else {
		parameters = append(parameters, "y")
	}
	block{Kernel: p.Kernel}.advance(2*panel, parameters...)
	biasStep := GP64()
	MOVQ(asm.Addr("biasStep"), biasStep)
	ADDQ(biasStep, asm.Addr("bias"))
	DECQ(asm.Addr("pairs"))
}

// generate computes blocks of a height.
func (p double512) generate() {
	Label(p.label("block"))
	for r := 1; r < len(p.row); r++ {
		MOVQ(asm.Addr("aStride"), p.row[r])
		ADDQ(p.row[r-1], p.row[r])
	}
	p.sums.start()
	p.steps()
	if p.overlaps() {
		p.lastTurn()
	} else {
		p.finish()
	}
	last := p.row[len(p.row)-1]
	ADDQ(asm.Addr("aStride"), last)
	if len(p.row) > 1 {
		MOVQ(last, p.row[0])
	}
	DECQ(p.blocks)
	JNZ(LabelRef(p.label("block")))
}

// overlaps reports whether the last turn and the end of a block overlap. Several sets of sums have to be joined before.
func (p double512) overlaps() bool { return !p.Float && p.sums.sets == 1 }

// steps runs through k, four steps at a time, but for the last turn if that overlaps, and where there may be others, through the last ones
// one by one.
func (p double512) steps() {
	MOVQ(asm.Addr("w"), p.w)
	MOVQ(asm.Addr("steps"), p.at)
	SHLQ(Imm(2), p.at)
	NEGQ(p.at)
	if p.overlaps() {
		ADDQ(Imm(4*unroll), p.at)
		JZ(LabelRef(p.label("last")))
		Label(p.label("steps"))
		p.turn(-4 * unroll)
		JNZ(LabelRef(p.label("steps")))
		Label(p.label("last"))
		return
	}
	if !p.Float {
		Label(p.label("steps"))
		p.turn(0)
		JNZ(LabelRef(p.label("steps")))
		return
	}
	ADDQ(Imm(4*unroll), p.at) // the end of a turn, as long as it is not beyond that of the row
	JG(LabelRef(p.label("rest")))
	Label(p.label("steps"))
	p.turn(-4 * unroll)
	JLE(LabelRef(p.label("steps")))
	Label(p.label("rest"))
	SUBQ(Imm(4*unroll), p.at)
	JZ(LabelRef(p.label("finish")))
	Label(p.label("single"))
	p.step(0, 0)
	ADDQ(U32(stepBytes), p.w)
	ADDQ(Imm(4), p.at)
	JNZ(LabelRef(p.label("single")))
	Label(p.label("finish"))
}

// turn makes four steps, whose first bytes are at a distance from at. The flags say where at has come to.
func (p double512) turn(distance int) {
	for step := range unroll {
		p.step(step, distance+4*step)
		PREFETCHT1(Mem{Base: p.next, Disp: lineBytes * step})
	}
	ADDQ(U32(unroll*stepBytes), p.w)
	ADDQ(U32(unroll*lineBytes), p.next)
	ADDQ(Imm(4*unroll), p.at)
}

// step adds the products of a step: each row's four bytes, repeated, times four bytes of each column.
func (p double512) step(step, distance int) {
	weights, repeated, products := free[:4], free[4:6], free[6:8]
	for j := range weights {
		VMOVDQU32(p.weights(step, j), weights[j])
	}
	for r, row := range p.row {
		a := repeated[r%len(repeated)]
		VPBROADCASTD(Mem{Base: row, Index: p.at, Scale: 1, Disp: distance}, a)
		for j := range weights {
			p.MultiplyAdd(weights[j], a, p.sums.at(step%p.sums.sets, r, j), products[j%2])
		}
	}
}

// weights addresses a vector of weights of a step, from where w has come to.
func (p double512) weights(step, j int) Mem {
	at := Mem{Base: p.w, Disp: step*stepBytes + 64*(j%vectors)}
	if j >= vectors {
		at.Index, at.Scale = p.panelBytes, 1
	}
	return at
}

// lastTurn makes the last four steps row by row, and results of each row while it makes those of the next.
func (p double512) lastTurn() {
	end := p.startFinish()
	var finish []func()
	for r := range p.row {
		interleave(p.lastSteps(r), finish)
		finish = end.ofRow(r)
	}
	interleave(nil, finish)
	end.stop()
	ADDQ(U32(unroll*stepBytes), p.w)
	ADDQ(U32(unroll*lineBytes), p.next)
}

// lastSteps returns the instructions of the last four steps of a row.
func (p double512) lastSteps(r int) []func() {
	var steps []func()
	for step := range unroll {
		a := repeated[step%len(repeated)]
		steps = append(steps, func() { VPBROADCASTD(Mem{Base: p.row[r], Disp: 4 * (step - unroll)}, a) })
		for j := range doubleVectors {
			steps = append(steps, func() { p.MultiplyAdd(p.weights(step, j), a, p.sums.at(0, r, j), nil) })
		}
		if r == 0 {
			steps = append(steps, func() { PREFETCHT1(Mem{Base: p.next, Disp: lineBytes * step}) })
		}
	}
	return steps
}

// interleave generates two pieces of code that do not depend on each other, evenly mixed.
func interleave(one, other []func()) {
	for all, i, j := len(one)+len(other), 0, 0; i+j < all; {
		if j == len(other) || i < len(one) && i*len(other) <= j*len(one) {
			one[i]()
			i++
		} else {
			other[j]()
			j++
		}
	}
}

// finish is that of product512, for columns that all exist; float32 is not scaled.
func (p double512) finish() {
	p.sums.join()
	end := p.startFinish()
	for r := range p.row {
		interleave(end.ofRow(r), nil)
	}
	end.stop()
}

// The registers of the end of a block, and of the last turn, as far as they are no sums.
var floor, aScale, scale, order, repeated = free[0], free[1], free[2], free[3], free[4:8]

// finish512 makes results of the sums of a block.
type finish512 struct {
	double512
	scalesAt, biasAt reg.GPVirtual
}

func (p double512) startFinish() finish512 {
	f := finish512{double512: p, biasAt: GP64()}
	MOVQ(asm.Addr("bias"), f.biasAt)
	VBROADCASTSS(asm.Addr("floor"), floor)
	if !p.Float {
		f.scalesAt = GP64()
		MOVQ(asm.Addr("scales"), f.scalesAt)
	}
	if p.Bytes {
		asm.LoadPermutation(order)
	}
	return f
}

// ofRow returns the instructions that finish a row and step on to the next one.
func (f finish512) ofRow(r int) []func() {
	var code []func()
	add := func(instructions ...func()) { code = append(code, instructions...) }
	if !f.Float {
		add(func() { VBROADCASTSS(Mem{Base: f.aScales, Disp: 4 * r}, aScale) })
	}
	for j := range doubleVectors {
		v := f.sums.at(0, r, j)
		if !f.Float {
			add(
				func() { VCVTDQ2PS(v, v) },
				func() { VMULPS(Mem{Base: f.scalesAt, Disp: 64 * j}, aScale, scale) },
				func() { VMULPS(scale, v, v) })
		}
		add(
			func() { VADDPS(Mem{Base: f.biasAt, Disp: 64 * j}, v, v) },
			func() { VMAXPS(v, floor, v) })
		if !f.Bytes {
			add(func() { VMOVUPS(v, Mem{Base: f.y, Disp: 64 * j}) })
		}
	}
	if f.Bytes {
		add(func() { f.storeBytes(r) })
	}
	add(func() { ADDQ(asm.Addr("yStride"), f.y) })
	return code
}

func (f finish512) stop() {
	if !f.Float {
		ADDQ(U32(4*len(f.row)), f.aScales)
	}
}

// storeBytes stores a row of results y as clamp(round(y·multiplier), -127, 127) + 128, with 0 for NaN.
func (f finish512) storeBytes(row int) {
	v := func(j int) reg.VecPhysical { return f.sums.at(0, row, j) }
	for j := range doubleVectors {
		const ordered = 7
		VMULPS_BCST(asm.Addr("multiplier"), v(j), v(j))
		VCMPPS(Imm(ordered), v(j), v(j), reg.K1)
		VMINPS_BCST(asm.F(127).Mem(), v(j), v(j))
		VMAXPS_BCST_Z(asm.F(-127).Mem(), v(j), reg.K1, v(j))
		VCVTPS2DQ(v(j), v(j))
	}
	for j := 0; j < doubleVectors; j += 2 {
		VPACKSSDW(v(j+1), v(j), v(j)) // within lanes of 128 bits, as VPACKSSWB: four bytes of each vector alternate
	}
	VPACKSSWB(v(2), v(0), v(0))
	VPERMD(v(0), order, v(0))
	VPXORD_BCST(asm.Bits(0x80808080).Mem(), v(0), v(0))
	VMOVDQU32(v(0), Mem{Base: f.y})
}
