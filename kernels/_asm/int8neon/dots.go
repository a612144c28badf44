package main

import (
	"fmt"

	"github.com/sluice-mt/sluice/kernels/_asm/neon"
)

// dots generates the products of a row of activations with chosen rows: four rows at a time, then single ones, 64 bytes
// in a turn.
func dots(file *neon.File, name string, dot func(f *neon.Func, sum, weights, a v)) {
	f := file.Func(name, "y *int32, a *uint8, base *int8, ids *int32, stride int, n int", "",
		name+" stores Σ (a-128)·row for the rows that start ids[i]·stride bytes from base. Rows have stride bytes, a multiple of 64.")
	const (
		result, first, base, ids, stride, n r = 0, 1, 2, 3, 4, 5
		activations, left                   r = 6, 7
	)
	f.Args(result, "y", "a", "base", "ids", "stride", "n")
	f.SignBits(signs)
	for _, rows := range []int{4, 1} {
		group, next, turn := fmt.Sprintf("group%d", rows), fmt.Sprintf("after%d", rows), fmt.Sprintf("turn%d", rows)
		f.Label(group)
		f.G("SUBS $%d, %v", rows, n)
		f.G("BLT %s", next)
		for j := range rows {
			f.G("MOVW.P 4(%v), %v", ids, temporary)
			f.G("MADD %v, %v, %v, %v", stride, base, temporary, row+r(j)) // temporary·stride + base
			f.Zero(v(2 * j))
			f.Zero(v(2*j + 1))
		}
		f.G("MOVD %v, %v", first, activations)
		f.G("MOVD %v, %v", stride, left)
		f.Label(turn)
		for i := range 4 {
			const four, weight = 8, 12 // registers of activations, and of weights
			f.LoadNext(four+v(i), activations)
			f.Op("eor", four+v(i), four+v(i), signs)
			for j := range rows {
				f.LoadNext(weight+v(j), row+r(j))
				dot(f, v(2*j+i%2), weight+v(j), four+v(i))
			}
		}
		f.G("SUBS $64, %v", left)
		f.G("BNE %s", turn)
		for j := range rows {
			f.Op("add", v(j), v(2*j), v(2*j+1))
		}
		if rows == 4 {
			f.Op("addp", 0, 0, 1)
			f.Op("addp", 2, 2, 3)
			f.Op("addp", 0, 0, 2)
			f.StoreNext(0, result)
		} else {
			f.Across("addv", 0, 0)
			f.StoreLane(0, result)
			f.Step(4, result)
		}
		f.G("JMP %s", group)
		f.Label(next)
		f.G("ADD $%d, %v", rows, n)
	}
	f.G("RET")
}

// bursts generates the loops that measure what a core can do at most.
func bursts(file *neon.File) {
	for _, b := range []struct {
		name, what string
		operation  func(f *neon.Func, sum, n, m v)
	}{
		{"int8BurstNEON", "24 independent products of 8 bytes, and as many additions,", func(f *neon.Func, sum, n, m v) {
			f.SMULL(28, n, m, false)
			f.SADALP(sum, 28)
		}},
		{"int8BurstSDOT", "24 independent SDOT", (*neon.Func).SDOT},
		{"int8BurstSMMLA", "24 independent SMMLA", (*neon.Func).SMMLA},
		{"int16BurstNEON", "24 independent SMLAL of 4 words", func(f *neon.Func, sum, n, m v) { f.SMLAL(sum, n, m, false) }},
	} {
		f := file.Func(b.name, "turns int", "", fmt.Sprintf("%s does %s in each turn.", b.name, b.what))
		f.Arg("turns", 0)
		for i := range v(32) {
			f.Zero(i)
		}
		f.Label("turn")
		for i := range v(24) {
			b.operation(f, i, 24+i%2, 26+i%2)
		}
		f.G("SUBS $1, R0")
		f.G("BNE turn")
		f.G("RET")
	}
}
