// Command rows generates the kernels that work on rows of float32: elementwise functions, norms, softmax, reductions.
package main

import (
	. "github.com/mmcloughlin/avo/build"

	"github.com/sluice-mt/sluice/kernels/_asm/asm"
)

func main() {
	ConstraintExpr("!purego")
	for _, isa := range []asm.ISA{asm.AVX512, asm.AVX2} {
		elementwise(isa)
		norms(isa)
		quantize(isa)
		roundBFloat16(isa)
		packBFloat16(isa)
		softmax(isa)
		reductions(isa)
		argMax(isa)
	}
	transposeWords()
	attentionWeights(asm.AVX2)
	attentionRows()
	maxChosen()
	Generate()
}
