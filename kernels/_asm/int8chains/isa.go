package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"

	"github.com/sluice-mt/sluice/kernels/_asm/asm"
)

// avx2 has a row in each register of sums: 8 columns. (A tenth row would take the register of the ones, which would have to be loaded with each
// chain: loads are as scarce as products.)
type avx2 struct{}

func (avx2) tallest() int { return 9 }

func (a avx2) registers(height int) (sums, weights, others []reg.VecPhysical) {
	others = asm.Y[13:15]
	if height < a.tallest() {
		others = []reg.VecPhysical{asm.Y[13], asm.Y[14], asm.Y[height]}
	}
	return asm.Y[:height], asm.Y[9:13], others
}

// wordOnes are ones of 16 bits.
var wordOnes = asm.Y[15]

func (avx2) rows() int { return 1 }

// offset: 36 bytes are 9·4.
func (avx2) offset(step reg.GPVirtual) (index reg.GPVirtual, scale uint8) {
	LEAQ(Mem{Base: step, Index: step, Scale: 8}, step)
	return step, 4
}

func (avx2) prepare() {
	VPCMPEQW(wordOnes, wordOnes, wordOnes)
	VPSRLW(Imm(15), wordOnes, wordOnes)
}

func (avx2) weights(from reg.Register, to []reg.VecPhysical) {
	for i, w := range to {
		VMOVDQU(Mem{Base: from, Disp: 32 * i}, w)
	}
}

func (avx2) repeat(m Mem, to reg.VecPhysical) { VPBROADCASTD(m, to) }

func (avx2) widen(v reg.VecPhysical) { VPMADDWD(wordOnes, v, v) }

func (avx2) perColumn(m Mem, to reg.VecPhysical) { VMOVDQU(m, to) }

// finish writes y = max(floor, float(sum)·(aScale·scale) + bias) for the rows of the block and steps on to the next.
// (max in this order of operands keeps NaN.)
func (avx2) finish(p product) {
	exists, bias, floor, scale := p.w0w3[0], p.w0w3[1], p.parts[0], p.parts[1]
	biasAt, scales, stride := GP64(), GP64(), GP64()
	VBROADCASTSS(asm.Addr("floor"), floor)
	MOVQ(asm.Addr("bias"), biasAt)
	MOVQ(asm.Addr("scales"), scales)
	MOVQ(asm.Addr("yStride"), stride)
	asm.WithLanes(asm.Addr("mask"), 0, exists, func(lanes asm.Lanes) {
		lanes.Load(Mem{Base: biasAt}, bias)
		for r, v := range p.sums {
			VCVTDQ2PS(v, v)
			VBROADCASTSS(Mem{Base: p.aScales, Disp: 4 * r}, scale)
			VMULPS(Mem{Base: scales}, scale, scale)
			VMULPS(scale, v, v)
			VADDPS(bias, v, v)
			VMAXPS(v, floor, v)
			lanes.Store(v, Mem{Base: p.y})
			ADDQ(stride, p.y)
		}
	})
	ADDQ(Imm(uint64(4*len(p.sums))), p.aScales)
}

// avx512 has two rows in each register of sums, in turns: lane 2j + r is column j of row r. The activations of two rows lie
// side by side, and two permutations give each of them its copy of the weights.
type avx512 struct{}

// twice, twiceUpper and apart are the permutations: each of the lower 8 lanes, or of the upper ones, twice; even lanes and odd
// ones apart. ones are those of 16 bits.
var ones, twice, twiceUpper, apart = asm.Z[28], asm.Z[29], asm.Z[30], asm.Z[31]

func (avx512) tallest() int { return 10 }

func (avx512) registers(height int) (sums, weights, others []reg.VecPhysical) {
	return asm.Z[:height], asm.Z[12:16], asm.Z[16:19]
}

func (avx512) rows() int { return 2 }

// offset: 80 bytes are 5·2·8.
func (avx512) offset(step reg.GPVirtual) (index reg.GPVirtual, scale uint8) {
	LEAQ(Mem{Base: step, Index: step, Scale: 4}, step)
	ADDQ(step, step)
	return step, 8
}

func (avx512) prepare() {
	VPTERNLOGD(Imm(0xff), ones, ones, ones)
	VPSRLW(Imm(15), ones, ones)
	for i, order := range []reg.VecPhysical{twice, twiceUpper, apart} {
		VMOVDQU32(permutations().Offset(64*i), order)
	}
	mask := GP32()
	MOVL(asm.Addr("mask"), mask)
	KMOVW(mask, reg.K1)
}

func permutations() Mem {
	if permutationsMem == nil {
		m := GLOBL("pair_permutations", RODATA|NOPTR)
		for p, lane := range []func(i int) int{
			func(i int) int { return i / 2 },
			func(i int) int { return 8 + i/2 },
			func(i int) int { return i%8*2 + i/8 },
		} {
			for i := range 16 {
				DATA(64*p+4*i, U32(lane(i)))
			}
		}
		permutationsMem = &m
	}
	return *permutationsMem
}

var permutationsMem *Mem

// weights loads two steps at a time.
func (avx512) weights(from reg.Register, to []reg.VecPhysical) {
	for i := 0; i < len(to); i += 2 {
		m := Mem{Base: from, Disp: 4 * columns * i}
		if i+1 == len(to) {
			VMOVDQU(m, to[i].AsY())
			VPERMD(to[i], twice, to[i])
			return
		}
		VMOVDQU32(m, to[i+1])
		VPERMD(to[i+1], twice, to[i])
		VPERMD(to[i+1], twiceUpper, to[i+1])
	}
}

func (avx512) repeat(m Mem, to reg.VecPhysical) { VPBROADCASTQ(m, to) }

func (avx512) widen(v reg.VecPhysical) { VPMADDWD(ones, v, v) }

func (avx512) perColumn(m Mem, to reg.VecPhysical) {
	VMOVDQU(m, to.AsY())
	VPERMD(to, twice, to)
}

// finish is that of avx2 for two rows at a time.
func (a avx512) finish(p product) {
	scales, bias, floor, scale := p.w0w3[0], p.w0w3[1], p.parts[0], p.parts[1]
	scalesAt, biasAt, stride := GP64(), GP64(), GP64()
	VBROADCASTSS(asm.Addr("floor"), floor)
	MOVQ(asm.Addr("scales"), scalesAt)
	MOVQ(asm.Addr("bias"), biasAt)
	MOVQ(asm.Addr("yStride"), stride)
	a.perColumn(Mem{Base: scalesAt}, scales)
	VMOVUPS_Z(Mem{Base: biasAt}, reg.K1, bias.AsY())
	VPERMD(bias, twice, bias)
	for r, v := range p.sums {
		VCVTDQ2PS(v, v)
		VPBROADCASTQ(Mem{Base: p.aScales, Disp: 8 * r}, scale)
		VMULPS(scales, scale, scale)
		VMULPS(scale, v, v)
		VADDPS(bias, v, v)
		VMAXPS(v, floor, v)
		VPERMPS(v, apart, v)
		VMOVUPS(v.AsY(), reg.K1, Mem{Base: p.y})
		ADDQ(stride, p.y)
		VEXTRACTF64X4(Imm(1), v, v.AsY())
		VMOVUPS(v.AsY(), reg.K1, Mem{Base: p.y})
		ADDQ(stride, p.y)
	}
	ADDQ(Imm(uint64(8*len(p.sums))), p.aScales)
}
