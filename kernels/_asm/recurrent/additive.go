package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"

	"github.com/sluice-mt/sluice/kernels/_asm/asm"
)

// A layout is how keys and values are kept: as float32, or in pairs of bfloat16 (see pairOf).
type layout bool

const (
	whole layout = false
	pairs layout = true
)

// name is the name of a kernel for the layout.
func (l layout) name(kernel string, isa asm.ISA) string {
	if l == pairs {
		kernel += "Pairs"
	}
	return kernel + isa.String()
}

// bytes is what n elements take.
func (l layout) bytes(n int) int {
	if l == pairs {
		return 2 * n
	}
	return 4 * n
}

func (l layout) String() string {
	if l == pairs {
		return "kept in pairs"
	}
	return "kept as float32"
}

// registers are the ways to work on 16 lanes: one 512-bit register, or one of 256 bits after the other.
type registers struct {
	isa   asm.ISA
	upper reg.VecVirtual // mask of the upper element of pairs
}

func newRegisters(isa asm.ISA, l layout) *registers {
	r := &registers{isa: isa}
	if l == pairs {
		r.upper = r.splat(asm.Bits(0xffff0000).Mem())
	}
	return r
}

// parts is how many registers 16 lanes take, and size the bytes of one.
func (r *registers) parts() int { return 2 - int(r.isa) }
func (r *registers) size() int  { return 64 / r.parts() }

func (r *registers) new() reg.VecVirtual { return r.isa.New()[0] }

func (r *registers) zero() reg.VecVirtual {
	v := r.new()
	VXORPS(v, v, v)
	return v
}

func (r *registers) splat(m Op) reg.VecVirtual {
	v := r.new()
	VBROADCASTSS(m, v)
	return v
}

func (r *registers) load(m Mem) reg.VecVirtual {
	v := r.new()
	VMOVUPS(m, v)
	return v
}

// elements returns n times 16 elements, of which the given part of the lanes is computed on, at m.
func (r *registers) elements(l layout, m Mem, n, part int) (v []reg.VecVirtual) {
	m = m.Offset(part * r.size())
	if l == whole {
		for i := range n {
			v = append(v, r.load(m.Offset(64*i)))
		}
		return v
	}
	for i := range n / 2 {
		low, high := r.new(), r.load(m.Offset(64*i))
		VPSLLD(Imm(16), high, low)
		if r.isa == asm.AVX512 {
			VPANDD(r.upper, high, high)
		} else {
			VPAND(r.upper, high, high)
		}
		v = append(v, low, high)
	}
	return v
}

// doubledExp generates e^2x.
func doubledExp(isa asm.ISA) {
	name := "doubledExp" + isa.String()
	asm.Kernel(name, "func(dst, x *float32, n int)", name+" computes doubledExpGeneric for n elements.")
	dst, x := asm.Int("dst"), asm.Int("x")
	isa.NewRow(asm.Int("n")).Each(func(b asm.Block) {
		v := b.Load(x)
		v = isa.Max(isa.Register(asm.F(-80)), isa.Add(v, v))
		b.Store(isa.Exp(isa.Min(isa.Register(asm.F(80)), v)), dst)
	})
	VZEROUPPER()
	RET()
}

// prefetchKeys is how many bytes ahead keys are asked for.
const prefetchKeys = 2048

// additiveScores generates the scores of a query. With E = min(K·Q + 1, 2³⁰) for four elements a, b, c, d, 16 apart, it adds
//
//	v[a]/E[a] + v[b]/E[b] + v[c]/E[c] + v[d]/E[d]
//
// to a stripe as one fraction: divisions are what takes longest.
func additiveScores(isa asm.ISA, l layout) {
	name := l.name("additiveScores", isa)
	asm.Kernel(name, "func(scores, q, v, keys *float32, width, nk, values int)",
		fmt.Sprintf("%s computes the nk >= 1 sums of additiveScoresGeneric for keys of width elements, a multiple of 64, %v.", name, l),
		"values is how many bytes after the keys the values are, which are read next.")
	r := newRegisters(isa, l)
	scores, q, v, keys, width := asm.Int("scores"), asm.Int("q"), asm.Int("v"), asm.Int("keys"), asm.Int("width")
	values := asm.Int("values")
	one, limit := r.splat(asm.F(1).Mem()), r.splat(asm.F(1<<30).Mem())
	SHLQ(Imm(2), width)
	d := GP64()
	Label("key")
	var sums []reg.VecVirtual
	for range r.parts() {
		sums = append(sums, r.zero())
	}
	XORQ(d, d)
	Label("block")
	for line := 0; line < l.bytes(64); line += 64 { // from the third-level cache, as a rule
		PREFETCHT0(Mem{Base: keys, Disp: prefetchKeys + line})
		PREFETCHT1(Mem{Base: keys, Index: values, Scale: 1, Disp: line})
	}
	for part, sum := range sums {
		e := r.elements(l, Mem{Base: keys}, 4, part)
		at := func(base reg.Register, i int) Mem {
			return Mem{Base: base, Index: d, Scale: 1, Disp: 64*i + part*r.size()}
		}
		for i := range e {
			VFMADD132PS(at(q, i), one, e[i])
			VMINPS(e[i], limit, e[i])
		}
		first, second := r.new(), r.new()
		for i, n := range []reg.VecVirtual{first, second} {
			a, b := e[2*i], e[2*i+1]
			VMULPS(at(v, 2*i+1), a, n)
			VFMADD231PS(at(v, 2*i), b, n)
			VMULPS(b, a, a)
		}
		VMULPS(e[0], second, second)
		VFMADD231PS(first, e[2], second)
		VMULPS(e[2], e[0], e[0])
		VDIVPS(e[0], second, second)
		VADDPS(second, sum, sum)
	}
	ADDQ(U32(l.bytes(64)), keys)
	ADDQ(U32(256), d)
	CMPQ(d, width)
	JLT(LabelRef("block"))
	VMOVSS(isa.Sum(asm.V(sums)), Mem{Base: scores})
	ADDQ(Imm(4), scores)
	DECQ(asm.Addr("nk"))
	JNZ(LabelRef("key"))
	VZEROUPPER()
	RET()
}

// additiveSums generates weighted sums of values: columns of them, each one chain of fused multiply-adds.
func additiveSums(isa asm.ISA, l layout, columns int) {
	name := l.name(fmt.Sprintf("additiveSums%d", columns), isa)
	asm.Kernel(name, "func(out, weights, values *float32, step, nk int, inverse float32)",
		fmt.Sprintf("%s sets out to (Σ_j weights[j]·value j)·inverse in %d columns; value j starts step·j bytes from values, %v. nk is at least 1.", name, columns, l))
	r := newRegisters(isa, l)
	out, weights, values, step, nk := asm.Int("out"), asm.Int("weights"), asm.Int("values"), asm.Int("step"), asm.Int("nk")
	sums := make([][]reg.VecVirtual, r.parts())
	for part := range sums {
		for range columns / 16 {
			sums[part] = append(sums[part], r.zero())
		}
	}
	Label("value")
	weight := r.splat(Mem{Base: weights})
	for part := range sums {
		for i := 0; i < len(sums[part]); i += 2 {
			for k, x := range r.elements(l, Mem{Base: values, Disp: l.bytes(16 * i)}, 2, part) {
				VFMADD231PS(x, weight, sums[part][i+k])
			}
		}
	}
	ADDQ(step, values)
	ADDQ(Imm(4), weights)
	DECQ(nk)
	JNZ(LabelRef("value"))
	inverse := r.splat(asm.Addr("inverse"))
	for part := range sums {
		for i, sum := range sums[part] {
			VMULPS(inverse, sum, sum)
			VMOVUPS(sum, Mem{Base: out, Disp: 64*i + part*r.size()})
		}
	}
	VZEROUPPER()
	RET()
}
