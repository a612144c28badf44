package main

import (
	"math"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"

	"github.com/sluice-mt/sluice/kernels/_asm/asm"
)

// maxChosen takes 32 elements at a time, which half a word of bits belongs to. The bit of each is shifted to its sign, which is what
// blending looks at: what is not chosen counts as -MaxFloat32. Magnitudes compare as integers, so that NaN is the largest of all.
func maxChosen() {
	asm.Kernel("maxChosenAVX2", "func(x *float32, chosen *uint64, words int) (float32, uint32)",
		"maxChosenAVX2 computes maxChosenGeneric for 64 elements to each of so many words, at least one.")
	x, chosen, halves := asm.Int("x"), asm.Int("chosen"), asm.Int("words")
	SHLQ(Imm(1), halves)
	shifts := GLOBL("chosen_shifts", RODATA|NOPTR)
	for i := range 32 {
		DATA(4*i, U32(31-i))
	}
	lowest := asm.AVX2.Register(asm.F(-math.MaxFloat32))
	unsigned := YMM()
	VPCMPEQD(unsigned, unsigned, unsigned)
	VPSRLD(Imm(1), unsigned, unsigned)
	largest, magnitude := asm.AVX2.Copy(lowest), asm.AVX2.Zero()
	shift := [4]reg.VecVirtual{YMM(), YMM(), YMM(), YMM()}
	for i, s := range shift {
		VMOVDQU(shifts.Offset(32*i), s)
	}
	Label("half")
	bits := YMM()
	VPBROADCASTD(Mem{Base: chosen}, bits)
	for i, s := range shift {
		sign, v := YMM(), YMM()
		VPSLLVD(s, bits, sign)
		VBLENDVPS(sign, Mem{Base: x}.Offset(32*i), lowest[0], v)
		VMAXPS(v, largest[i%2], largest[i%2])
		VPAND(unsigned, v, v)
		VPMAXSD(v, magnitude[i%2], magnitude[i%2])
	}
	ADDQ(Imm(4), chosen)
	ADDQ(U32(128), x)
	DECQ(halves)
	JNZ(LabelRef("half"))
	Store(asm.AVX2.Reduce(VMAXPS, largest), ReturnIndex(0))
	most := GP32()
	VMOVD(asm.AVX2.Reduce(VPMAXSD, magnitude), most)
	Store(most, ReturnIndex(1))
	VZEROUPPER()
	RET()
}
