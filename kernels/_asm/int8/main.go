// Command int8 generates the products of quantised matrices.
package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"

	"github.com/sluice-mt/sluice/kernels/_asm/product"
)

func main() {
	ConstraintExpr("!purego")
	kernel("mulInt8AVX512").Generate512(true)
	unfetched := kernel("mulInt8AVX512Unfetched")
	unfetched.Unfetched = true
	unfetched.Generate512(true)
	kernel("mulInt8AVX512Double").GenerateDouble512()
	bytes := kernel("mulInt8AVX512DoubleBytes")
	bytes.Bytes = true
	bytes.GenerateDouble512()
	mulInt8AVX2()
	Generate()
}

// kernel multiplies with VPDPBUSD (unsigned times signed bytes, exact): sum[r][j] += Σ_{i<4} a[r][4s+i]·w[4s+i][j].
func kernel(name string) product.Kernel {
	return product.Kernel{
		Name: name, Doc: "mulInt8Generic", Activation: "uint8", Weight: "int8", Corrections: true,
		MultiplyAdd: func(weights Op, activations, sum, _ reg.VecPhysical) { VPDPBUSD(weights, activations, sum) },
	}
}
