package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"

	"github.com/sluice-mt/sluice/kernels/_asm/asm"
	"github.com/sluice-mt/sluice/kernels/_asm/product"
)

// words generates products of bytes without VPDPBUSD, for weights that cannot be packed as chains (see int8chains).
//
// VPMADDUBSW, the other instruction that multiplies bytes, saturates: 255·127·2 does not fit 16 bits. VPMADDWD adds the
// products of two pairs of words exactly. So the bytes of each word are taken apart, into words:
//
//	four k of a column:     b0 b1 b2 b3 → even b0 b2, odd b1 b3
//	sum[r][j] += a0·w0 + a2·w2              (VPMADDWD of the even ones)
//	sum[r][j] += a1·w1 + a3·w3              (VPMADDWD of the odd ones)
//
// Shifts do so to weights, in place: no shuffles, and every sum stays in the lane of its column. The weights of a step
// serve all rows of a block. Activations are taken apart once for all columns, by widen.
func words() {
	kernel := product.Kernel{Doc: "mulInt8Generic, with activations that widenInt8 took apart,", Activation: "uint16", Weight: "int8",
		StepBytes: 8, Corrections: true}
	kernel.Name, kernel.Step = "mulInt8WideAVX512", wideStep(func(m, v Op) { VMOVDQU32(m, v) })
	kernel.Generate512(false)
	kernel.Name, kernel.Step = "mulInt8WideAVX2", wideStep(VMOVDQU)
	kernel.Generate256(false)
	widen()
}

// wideStep takes the weights apart: for the even k of all rows, then for the odd ones.
func wideStep(load func(m, v Op)) product.Step {
	return func(rows int, weights []Mem, at func(row int) Mem, sum func(row, j int) reg.VecPhysical, free []reg.VecPhysical) {
		w, a, products := free[:len(weights)], free[len(weights)], free[len(weights)+1]
		for odd := range 2 {
			for j, m := range weights {
				load(m, w[j])
				if odd == 0 {
					VPSLLW(Imm(8), w[j], w[j])
				}
				VPSRAW(Imm(8), w[j], w[j])
			}
			for r := range rows {
				VPBROADCASTD(at(r).Offset(4*odd), a)
				for j := range weights {
					VPMADDWD(w[j], a, products)
					VPADDD(products, sum(r, j), sum(r, j))
				}
			}
		}
	}
}

// widen takes bytes apart: b0 b1 b2 b3 becomes the words b0 b2 b1 b3.
func widen() {
	asm.Kernel("widenInt8", "func(dst *uint16, a *uint8, n int)",
		"widenInt8 writes n bytes as words, each four in the order 0, 2, 1, 3. n is a multiple of 32 and at least 32.")
	dst, a, n := asm.Int("dst"), asm.Int("a"), asm.Int("n")
	Label("turn")
	for half := range 2 {
		v := YMM()
		VPMOVZXBW(Mem{Base: a, Disp: 16 * half}, v)
		VPSHUFLW(Imm(0xd8), v, v)
		VPSHUFHW(Imm(0xd8), v, v)
		VMOVDQU(v, Mem{Base: dst, Disp: 32 * half})
	}
	ADDQ(U32(32), a)
	ADDQ(U32(64), dst)
	SUBQ(U32(32), n)
	JNZ(LabelRef("turn"))
	VZEROUPPER()
	RET()
}
