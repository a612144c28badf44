// Command recurrentneon generates additive attention for arm64.
package main

import (
	"math"

	"github.com/sluice-mt/sluice/kernels/_asm/neon"
)

func main() {
	neon.Main(func(f *neon.File) {
		for _, pairs := range []bool{false, true} {
			scores(f, pairs)
			sums(f, pairs)
		}
	})
}

// kernelName is the name of a kernel for keys and values kept as float32, or in pairs of bfloat16 (see pairOf), and how they are kept.
func kernelName(kernel string, pairs bool) (name, kept string) {
	if pairs {
		return kernel + "PairsNEON", "kept in pairs"
	}
	return kernel + "NEON", "kept as float32"
}

// upper holds the mask of the upper elements of pairs.
const upper neon.V = 29

// unpack splits pairs at an offset into lower and upper elements.
func unpack(f *neon.Func, low, high neon.V, from neon.R, offset int) {
	f.Load(high, from, offset)
	f.ShiftLeft(low, high, 16)
	f.Op("and", high, high, upper)
}

// scores generates the scores of a query. With E = min(K·Q + 1, 2³⁰) for four elements a, b, c, d, 16 apart, it adds
//
//	v[a]/E[a] + v[b]/E[b] + v[c]/E[c] + v[d]/E[d]
//
// to a stripe as one fraction. Each quarter of the stripes has a register.
func scores(file *neon.File, pairs bool) {
	const (
		to, query, score, key, width, count neon.R = 0, 1, 2, 3, 4, 5
		left, q, v                          neon.R = 6, 7, 8

		keys, e, factors, first, second neon.V = 4, 12, 16, 20, 21
		one, limit                      neon.V = 30, 31
	)
	name, kept := kernelName("additiveScores", pairs)
	f := file.Func(name, "scores *float32, q *float32, v *float32, keys *float32, width int, nk int", "",
		name+" computes the nk >= 1 sums of additiveScoresGeneric for keys of width elements, a multiple of 64 and at least 64, "+kept+".")
	f.Args(to, "scores", "q", "v", "keys", "width", "nk")
	f.Splat(math.Float32bits(1), one)
	f.Splat(math.Float32bits(1<<30), limit)
	f.Splat(0xffff0000, upper)
	f.Label("key")
	f.G("MOVD %v, %v", width, left)
	f.G("MOVD %v, %v", query, q)
	f.G("MOVD %v, %v", score, v)
	for i := range neon.V(4) {
		f.Zero(i)
	}
	f.Label("block")
	for quarter := range 4 {
		at := 16 * quarter
		for i := range neon.V(4) {
			if !pairs {
				f.Load(keys+i, key, at+64*int(i))
			} else if i%2 == 0 {
				unpack(f, keys+i, keys+i+1, key, at+32*int(i))
			}
		}
		for i := range neon.V(4) {
			f.Load(factors+i, q, at+64*int(i))
			f.Move(e+i, one)
			f.Op("fmla", e+i, keys+i, factors+i)
			f.Op("fmin", e+i, e+i, limit)
			f.Load(factors+i, v, at+64*int(i))
		}
		for i, n := range []neon.V{first, second} {
			a := neon.V(2 * i)
			f.Op("fmul", n, factors+a+1, e+a)
			f.Op("fmla", n, factors+a, e+a+1)
			f.Op("fmul", e+a, e+a, e+a+1)
		}
		f.Op("fmul", second, second, e)
		f.Op("fmla", second, first, e+2)
		f.Op("fmul", e, e, e+2)
		f.Op("fdiv", second, second, e)
		f.Op("fadd", neon.V(quarter), neon.V(quarter), second)
	}
	f.Step(bytes(64, pairs), key)
	f.Step(256, q, v)
	f.G("SUBS $64, %v", left)
	f.G("BNE block")
	f.SumStripes()
	f.StoreLane(0, to)
	f.Step(4, to)
	f.G("SUBS $1, %v", count)
	f.G("BNE key")
	f.G("RET")
}

// bytes is what n elements take where they are kept.
func bytes(n int, pairs bool) int {
	if pairs {
		return 2 * n
	}
	return 4 * n
}

// sums generates weighted sums of values, each one chain of fused multiply-adds.
func sums(file *neon.File, pairs bool) {
	const (
		out, weights, values, step, count neon.R = 0, 1, 2, 3, 4

		low, high, weight neon.V = 16, 17, 24
	)
	name, kept := kernelName("additiveSums64", pairs)
	f := file.Func(name, "out *float32, weights *float32, values *float32, step int, nk int, inverse float32", "",
		name+" sets out to (Σ_j weights[j]·value j)·inverse in 64 columns; value j starts step·j bytes from values, "+kept+". nk is at least 1.")
	f.Args(out, "out", "weights", "values", "step", "nk")
	f.Splat(0xffff0000, upper)
	for i := range neon.V(16) {
		f.Zero(i)
	}
	f.Label("value")
	f.LoadLaneNext(weight, weights)
	for i := range neon.V(16) {
		switch {
		case !pairs:
			f.Load(low, values, 16*int(i))
			f.FMLALane(i, low, weight, 0)
		case i%8 < 4:
			unpack(f, low, high, values, 64*int(i/8)+16*int(i%8))
			f.FMLALane(i, low, weight, 0)
			f.FMLALane(i+4, high, weight, 0)
		}
	}
	f.G("ADD %v, %v", step, values)
	f.G("SUBS $1, %v", count)
	f.G("BNE value")
	f.ArgSplat("inverse", weight)
	for i := range neon.V(16) {
		f.Op("fmul", i, i, weight)
		f.Store(i, out, 16*int(i))
	}
	f.G("RET")
}
