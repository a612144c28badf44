// Command recurrent generates the kernels of recurrent models: additive attention, and the gates of GRUs and LSTMs.
package main

import (
	. "github.com/mmcloughlin/avo/build"

	"github.com/sluice-mt/sluice/kernels/_asm/asm"
)

func main() {
	ConstraintExpr("!purego")
	for _, isa := range []asm.ISA{asm.AVX512, asm.AVX2} {
		doubledExp(isa)
		for _, l := range []layout{whole, pairs} {
			additiveScores(isa, l)
			additiveSums(isa, l, 64)
		}
		gru(isa)
		lstm(isa)
	}
	for _, l := range []layout{whole, pairs} {
		additiveSums(asm.AVX512, l, 256)
	}
	Generate()
}
