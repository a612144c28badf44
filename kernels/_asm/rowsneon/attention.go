package main

import (
	"fmt"
	"strings"

	"github.com/sluice-mt/sluice/kernels/_asm/neon"
)

// splitNames returns the names of "name type" parameters.
func splitNames(parameters string) (names []string) {
	for _, p := range strings.Split(parameters, ", ") {
		name, _, _ := strings.Cut(p, " ")
		names = append(names, name)
	}
	return names
}

// attention generates dot products with chosen rows, and weighted sums of them.
func attention(file *neon.File) {
	const (
		first, second, base, ids, stride, n neon.R = 0, 1, 2, 3, 4, 5
		left, row, x                        neon.R = 6, 8, 9
	)
	f := file.Func("dotsFloat32NEON", "y *float32, x *float32, base *float32, ids *int32, stride int, n int, k int", "",
		"dotsFloat32NEON stores dotGeneric of x and the rows of k elements that start ids[i]·stride bytes from base. k is a multiple of 16, n and k are not zero.")
	f.Args(first, "y", "x", "base", "ids", "stride", "n")
	f.Label("row")
	f.G("MOVW.P 4(%v), %v", ids, row)
	f.G("MADD %v, %v, %v, %v", stride, base, row, row)
	f.G("MOVD %v, %v", second, x)
	f.Arg("k", left)
	for i := range neon.V(4) {
		f.Zero(i)
	}
	f.Label("turn")
	for i := range neon.V(4) {
		f.LoadNext(4+i, x)
		f.LoadNext(8+i, row)
		f.Op("fmla", i, 4+i, 8+i)
	}
	f.G("SUBS $16, %v", left)
	f.G("BNE turn")
	f.SumStripes()
	f.StoreLane(0, first)
	f.Step(4, first)
	f.G("SUBS $1, %v", n)
	f.G("BNE row")
	f.G("RET")

	for _, columns := range []int{32, 16} {
		vectors := neon.V(columns / 4)
		name := fmt.Sprintf("values%dNEON", columns)
		f = file.Func(name,
			"out *float32, weights *float32, v *float32, offsets *int32, n int, inverse float32", "",
			name+" sets out to (Σ_j weights[j]·v[offsets[j]…])·inverse, one chain of fused multiply-adds for each of "+fmt.Sprint(columns)+" elements. n is at least 1.")
		f.Args(first, "out", "weights", "v", "offsets", "n")
		for i := range vectors {
			f.Zero(i)
		}
		const count neon.R = 4
		f.Label("turn")
		f.G("MOVW.P 4(%v), %v", ids, row)
		f.G("ADD %v<<2, %v, %v", row, base, row)
		f.LoadLaneNext(24, second)
		for i := range vectors {
			f.Load(16+i, row, 16*int(i))
			f.FMLALane(i, 16+i, 24, 0)
		}
		f.G("SUBS $1, %v", count)
		f.G("BNE turn")
		f.ArgSplat("inverse", 24)
		for i := range vectors {
			f.Op("fmul", i, i, 24)
			f.Store(i, first, 16*int(i))
		}
		f.G("RET")
	}
}
