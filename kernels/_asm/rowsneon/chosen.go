package main

import (
	"math"

	"github.com/sluice-mt/sluice/kernels/_asm/neon"
)

// maxChosen takes four elements at a time. Four bits say which of them are chosen: in every lane another one of them is looked at, then the next
// four are shifted down. What is not chosen counts as -MaxFloat32. Magnitudes compare as integers, so that NaN is the largest of all.
func maxChosen(file *neon.File) {
	const (
		x, chosen, words, result, bits, half neon.R = 0, 1, 2, 3, 4, 5 // bits of a word, and their upper half

		largest, magnitude                 neon.V = 0, 2          // two of each
		left, read, isChosen, kept         neon.V = 4, 16, 20, 24 // the first of their registers
		least, magnitudeBits, lanes, other neon.V = 31, 30, 29, 28
	)
	f := file.Func("maxChosenNEON", "x *float32, chosen *uint64, words int, result *[2]uint32", "",
		"maxChosenNEON sets result to the bits of what maxChosenGeneric returns for 64 elements to each of so many words, at least one.")
	f.Args(x, "x", "chosen", "words", "result")
	f.Splat(math.Float32bits(-math.MaxFloat32), least)
	f.Splat(signBit-1, magnitudeBits)
	f.Splat(1, lanes) // to be 1, 2, 4 and 8
	f.Splat(2, other)
	f.Op("zip1", lanes, lanes, other)
	f.ShiftLeft(other, lanes, 2)
	f.ZipHalves(lanes, lanes, other, false)
	for i := range neon.V(2) {
		f.Move(largest+i, least)
		f.Zero(magnitude + i)
	}
	f.Label("word")
	f.G("MOVD.P 8(%v), %v", chosen, bits)
	f.G("LSR $32, %v, %v", bits, half)
	for _, which := range []neon.R{bits, half} {
		f.Dup(left, which)
		for i := range neon.V(8) {
			j := i % 4
			f.LoadNext(read+j, x)
			f.Op("cmtst", isChosen+j, left, lanes)
			f.ShiftRight(left, left, 4)
			f.Move(kept+j, least)
			f.Op("bit", kept+j, read+j, isChosen+j)
			f.Op("fmax", largest+i%2, largest+i%2, kept+j)
			f.Op("and", isChosen+j, isChosen+j, magnitudeBits)
			f.Op("and", read+j, read+j, isChosen+j)
			f.Op("umax", magnitude+i%2, magnitude+i%2, read+j)
		}
	}
	f.G("SUBS $1, %v", words)
	f.G("BNE word")
	f.Op("fmax", largest, largest, largest+1)
	f.Op("umax", magnitude, magnitude, magnitude+1)
	f.Across("fmaxv", largest, largest)
	f.Across("umaxv", magnitude, magnitude)
	f.StoreLane(largest, result)
	f.Step(4, result)
	f.StoreLane(magnitude, result)
	f.G("RET")
}

// embedInt8 generates dst = (q·factor)·scale + position, 16 elements at a time.
func embedInt8(file *neon.File) {
	f := file.Func("embedInt8NEON", "dst *float32, row *int8, position *float32, n int, factor float32, scale float32", "",
		"embedInt8NEON computes embedInt8Generic for n elements, a multiple of 16 and at least 16.")
	const (
		dst, row, position, n neon.R = 0, 1, 2, 3

		bytes, words, numbers, at neon.V = 0, 1, 4, 16 // two of words, four of numbers and of positions
		factor, scale             neon.V = 31, 30
	)
	f.Args(dst, "dst", "row", "position", "n")
	f.ArgSplat("factor", factor)
	f.ArgSplat("scale", scale)
	f.Label("turn")
	f.LoadNext(bytes, row)
	for i := range neon.V(2) {
		f.WidenBytes(words+i, bytes, i == 1)
	}
	for i := range neon.V(4) {
		f.WidenWords(numbers+i, words+i/2, i%2 == 1)
		f.Op2("scvtf", numbers+i, numbers+i)
		f.Op("fmul", numbers+i, numbers+i, factor)
		f.Op("fmul", numbers+i, numbers+i, scale)
		f.LoadNext(at+i, position)
		f.Op("fadd", numbers+i, numbers+i, at+i)
		f.StoreNext(numbers+i, dst)
	}
	f.G("SUBS $16, %v", n)
	f.G("BNE turn")
	f.G("RET")
}
