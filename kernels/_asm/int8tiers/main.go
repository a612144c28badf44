// Command int8tiers generates the products of quantised matrices for processors that have half of what the usual ones
// have: AVX-VNNI without AVX-512, and AVX-512 without VNNI.
package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"

	"github.com/sluice-mt/sluice/kernels/_asm/asm"
	"github.com/sluice-mt/sluice/kernels/_asm/product"
)

func main() {
	ConstraintExpr("!purego")
	product.Kernel{
		Name: "mulInt8AVXVNNI", Doc: "mulInt8Generic", Element: "uint8", Corrections: true,
		MultiplyAdd: func(weights, activations, sum, _ reg.VecPhysical) { asm.VexVPDPBUSD(weights, activations, sum) },
	}.Generate256(true)
	dotsInt8AVXVNNI()
	mulInt8AVX512BW()
	bursts()
	Generate()
}

// mulInt8AVX512BW multiplies bytes without VPDPBUSD.
//
// VPMADDUBSW, the other instruction that multiplies bytes, saturates: 255·127·2 does not fit 16 bits. VPMADDWD adds the
// products of two pairs of words exactly. So the bytes of each word are taken apart, into words:
//
//	four k of a column:     b0 b1 b2 b3 → even b0 b2, odd b1 b3
//	sum[r][j] += a0·w0 + a2·w2              (VPMADDWD of the even ones)
//	sum[r][j] += a1·w1 + a3·w3              (VPMADDWD of the odd ones)
//
// Activations are unsigned and weights are signed, which shifts and a mask do in place: no shuffles, and every sum stays
// in the lane of its column.
func mulInt8AVX512BW() {
	step := func(rows int, weights []Mem, at func(row int) Mem, sum func(row, j int) reg.VecPhysical, free []reg.VecPhysical) {
		even, odd, aEven, aOdd, products, evenBytes := free[0:2], free[2:4], free[4], free[5], free[6], free[7]
		for j, m := range weights {
			VMOVDQU32(m, odd[j])
			VPSLLW(Imm(8), odd[j], even[j])
			VPSRAW(Imm(8), even[j], even[j])
			VPSRAW(Imm(8), odd[j], odd[j])
		}
		for r := range rows {
			VPBROADCASTD(at(r), aOdd)
			VPANDD(evenBytes, aOdd, aEven)
			VPSRLW(Imm(8), aOdd, aOdd)
			for j := range weights {
				VPMADDWD(even[j], aEven, products)
				VPADDD(products, sum(r, j), sum(r, j))
				VPMADDWD(odd[j], aOdd, products)
				VPADDD(products, sum(r, j), sum(r, j))
			}
		}
	}
	product.Kernel{
		Name: "mulInt8AVX512BW", Doc: "mulInt8Generic", Element: "uint8", Corrections: true,
	}.Generate512(false, step, func(free []reg.VecPhysical) { VPBROADCASTD(asm.Bits(0x00ff00ff).Mem(), free[7]) })
}

// bursts generates the loops that measure what a core can do at most.
func bursts() {
	asm.Kernel("int8BurstAVXVNNI", "func(turns int)", "int8BurstAVXVNNI does 12 independent VPDPBUSD of 32 bytes in each turn.")
	turns := asm.Int("turns")
	for _, y := range asm.Y {
		VPXOR(y, y, y)
	}
	Label("turn")
	for i := range 12 {
		asm.VexVPDPBUSD(asm.Y[12+i%2], asm.Y[14+i%2], asm.Y[i])
	}
	DECQ(turns)
	JNZ(LabelRef("turn"))
	VZEROUPPER()
	RET()

	asm.Kernel("int8BurstAVX512BW", "func(turns int)", "int8BurstAVX512BW does 24 independent VPMADDWD of 32 words, and as many additions, in each turn.")
	turns = asm.Int("turns")
	for _, z := range asm.Z {
		VPXORD(z, z, z)
	}
	Label("turn")
	for i := range 24 {
		products := asm.Z[24+i%4]
		VPMADDWD(asm.Z[28+i%2], asm.Z[30+i%2], products)
		VPADDD(products, asm.Z[i], asm.Z[i])
	}
	DECQ(turns)
	JNZ(LabelRef("turn"))
	VZEROUPPER()
	RET()
}
