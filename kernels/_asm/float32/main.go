// Command float32 generates the products of float32 matrices.
package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"

	"github.com/sluice-mt/sluice/kernels/_asm/product"
)

func main() {
	ConstraintExpr("!purego")
	mulFloat32AVX512()
	product.Kernel{ // with the sums of mulFloat32AVX512
		Name: "mulFloat32AVX512Double", Doc: "mulFloat32Generic", Activation: "float32", Weight: "float32", Float: true,
		MultiplyAdd: func(weights Op, activations, sum, _ reg.VecPhysical) { VFMADD231PS(weights, activations, sum) },
	}.GenerateDouble512()
	mulFloat32AVX2()
	Generate()
}
