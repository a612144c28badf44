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
		Name: "mulInt8AVXVNNI", Doc: "mulInt8Generic", Activation: "uint8", Weight: "int8", Corrections: true,
		MultiplyAdd: func(weights Op, activations, sum, _ reg.VecPhysical) {
			asm.VexVPDPBUSD(weights.(reg.VecPhysical), activations, sum)
		},
	}.Generate256(true)
	dotsInt8AVXVNNI()
	words()
	bursts()
	Generate()
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

	asm.Kernel("int8BurstAVX512Chains", "func(turns int)",
		"int8BurstAVX512Chains does 24 independent times in each turn what mulInt8ChainsAVX512 does for a chain of four steps of 64 bytes.")
	turns = asm.Int("turns")
	for _, z := range asm.Z {
		VPXORD(z, z, z)
	}
	Label("turn")
	for i := range 24 {
		sum, part := asm.Z[24+i%2*2], asm.Z[25+i%2*2]
		VPMADDUBSW(asm.Z[28], asm.Z[29], sum)
		for range 3 {
			VPMADDUBSW(asm.Z[28], asm.Z[29], part)
			VPADDW(part, sum, sum)
		}
		VPMADDWD(asm.Z[28], sum, sum)
		VPADDD(sum, asm.Z[i], asm.Z[i])
	}
	DECQ(turns)
	JNZ(LabelRef("turn"))
	VZEROUPPER()
	RET()
}
