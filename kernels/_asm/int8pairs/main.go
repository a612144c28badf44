// Command int8pairs generates the product of an 8-bit matrix whose steps are packed as pairs (see int8Pairs).
//
// A step is four k of eight columns. VPMADDUBSW multiplies its bytes with those of a row of activations and adds two
// neighbours, in 16 bits. Packing has made sure that these sums, and those of the two steps of a pair, fit:
//
//	p      = a[i]·w[i] + a[j]·w[j]      VPMADDUBSW twice, VPADDW: 16 sums of 4 products, in 16 bits
//	sum[r] += p·1                       VPMADDWD, VPADDD: 8 sums, one for each column, in 32 bits
//
// Five instructions for 64 multiply-accumulates, where words would take eight and the shifts of the weights.
package main

import (
	"fmt"
	"math/bits"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"

	"github.com/sluice-mt/sluice/kernels/_asm/asm"
)

const (
	columns = 8
	ahead   = 4 << 10 // distance in bytes at which weights are prefetched
)

func main() {
	ConstraintExpr("!purego")
	generate("mulInt8PairsAVX2", "1 to 11", "rows", avx2{})
	generate("mulInt8PairsAVX512", "1 to 12", "pairs of rows", avx512{})
	interleave()
	Generate()
}

// An isa is a set of instructions, with its registers.
type isa interface {
	// registers returns those of the sums, one for each unit of height, and five others.
	registers() (sums, others []reg.VecPhysical)
	// rows is how many rows a register of sums is for.
	rows() int
	// prepare sets constants up, ones those of 16 bits.
	prepare(ones reg.VecPhysical)
	// weights loads the weights of steps.
	weights(from reg.Register, to []reg.VecPhysical)
	// repeat fills a register with the activations of a step.
	repeat(m Mem, to reg.VecPhysical)
	// perColumn loads what there is for each column.
	perColumn(m Mem, to reg.VecPhysical)
	// finish writes the results of a block. It may change the sums and all others but the ones.
	finish(p product)
}

func generate(name, heights, unit string, a isa) {
	asm.Kernel(name, "func(height int, a *uint8, blockBytes int, aScales *float32, blocks int, w *int8, order *uint16, counts *uint16, "+
		"corrections *int32, scales *float32, bias *float32, biasStep int, y *float32, yStride int, strips int, floor float32, mask uint32)",
		fmt.Sprintf("%s computes blocks of height (%s) %s of mulInt8Generic for strips of 8 columns of an int8Pairs.", name, heights, unit),
		"a holds the activations of a block for each step together, blockBytes from block to block. Strides and biasStep are in bytes.",
		"mask has a bit for each column of a strip that exists. floor is what results are at least.")
	height := asm.Int("height")
	sums, _ := a.registers()
	for h := 1; h < len(sums); h++ {
		CMPQ(height, U32(h))
		JEQ(LabelRef(fmt.Sprintf("height%d", h)))
	}
	for h := len(sums); h > 0; h-- {
		Label(fmt.Sprintf("height%d", h))
		newProduct(a, h).generate()
	}
}

// product generates the code for blocks of one height.
type product struct {
	isa
	sums          []reg.VecPhysical
	ones          reg.VecPhysical
	w0w1, parts   []reg.VecPhysical // two each
	a, y, aScales reg.GPVirtual     // of the block
	w, order      reg.GPVirtual
}

func newProduct(a isa, height int) product {
	sums, others := a.registers()
	return product{
		isa: a, sums: sums[:height], ones: others[0], w0w1: others[1:3], parts: others[3:5],
		a: GP64(), y: GP64(), aScales: GP64(), w: GP64(), order: GP64(),
	}
}

func (p product) label(name string) string { return fmt.Sprintf("%s%d", name, len(p.sums)) }

func (p product) generate() {
	blocks := GP64()
	p.prepare(p.ones)

	Label(p.label("strip"))
	MOVQ(asm.Addr("a"), p.a)
	MOVQ(asm.Addr("y"), p.y)
	MOVQ(asm.Addr("aScales"), p.aScales)
	MOVQ(asm.Addr("blocks"), blocks)

	Label(p.label("block"))
	MOVQ(asm.Addr("w"), p.w)
	MOVQ(asm.Addr("order"), p.order)
	p.fetchResults()
	p.startSums()
	p.steps("pairs", 0, 2)
	p.steps("singles", 2, 1)
	p.finish(p)
	ADDQ(asm.Addr("blockBytes"), p.a)
	DECQ(blocks)
	JNZ(LabelRef(p.label("block")))

	MOVQ(p.w, asm.Addr("w")) // both have come to the next strip
	MOVQ(p.order, asm.Addr("order"))
	ADDQ(Imm(4), asm.Addr("counts"))
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

// fetchResults has the lines of the results fetched while their sums are made: stores to lines that are far away would fill the queue of
// stores, and lines whose rows are a power of two apart push each other out of the first-level cache.
func (p product) fetchResults() {
	y, stride := GP64(), GP64()
	MOVQ(p.y, y)
	MOVQ(asm.Addr("yStride"), stride)
	for range p.rows() * len(p.sums) {
		PREFETCHT0(Mem{Base: y})
		ADDQ(stride, y)
	}
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

// steps adds the products of pairs of steps, or of single ones, of which a strip has as many as its counts say.
func (p product) steps(name string, count, together int) {
	n, done := GP64(), p.label(name+"Done")
	counts := GP64()
	MOVQ(asm.Addr("counts"), counts)
	MOVWQZX(Mem{Base: counts, Disp: count}, n)
	TESTQ(n, n)
	JZ(LabelRef(done))
	Label(p.label(name))
	PREFETCHT0(Mem{Base: p.w, Disp: ahead})
	var at []Mem
	for i := range together {
		at = append(at, p.activations(i))
	}
	p.weights(p.w, p.w0w1[:together])
	for r, sum := range p.sums {
		for i, m := range at {
			p.repeat(m.Offset(4*p.rows()*r), p.parts[i])
			VPMADDUBSW(p.w0w1[i], p.parts[i], p.parts[i])
		}
		if together == 2 {
			VPADDW(p.parts[1], p.parts[0], p.parts[0])
		}
		VPMADDWD(p.ones, p.parts[0], p.parts[0])
		VPADDD(p.parts[0], sum, sum)
	}
	ADDQ(Imm(uint64(4*columns*together)), p.w)
	ADDQ(Imm(uint64(2*together)), p.order)
	DECQ(n)
	JNZ(LabelRef(p.label(name)))
	Label(done)
}

// activations addresses the activations of the first rows at the i-th of the next steps. From a step to the next it is four
// bytes of each row.
func (p product) activations(i int) Mem {
	step := GP64()
	MOVWQZX(Mem{Base: p.order, Disp: 2 * i}, step)
	factor, scale := 4*p.rows()*len(p.sums), 8
	for factor%scale > 0 {
		scale /= 2
	}
	factor /= scale
	shift := bits.TrailingZeros(uint(factor))
	switch odd := factor >> shift; odd {
	case 1:
	case 3, 5, 9:
		LEAQ(Mem{Base: step, Index: step, Scale: uint8(odd - 1)}, step)
	case 7, 11: // 1 + 2·3 and 1 + 2·5; a multiplication is slower
		part := GP64()
		LEAQ(Mem{Base: step, Index: step, Scale: uint8(odd/2 - 1)}, part)
		LEAQ(Mem{Base: step, Index: part, Scale: 2}, step)
	default:
		panic(fmt.Sprintf("no way to multiply by %d", odd))
	}
	if shift > 0 {
		SHLQ(Imm(uint64(shift)), step)
	}
	return Mem{Base: p.a, Index: step, Scale: uint8(scale)}
}

// interleave brings the bytes of a block of rows together for each step.
func interleave() {
	asm.Kernel("interleaveInt8", "func(dst *uint8, a *uint8, aStride int, rows int, steps int)",
		"interleaveInt8 writes a block of rows of bytes so that the four of row r at step s are at 4·(rows·s + r).",
		"steps is a multiple of 4.")
	dst, a, stride, rows, steps := asm.Int("dst"), asm.Int("a"), asm.Int("aStride"), asm.Int("rows"), asm.Int("steps")
	step, three, left, from, to := GP64(), GP64(), GP64(), GP64(), GP64()
	MOVQ(rows, step)
	SHLQ(Imm(2), step)
	LEAQ(Mem{Base: step, Index: step, Scale: 2}, three)
	Label("row")
	MOVQ(steps, left)
	MOVQ(a, from)
	MOVQ(dst, to)
	Label("turn")
	four := []Mem{{Base: to}, {Base: to, Index: step, Scale: 1}, {Base: to, Index: step, Scale: 2}, {Base: to, Index: three, Scale: 1}}
	for i, m := range four {
		word := GP32()
		MOVL(Mem{Base: from, Disp: 4 * i}, word)
		MOVL(word, m)
	}
	ADDQ(Imm(16), from)
	LEAQ(Mem{Base: to, Index: step, Scale: 4}, to)
	SUBQ(Imm(4), left)
	JNZ(LabelRef("turn"))
	ADDQ(stride, a)
	ADDQ(Imm(4), dst)
	DECQ(rows)
	JNZ(LabelRef("row"))
	RET()
}
