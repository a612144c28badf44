package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"

	"github.com/sluice-mt/sluice/kernels/_asm/asm"
)

// keptScoresAVX512 multiplies one query with all keys of a kept sentence, head by head. Elements of 16 keys stand side by
// side, so that 16 scores grow in the lanes of a register and no sum goes across lanes.
func keptScoresAVX512(dim int) {
	asm.Kernel(fmt.Sprintf("keptScores%dAVX512", dim), "func(scores, maxima *float32, pitch int, q, keys *float32, nk, heads int, scale float32)",
		fmt.Sprintf("keptScores%dAVX512 computes the scores of one query with heads of %d elements, transposed as keptKey says.", dim, dim),
		"It stores what headScoresAVX512 stores.")
	k := keptKeys{isa: asm.AVX512, dim: dim, q: asm.Int("q"), at: asm.Int("keys")}
	scores, maxima := asm.Int("scores"), asm.Int("maxima")
	Label("head")
	largest := asm.AVX512.Register(minusInfinity)[0]
	k.groups(func(dot asm.V) {
		VMULPS_BCST(asm.Addr("scale"), dot[0], dot[0])
		VMOVUPS(dot[0], Mem{Base: scores})
		VMAXPS(largest, dot[0], largest)
		ADDQ(U32(64), scores)
	}, func(load func(func(Mem) asm.V) asm.V) {
		lanes := mask(k.rest)
		dot := load(func(m Mem) asm.V {
			v := ZMM()
			VMOVUPS_Z(m, lanes, v)
			return asm.V{v}
		})
		storeScores(dot[0], lanes, largest, Mem{Base: scores})
		ADDQ(U32(64), scores)
	})
	VMOVUPS(largest, Mem{Base: maxima})
	ADDQ(U32(64), maxima)
	ADDQ(U32(4*dim), k.q)
	DECQ(asm.Addr("heads"))
	JNZ(LabelRef("head"))
	VZEROUPPER()
	RET()
}

// keptDotsAVX2 is the same for one head, without the scale.
func keptDotsAVX2(dim int) {
	asm.Kernel(fmt.Sprintf("keptDots%dAVX2", dim), "func(dots, q, keys *float32, nk int)",
		fmt.Sprintf("keptDots%dAVX2 computes the dot products of a query with nk >= 1 keys of %d elements, transposed as keptKey says.", dim, dim))
	isa := asm.AVX2
	k := keptKeys{isa: isa, dim: dim, q: asm.Int("q"), at: asm.Int("keys")}
	dots := asm.Int("dots")
	tail := isa.Tail(asm.Int("nk"))
	k.groups(func(dot asm.V) {
		isa.Store(dot, Mem{Base: dots})
		ADDQ(U32(64), dots)
	}, func(load func(func(Mem) asm.V) asm.V) { tail.Store(load(tail.Load), Mem{Base: dots}) })
	VZEROUPPER()
	RET()
}

// keptKeys are transposed keys, of which 16 are multiplied with a query at a time.
type keptKeys struct {
	isa   asm.ISA
	dim   int
	q, at reg.GPVirtual // the query and the keys of the head
	rest  reg.GPVirtual // keys left
	step  reg.Register  // bytes from an element to the next in an incomplete group, nil in a complete one
}

// groups generates the loop over the keys of a head, nk >= 1, and steps to those of the next. Complete groups are given to
// whole; an incomplete one is computed by last, with its own way to load.
func (k *keptKeys) groups(whole func(dot asm.V), last func(load func(func(Mem) asm.V) asm.V)) {
	group, part, done := asm.Unique("group"), asm.Unique("part"), asm.Unique("done")
	k.rest, k.step = asm.Int("nk"), nil
	Label(group)
	SUBQ(U32(16), k.rest)
	JL(LabelRef(part))
	whole(k.tree(0, 1, k.isa.Load))
	ADDQ(U32(64*k.dim), k.at)
	JMP(LabelRef(group))
	Label(part)
	ADDQ(U32(16), k.rest)
	JZ(LabelRef(done))
	k.step = GP64()
	MOVQ(k.rest, k.step)
	SHLQ(Imm(2), k.step)
	last(func(load func(Mem) asm.V) asm.V { return k.tree(0, 1, load) })
	for range k.dim / 4 {
		LEAQ(Mem{Base: k.at, Index: k.step, Scale: 4}, k.at)
	}
	Label(done)
}

// tree returns for 16 keys (the lanes) the sum of the stripes first, first + step, first + 2·step, … of their products with
// the query: the fixed tree, walked so that few sums are open at a time.
func (k *keptKeys) tree(first, step int, load func(Mem) asm.V) asm.V {
	if step == 16 {
		return k.stripe(first, load)
	}
	low, high := k.tree(first, 2*step, load), k.tree(first+step, 2*step, load)
	k.isa.Accumulate(low, high)
	return low
}

// stripe returns the sum of the products of the elements stripe, stripe + 16, …
func (k *keptKeys) stripe(stripe int, load func(Mem) asm.V) (sum asm.V) {
	for d := stripe; d < k.dim; d += 16 {
		keys, q := load(k.element(d)), k.query(d)
		for i := range keys {
			if d == stripe {
				VMULPS(q, keys[i], keys[i])
			} else {
				VFMADD231PS(q, keys[i], sum[i])
			}
		}
		if d == stripe {
			sum = keys
		}
	}
	return sum
}

// element addresses an element of the group's keys.
func (k *keptKeys) element(d int) Mem {
	if k.step == nil {
		return Mem{Base: k.at, Disp: 64 * d}
	}
	at := GP64()
	IMUL3Q(U32(d), k.step, at)
	return Mem{Base: k.at, Index: at, Scale: 1}
}

// query returns an element of the query in all lanes.
func (k *keptKeys) query(d int) reg.VecVirtual {
	q := k.isa.New()[0]
	VBROADCASTSS(Mem{Base: k.q, Disp: 4 * d}, q)
	return q
}

// keptValuesAVX512 sums the values of one query, as many heads at a time as fill 16 registers, so that the rows of values
// are read in the order in which they lie in memory.
func keptValuesAVX512(dim int) {
	asm.Kernel(fmt.Sprintf("keptValues%dAVX512", dim), "func(out *float32, weights, inverses *float32, pitch int, v *float32, vStride int, nk, heads int)",
		fmt.Sprintf("keptValues%dAVX512 computes what headValuesAVX512 does for heads of %d elements; value j starts vStride·j bytes from v.", dim, dim))
	out, weights, inverses, pitch, v := asm.Int("out"), asm.Int("weights"), asm.Int("inverses"), asm.Int("pitch"), asm.Int("v")
	stride := asm.Int("vStride")
	third := GP64()
	SHLQ(Imm(2), pitch)
	LEAQ(Mem{Base: pitch, Index: pitch, Scale: 2}, third)
	for heads := 256 / dim; heads > 0; heads /= 2 {
		loop, done := fmt.Sprintf("heads%d", heads), fmt.Sprintf("less%d", heads)
		Label(loop)
		CMPQ(asm.Addr("heads"), U32(heads))
		JLT(LabelRef(done))
		sums := zeros(heads * dim / 16)
		at, weight, rest := GP64(), [2]reg.GPVirtual{GP64(), GP64()}, asm.Int("nk")
		MOVQ(v, at)
		MOVQ(weights, weight[0])
		LEAQ(Mem{Base: weights, Index: pitch, Scale: 4}, weight[1])
		keys := asm.Unique("keys")
		Label(keys)
		for h := range heads {
			w := ZMM()
			VBROADCASTSS(rowAt(weight[h/4], pitch, third, h%4), w)
			for i := h * dim / 16; i < (h+1)*dim/16; i++ {
				VFMADD231PS(Mem{Base: at, Disp: 64 * i}, w, sums[i])
			}
		}
		ADDQ(stride, at)
		ADDQ(Imm(4), weight[0])
		ADDQ(Imm(4), weight[1])
		DECQ(rest)
		JNZ(LabelRef(keys))
		for i, sum := range sums {
			VMULPS_BCST(Mem{Base: inverses, Disp: 16 * (i * 16 / dim)}, sum, sum)
			VMOVUPS(sum, Mem{Base: out, Disp: 64 * i})
		}
		for range heads {
			ADDQ(pitch, weights)
		}
		ADDQ(U32(16*heads), inverses)
		ADDQ(U32(4*heads*dim), v)
		ADDQ(U32(4*heads*dim), out)
		SUBQ(U32(heads), asm.Addr("heads"))
		JMP(LabelRef(loop))
		Label(done)
	}
	VZEROUPPER()
	RET()
}
