package main

import (
	"fmt"
	"math"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"

	"github.com/sluice-mt/sluice/kernels/_asm/asm"
)

var minusInfinity = asm.F(float32(math.Inf(-1)))

// headScoresAVX512 multiplies one query with all keys, head by head, 16 keys at a time:
// s[j] = scale·Σ_d q[d]·k[j][d], -Inf where there is no key.
func headScoresAVX512() {
	asm.Kernel("headScoresAVX512", "func(scores, maxima *float32, pitch int, q, k *float32, offsets *int32, nk, heads, headDim int, scale float32)",
		"headScoresAVX512 computes the scores of one query; key j starts at element offsets[j] of k. nk, heads and headDim are at least 1.",
		"scores gets pitch elements for each head, -Inf from the nk-th; maxima 16 for each head, of which the largest is the largest score.",
		"pitch is nk rounded up to a multiple of 16, and so many offsets are valid.")
	q, k, scores, maxima, bytes := asm.Int("q"), asm.Int("k"), asm.Int("scores"), asm.Int("maxima"), asm.Int("headDim")
	SHLQ(Imm(2), bytes)
	Label("head")
	offsets, rest := asm.Int("offsets"), asm.Int("nk")
	largest := asm.AVX512.Register(minusInfinity)[0]
	Label("group")
	sums := zeros(16)
	dots(bytes, q, sums, func(d reg.GPVirtual, body func(int, Mem)) {
		keys := GP64()
		LEAQ(Mem{Base: k, Index: d, Scale: 1}, keys)
		for j := range 16 {
			offset := GP64()
			MOVL(Mem{Base: offsets, Disp: 4 * j}, offset.As32())
			body(j, Mem{Base: keys, Index: offset, Scale: 4})
		}
	})
	storeScores(asm.SumEach(VADDPS, sums)[0], mask(rest), largest, Mem{Base: scores})
	ADDQ(U32(64), offsets)
	ADDQ(U32(64), scores)
	SUBQ(U32(16), rest)
	JG(LabelRef("group"))
	VMOVUPS(largest, Mem{Base: maxima})
	ADDQ(U32(64), maxima)
	ADDQ(bytes, q)
	ADDQ(bytes, k)
	DECQ(asm.Addr("heads"))
	JNZ(LabelRef("head"))
	VZEROUPPER()
	RET()
}

// storeScores stores dot·scale in the lanes that have a key, -Inf in the others, and keeps track of the largest (not of NaN).
func storeScores(dot reg.VecVirtual, lanes reg.OpmaskVirtual, largest reg.VecVirtual, m Mem) {
	score := asm.AVX512.Register(minusInfinity)[0]
	VMULPS_BCST(asm.Addr("scale"), dot, lanes, score)
	VMOVUPS(score, m)
	VMAXPS(largest, score, largest)
}

// headValuesAVX512 sums the values of one query, head by head: out[d] = (Σ_j weight[j]·v[j][d])·inverse.
func headValuesAVX512() {
	asm.Kernel("headValuesAVX512", "func(out *float32, weights, inverses *float32, pitch int, v *float32, offsets *int32, nk, heads, headDim int)",
		"headValuesAVX512 computes the weighted values of one query; value j starts at element offsets[j] of v. nk, heads and headDim are at least 1.",
		"weights has pitch elements for each head, inverses 4, of which the first counts.")
	v := values{v: asm.Int("v"), out: asm.Int("out"), weights: asm.Int("weights"), inverses: asm.Int("inverses"), bytes: asm.Int("headDim"), pitch: asm.Int("pitch"), heads: asm.Addr("heads")}
	SHLQ(Imm(2), v.bytes)
	SHLQ(Imm(2), v.pitch)
	v.severalHeads(32, 4)
	v.severalHeads(64, 2)
	CMPQ(v.heads, U32(0))
	JEQ(LabelRef("done"))
	Label("values")
	v.oneHead()
	v.advance(1)
	JNZ(LabelRef("values"))
	Label("done")
	VZEROUPPER()
	RET()
}

// values generates the weighted sums of values for one query. Each element is one chain of fused multiply-adds in the
// order of the keys; enough chains to hide their latency are in flight at once.
type values struct {
	v, out   reg.GPVirtual // of the first head that is left
	weights  reg.GPVirtual // its row
	inverses reg.GPVirtual // its place
	bytes    reg.GPVirtual // of a head
	pitch    reg.GPVirtual // bytes from the weights of a head to those of the next
	heads    Mem           // left
}

// advance steps over some heads; the flags say whether any are left.
func (v *values) advance(heads int) {
	for range heads {
		ADDQ(v.pitch, v.weights)
		ADDQ(Imm(16), v.inverses)
		ADDQ(v.bytes, v.v)
		ADDQ(v.bytes, v.out)
	}
	SUBQ(U32(heads), v.heads)
}

// severalHeads sums the values of some heads at once as long as that many are left, if headDim is dim. Their values lie
// side by side; with n the number of heads, vector i belongs to head i/(dim/16).
func (v *values) severalHeads(dim, n int) {
	loop, done := fmt.Sprintf("headsOf%d", dim), fmt.Sprintf("noHeadsOf%d", dim)
	CMPQ(v.bytes, U32(4*dim))
	JNE(LabelRef(done))
	Label(loop)
	CMPQ(v.heads, U32(n))
	JLT(LabelRef(done))
	vectors := n * dim / 16
	sums := zeros(vectors)
	offsets, rest, weights, third, offset := asm.Int("offsets"), asm.Int("nk"), GP64(), GP64(), GP64()
	MOVQ(v.weights, weights)
	LEAQ(Mem{Base: v.pitch, Index: v.pitch, Scale: 2}, third)
	keys := asm.Unique("keys")
	Label(keys)
	MOVL(Mem{Base: offsets}, offset.As32())
	for h := range n {
		weight := ZMM()
		VBROADCASTSS(rowAt(weights, v.pitch, third, h), weight)
		for i := h * dim / 16; i < (h+1)*dim/16; i++ {
			VFMADD231PS(Mem{Base: v.v, Index: offset, Scale: 4, Disp: 64 * i}, weight, sums[i])
		}
	}
	ADDQ(Imm(4), offsets)
	ADDQ(Imm(4), weights)
	DECQ(rest)
	JNZ(LabelRef(keys))
	for i, sum := range sums {
		VMULPS_BCST(Mem{Base: v.inverses, Disp: 16 * (i * 16 / dim)}, sum, sum)
		VMOVUPS(sum, Mem{Base: v.out, Disp: 64 * i})
	}
	v.advance(n)
	JMP(LabelRef(loop))
	Label(done)
}

// oneHead sums the values of a head of any width: 64 elements at a time, then 32, then 16 or less.
func (v *values) oneHead() {
	d, rest := GP64(), GP64()
	XORQ(d, d)
	MOVQ(v.bytes, rest)
	done := asm.Unique("headDone")
	for vectors := 4; vectors > 0; vectors /= 2 {
		loop, next := asm.Unique("columns"), asm.Unique("narrower")
		Label(loop)
		if vectors > 1 {
			CMPQ(rest, U32(64*vectors))
			JLT(LabelRef(next))
		} else {
			CMPQ(rest, U32(0))
			JLE(LabelRef(done))
		}
		v.columns(vectors, d, rest)
		ADDQ(U32(64*vectors), d)
		SUBQ(U32(64*vectors), rest)
		JMP(LabelRef(loop))
		Label(next)
	}
	Label(done)
}

// columns sums the values of some vectors of columns at byte d of the head. A single vector may be incomplete.
func (v *values) columns(vectors int, d, rest reg.GPVirtual) {
	sums := zeros(vectors)
	at, offsets, j := GP64(), asm.Int("offsets"), GP64()
	LEAQ(Mem{Base: v.v, Index: d, Scale: 1}, at)
	var lanes reg.OpmaskVirtual
	if vectors == 1 {
		elements := GP64()
		MOVQ(rest, elements)
		SHRQ(Imm(2), elements)
		lanes = mask(elements)
	}
	XORQ(j, j)
	keys := asm.Unique("keys")
	Label(keys)
	offset, weight := GP64(), ZMM()
	MOVL(Mem{Base: offsets, Index: j, Scale: 4}, offset.As32())
	VBROADCASTSS(Mem{Base: v.weights, Index: j, Scale: 4}, weight)
	for i := range vectors {
		m := Mem{Base: at, Index: offset, Scale: 4, Disp: 64 * i}
		if vectors == 1 {
			VFMADD231PS(m, weight, lanes, sums[i])
		} else {
			VFMADD231PS(m, weight, sums[i])
		}
	}
	INCQ(j)
	CMPQ(j, asm.Addr("nk"))
	JLT(LabelRef(keys))
	for i := range vectors {
		VMULPS_BCST(Mem{Base: v.inverses}, sums[i], sums[i])
		m := Mem{Base: v.out, Index: d, Scale: 1, Disp: 64 * i}
		if vectors == 1 {
			VMOVUPS(sums[i], lanes, m)
		} else {
			VMOVUPS(sums[i], m)
		}
	}
}
