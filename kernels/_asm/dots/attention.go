package main

import (
	"math"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"

	"github.com/sluice-mt/sluice/kernels/_asm/asm"
)

// attend generates the attention of one query, head by head.
type attend struct {
	q, k, v, out reg.GPVirtual // of the head
	bytes        reg.GPVirtual // of a head
	scores       reg.GPVirtual
}

// attendAVX512 computes for each head, with the keys in groups of 16:
//
//	scores:  s[j] = scale·Σ_d q[d]·k[j][d], -Inf for j >= nk
//	weights: e[j] = exp(s[j] - max s)
//	values:  out[d] = (Σ_j e[j]·v[j][d]) / Σ e
func attendAVX512() {
	asm.Kernel("attendAVX512", "func(out, q, k, v *float32, kOffsets, vOffsets *int32, scores *float32, nk, heads, headDim int, scale float32)",
		"attendAVX512 computes one query of attendGeneric. Key j starts at element kOffsets[j] of k, its value at vOffsets[j] of v.",
		"nk, heads and headDim are at least 1. scores and kOffsets have nk elements rounded up to a multiple of 16, and all offsets are valid.")
	a := attend{q: asm.Int("q"), k: asm.Int("k"), v: asm.Int("v"), out: asm.Int("out"), scores: asm.Int("scores"), bytes: asm.Int("headDim")}
	SHLQ(Imm(2), a.bytes)
	Label("head")
	largest := a.computeScores()
	inverse := a.computeWeights(largest)
	a.sumValues(inverse)
	for _, p := range []reg.GPVirtual{a.q, a.k, a.v, a.out} {
		ADDQ(a.bytes, p)
	}
	DECQ(asm.Addr("heads"))
	JNZ(LabelRef("head"))
	VZEROUPPER()
	RET()
}

// computeScores stores the scores and returns their maximum in all lanes.
func (a *attend) computeScores() asm.V {
	isa := asm.AVX512
	minusInfinity := asm.F(float32(math.Inf(-1)))
	largest := isa.Register(minusInfinity)
	offsets, rest, scores := asm.Int("kOffsets"), asm.Int("nk"), GP64()
	MOVQ(a.scores, scores)
	group := asm.Unique("group")
	Label(group)
	sums := zeros(16)
	dots(a.bytes, a.q, sums, func(d reg.GPVirtual, body func(int, Mem)) {
		keys := GP64()
		LEAQ(Mem{Base: a.k, Index: d, Scale: 1}, keys)
		for j := range 16 {
			offset := GP64()
			MOVL(Mem{Base: offsets, Disp: 4 * j}, offset.As32())
			body(j, Mem{Base: keys, Index: offset, Scale: 4})
		}
	})
	v := asm.SumEach(VADDPS, sums)
	VMULPS_BCST(asm.Addr("scale"), v[0], v[0])
	score := isa.Register(minusInfinity)
	VMOVAPS(v[0], mask(rest), score[0])
	isa.Store(score, Mem{Base: scores})
	isa.Accumulate2(VMAXPS, largest, score)
	ADDQ(U32(64), offsets)
	ADDQ(U32(64), scores)
	SUBQ(U32(16), rest)
	JG(LabelRef(group))
	return isa.Splat(isa.Reduce(VMAXPS, largest))
}

// computeWeights replaces the scores by the weights and returns one over their sum in all lanes.
func (a *attend) computeWeights(largest asm.V) asm.V {
	isa := asm.AVX512
	sum := isa.Zero()
	scores, rest := GP64(), asm.Int("nk")
	MOVQ(a.scores, scores)
	group := asm.Unique("weights")
	Label(group)
	e := isa.Exp(isa.Sub(isa.Load(Mem{Base: scores}), largest))
	isa.Store(e, Mem{Base: scores})
	isa.Accumulate(sum, e)
	ADDQ(U32(64), scores)
	SUBQ(U32(16), rest)
	JG(LabelRef(group))
	s, one := isa.Sum(sum), XMM()
	VMOVSS(asm.F(1).Mem(), one)
	VDIVSS(s, one, s)
	return isa.Splat(s)
}

// sumValues writes the weighted sum of the values: 64 elements of the head at a time, then 32, then 16 and less.
func (a *attend) sumValues(inverse asm.V) {
	d, rest := GP64(), GP64()
	XORQ(d, d)
	MOVQ(a.bytes, rest)
	done := asm.Unique("valuesDone")
	for vectors := 4; vectors > 0; vectors /= 2 {
		loop, next := asm.Unique("values"), asm.Unique("narrower")
		Label(loop)
		if vectors > 1 {
			CMPQ(rest, U32(64*vectors))
			JLT(LabelRef(next))
		} else {
			CMPQ(rest, U32(0))
			JLE(LabelRef(done))
		}
		a.sumColumns(vectors, d, rest, inverse)
		ADDQ(U32(64*vectors), d)
		SUBQ(U32(64*vectors), rest)
		JMP(LabelRef(loop))
		Label(next)
	}
	Label(done)
}

// sumColumns sums the values of some vectors of columns, in the order of the keys. A single vector may be incomplete.
func (a *attend) sumColumns(vectors int, d, rest reg.GPVirtual, inverse asm.V) {
	sums := zeros(vectors)
	values, offsets, j := GP64(), asm.Int("vOffsets"), GP64()
	LEAQ(Mem{Base: a.v, Index: d, Scale: 1}, values)
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
	VBROADCASTSS(Mem{Base: a.scores, Index: j, Scale: 4}, weight)
	for i := range vectors {
		m := Mem{Base: values, Index: offset, Scale: 4, Disp: 64 * i}
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
		VMULPS(inverse[0], sums[i], sums[i])
		m := Mem{Base: a.out, Index: d, Scale: 1, Disp: 64 * i}
		if vectors == 1 {
			VMOVUPS(sums[i], lanes, m)
		} else {
			VMOVUPS(sums[i], m)
		}
	}
}
