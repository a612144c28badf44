package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"

	"github.com/sluice-mt/sluice/kernels/_asm/asm"
)

// roundBFloat16 generates the rounding of float32 to bfloat16, on their bits:
//
//	upper half of (x + 0x7fff + (x>>16 & 1)), of NaN that of x, made quiet
//
// VCVTNEPS2BF16 would do it at once, but makes denormals zero, and few processors have it.
func roundBFloat16(isa asm.ISA) {
	name := "roundBFloat16" + isa.String()
	asm.Kernel(name, "func(dst *uint16, x *float32, n int)", name+" computes roundToBFloat16Generic for n elements, a multiple of 16 and at least 16.")
	dst, x, n := asm.Int("dst"), asm.Int("x"), asm.Int("n")
	Label("block")
	v := isa.Load(Mem{Base: x})
	halves := make([]reg.VecVirtual, len(v))
	for i := range v {
		halves[i] = rounded(isa, v[i])
	}
	if isa == asm.AVX512 {
		VPMOVDW(halves[0], Mem{Base: dst})
	} else {
		VPACKUSDW(halves[1], halves[0], halves[0]) // quarters come out as 0, 2, 1, 3
		VPERMQ(Imm(0xd8), halves[0], halves[0])
		VMOVDQU(halves[0], Mem{Base: dst})
	}
	ADDQ(U32(64), x)
	ADDQ(U32(32), dst)
	SUBQ(Imm(16), n)
	JNZ(LabelRef("block"))
	VZEROUPPER()
	RET()
}

// rounded returns what each lane is rounded to, in its lower half.
func rounded(isa asm.ISA, x reg.VecVirtual) reg.VecVirtual {
	const nearlyHalf, quiet = 0x7fff, 1 << 6
	if isa == asm.AVX512 {
		odd, half, isNaN := ZMM(), ZMM(), K()
		VPSRLD(Imm(16), x, half)
		VPANDD_BCST(asm.Bits(1).Mem(), half, odd)
		VPADDD(x, odd, odd)
		VPADDD_BCST(asm.Bits(nearlyHalf).Mem(), odd, odd)
		VPSRLD(Imm(16), odd, odd)
		VCMPPS(Imm(asm.Unordered), x, x, isNaN)
		VPORD_BCST(asm.Bits(quiet).Mem(), half, isNaN, odd)
		return odd
	}
	odd, half, isNaN := YMM(), YMM(), YMM()
	VPSRLD(Imm(16), x, half)
	VPAND(asm.Bits(1).Mem(), half, odd)
	VPADDD(x, odd, odd)
	VPADDD(asm.Bits(nearlyHalf).Mem(), odd, odd)
	VPSRLD(Imm(16), odd, odd)
	VCMPPS(Imm(asm.Unordered), x, x, isNaN)
	VPOR(asm.Bits(quiet).Mem(), half, half)
	VPBLENDVB(isNaN, half, odd, odd)
	return odd
}
