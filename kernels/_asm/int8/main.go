// Command int8 generates the products of quantised matrices.
package main

import . "github.com/mmcloughlin/avo/build"

func main() {
	ConstraintExpr("!purego")
	mulInt8AVX512()
	mulInt8AVX2()
	Generate()
}
