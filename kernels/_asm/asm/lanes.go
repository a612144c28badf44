package asm

import (
	"fmt"
	"math"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// ISA is a family of instructions that row kernels are generated for.
type ISA int

// The families.
const (
	AVX2 ISA = iota
	AVX512
)

// String is the suffix of the functions of the family.
func (a ISA) String() string { return [...]string{"AVX2", "AVX512"}[a] }

// V are 16 float32 lanes, the unit of all row kernels: one 512-bit register, or two of 256 bits.
type V []reg.VecVirtual

// Const is a float32 constant in memory.
type Const struct{ m Mem }

// An operand is a V or a Const.
type operand any

var constants = map[uint32]Mem{}

// F returns a constant.
func F(f float32) Const { return Const{bits(math.Float32bits(f))} }

// Bits returns a constant of 32 bits for integer operations.
func Bits(b uint32) Const { return Const{bits(b)} }

// bits returns memory with 8 copies of b.
func bits(b uint32) Mem {
	m, ok := constants[b]
	if !ok {
		m = GLOBL(fmt.Sprintf("const_%08x", b), RODATA|NOPTR)
		for i := range 8 {
			DATA(4*i, U32(b))
		}
		constants[b] = m
	}
	return m
}

// New returns lanes without a value.
func (a ISA) New() V {
	if a == AVX512 {
		return V{ZMM()}
	}
	return V{YMM(), YMM()}
}

// size is the bytes of one register of V.
func (a ISA) size() int { return 64 / len(a.registers()) }

func (a ISA) registers() []struct{} { return make([]struct{}, 2-int(a)) }

// Zero returns zeros.
func (a ISA) Zero() V {
	v := a.New()
	for _, r := range v {
		VXORPS(r, r, r) // unlike VPXORD, avo knows that this one does not read r
	}
	return v
}

// Splat loads one float32 into all lanes.
func (a ISA) Splat(m Op) V {
	v := a.New()
	VBROADCASTSS(m, v[0])
	if a == AVX2 {
		VMOVAPS(v[0], v[1])
	}
	return v
}

// Register returns a constant in registers.
func (a ISA) Register(c Const) V { return a.Splat(c.m) }

// Copy returns a copy.
func (a ISA) Copy(x V) V {
	v := a.New()
	for i := range v {
		VMOVAPS(x[i], v[i])
	}
	return v
}

// Load loads 16 elements.
func (a ISA) Load(m Mem) V {
	v := a.New()
	for i := range v {
		VMOVUPS(m.Offset(i*a.size()), v[i])
	}
	return v
}

// Store stores 16 elements.
func (a ISA) Store(v V, m Mem) {
	for i := range v {
		VMOVUPS(v[i], m.Offset(i*a.size()))
	}
}

// Binary operations: x op y, y may be a Const.

func (a ISA) Add(x V, y operand) V { return a.binary(VADDPS, VADDPS_BCST, x, y) }
func (a ISA) Sub(x V, y operand) V { return a.binary(VSUBPS, VSUBPS_BCST, x, y) }
func (a ISA) Mul(x V, y operand) V { return a.binary(VMULPS, VMULPS_BCST, x, y) }
func (a ISA) Div(x V, y operand) V { return a.binary(VDIVPS, VDIVPS_BCST, x, y) }

// Max is y unless x > y; Min is y unless x < y. So a NaN in y stays, one in x does not.
func (a ISA) Max(x V, y operand) V { return a.binary(VMAXPS, VMAXPS_BCST, x, y) }
func (a ISA) Min(x V, y operand) V { return a.binary(VMINPS, VMINPS_BCST, x, y) }

// And, Or are bitwise.
func (a ISA) And(x V, y operand) V {
	if a == AVX512 {
		return a.binary(VPANDD, VPANDD_BCST, x, y)
	}
	return a.binary(VANDPS, nil, x, y)
}
func (a ISA) Or(x V, y operand) V {
	if a == AVX512 {
		return a.binary(VPORD, VPORD_BCST, x, y)
	}
	return a.binary(VORPS, nil, x, y)
}

// MaxInt is the maximum of signed integers.
func (a ISA) MaxInt(x V, y operand) V { return a.binary(VPMAXSD, VPMAXSD_BCST, x, y) }

func (a ISA) binary(op, broadcast func(...Op), x V, y operand) V {
	v := a.New()
	for i := range v {
		switch y := y.(type) {
		case V:
			op(y[i], x[i], v[i])
		case Const:
			if a == AVX512 {
				broadcast(y.m, x[i], v[i])
			} else {
				op(y.m, x[i], v[i])
			}
		}
	}
	return v
}

// Accumulate adds x to sum in place.
func (a ISA) Accumulate(sum, x V) {
	for i := range sum {
		VADDPS(x[i], sum[i], sum[i])
	}
}

// Polynomial evaluates c[0]·z^n + … + c[n] by Horner's rule, fused.
func (a ISA) Polynomial(z V, c ...float32) V {
	p := a.Register(F(c[0]))
	for _, f := range c[1:] {
		a.fma(VFMADD213PS, VFMADD213PS_BCST, F(f), z, p) // p = z·p + f
	}
	return p
}

// fma does a fused operation in place on d, with c in memory.
func (a ISA) fma(op, broadcast func(...Op), c Const, x, d V) {
	for i := range d {
		if a == AVX512 {
			broadcast(c.m, x[i], d[i])
		} else {
			op(c.m, x[i], d[i])
		}
	}
}

// Round rounds to the nearest integer, halves to even.
func (a ISA) Round(x V) V {
	v := a.New()
	for i := range v {
		if a == AVX512 {
			VRNDSCALEPS(Imm(8), x[i], v[i])
		} else {
			VROUNDPS(Imm(8), x[i], v[i])
		}
	}
	return v
}

// Predicates of comparisons.
const (
	EqualTo   = 0 // false for NaN
	less      = 1 // false for NaN
	Unordered = 3 // one is NaN
	notLess   = 5 // true for NaN
	ordered   = 7 // neither is NaN
)

// Matches sets bit i of bits if lane i of x compares to that of y as given.
func (a ISA) Matches(predicate uint64, x, y V, bits reg.GPVirtual) {
	if a == AVX512 {
		k := K()
		VCMPPS(Imm(predicate), y[0], x[0], k)
		KMOVW(k, bits)
		return
	}
	mask, high := a.compare(predicate, x, y), GP32()
	VMOVMSKPS(mask[0], bits)
	VMOVMSKPS(mask[1], high)
	SHLL(Imm(8), high)
	ORL(high, bits)
}

// Exp is exp32:
//
//	n = round(x·log2(e)), z = x - n·ln2, e^z ≈ 1 + z + z²·P(z), e^x = 2^n·e^z, zero if x < expLow.
func (a ISA) Exp(x V) V {
	x = a.Min(a.Register(F(89)), x)
	n := a.Round(a.Mul(x, F(1.44269504088896341)))
	z := a.Copy(x)
	a.fma(VFNMADD231PS, VFNMADD231PS_BCST, F(0.693359375), n, z) // z = z - n·c
	a.fma(VFNMADD231PS, VFNMADD231PS_BCST, F(-2.12194440e-4), n, z)
	p := a.Polynomial(z, 1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1)
	squared := a.Mul(z, z)
	for i := range p {
		VFMADD213PS(z[i], squared[i], p[i]) // p = z²·p + z
	}
	p = a.Add(p, F(1))
	const expLow = -87.33654
	if a == AVX512 {
		normal := K()
		VCMPPS_BCST(Imm(notLess), F(expLow).m, x[0], normal)
		v := a.New()
		VSCALEFPS_Z(n[0], p[0], normal, v[0])
		return v
	}
	return a.And(a.scale2(p, n), a.compare(notLess, x, F(expLow)))
}

// scale2 is p·2^n in two steps, each by a power that is a normal number.
func (a ISA) scale2(p, n V) V {
	v := a.New()
	for i := range v {
		half, rest := YMM(), YMM()
		VCVTPS2DQ(n[i], rest)
		VPSRAD(Imm(1), rest, half)
		VPSUBD(half, rest, rest)
		for _, power := range []reg.VecVirtual{half, rest} {
			VPADDD(Bits(127).m, power, power)
			VPSLLD(Imm(23), power, power)
		}
		VMULPS(half, p[i], v[i])
		VMULPS(rest, v[i], v[i])
	}
	return v
}

// compare returns all ones in the lanes where x compares to y as given. (AVX2 only.)
func (a ISA) compare(predicate uint64, x V, y operand) V {
	v := a.New()
	for i := range v {
		switch y := y.(type) {
		case V:
			VCMPPS(Imm(predicate), y[i], x[i], v[i])
		case Const:
			VCMPPS(Imm(predicate), y.m, x[i], v[i])
		}
	}
	return v
}

// Select returns yes in the lanes where x < y, else no.
func (a ISA) SelectLess(x V, y operand, yes, no V) V {
	v := a.New()
	if a == AVX512 {
		k := K()
		switch y := y.(type) {
		case V:
			VCMPPS(Imm(less), y[0], x[0], k)
		case Const:
			VCMPPS_BCST(Imm(less), y.m, x[0], k)
		}
		VBLENDMPS(yes[0], no[0], k, v[0])
		return v
	}
	mask := a.compare(less, x, y)
	for i := range v {
		VBLENDVPS(mask[i], yes[i], no[i], v[i])
	}
	return v
}

// Abs clears the signs.
func (a ISA) Abs(x V) V { return a.And(x, Bits(0x7fffffff)) }

// Negate flips the signs.
func (a ISA) Negate(x V) V {
	if a == AVX512 {
		return a.binary(VPXORD, VPXORD_BCST, x, Bits(0x80000000))
	}
	return a.binary(VXORPS, nil, x, Bits(0x80000000))
}

// Sigmoid is 1/(1 + e^-x).
func (a ISA) Sigmoid(x V) V {
	return a.Div(a.Register(F(1)), a.Add(a.Exp(a.Negate(x)), F(1)))
}

// Tanh is tanh32: x + x·z·P(z) with z = x² where |x| < 0.625, else 1 - 2/(e^2|x| + 1) with the sign of x.
func (a ISA) Tanh(x V) V {
	absolute := a.Abs(x)
	large := a.Add(a.Exp(a.Add(absolute, absolute)), F(1))
	large = a.Sub(a.Register(F(1)), a.Div(a.Register(F(2)), large))
	large = a.Or(large, a.And(x, Bits(0x80000000)))
	z := a.Mul(x, x)
	small := a.Polynomial(z, -5.70498872745e-3, 2.06390887954e-2, -5.37397155531e-2, 1.33314422036e-1, -3.33332819422e-1)
	small = a.Add(a.Mul(a.Mul(small, z), x), x)
	return a.SelectLess(a.Abs(x), F(0.625), small, large)
}

// Blend is g·x + (1-g)·y.
func (a ISA) Blend(g, x, y V) V {
	return a.Add(a.Mul(g, x), a.Mul(a.Sub(a.Register(F(1)), g), y))
}

// Floor0 is max(0, x), keeping NaN and -0.
func (a ISA) Floor0(x V) V { return a.Max(a.Zero(), x) }

// Reduce combines the lanes in the fixed tree 16 → 8 → 4 → 2 → 1 and returns the result in lane 0 of a register.
func (a ISA) Reduce(op func(...Op), v V) reg.VecVirtual {
	y, x := YMM(), XMM()
	if a == AVX512 {
		VEXTRACTF64X4(Imm(1), v[0], y)
		op(y, v[0].AsY(), y)
		VEXTRACTF32X4(Imm(1), y, x)
	} else {
		op(v[1], v[0], y)
		VEXTRACTF128(Imm(1), y, x)
	}
	op(x, y.AsX(), x)
	other := XMM()
	VPERMILPS(Imm(0x4e), x, other) // lanes 2, 3, 0, 1
	op(other, x, x)
	VPERMILPS(Imm(0xb1), x, other) // lanes 1, 0, 3, 2
	op(other, x, x)
	return x
}

// Sum adds the lanes in the fixed tree.
func (a ISA) Sum(v V) reg.VecVirtual { return a.Reduce(VADDPS, v) }

// Mem is the memory of the constant.
func (c Const) Mem() Mem { return c.m }

// Accumulate2 combines x into v in place, v being the result where the operation has to choose (maximum with NaN in x).
func (a ISA) Accumulate2(op func(...Op), v, x V) {
	for i := range v {
		op(v[i], x[i], v[i])
	}
}

// KeepOrdered returns x with zeros in place of NaN.
func (a ISA) KeepOrdered(x V) V {
	if a == AVX512 {
		k, v := K(), a.New()
		VCMPPS(Imm(ordered), x[0], x[0], k)
		VMOVAPS_Z(x[0], k, v[0])
		return v
	}
	return a.And(x, a.compare(ordered, x, x))
}

// Bytes rounds to the nearest integers, halves to even, which must fit, and returns them as 16 signed bytes.
func (a ISA) Bytes(x V) reg.VecVirtual {
	bytes := XMM()
	if a == AVX512 {
		rounded := ZMM()
		VCVTPS2DQ(x[0], rounded)
		VPMOVDB(rounded, bytes)
		return bytes
	}
	var words [2]reg.VecVirtual
	for i := range words {
		rounded, high := YMM(), XMM()
		VCVTPS2DQ(x[i], rounded)
		VEXTRACTI128(Imm(1), rounded, high)
		words[i] = XMM()
		VPACKSSDW(high, rounded.AsX(), words[i])
	}
	VPACKSSWB(words[1], words[0], bytes)
	return bytes
}

// Permutation loads the order that FourBytes needs. (AVX-512 only.)
func (a ISA) Permutation() reg.VecVirtual {
	order := ZMM()
	LoadPermutation(order)
	return order
}

// LoadPermutation is Permutation for a register that is given.
func LoadPermutation(order reg.Register) {
	if permutation == nil {
		m := GLOBL("four_bytes", RODATA|NOPTR)
		for i := range 16 {
			DATA(4*i, U32(i%4*4+i/4))
		}
		permutation = &m
	}
	VMOVDQU32(*permutation, order)
}

var permutation *Mem

// FourBytes is Bytes for four V at once: 64 signed bytes. Packing works within 128-bit lanes, so that four bytes of each
// V alternate; the permutation brings them in order. (AVX-512 only.)
func FourBytes(x [4]V, permutation reg.VecVirtual) reg.VecVirtual {
	var v [4]reg.VecVirtual
	for i := range v {
		v[i] = ZMM()
		VCVTPS2DQ(x[i][0], v[i])
	}
	for i := 0; i < 4; i += 2 {
		VPACKSSDW(v[i+1], v[i], v[i])
	}
	bytes := ZMM()
	VPACKSSWB(v[2], v[0], bytes)
	VPERMD(bytes, permutation, bytes)
	return bytes
}
