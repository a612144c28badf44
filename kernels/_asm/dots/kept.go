package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"

	"github.com/sluice-mt/sluice/kernels/_asm/asm"
)

// A layout is how keys and values are kept: every element in a word, or two of them, as pairOf says.
type layout struct{ pairs bool }

var whole, pairs = layout{false}, layout{true}

// name names a kernel for the layout.
func (l layout) name(what string, dim int, isa asm.ISA) string {
	if l.pairs {
		what = "Pair" + what
	}
	return fmt.Sprintf("kept%s%d%v", what, dim, isa)
}

// words is how many words the elements take.
func (l layout) words(elements int) int {
	if l.pairs {
		return elements / 2
	}
	return elements
}

// kept says how the elements of keys or values are kept.
func (l layout) String() string {
	if l.pairs {
		return "in pairs as pairOf says"
	}
	return "one by one"
}

// upperBits are those of the upper element of a pair.
const upperBits = 0xffff0000

// upper loads them as a mask.
func upper(isa asm.ISA) reg.VecVirtual { return isa.Register(asm.Bits(upperBits))[0] }

// keptScoresAVX512 multiplies one query with all keys of a kept sentence, head by head. Elements of 16 keys stand side by
// side, so that 16 scores grow in the lanes of a register and no sum goes across lanes.
func keptScoresAVX512(dim int, l layout) {
	name := l.name("Scores", dim, asm.AVX512)
	asm.Kernel(name, "func(scores, maxima *float32, pitch int, q, keys *float32, nk, heads int, scale float32)",
		fmt.Sprintf("%s computes the scores of one query with heads of %d elements, transposed as keptKey says, %v.", name, dim, l),
		"It stores what headScoresAVX512 stores.")
	k := newKeptKeys(asm.AVX512, dim, l)
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
func keptDotsAVX2(dim int, l layout) {
	isa := asm.AVX2
	name := l.name("Dots", dim, isa)
	asm.Kernel(name, "func(dots, q, keys *float32, nk int)",
		fmt.Sprintf("%s computes the dot products of a query with nk >= 1 keys of %d elements, transposed as keptKey says, %v.", name, dim, l),
		"dots has room for whole blocks of 16: what is behind the nk-th may be overwritten.")
	k := newKeptKeys(isa, dim, l)
	dots := asm.Int("dots")
	tail := isa.Tail(asm.Int("nk"))
	k.groups(func(dot asm.V) {
		isa.Store(dot, Mem{Base: dots})
		ADDQ(U32(64), dots)
	}, func(load func(func(Mem) asm.V) asm.V) { isa.Store(load(tail.Load), Mem{Base: dots}) })
	VZEROUPPER()
	RET()
}

// keptKeys are transposed keys, of which 16 are multiplied with a query at a time.
type keptKeys struct {
	layout
	isa   asm.ISA
	dim   int
	upper reg.VecVirtual // of pairs, with AVX-512: see upper
	q, at reg.GPVirtual  // the query and the keys of the head
	rest  reg.GPVirtual  // keys left
	step  reg.Register   // bytes from an element to the next in an incomplete group, nil in a complete one
}

func newKeptKeys(isa asm.ISA, dim int, l layout) keptKeys {
	k := keptKeys{layout: l, isa: isa, dim: dim, q: asm.Int("q"), at: asm.Int("keys")}
	if l.pairs && isa == asm.AVX512 {
		k.upper = upper(isa)
	}
	return k
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
	ADDQ(U32(64*k.words(k.dim)), k.at)
	JMP(LabelRef(group))
	Label(part)
	ADDQ(U32(16), k.rest)
	JZ(LabelRef(done))
	k.step = GP64()
	MOVQ(k.rest, k.step)
	SHLQ(Imm(2), k.step)
	last(func(load func(Mem) asm.V) asm.V { return k.tree(0, 1, load) })
	for range k.words(k.dim) / 4 {
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
		if !k.pairs {
			sum = k.multiplyAdd(d, load(k.element(d)), sum, asIs)
			continue
		}
		words := load(k.element(d/32*16 + stripe))
		sum = k.multiplyAdd(d, words, sum, k.lower)
		d += 16
		sum = k.multiplyAdd(d, k.uppers(words), sum, asIs)
	}
	return sum
}

// lower returns the lower elements of pairs, in a register of their own.
func (k *keptKeys) lower(words reg.VecVirtual) reg.VecVirtual {
	low := k.isa.New()[0]
	VPSLLD(Imm(16), words, low)
	return low
}

// asIs takes a register of keys as it is.
func asIs(keys reg.VecVirtual) reg.VecVirtual { return keys }

// uppers leaves the upper elements of pairs. Their mask is in memory where registers are few.
func (k *keptKeys) uppers(words asm.V) asm.V {
	if k.isa == asm.AVX2 {
		return k.isa.And(words, asm.Bits(upperBits))
	}
	VPANDD(k.upper, words[0], words[0])
	return words
}

// multiplyAdd adds to sum, which is nil at first, the products of element d with what take makes of the keys. That is overwritten. One
// register is taken after the other, for AVX2 has none to spare.
func (k *keptKeys) multiplyAdd(d int, keys, sum asm.V, take func(reg.VecVirtual) reg.VecVirtual) asm.V {
	q := k.query(d)
	var products asm.V
	for i := range keys {
		key := take(keys[i])
		if sum == nil {
			VMULPS(q, key, key)
			products = append(products, key)
		} else {
			VFMADD231PS(q, key, sum[i])
		}
	}
	if sum == nil {
		return products
	}
	return sum
}

// element addresses an element of the group's keys, or a pair of them.
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
func keptValuesAVX512(dim int, l layout) {
	name := l.name("Values", dim, asm.AVX512)
	asm.Kernel(name, "func(out *float32, weights, inverses *float32, pitch int, v *float32, vStride int, nk, heads int)",
		fmt.Sprintf("%s computes what headValuesAVX512 does for heads of %d elements, %v; value j starts vStride·j bytes from v.", name, dim, l))
	out, weights, inverses, pitch, v := asm.Int("out"), asm.Int("weights"), asm.Int("inverses"), asm.Int("pitch"), asm.Int("v")
	stride := asm.Int("vStride")
	third, mask := GP64(), reg.VecVirtual(nil)
	if l.pairs {
		mask = upper(asm.AVX512)
	}
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
				if !l.pairs {
					VFMADD231PS(Mem{Base: at, Disp: 64 * i}, w, sums[i])
					continue
				}
				low, high := ZMM(), ZMM()
				VMOVUPS(Mem{Base: at, Disp: 64 * i / 2}, high)
				VPSLLD(Imm(16), high, low)
				VFMADD231PS(low, w, sums[i])
				i++
				VPANDD(mask, high, high)
				VFMADD231PS(high, w, sums[i])
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
		ADDQ(U32(4*heads*l.words(dim)), v)
		ADDQ(U32(4*heads*dim), out)
		SUBQ(U32(heads), asm.Addr("heads"))
		JMP(LabelRef(loop))
		Label(done)
	}
	VZEROUPPER()
	RET()
}

// keptPairValuesAVX2 sums the values of one query in one head.
func keptPairValuesAVX2(dim int) {
	name := pairs.name("Values", dim, asm.AVX2)
	asm.Kernel(name, "func(out, weights, v *float32, vStride, nk int, inverse float32)",
		fmt.Sprintf("%s computes what valuesAVX2 does for a head of %d elements, %v; value j starts vStride·j bytes from v.", name, dim, pairs))
	out, weights, v, stride, rest := asm.Int("out"), asm.Int("weights"), asm.Int("v"), asm.Int("vStride"), asm.Int("nk")
	isa, mask := asm.AVX2, upper(asm.AVX2)
	var sums []asm.V
	for range dim / 16 {
		sums = append(sums, isa.Zero())
	}
	Label("keys")
	w := YMM()
	VBROADCASTSS(Mem{Base: weights}, w)
	for i := 0; i < len(sums); i += 2 {
		for half := range 2 {
			low, high := YMM(), YMM()
			VMOVDQU(Mem{Base: v, Disp: 32*i + 32*half}, high)
			VPSLLD(Imm(16), high, low)
			VFMADD231PS(low, w, sums[i][half])
			VPAND(mask, high, high)
			VFMADD231PS(high, w, sums[i+1][half])
		}
	}
	ADDQ(stride, v)
	ADDQ(Imm(4), weights)
	DECQ(rest)
	JNZ(LabelRef("keys"))
	inverse := isa.Splat(asm.Addr("inverse"))
	for i, sum := range sums {
		isa.Store(isa.Mul(sum, inverse), Mem{Base: out, Disp: 64 * i})
	}
	VZEROUPPER()
	RET()
}

// pairsAVX2 makes pairs of 32 elements at a time, rounded as in pairsAVX512.
func pairsAVX2() {
	asm.Kernel("pairsAVX2", "func(dst, src *float32, blocks int)",
		"pairsAVX2 makes 16 pairs of each of so many blocks of 32 elements, at least one, as pairOf says.")
	dst, src, blocks := asm.Int("dst"), asm.Int("src"), asm.Int("blocks")
	isa := asm.AVX2
	one, half, quiet, keep := isa.Register(asm.Bits(1))[0], isa.Register(asm.Bits(0x7fff))[0], isa.Register(asm.Bits(1 << 22))[0], upper(isa)
	round := func(m Mem) reg.VecVirtual {
		v, sum, nan := YMM(), YMM(), YMM()
		VMOVUPS(m, v)
		VCMPPS(Imm(asm.Unordered), v, v, nan)
		VPSRLD(Imm(16), v, sum)
		VPAND(one, sum, sum)
		VPADDD(half, sum, sum)
		VPADDD(v, sum, sum)
		VPOR(quiet, v, v)
		VBLENDVPS(nan, v, sum, sum)
		return sum
	}
	Label("block")
	for part := range 2 {
		low, high := round(Mem{Base: src, Disp: 32 * part}), round(Mem{Base: src, Disp: 64 + 32*part})
		VPAND(keep, high, high)
		VPSRLD(Imm(16), low, low)
		VPOR(low, high, high)
		VMOVDQU(high, Mem{Base: dst, Disp: 32 * part})
	}
	ADDQ(U32(64), dst)
	ADDQ(U32(128), src)
	DECQ(blocks)
	JNZ(LabelRef("block"))
	VZEROUPPER()
	RET()
}

// pairsAVX512 makes pairs: rows of lanes (1 to 16) words of which row i has the elements of row i, srcStep from row to row, in the
// lower halves, and those that lie distance after them in the upper halves. Rounding is
//
//	(bits + 0x7fff + bits>>16&1) >> 16, and for NaN bits>>16 | 1<<6
func pairsAVX512() {
	asm.Kernel("pairsAVX512", "func(dst, src *float32, distance, rows, lanes, dstStep, srcStep int)",
		"pairsAVX512 makes rows of lanes (1 to 16) pairs as pairOf says, of src[i] and src[i+distance]. Steps and distance count elements.")
	dst, src, distance, rows, dstStep, srcStep := asm.Int("dst"), asm.Int("src"), asm.Int("distance"), asm.Int("rows"), asm.Int("dstStep"), asm.Int("srcStep")
	lanes := mask(asm.Int("lanes"))
	isa := asm.AVX512
	one, half, quiet, keep := isa.Register(asm.Bits(1))[0], isa.Register(asm.Bits(0x7fff))[0], isa.Register(asm.Bits(1 << 22))[0], upper(isa)
	Label("row")
	round := func(m Mem) reg.VecVirtual {
		v, odd, nan := ZMM(), ZMM(), K()
		VMOVUPS_Z(m, lanes, v)
		VCMPPS(Imm(asm.Unordered), v, v, nan)
		VPSRLD(Imm(16), v, odd)
		VPANDD(one, odd, odd)
		VPADDD(half, odd, odd)
		VPADDD(v, odd, odd)
		VPORD(quiet, v, nan, odd)
		return odd
	}
	low, high := round(Mem{Base: src}), round(Mem{Base: src, Index: distance, Scale: 4})
	VPANDD(keep, high, high)
	VPSRLD(Imm(16), low, low)
	VPORD(low, high, high)
	VMOVDQU32(high, lanes, Mem{Base: dst})
	LEAQ(Mem{Base: dst, Index: dstStep, Scale: 4}, dst)
	LEAQ(Mem{Base: src, Index: srcStep, Scale: 4}, src)
	DECQ(rows)
	JNZ(LabelRef("row"))
	VZEROUPPER()
	RET()
}
