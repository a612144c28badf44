// Command float32 generates the products of float32 matrices.
package main

import . "github.com/mmcloughlin/avo/build"

func main() {
	ConstraintExpr("!purego")
	mulFloat32AVX512()
	mulFloat32AVX512Double()
	mulFloat32AVX2()
	Generate()
}
