// Command int8chains generates the product of an 8-bit matrix whose steps are packed as chains (see int8Chains).
//
// A step is four k of eight columns. VPMADDUBSW multiplies its bytes with those of a row of activations and adds two
// neighbours, in 16 bits. Packing has made sure that these sums, and those of all steps of a chain, fit:
//
//	p      = Σ_{i of the chain} a[i]·w[i]      VPMADDUBSW for each step, VPADDW between: 16 sums, in 16 bits
//	sum[r] += p·1                              VPMADDWD, VPADDD: 8 sums, one for each column, in 32 bits
//
// A chain of n steps takes 2n + 1 instructions for 32·n multiply-accumulates, where words would take 4n and the shifts of the weights.
package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"

	"github.com/sluice-mt/sluice/kernels/_asm/asm"
)

const (
	columns = 8
	longest = 4 // steps of a chain
)

func main() {
	ConstraintExpr("!purego")
	generate("mulInt8ChainsAVX2", "rows", avx2{})
	generate("mulInt8ChainsAVX512", "pairs of rows", avx512{})
	interleave()
	Generate()
}

// An isa is a set of instructions, with its registers.
type isa interface {
	// tallest is the most units of height of a block: registers of sums, and room for activations.
	tallest() int
	// registers returns those of the sums, one for each unit of height, of the weights of a chain's steps, and two others or three.
	registers(height int) (sums, weights, others []reg.VecPhysical)
	// rows is how many rows a register of sums is for.
	rows() int
	// offset turns a number of steps, which it may change, into an index with a scale: the bytes of the activations of so many steps.
	offset(step reg.GPVirtual) (index reg.GPVirtual, scale uint8)
	// prepare sets constants up.
	prepare()
	// weights loads the weights of steps.
	weights(from reg.Register, to []reg.VecPhysical)
	// repeat fills a register with the activations of a step.
	repeat(m Mem, to reg.VecPhysical)
	// widen adds neighbours, words that become double words.
	widen(v reg.VecPhysical)
	// perColumn loads what there is for each column.
	perColumn(m Mem, to reg.VecPhysical)
	// finish writes the results of a block. It may change the sums, the weights and the others.
	finish(p product)
}

func generate(name, unit string, a isa) {
	asm.Kernel(name, "func(height int, a *uint8, aScales *float32, w *int8, order *uint16, counts *uint16, "+
		"corrections *int32, scales *float32, bias *float32, biasStep int, y *float32, yStride int, strips int, floor float32, mask uint32)",
		fmt.Sprintf("%s computes a block of height (1 to %d) %s of mulInt8Generic for strips of 8 columns of an int8Chains.", name, a.tallest(), unit),
		fmt.Sprintf("a holds the activations of the block for each step together, %d bytes from step to step. yStride and biasStep are in bytes.", stepBytes(a)),
		"mask has a bit for each column of a strip that exists. floor is what results are at least.")
	height := asm.Int("height")
	for h := 1; h < a.tallest(); h++ {
		CMPQ(height, U32(h))
		JEQ(LabelRef(fmt.Sprintf("height%d", h)))
	}
	for h := a.tallest(); h > 0; h-- {
		Label(fmt.Sprintf("height%d", h))
		newProduct(a, h).generate()
	}
}

// stepBytes is the distance from the activations of a step to those of the next.
func stepBytes(a isa) int { return 4 * a.tallest() * a.rows() }

// product generates the code for a block of one height.
type product struct {
	isa
	sums, w0w3, parts []reg.VecPhysical
	a, y, aScales     reg.GPVirtual // of the block
	w, order          reg.GPVirtual
}

func newProduct(a isa, height int) product {
	sums, weights, others := a.registers(height)
	return product{isa: a, sums: sums, w0w3: weights, parts: others, a: GP64(), y: GP64(), aScales: GP64(), w: GP64(), order: GP64()}
}

func (p product) label(name string) string { return fmt.Sprintf("%s%d", name, len(p.sums)) }

func (p product) generate() {
	p.prepare()
	MOVQ(asm.Addr("a"), p.a)
	MOVQ(asm.Addr("w"), p.w)
	MOVQ(asm.Addr("order"), p.order)

	Label(p.label("strip"))
	MOVQ(asm.Addr("y"), p.y)
	MOVQ(asm.Addr("aScales"), p.aScales)
	p.startSums()
	for length := longest; length > 0; length-- {
		p.chains(length)
	}
	p.finish(p)

	ADDQ(Imm(2*longest), asm.Addr("counts"))
	for _, perColumn := range []string{"corrections", "scales", "y"} {
		ADDQ(Imm(4*columns), asm.Addr(perColumn))
	}
	biasStep := GP64()
	MOVQ(asm.Addr("biasStep"), biasStep)
	ADDQ(biasStep, asm.Addr("bias"))
	DECQ(asm.Addr("strips"))
	JNZ(LabelRef(p.label("strip")))
	VZEROUPPER()
	RET()
}

// startSums sets the sums to the corrections.
func (p product) startSums() {
	corrections := GP64()
	MOVQ(asm.Addr("corrections"), corrections)
	p.perColumn(Mem{Base: corrections}, p.sums[0])
	for _, sum := range p.sums[1:] {
		VMOVAPS(p.sums[0], sum)
	}
}

// chains adds the products of chains of one length, of which a strip has as many as its counts say.
func (p product) chains(length int) {
	n, loop, done := GP64(), p.label(fmt.Sprintf("chain%d_", length)), p.label(fmt.Sprintf("chain%dDone", length))
	counts := GP64()
	MOVQ(asm.Addr("counts"), counts)
	MOVWQZX(Mem{Base: counts, Disp: 2 * (longest - length)}, n)
	TESTQ(n, n)
	JZ(LabelRef(done))
	Label(loop)
	var at []Mem
	for i := range length {
		at = append(at, p.activations(i))
	}
	p.weights(p.w, p.w0w3[:length])
	for r, sum := range p.sums {
		sum16 := p.parts[0]
		multiply := func(i int, to reg.VecPhysical) {
			p.repeat(at[i].Offset(4*p.rows()*r), to)
			VPMADDUBSW(p.w0w3[i], to, to)
		}
		multiply(0, sum16)
		if length == longest && len(p.parts) > 2 {
			p.addTree(multiply)
		} else {
			for i := 1; i < length; i++ {
				multiply(i, p.parts[1])
				VPADDW(p.parts[1], sum16, sum16)
			}
		}
		p.widen(sum16)
		VPADDD(sum16, sum, sum)
	}
	ADDQ(Imm(uint64(4*columns*length)), p.w)
	ADDQ(Imm(uint64(2*length)), p.order)
	DECQ(n)
	JNZ(LabelRef(loop))
	Label(done)
}

// addTree adds the products of three more steps to the first part, the last two to each other before.
func (p product) addTree(multiply func(step int, to reg.VecPhysical)) {
	multiply(1, p.parts[1])
	VPADDW(p.parts[1], p.parts[0], p.parts[0])
	multiply(2, p.parts[1])
	multiply(3, p.parts[2])
	VPADDW(p.parts[2], p.parts[1], p.parts[1])
	VPADDW(p.parts[1], p.parts[0], p.parts[0])
}

// activations addresses the activations of the first rows at the i-th of the next steps.
func (p product) activations(i int) Mem {
	step := GP64()
	MOVWQZX(Mem{Base: p.order, Disp: 2 * i}, step)
	index, scale := p.offset(step)
	return Mem{Base: p.a, Index: index, Scale: scale}
}

// interleave brings the bytes of a block of rows together for each step.
func interleave() {
	asm.Kernel("interleaveInt8", "func(dst *uint8, a *uint8, aStride int, rows int, steps int, stepBytes int, places *uint8, flip uint32) (seen uint32)",
		"interleaveInt8 writes a block of rows of bytes so that the four of row r at step s are at stepBytes·s + 4·r, with the bits of flip",
		"inverted, and returns all bits that are set in any four. steps is a multiple of 4. Of each 16 bytes, places says which of them",
		"comes where.")
	g := gather{dst: asm.Int("dst"), a: asm.Int("a"), stride: asm.Int("aStride"), stepBytes: asm.Int("stepBytes"), three: GP64(), flip: XMM(), seen: XMM()}
	VBROADCASTSS(asm.Addr("flip"), g.flip)
	VPXOR(g.seen, g.seen, g.seen)
	LEAQ(Mem{Base: g.stepBytes, Index: g.stepBytes, Scale: 2}, g.three)
	left := asm.Int("rows")
	Label("rows4")
	CMPQ(left, Imm(4))
	JLT(LabelRef("rows1"))
	g.rows(4)
	SUBQ(Imm(4), left)
	JMP(LabelRef("rows4"))
	Label("rows1")
	TESTQ(left, left)
	JZ(LabelRef("done"))
	g.rows(1)
	DECQ(left)
	JMP(LabelRef("rows1"))
	Label("done")
	g.returnSeen()
}

// gather is what interleave has in registers.
type gather struct {
	dst, a           reg.GPVirtual // of the rows that follow
	stride           reg.GPVirtual
	stepBytes, three reg.GPVirtual // three is three times that
	flip, seen       reg.VecVirtual
}

// rows writes n rows, 1 or 4, and goes on to those that follow.
func (g gather) rows(n int) {
	from, places, to, left := GP64(), GP64(), GP64(), GP64()
	turn := fmt.Sprintf("turn%d", n)
	MOVQ(g.a, from)
	MOVQ(asm.Addr("places"), places)
	MOVQ(g.dst, to)
	MOVQ(asm.Addr("steps"), left)
	strides := GP64()
	LEAQ(Mem{Base: g.stride, Index: g.stride, Scale: 2}, strides)
	Label(turn)
	rows := []Mem{{Base: from}, {Base: from, Index: g.stride, Scale: 1}, {Base: from, Index: g.stride, Scale: 2}, {Base: from, Index: strides, Scale: 1}}[:n]
	steps := []Mem{{Base: to}, {Base: to, Index: g.stepBytes, Scale: 1}, {Base: to, Index: g.stepBytes, Scale: 2}, {Base: to, Index: g.three, Scale: 1}}
	mask, v := XMM(), make([]reg.VecVirtual, n)
	VMOVDQU(Mem{Base: places}, mask)
	for r, m := range rows {
		v[r] = XMM()
		VMOVDQU(m, v[r])
		VPSHUFB(mask, v[r], v[r])
		VPXOR(g.flip, v[r], v[r])
		VPOR(v[r], g.seen, g.seen)
	}
	if n == 1 {
		VMOVD(v[0], steps[0])
		for i, m := range steps[1:] {
			VPEXTRD(Imm(uint64(i+1)), v[0], m)
		}
	} else {
		for i, step := range transpose4(v) {
			VMOVDQU(step, steps[i])
		}
	}
	ADDQ(Imm(16), from)
	ADDQ(Imm(16), places)
	LEAQ(Mem{Base: to, Index: g.stepBytes, Scale: 4}, to)
	SUBQ(Imm(4), left)
	JNZ(LabelRef(turn))
	for range n {
		ADDQ(g.stride, g.a)
	}
	ADDQ(Imm(uint64(4*n)), g.dst)
}

// transpose4 returns the columns of four rows of four.
func transpose4(v []reg.VecVirtual) []reg.VecVirtual {
	var columns []reg.VecVirtual
	for _, unpack := range []func(...Op){VPUNPCKLDQ, VPUNPCKHDQ} {
		upper, lower := XMM(), XMM()
		unpack(v[1], v[0], upper)
		unpack(v[3], v[2], lower)
		even, odd := XMM(), XMM()
		VPUNPCKLQDQ(lower, upper, even)
		VPUNPCKHQDQ(lower, upper, odd)
		columns = append(columns, even, odd)
	}
	return columns
}

// returnSeen returns the bits of all four lanes.
func (g gather) returnSeen() {
	other, seen := XMM(), GP32()
	for _, order := range []uint64{0b01_00_11_10, 0b10_11_00_01} {
		VPSHUFD(Imm(order), g.seen, other)
		VPOR(other, g.seen, g.seen)
	}
	VMOVD(g.seen, seen)
	Store(seen, ReturnIndex(0))
	RET()
}
