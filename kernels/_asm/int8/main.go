// Command int8 generates the products of quantised matrices.
package main

import (
	. "github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/reg"

	"github.com/sluice-mt/sluice/kernels/_asm/product"
)

func main() {
	ConstraintExpr("!purego")
	// sum[r][j] += Σ_{i<4} a[r][4s+i]·w[4s+i][j]   (VPDPBUSD: unsigned times signed bytes, exact)
	product.Kernel{
		Name: "mulInt8AVX512", Doc: "mulInt8Generic", Activation: "uint8", Weight: "int8", Corrections: true,
		MultiplyAdd: func(weights, activations, sum, _ reg.VecPhysical) { VPDPBUSD(weights, activations, sum) },
	}.Generate512(true)
	mulInt8AVX2()
	Generate()
}
