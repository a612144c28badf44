package main

import "github.com/sluice-mt/sluice/kernels/_asm/neon"

const (
	sparseStrip = 64 // columns that are multiplied together
	ahead       = 2  // quads, of which weights are fetched
)

// countInt8 generates what decides whether lists of activations pay.
func countInt8(file *neon.File) {
	f := file.Func("countInt8NEON", "a *uint8, n int", "int",
		"countInt8NEON counts the bytes that are not 128, or returns -1 if one is below it. n is a multiple of 64, at least 64.")
	const (
		bytes, n, left, low, high r = 0, 1, 2, 3, 4
		and, zeros, point         v = 0, 1, 31
		read, equal               v = 16, 20 // four of each
	)
	f.Args(bytes, "a", "n")
	f.G("MOVD %v, %v", n, left)
	f.SignBits(point)
	f.SignBits(and)
	f.Zero(zeros)
	f.Label("bytes")
	for i := range v(4) {
		f.LoadNext(read+i, bytes)
		f.Op("and", and, and, read+i)
		f.OpOn("16b", "cmeq", equal+i, read+i, point) // -1 for each zero
		if i > 0 {
			f.OpOn("16b", "add", equal, equal, equal+i)
		}
	}
	f.SADDLP(equal, equal)
	f.SADALP(zeros, equal)
	f.G("SUBS $64, %v", left)
	f.G("BNE bytes")
	f.G("VMOV V%d.D[0], %v", and, low)
	f.G("VMOV V%d.D[1], %v", and, high)
	f.G("AND %v, %v", high, low)
	f.G("MOVD $0x8080808080808080, %v", high)
	f.G("CMP %v, %v", high, low)
	f.G("BNE negative")
	f.Across("addv", zeros, zeros)
	f.G("FMOVS F%d, %v", zeros, low)
	f.G("ADD %v.SXTW, %v, %v", low, n, n)
	f.G("MOVD %v, %s", n, f.Parameter("ret"))
	f.G("RET")
	f.Label("negative")
	f.G("MOVD $-1, %v", n)
	f.G("MOVD %v, %s", n, f.Parameter("ret"))
	f.G("RET")
}

// fetchInt8 generates what brings a matrix into the cache before its rows are read in no order.
func fetchInt8(file *neon.File) {
	f := file.Func("fetchInt8", "w *int8, n int", "", "fetchInt8 has n bytes, a multiple of 64, brought into the second-level cache.")
	const w, n r = 0, 1
	f.Args(w, "w", "n")
	f.Label("line")
	f.G("PRFM (%v), PLDL2KEEP", w)
	f.Step(64, w)
	f.G("SUBS $64, %v", n)
	f.G("BGT line")
	f.G("RET")
}

// sparse generates the product of a row of which the activations that are something are listed (see int8Sparse). Four rows of the matrix that
// the list names are multiplied at a time, whichever they are: the four bytes of a column are brought together, as SDOT wants them,
//
//	sum[c] += Σ_{j<4} a[i+j]·w[i+j][c]
//
// by ZIP1 and ZIP2 of bytes, and then of words, which leaves columns in their order.
func sparse(file *neon.File) {
	f := file.Func("mulInt8SparseSDOT", "quads int, ks *uint16, values *uint8, w *int8, stride int, aScale *float32, scales *float32, bias *float32, biasStep int, "+
		"y *float32, strips int, floor float32", "",
		"mulInt8SparseSDOT multiplies a listed row of activations with strips of 64 columns of the rows at w, which are stride bytes apart.",
		"biasStep is in bytes. floor is what results are at least.")
	const (
		w, stride, entry, value, quads     r = 2, 3, 5, 6, 7
		weights                            r = 8  // of the four rows
		fetched                            r = 12 // of the next but one
		scales, bias, y, strips, temporary r = 19, 20, 21, 22, 17

		read, pairs, four v = 16, 20, 24 // four of each
		activations       v = 28
		vectors             = sparseStrip / 4
	)
	f.Args(w, "w", "stride")
	f.Args(scales, "scales", "bias", "y", "strips")
	f.ArgSplat("floor", floor)
	f.Label("strip")
	f.Args(entry, "ks", "values", "quads")
	for j := range v(vectors) {
		f.Zero(j)
	}
	f.G("CBZ %v, finish", quads)

	f.Label("quad")
	for i := range r(4) {
		f.G("MOVHU %d(%v), %v", 8*ahead+2*int(i), entry, fetched+i)
		f.G("MADD %v, %v, %v, %v", stride, w, fetched+i, fetched+i) // times stride, and w
		f.G("PRFM (%v), PLDL1KEEP", fetched+i)
	}
	for i := range r(4) {
		f.G("MOVHU.P 2(%v), %v", entry, weights+i)
		f.G("MADD %v, %v, %v, %v", stride, w, weights+i, weights+i)
	}
	f.LoadLaneNext(activations, value)
	for first := v(0); first < vectors; first += 4 {
		for i := range v(4) {
			f.Load(read+i, weights+r(i), 4*int(first))
		}
		for i := range v(2) {
			zip := []string{"zip1", "zip2"}[i]
			f.OpOn("16b", zip, pairs+i, read, read+1)
			f.OpOn("16b", zip, pairs+2+i, read+2, read+3)
		}
		for i := range v(2) {
			f.OpOn("8h", "zip1", four+2*i, pairs+i, pairs+2+i)
			f.OpOn("8h", "zip2", four+2*i+1, pairs+i, pairs+2+i)
		}
		for i := range v(4) {
			f.SDOTLane(first+i, four+i, activations, 0)
		}
	}
	f.G("SUBS $1, %v", quads)
	f.G("BNE quad")

	f.Label("finish")
	p := product{Func: f}
	f.Arg("aScale", temporary)
	f.LoadLane(activations, temporary)
	for j := range v(vectors) {
		f.Load(read+j%4, scales, 16*int(j))
		f.Load(pairs+j%4, bias, 16*int(j))
		p.scaled(j, read+j%4, pairs+j%4, activations, four+j%4)
		f.Store(j, y, 16*int(j))
	}
	f.Arg("biasStep", temporary)
	f.G("ADD %v, %v", temporary, bias)
	f.Step(sparseStrip, w)
	f.Step(4*sparseStrip, scales, y)
	f.G("SUBS $1, %v", strips)
	f.G("BNE strip")
	f.G("RET")
}
