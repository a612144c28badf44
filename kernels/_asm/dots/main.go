// Command dots generates the kernels made of dot products of rows: attention, and products with chosen rows of a table.
package main

import (
	. "github.com/mmcloughlin/avo/build"

	"github.com/sluice-mt/sluice/kernels/_asm/asm"
)

func main() {
	ConstraintExpr("!purego")
	headScoresAVX512()
	headValuesAVX512()
	expRowsAVX512()
	transposeKeysAVX512()
	for _, dim := range []int{32, 64} {
		tileScoresAVX512(dim)
		tileValuesAVX512(dim)
		for _, l := range []layout{whole, pairs} {
			keptScoresAVX512(dim, l)
			keptValuesAVX512(dim, l)
			keptDotsAVX2(dim, l)
		}
		keptPairValuesAVX2(dim)
	}
	pairsAVX512()
	pairsAVX2()
	gatherPanelAVX512()
	embedInt8(asm.AVX512)
	embedInt8(asm.AVX2)
	pick(asm.AVX512)
	pick(asm.AVX2)
	dotRowsInt8AVX512()
	dotRowsFloat32AVX512()
	dotRowsBFloat16AVX512()
	dotsInt8AVX2()
	finishDotsAVX2()
	dotsFloat32AVX2()
	dotsBFloat16AVX2()
	valuesAVX2()
	Generate()
}
