// Command int8sparse generates the product of an 8-bit matrix with activations of which many are zeros, as a ReLU leaves them (see
// int8Sparse).
//
// The rows of the matrix for which there is an activation are listed. Four of the list are multiplied at a time, whichever they are, by
// bringing the four bytes of a column together, as the instructions that multiply want them:
//
//	sum[c] += Σ_{j<4} a[i+j]·w[i+j][c]    VPDPBUSD, or VPMADDUBSW, VPMADDWD and VPADDD
//
// Activations are at most 127 without their zero point: two products fit 16 bits.
package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"

	"github.com/sluice-mt/sluice/kernels/_asm/asm"
)

const (
	strip = 64 // columns of the least that is multiplied, which share an address of the bias
	ahead = 2  // quads, of which weights are fetched
)

func main() {
	ConstraintExpr("!purego")
	count()
	listAVX2()
	listAVX512()
	fetch()
	for _, a := range []isa{
		{"mulInt8SparseAVX2", asm.Y, 32, strip},
		{"mulInt8SparseAVX512", asm.Z, 64, strip},
		{"mulInt8SparseAVX512Wide", asm.Z, 64, 4 * strip},
	} {
		a.quads()
	}
	Generate()
}

// zeroPoint is the byte of an activation of zero, in all bytes.
func zeroPoint() asm.Const { return asm.Bits(0x8080_8080) }

func count() {
	asm.Kernel("countInt8", "func(a *uint8, n int) (count int, all uint32)",
		"countInt8 counts the bytes that are not 128. In all there is a bit for each of 32 places, set if no byte there is below 128.",
		"n is a multiple of 64, at least 64.")
	a, n := asm.Int("a"), asm.Int("n")
	zero, every, found := GP64(), GP32(), GP32()
	left := GP64()
	MOVQ(n, left)
	XORQ(zero, zero)
	point, and, v, equal := YMM(), YMM(), YMM(), YMM()
	VPBROADCASTD(zeroPoint().Mem(), point)
	VPCMPEQB(and, and, and)
	Label("bytes")
	for i := range 2 {
		VMOVDQU(Mem{Base: a, Disp: 32 * i}, v)
		VPAND(v, and, and)
		VPCMPEQB(point, v, equal)
		VPMOVMSKB(equal, found)
		POPCNTL(found, found)
		ADDQ(found.As64(), zero)
	}
	ADDQ(Imm(64), a)
	SUBQ(Imm(64), left)
	JNZ(LabelRef("bytes"))
	VPMOVMSKB(and, every)
	SUBQ(zero, n)
	Store(n, ReturnIndex(0))
	Store(every, ReturnIndex(1))
	VZEROUPPER()
	RET()
}

// places is a table of the bits that are set in each byte, and 128 where there are no more.
func places() Mem {
	table := GLOBL("setBits", RODATA|NOPTR)
	for byte := range 256 {
		at := 0
		entry := uint64(0x8080_8080_8080_8080)
		for bit := range 8 {
			if byte>>bit&1 == 1 {
				entry = entry&^(0xff<<(8*at)) | uint64(bit)<<(8*at)
				at++
			}
		}
		DATA(8*byte, U64(entry))
	}
	return table
}

// countingWords is a table of the words from 0 to 63.
func countingWords() Mem {
	table := GLOBL("countingWords", RODATA|NOPTR)
	for i := range 64 {
		DATA(2*i, U16(i))
	}
	return table
}

func listAVX2() {
	asm.Kernel("listInt8AVX2", "func(ks *uint16, values *uint8, a *uint8, k int) (n int)",
		"listInt8AVX2 lists the places of a row of k bytes that are not 128, and in values what is above 128 there. No byte may be below it.",
		"k is a multiple of 64, at least 64. The lists have room for 64 more than k, and end with four zeros that are not counted.")
	ks, values, a, left, n, table := asm.Int("ks"), asm.Int("values"), asm.Int("a"), asm.Int("k"), GP64(), GP64()
	bits := places()
	LEAQ(bits, table)
	XORQ(n, n)
	flip, zero, place, eight := XMM(), XMM(), XMM(), XMM()
	VPBROADCASTD(zeroPoint().Mem(), flip)
	VPXOR(zero, zero, zero)
	VPXOR(place, place, place)
	VPBROADCASTD(asm.Bits(0x0008_0008).Mem(), eight)
	Label("bytes")
	v, equal, set := XMM(), XMM(), GP32()
	VPXOR(Mem{Base: a}, flip, v)
	VPCMPEQB(zero, v, equal)
	VPMOVMSKB(equal, set)
	XORL(U32(0xffff), set)
	for half := range 2 {
		which, order, picked, words, number := GP32(), XMM(), XMM(), XMM(), GP32()
		if half == 0 {
			MOVBLZX(set.As8(), which)
		} else {
			MOVL(set, which)
			SHRL(Imm(8), which)
			VPSRLDQ(Imm(8), v, v)
		}
		VMOVQ(Mem{Base: table, Index: which.As64(), Scale: 8}, order)
		VPSHUFB(order, v, picked)
		VMOVQ(picked, Mem{Base: values, Index: n, Scale: 1})
		VPMOVZXBW(order, words)
		VPADDW(place, words, words)
		VMOVDQU(words, Mem{Base: ks, Index: n, Scale: 2})
		VPADDW(eight, place, place)
		POPCNTL(which, number)
		ADDQ(number.As64(), n)
	}
	ADDQ(Imm(16), a)
	SUBQ(Imm(16), left)
	JNZ(LabelRef("bytes"))
	endList(ks, values, n)
	Store(n, ReturnIndex(0))
	VZEROUPPER()
	RET()
}

func listAVX512() {
	asm.Kernel("listInt8AVX512", "func(ks *uint16, values *uint8, a *uint8, k int) (n int)",
		"listInt8AVX512 is listInt8AVX2 for processors that have VPCOMPRESSB (AVX-512 VBMI2).")
	ks, values, a, left, n := asm.Int("ks"), asm.Int("values"), asm.Int("a"), asm.Int("k"), GP64()
	XORQ(n, n)
	flip, low, high, step := ZMM(), ZMM(), ZMM(), ZMM()
	VPBROADCASTD(zeroPoint().Mem(), flip)
	words := countingWords()
	VMOVDQU64(words, low)
	VMOVDQU64(words.Offset(64), high)
	VPBROADCASTD(asm.Bits(0x0040_0040).Mem(), step)
	Label("bytes")
	v, picked := ZMM(), ZMM()
	set, above, bits, number := K(), K(), GP64(), GP64()
	VPXORD(Mem{Base: a}, flip, v)
	VPTESTMB(v, v, set)
	KSHIFTRQ(Imm(32), set, above)
	KMOVQ(set, bits)
	VPCOMPRESSB_Z(v, set, picked)
	VMOVDQU64(picked, Mem{Base: values, Index: n, Scale: 1})
	VPCOMPRESSW_Z(low, set, picked)
	VMOVDQU64(picked, Mem{Base: ks, Index: n, Scale: 2})
	POPCNTL(bits.As32(), number.As32())
	ADDQ(number, n)
	VPCOMPRESSW_Z(high, above, picked)
	VMOVDQU64(picked, Mem{Base: ks, Index: n, Scale: 2})
	SHRQ(Imm(32), bits)
	POPCNTL(bits.As32(), number.As32())
	ADDQ(number, n)
	VPADDW(step, low, low)
	VPADDW(step, high, high)
	ADDQ(Imm(64), a)
	SUBQ(Imm(64), left)
	JNZ(LabelRef("bytes"))
	endList(ks, values, n)
	Store(n, ReturnIndex(0))
	VZEROUPPER()
	RET()
}

func fetch() {
	asm.Kernel("fetchInt8", "func(w *int8, n int)", "fetchInt8 has n bytes, a multiple of 64, brought into the second-level cache.")
	w, n := asm.Int("w"), asm.Int("n")
	Label("line")
	PREFETCHT1(Mem{Base: w})
	ADDQ(Imm(64), w)
	SUBQ(Imm(64), n)
	JG(LabelRef("line"))
	RET()
}

// endList appends four zeros to lists of n.
func endList(ks, values, n reg.GPVirtual) {
	none := GP64()
	XORQ(none, none)
	MOVQ(none, Mem{Base: ks, Index: n, Scale: 2})
	MOVL(none.As32(), Mem{Base: values, Index: n, Scale: 1})
}

// An isa is a set of instructions that multiplies.
type isa struct {
	name      string
	registers []reg.VecPhysical
	bytes     int // of a register
	columns   int // that are multiplied together
}

const signature = "func(quads int, ks *uint16, values *uint8, w *int8, stride int, aScale *float32, scales *float32, bias *float32, biasStep int, " +
	"y *float32, strips int, floor float32)"

// quads generates the product of a row.
func (a isa) quads() {
	asm.Kernel(a.name, signature,
		fmt.Sprintf("%s multiplies a listed row of activations with strips of %d columns of the rows at w, which are stride bytes apart,", a.name, a.columns),
		"columns in the order of sparsePlace. biasStep, for 64 columns, is in bytes. floor is what results are at least.")
	p := product{isa: a, ks: asm.Int("ks"), values: asm.Int("values"), w: asm.Int("w"), stride: asm.Int("stride"), i: GP64()}
	n := 4 * a.columns / a.bytes
	p.sums, p.free = a.registers[:n], a.registers[n:]
	p.prepare()
	Label("strip")
	for _, sum := range p.sums {
		p.clear(sum)
	}
	XORQ(p.i, p.i)
	JMP(LabelRef("next"))
	Label("quad")
	p.quad()
	INCQ(p.i)
	Label("next")
	CMPQ(p.i, asm.Addr("quads"))
	JLT(LabelRef("quad"))
	p.finish()
	ADDQ(U32(a.columns), p.w)
	for _, perColumn := range []string{"scales", "y"} {
		ADDQ(U32(4*a.columns), asm.Addr(perColumn))
	}
	DECQ(asm.Addr("strips"))
	JNZ(LabelRef("strip"))
	VZEROUPPER()
	RET()
}

type product struct {
	isa
	ks, values, w, stride, i reg.GPVirtual
	sums, free               []reg.VecPhysical
	ones                     reg.VecPhysical
}

// prepare sets constants up.
func (p *product) prepare() {
	if p.bytes == 32 {
		p.ones, p.free = p.free[0], p.free[1:]
		VPCMPEQW(p.ones, p.ones, p.ones)
		VPSRLW(Imm(15), p.ones, p.ones)
	}
}

func (p *product) clear(v reg.VecPhysical) {
	if p.bytes == 32 {
		VPXOR(v, v, v)
	} else {
		VPXORD(v, v, v)
	}
}

func (p *product) load(m Mem, v reg.VecPhysical) {
	if p.bytes == 32 {
		VMOVDQU(m, v)
	} else {
		VMOVDQU64(m, v)
	}
}

// multiplyAdd adds the products of the four activations with those of each column. It overwrites the weights.
func (p *product) multiplyAdd(weights, a, sum reg.VecPhysical) {
	if p.bytes == 32 {
		VPMADDUBSW(weights, a, weights)
		VPMADDWD(p.ones, weights, weights)
		VPADDD(weights, sum, sum)
	} else {
		VPDPBUSD(weights, a, sum)
	}
}

// quad adds the products of four entries of the lists. The rows of the next but one are fetched.
func (p *product) quad() {
	var rows [4]reg.GPVirtual
	for i := range rows {
		rows[i] = GP64()
		p.address(8*ahead+2*i, rows[i])
		for line := 0; line < p.columns; line += 64 {
			PREFETCHT0(Mem{Base: rows[i], Disp: line})
		}
		p.address(2*i, rows[i])
	}
	a := p.free[0]
	VPBROADCASTD(Mem{Base: p.values, Index: p.i, Scale: 4}, a)
	for j := range len(p.sums) / 4 {
		v, spare := p.free[1:5], p.free[5]
		for i, row := range rows {
			p.load(Mem{Base: row, Disp: p.bytes * j}, v[i])
		}
		first, second := interleave(v[0], v[1], spare, VPUNPCKLBW, VPUNPCKHBW)
		third, fourth := interleave(v[2], v[3], v[1], VPUNPCKLBW, VPUNPCKHBW)
		for i, half := range [2][2]reg.VecPhysical{{first, third}, {second, fourth}} {
			low, high := interleave(half[0], half[1], [2]reg.VecPhysical{v[3], third}[i], VPUNPCKLWD, VPUNPCKHWD)
			p.multiplyAdd(low, a, p.sums[4*j+2*i])
			p.multiplyAdd(high, a, p.sums[4*j+2*i+1])
		}
	}
}

// interleave brings the elements of x and y together, those of the lower halves of each 16 bytes in to, the others in x.
func interleave(x, y, to reg.VecPhysical, lower, upper func(...Op)) (low, high reg.VecPhysical) {
	lower(y, x, to)
	upper(y, x, x)
	return to, x
}

// address sets a register to where the weights are that belong to an entry of the next ones.
func (p *product) address(entry int, to reg.GPVirtual) {
	MOVWQZX(Mem{Base: p.ks, Index: p.i, Scale: 8, Disp: entry}, to)
	IMULQ(p.stride, to)
	ADDQ(p.w, to)
}

// finish writes y = max(floor, float(sum)·(aScale·scale) + bias) for a strip. (max in this order of operands keeps NaN.)
func (p *product) finish() {
	bias, scales, y, aScale := GP64(), GP64(), GP64(), GP64()
	MOVQ(asm.Addr("bias"), bias)
	MOVQ(asm.Addr("scales"), scales)
	MOVQ(asm.Addr("y"), y)
	MOVQ(asm.Addr("aScale"), aScale)
	factor, floor := p.free[0], p.free[1]
	VBROADCASTSS(Mem{Base: aScale}, factor)
	VBROADCASTSS(asm.Addr("floor"), floor)
	perStrip := 4 * strip / p.bytes
	for j, v := range p.sums {
		scale := p.free[2+j%2]
		VCVTDQ2PS(v, v)
		VMULPS(Mem{Base: scales, Disp: p.bytes * j}, factor, scale)
		VMULPS(scale, v, v)
		VADDPS(Mem{Base: bias, Disp: p.bytes * (j % perStrip)}, v, v)
		VMAXPS(v, floor, v)
		VMOVUPS(v, Mem{Base: y, Disp: p.bytes * j})
		if j%perStrip == perStrip-1 {
			ADDQ(asm.Addr("biasStep"), bias)
		}
	}
	MOVQ(bias, asm.Addr("bias"))
}
