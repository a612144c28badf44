// Command dots generates the kernels made of dot products of rows: attention, and products with chosen rows of a table.
package main

import . "github.com/mmcloughlin/avo/build"

func main() {
	ConstraintExpr("!purego")
	attendAVX512()
	transposeKeysAVX512()
	attendTilesAVX512(32)
	attendTilesAVX512(64)
	dotRowsInt8AVX512()
	dotRowsFloat32AVX512()
	Generate()
}
