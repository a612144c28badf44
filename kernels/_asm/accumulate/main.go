// Command accumulate generates the products of float32 matrices that are added to a result, as training needs them.
package main

import . "github.com/mmcloughlin/avo/build"

func main() {
	ConstraintExpr("!purego")
	accumulateFloat32AVX512()
	accumulateFloat32AVX2()
	accumulateBFloat16()
	Generate()
}
