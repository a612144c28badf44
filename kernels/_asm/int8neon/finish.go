package main

import "github.com/sluice-mt/sluice/kernels/_asm/neon"

// finishDots generates what becomes of the sums of chosen rows: y = float(sum)·(aScale·scale) + bias, four rows at a time.
func finishDots(file *neon.File) {
	const (
		y, scales, bias, n r = 0, 1, 2, 3

		sum, scale, offset, aScale v = 0, 1, 2, 31
	)
	f := file.Func("finishDotsNEON", "y *float32, scales *float32, bias *float32, n int, aScale float32", "",
		"finishDotsNEON makes results of dotRowsInt8Generic of the n sums that are at y. n is a multiple of 4 and at least 4.")
	f.Args(y, "y", "scales", "bias", "n")
	f.ArgSplat("aScale", aScale)
	f.Label("turn")
	f.Load(sum, y, 0)
	f.LoadNext(scale, scales)
	f.LoadNext(offset, bias)
	f.Op2("scvtf", sum, sum)
	f.Op("fmul", scale, scale, aScale)
	f.Op("fmul", sum, sum, scale)
	f.Op("fadd", sum, sum, offset)
	f.StoreNext(sum, y)
	f.G("SUBS $4, %v", n)
	f.G("BNE turn")
	f.G("RET")
}
