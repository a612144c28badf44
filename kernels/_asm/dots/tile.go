package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"

	"github.com/sluice-mt/sluice/kernels/_asm/asm"
)

// tileQueries is how many queries share what is loaded of the keys and values.
const tileQueries = 4

// transposeKeysAVX512 transposes the keys of a head, so that 16 keys are side by side: t[d][j] = k[j][d].
//
// Four elements of 16 keys at a time: register m gathers the keys m, 4+m, 8+m and 12+m in its 128-bit lanes, then each
// lane is transposed as a matrix of 4×4.
func transposeKeysAVX512() {
	asm.Kernel("transposeKeysAVX512", "func(t, k *float32, offsets *int32, pitch, headDim int)",
		"transposeKeysAVX512 stores element d of key j, which starts at element offsets[j] of k, at t[d·pitch+j].",
		"pitch is a multiple of 16, headDim of 4.")
	t, k, offsets, pitch, groups := asm.Int("t"), asm.Int("k"), asm.Int("offsets"), asm.Int("pitch"), asm.Int("pitch")
	SHLQ(Imm(2), pitch)
	Label("group")
	elements, from, to, third := asm.Int("headDim"), GP64(), GP64(), GP64()
	MOVQ(k, from)
	MOVQ(t, to)
	LEAQ(Mem{Base: pitch, Index: pitch, Scale: 2}, third)
	Label("elements")
	var r [4]reg.VecVirtual
	for m := range r {
		r[m] = ZMM()
		for lane := range 4 {
			offset := GP64()
			MOVL(Mem{Base: offsets, Disp: 4 * (4*lane + m)}, offset.As32())
			key := Mem{Base: from, Index: offset, Scale: 4}
			if lane == 0 {
				VMOVUPS(key, r[m].AsX())
			} else {
				VINSERTF32X4(Imm(uint64(lane)), key, r[m], r[m])
			}
		}
	}
	pairs := [4]reg.VecVirtual{ZMM(), ZMM(), ZMM(), ZMM()}
	VUNPCKLPS(r[1], r[0], pairs[0]) // keys 0, 1: elements 0, 1
	VUNPCKHPS(r[1], r[0], pairs[1]) // keys 0, 1: elements 2, 3
	VUNPCKLPS(r[3], r[2], pairs[2])
	VUNPCKHPS(r[3], r[2], pairs[3])
	for e := range 4 {
		column := ZMM()
		if e%2 == 0 {
			VUNPCKLPD(pairs[2+e/2], pairs[e/2], column)
		} else {
			VUNPCKHPD(pairs[2+e/2], pairs[e/2], column)
		}
		VMOVUPS(column, rowAt(to, pitch, third, e))
	}
	ADDQ(Imm(16), from)
	LEAQ(Mem{Base: to, Index: pitch, Scale: 4}, to)
	SUBQ(Imm(4), elements)
	JNZ(LabelRef("elements"))
	ADDQ(Imm(64), t)
	ADDQ(Imm(64), offsets)
	SUBQ(Imm(16), groups)
	JNZ(LabelRef("group"))
	VZEROUPPER()
	RET()
}

// tile generates the attention of four queries over the transposed keys of one head. Everything loaded of a key or value
// serves four queries. What is missing of a last tile is its last query again.
type tile struct {
	dim   int
	rows  [tileQueries]reg.GPVirtual // the queries, or their results
	pitch reg.GPVirtual              // bytes from an element of the keys to the next, and from a query's scores to the next
	third reg.GPVirtual              // three times that
}

func newTile(dim int) *tile {
	a := &tile{dim: dim, pitch: asm.Int("pitch"), third: GP64()}
	SHLQ(Imm(2), a.pitch)
	LEAQ(Mem{Base: a.pitch, Index: a.pitch, Scale: 2}, a.third)
	return a
}

func tileScoresAVX512(dim int) {
	asm.Kernel(fmt.Sprintf("tileScores%dAVX512", dim), "func(scores, maxima *float32, pitch int, q *float32, qStride int, t *float32, nq, nk int, scale float32)",
		fmt.Sprintf("tileScores%dAVX512 computes the scores of nq >= 1 queries with one head, of %d elements, transposed to t.", dim, dim),
		"It works like headScoresAVX512, with a row of scores and maxima for each query, rounded up to a multiple of 4. qStride is in bytes.")
	a := newTile(dim)
	scores, maxima := asm.Int("scores"), asm.Int("maxima")
	Label("tile")
	a.pointers("q")
	a.scores(scores, maxima)
	LEAQ(Mem{Base: scores, Index: a.third, Scale: 1}, scores) // the first of four rows is behind it
	ADDQ(U32(64*tileQueries), maxima)
	a.next("q")
}

func tileValuesAVX512(dim int) {
	asm.Kernel(fmt.Sprintf("tileValues%dAVX512", dim), "func(out *float32, outStride int, weights, inverses *float32, pitch int, v *float32, vStride int, nq, nk int)",
		fmt.Sprintf("tileValues%dAVX512 computes the weighted values of nq >= 1 queries and one head, of %d elements.", dim, dim),
		"It works like headValuesAVX512, with a row of weights and inverses for each query, rounded up to a multiple of 4. Strides are in bytes.")
	a := newTile(dim)
	weights, inverses := asm.Int("weights"), asm.Int("inverses")
	Label("tile")
	a.pointers("out")
	a.values(weights, inverses)
	LEAQ(Mem{Base: weights, Index: a.pitch, Scale: 4}, weights)
	ADDQ(U32(16*tileQueries), inverses)
	a.next("out")
}

// next steps to the next tile, and ends the kernel after the last.
func (a *tile) next(rows string) {
	step := asm.Int(rows + "Stride")
	SHLQ(Imm(2), step)
	ADDQ(step, asm.Addr(rows))
	SUBQ(Imm(tileQueries), asm.Addr("nq"))
	JG(LabelRef("tile"))
	VZEROUPPER()
	RET()
}

// pointers sets the rows of the tile's queries.
func (a *tile) pointers(rows string) {
	step := asm.Int(rows + "Stride")
	a.rows[0] = asm.Int(rows)
	for i := 1; i < tileQueries; i++ {
		a.rows[i] = GP64()
		LEAQ(Mem{Base: a.rows[i-1], Index: step, Scale: 1}, a.rows[i])
		CMPQ(asm.Addr("nq"), U32(i))
		CMOVQLE(a.rows[i-1], a.rows[i])
	}
}

// scores stores the scores of four queries, 16 keys at a time.
func (a *tile) scores(scores, maxima reg.GPVirtual) {
	t, rest := asm.Int("t"), asm.Int("nk")
	var largest [tileQueries]reg.VecVirtual
	for i := range largest {
		largest[i] = asm.AVX512.Register(minusInfinity)[0]
	}
	group := asm.Unique("group")
	Label(group)
	dots := a.tree(t, 0, 1)
	lanes := mask(rest)
	for i, dot := range dots {
		storeScores(dot, lanes, largest[i], rowAt(scores, a.pitch, a.third, i))
	}
	ADDQ(U32(64), t)
	ADDQ(U32(64), scores)
	SUBQ(U32(16), rest)
	JG(LabelRef(group))
	for i := range largest {
		VMOVUPS(largest[i], Mem{Base: maxima, Disp: 64 * i})
	}
}

// tree returns for four queries and 16 keys (the lanes) the sum of the stripes first, first + step, first + 2·step, …:
// the fixed tree, walked so that few sums are open at a time.
func (a *tile) tree(t reg.GPVirtual, first, step int) [tileQueries]reg.VecVirtual {
	if step == 16 {
		return a.stripe(t, first)
	}
	low, high := a.tree(t, first, 2*step), a.tree(t, first+step, 2*step)
	for i := range low {
		VADDPS(high[i], low[i], low[i])
	}
	return low
}

// stripe returns the products of the elements stripe, stripe + 16, … of four queries with 16 keys.
func (a *tile) stripe(t reg.GPVirtual, stripe int) (sums [tileQueries]reg.VecVirtual) {
	for d := stripe; d < a.dim; d += 16 {
		keys, at := ZMM(), GP64()
		IMUL3Q(U32(d), a.pitch, at)
		VMOVUPS(Mem{Base: t, Index: at, Scale: 1}, keys)
		for i := range sums {
			if d == stripe {
				sums[i] = ZMM()
				VMULPS_BCST(Mem{Base: a.rows[i], Disp: 4 * d}, keys, sums[i])
			} else {
				VFMADD231PS_BCST(Mem{Base: a.rows[i], Disp: 4 * d}, keys, sums[i])
			}
		}
	}
	return sums
}

// values writes the weighted sums of four queries.
func (a *tile) values(weights, inverses reg.GPVirtual) {
	v, step, at, rest := asm.Int("v"), asm.Int("vStride"), GP64(), asm.Int("nk")
	MOVQ(weights, at)
	vectors := a.dim / 16
	sums := zeros(tileQueries * vectors)
	keys := asm.Unique("keys")
	Label(keys)
	var value []reg.VecVirtual
	for i := range vectors {
		value = append(value, ZMM())
		VMOVUPS(Mem{Base: v, Disp: 64 * i}, value[i])
	}
	for i := range tileQueries {
		weight := ZMM()
		VBROADCASTSS(rowAt(at, a.pitch, a.third, i), weight)
		for j := range vectors {
			VFMADD231PS(value[j], weight, sums[i*vectors+j])
		}
	}
	ADDQ(Imm(4), at)
	ADDQ(step, v)
	DECQ(rest)
	JNZ(LabelRef(keys))
	for i := range tileQueries {
		for j := range vectors {
			sum := sums[i*vectors+j]
			VMULPS_BCST(Mem{Base: inverses, Disp: 16 * i}, sum, sum)
			VMOVUPS(sum, Mem{Base: a.rows[i], Disp: 64 * j})
		}
	}
}
