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

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"

	"github.com/sluice-mt/sluice/kernels/_asm/asm"
)

const (
	maxRows = 11 // most rows whose sums fit the registers, beside five others
	columns = 8
	ahead   = 4 << 10 // distance in bytes at which weights are prefetched
)

func main() {
	ConstraintExpr("!purego")
	asm.Kernel("mulInt8PairsAVX2", "func(height int, a *uint8, blockBytes int, aScales *float32, blocks int, w *int8, order *uint16, counts *uint16, "+
		"corrections *int32, scales *float32, bias *float32, biasStep int, y *float32, yStride int, strips int, floor float32, mask uint32)",
		fmt.Sprintf("mulInt8PairsAVX2 computes blocks of height (1 to %d) rows of mulInt8Generic for strips of 8 columns of an int8Pairs.", maxRows),
		"a holds the activations of a block for each step together, blockBytes from block to block. Strides and biasStep are in bytes.",
		"mask has a bit for each column of a strip that exists. floor is what results are at least.")
	height := asm.Int("height")
	for rows := 1; rows < maxRows; rows++ {
		CMPQ(height, U32(rows))
		JEQ(LabelRef(fmt.Sprintf("rows%d", rows)))
	}
	for rows := maxRows; rows > 0; rows-- {
		Label(fmt.Sprintf("rows%d", rows))
		newProduct(rows).generate()
	}
	interleave()
	Generate()
}

// product generates the code for blocks of one height. The sums are in the first registers.
type product struct {
	rows           int
	ones           reg.VecPhysical
	weights, parts [2]reg.VecPhysical
	a, y, aScales  reg.GPVirtual // of the block
	w, order       reg.GPVirtual
}

func newProduct(rows int) product {
	free := asm.Y[maxRows:]
	return product{
		rows: rows, ones: free[0], weights: [2]reg.VecPhysical(free[1:3]), parts: [2]reg.VecPhysical(free[3:5]),
		a: GP64(), y: GP64(), aScales: GP64(), w: GP64(), order: GP64(),
	}
}

func (p product) label(name string) string { return fmt.Sprintf("%s%d", name, p.rows) }

func (p product) generate() {
	blocks := GP64()
	VPCMPEQW(p.ones, p.ones, p.ones)
	VPSRLW(Imm(15), p.ones, p.ones)

	Label(p.label("strip"))
	MOVQ(asm.Addr("a"), p.a)
	MOVQ(asm.Addr("y"), p.y)
	MOVQ(asm.Addr("aScales"), p.aScales)
	MOVQ(asm.Addr("blocks"), blocks)

	Label(p.label("block"))
	MOVQ(asm.Addr("w"), p.w)
	MOVQ(asm.Addr("order"), p.order)
	p.startSums()
	p.steps("pairs", 0, 2)
	p.steps("singles", 2, 1)
	p.finish()
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

// startSums sets the sums to the corrections.
func (p product) startSums() {
	corrections := GP64()
	MOVQ(asm.Addr("corrections"), corrections)
	VMOVDQU(Mem{Base: corrections}, asm.Y[0])
	for r := 1; r < p.rows; r++ {
		VMOVDQA(asm.Y[0], asm.Y[r])
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
		VMOVDQU(Mem{Base: p.w, Disp: 32 * i}, p.weights[i])
	}
	for r := range p.rows {
		for i := range together {
			VPBROADCASTD(at[i].Offset(4*r), p.parts[i])
			VPMADDUBSW(p.weights[i], p.parts[i], p.parts[i])
		}
		if together == 2 {
			VPADDW(p.parts[1], p.parts[0], p.parts[0])
		}
		VPMADDWD(p.ones, p.parts[0], p.parts[0])
		VPADDD(p.parts[0], asm.Y[r], asm.Y[r])
	}
	ADDQ(Imm(uint64(32*together)), p.w)
	ADDQ(Imm(uint64(2*together)), p.order)
	DECQ(n)
	JNZ(LabelRef(p.label(name)))
	Label(done)
}

// activations addresses the four bytes of row 0 at the i-th of the next steps: 4·rows bytes lie between one step and the next.
func (p product) activations(i int) Mem {
	step := GP64()
	MOVWQZX(Mem{Base: p.order, Disp: 2 * i}, step)
	factor, scale := p.rows, uint8(4)
	if factor%2 == 0 {
		factor, scale = factor/2, 8
	}
	switch factor {
	case 1:
	case 2, 4:
		SHLQ(Imm(uint64(factor/2)), step)
	case 3, 5, 9:
		LEAQ(Mem{Base: step, Index: step, Scale: uint8(factor - 1)}, step)
	case 7, 11: // 1 + 2·3 and 1 + 2·5; a multiplication is slower
		part := GP64()
		LEAQ(Mem{Base: step, Index: step, Scale: uint8(factor/2 - 1)}, part)
		LEAQ(Mem{Base: step, Index: part, Scale: 2}, step)
	default:
		panic(fmt.Sprintf("no way to multiply by %d", factor))
	}
	return Mem{Base: p.a, Index: step, Scale: scale}
}

// finish writes y = max(floor, float(sum)·(aScale·scale) + bias) for the rows of the block and steps on to the next.
// (max in this order of operands keeps NaN.)
func (p product) finish() {
	exists, bias, floor, scale := p.weights[0], p.weights[1], p.parts[0], p.parts[1]
	biasAt, scales, stride := GP64(), GP64(), GP64()
	VBROADCASTSS(asm.Addr("floor"), floor)
	MOVQ(asm.Addr("bias"), biasAt)
	MOVQ(asm.Addr("scales"), scales)
	MOVQ(asm.Addr("yStride"), stride)
	asm.LanesOfBits(asm.Addr("mask"), 0, exists)
	VMASKMOVPS(Mem{Base: biasAt}, exists, bias)
	for r := range p.rows {
		v := asm.Y[r]
		VCVTDQ2PS(v, v)
		VBROADCASTSS(Mem{Base: p.aScales, Disp: 4 * r}, scale)
		VMULPS(Mem{Base: scales}, scale, scale)
		VMULPS(scale, v, v)
		VADDPS(bias, v, v)
		VMAXPS(v, floor, v)
		VMASKMOVPS(v, exists, Mem{Base: p.y})
		ADDQ(stride, p.y)
	}
	ADDQ(Imm(uint64(4*p.rows)), p.aScales)
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
