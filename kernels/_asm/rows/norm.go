package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"

	"github.com/sluice-mt/sluice/kernels/_asm/asm"
)

// norm is the generator of a kernel over rows of n elements.
type norm struct {
	asm.ISA
	row                     *asm.Row
	dst, x, residual, scale reg.GPVirtual
	count                   reg.VecVirtual // n as float32
}

func norms(isa asm.ISA) {
	asm.Kernel("layerNorm"+isa.String(), "func(dst, x, residual, scale, bias *float32, rows, n int, eps float32)",
		"layerNorm"+isa.String()+" computes layerNormGeneric. rows and n are at least 1. residual and bias may be nil.")
	m := newNorm(isa)
	Label("row")
	m.layerNorm()
	m.nextRow()

	asm.Kernel("rmsNorm"+isa.String(), "func(dst, x, residual, scale *float32, rows, n int, eps float32)",
		"rmsNorm"+isa.String()+" computes rmsNormGeneric. rows and n are at least 1. residual may be nil.")
	m = newNorm(isa)
	Label("row")
	m.rmsNorm()
	m.nextRow()
}

func newNorm(isa asm.ISA) *norm {
	n := asm.Int("n")
	m := &norm{ISA: isa, dst: asm.Int("dst"), x: asm.Int("x"), residual: asm.Int("residual"), scale: asm.Int("scale"), row: isa.NewRow(n), count: XMM()}
	VXORPS(m.count, m.count, m.count)
	VCVTSI2SSQ(n, m.count, m.count)
	return m
}

// nextRow steps to the next row, and ends the kernel after the last.
func (m *norm) nextRow() {
	done := asm.Unique("return")
	DECQ(asm.Addr("rows"))
	JZ(LabelRef(done))
	bytes := asm.Int("n")
	SHLQ(Imm(2), bytes)
	ADDQ(bytes, m.dst)
	ADDQ(bytes, m.x)
	TESTQ(m.residual, m.residual)
	JZ(LabelRef("row"))
	ADDQ(bytes, m.residual)
	JMP(LabelRef("row"))
	Label(done)
	VZEROUPPER()
	RET()
}

// sumUp stores v = x + residual in dst and returns the striped sum of f(v).
func (m *norm) sumUp(f func(v asm.V) asm.V) asm.V {
	sum := m.Zero()
	alone, summed := asm.Unique("alone"), asm.Unique("summed")
	TESTQ(m.residual, m.residual)
	JZ(LabelRef(alone))
	m.row.EachOfFour(func(b asm.Block) {
		v := m.Add(b.Load(m.x), b.Load(m.residual))
		b.Store(v, m.dst)
		m.Accumulate(sum, f(v))
	})
	JMP(LabelRef(summed))
	Label(alone)
	m.row.EachOfFour(func(b asm.Block) {
		v := b.Load(m.x)
		b.Store(v, m.dst)
		m.Accumulate(sum, f(v))
	})
	Label(summed)
	return sum
}

// inverseRoot returns 1/sqrt(squares/n + eps) in all lanes, from the striped sum of squares.
func (m *norm) inverseRoot(squares asm.V) asm.V {
	s := m.Sum(squares)
	VDIVSS(m.count, s, s)
	VADDSS(asm.Addr("eps"), s, s)
	VSQRTSS(s, s, s)
	one := XMM()
	VMOVSS(asm.F(1).Mem(), one)
	VDIVSS(s, one, s)
	return m.Splat(s)
}

func (m *norm) layerNorm() {
	s := m.Sum(m.sumUp(func(v asm.V) asm.V { return v }))
	VDIVSS(m.count, s, s)
	mean := m.Splat(s)
	squares := m.Zero()
	m.row.EachOfFour(func(b asm.Block) {
		d := m.Sub(b.Load(m.dst), mean)
		m.Accumulate(squares, b.Keep(m.Mul(d, d)))
	})
	inverse := m.inverseRoot(squares)
	normalised := func(b asm.Block) asm.V {
		return m.Mul(m.Mul(m.Sub(b.Load(m.dst), mean), inverse), b.Load(m.scale))
	}
	bias := asm.Int("bias")
	plain, done := asm.Unique("plain"), asm.Unique("normalised")
	TESTQ(bias, bias)
	JZ(LabelRef(plain))
	m.row.EachOfFour(func(b asm.Block) { b.Store(m.Add(normalised(b), b.Load(bias)), m.dst) })
	JMP(LabelRef(done))
	Label(plain)
	m.row.EachOfFour(func(b asm.Block) { b.Store(normalised(b), m.dst) })
	Label(done)
}

func (m *norm) rmsNorm() {
	inverse := m.inverseRoot(m.sumUp(func(v asm.V) asm.V { return m.Mul(v, v) }))
	m.row.EachOfFour(func(b asm.Block) {
		b.Store(m.Mul(m.Mul(b.Load(m.dst), inverse), b.Load(m.scale)), m.dst)
	})
}
