package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"

	"github.com/sluice-mt/sluice/kernels/_asm/asm"
)

// norm is the generator of a kernel over rows of n elements. With AVX-512 it works on two rows at a time, since the sums
// of one row are a chain of additions that leaves most of the processor idle.
type norm struct {
	asm.ISA
	elements *asm.Row
	rows     []normRow // the rows in work
	scale    reg.GPVirtual
	count    reg.VecVirtual // n as float32
	largest  []asm.V        // of each row in work, the magnitudes of results so far; nil if they are not to become bytes
	toBytes  bool
}

// normRow is where a row lies.
type normRow struct{ dst, x, residual reg.GPVirtual }

func norms(isa asm.ISA) {
	asm.Kernel("layerNorm"+isa.String(), "func(dst, x, residual, scale, bias *float32, rows, n int, eps float32)",
		"layerNorm"+isa.String()+" computes layerNormGeneric. rows and n are at least 1. residual and bias may be nil.")
	newNorm(isa).generate((*norm).layerNorm)

	asm.Kernel("rmsNorm"+isa.String(), "func(dst, x, residual, scale *float32, rows, n int, eps float32)",
		"rmsNorm"+isa.String()+" computes rmsNormGeneric. rows and n are at least 1. residual may be nil.")
	newNorm(isa).generate((*norm).rmsNorm)

	asm.Kernel("layerNormQuantised"+isa.String(),
		"func(dst, x, residual, scale, bias *float32, bytes *uint8, stride int, scales *float32, rows, n int, eps float32)",
		"layerNormQuantised"+isa.String()+" computes layerNormGeneric, and quantizeRowsGeneric of what it gives. rows and n are at least 1. residual and bias may be nil.",
		"stride is in bytes, a multiple of 64; the row is written up to a multiple of 16.")
	newNorm(isa).quantised().generate((*norm).layerNorm)

	asm.Kernel("rmsNormQuantised"+isa.String(),
		"func(dst, x, residual, scale *float32, bytes *uint8, stride int, scales *float32, rows, n int, eps float32)",
		"rmsNormQuantised"+isa.String()+" computes rmsNormGeneric, and quantizeRowsGeneric of what it gives. rows and n are at least 1. residual may be nil.",
		"stride is in bytes, a multiple of 64; the row is written up to a multiple of 16.")
	newNorm(isa).quantised().generate((*norm).rmsNorm)
}

// quantised makes the norm one that also quantises what it gives.
func (m *norm) quantised() *norm {
	m.toBytes = true
	return m
}

func newNorm(isa asm.ISA) *norm {
	n := asm.Int("n")
	m := &norm{
		ISA: isa, scale: asm.Int("scale"), elements: isa.NewRow(n), count: XMM(),
		rows: []normRow{{asm.Int("dst"), asm.Int("x"), asm.Int("residual")}},
	}
	VXORPS(m.count, m.count, m.count)
	VCVTSI2SSQ(n, m.count, m.count)
	return m
}

// generate loops over pairs of rows, then over single rows.
func (m *norm) generate(body func(*norm)) {
	if m.ISA == asm.AVX512 {
		first := m.rows[0]
		SUBQ(U32(2), asm.Addr("rows"))
		JLT(LabelRef("single"))
		Label("pair")
		second := normRow{GP64(), GP64(), GP64()}
		bytes := rowBytes()
		LEAQ(Mem{Base: first.dst, Index: bytes, Scale: 1}, second.dst)
		LEAQ(Mem{Base: first.x, Index: bytes, Scale: 1}, second.x)
		LEAQ(Mem{Base: first.residual, Index: bytes, Scale: 1}, second.residual)
		m.rows = []normRow{first, second}
		m.work(body)
		m.advance()
		SUBQ(U32(2), asm.Addr("rows"))
		JGE(LabelRef("pair"))
		m.rows = m.rows[:1]
		Label("single")
		ADDQ(U32(2), asm.Addr("rows"))
		JZ(LabelRef("return"))
	}
	Label("row")
	m.work(body)
	m.advance()
	DECQ(asm.Addr("rows"))
	JNZ(LabelRef("row"))
	Label("return")
	VZEROUPPER()
	RET()
}

// work does the rows in work.
func (m *norm) work(body func(*norm)) {
	if !m.toBytes {
		body(m)
		return
	}
	m.largest = m.forRows(func(int) asm.V { return m.Zero() })
	body(m)
	for i, row := range m.rows {
		m.quantize(m.largest[i], row.dst)
	}
}

// store stores a block of the result of a row.
func (m *norm) store(b asm.Block, v asm.V, i int) {
	b.Store(v, m.rows[i].dst)
	if m.toBytes {
		m.Accumulate2(VPMAXSD, m.largest[i], b.Keep(m.Abs(v)))
	}
}

// quantize makes bytes of the row at x, whose largest magnitude is in the lanes, and steps over them and their scale.
func (m *norm) quantize(largest asm.V, x reg.GPVirtual) {
	bytes, scales := asm.Int("bytes"), asm.Int("scales")
	quantizeRow(m.ISA, m.elements, m.Reduce(VPMAXSD, largest), bytes, scales, x)
	ADDQ(asm.Addr("stride"), bytes)
	MOVQ(bytes, asm.Addr("bytes"))
	ADDQ(Imm(4), scales)
	MOVQ(scales, asm.Addr("scales"))
}

func rowBytes() reg.GPVirtual {
	bytes := asm.Int("n")
	SHLQ(Imm(2), bytes)
	return bytes
}

// advance steps over the rows in work.
func (m *norm) advance() {
	first, bytes, none := m.rows[0], rowBytes(), asm.Unique("none")
	if len(m.rows) == 2 {
		ADDQ(bytes, bytes)
	}
	ADDQ(bytes, first.dst)
	ADDQ(bytes, first.x)
	TESTQ(first.residual, first.residual)
	JZ(LabelRef(none))
	ADDQ(bytes, first.residual)
	Label(none)
}

// forRows returns what f makes of each row in work.
func (m *norm) forRows(f func(i int) asm.V) (v []asm.V) {
	for i := range m.rows {
		v = append(v, f(i))
	}
	return v
}

// sumUp stores v = x + residual in dst and returns the striped sums of f(v).
func (m *norm) sumUp(f func(v asm.V) asm.V) []asm.V {
	sums := m.forRows(func(int) asm.V { return m.Zero() })
	alone, summed := asm.Unique("alone"), asm.Unique("summed")
	TESTQ(m.rows[0].residual, m.rows[0].residual)
	JZ(LabelRef(alone))
	m.elements.EachOfFour(func(b asm.Block) {
		for i, row := range m.rows {
			v := m.Add(b.Load(row.x), b.Load(row.residual))
			b.Store(v, row.dst)
			m.Accumulate(sums[i], f(v))
		}
	})
	JMP(LabelRef(summed))
	Label(alone)
	m.elements.EachOfFour(func(b asm.Block) {
		for i, row := range m.rows {
			v := b.Load(row.x)
			b.Store(v, row.dst)
			m.Accumulate(sums[i], f(v))
		}
	})
	Label(summed)
	return sums
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
	sums := m.sumUp(func(v asm.V) asm.V { return v })
	means := m.forRows(func(i int) asm.V {
		s := m.Sum(sums[i])
		VDIVSS(m.count, s, s)
		return m.Splat(s)
	})
	squares := m.forRows(func(int) asm.V { return m.Zero() })
	m.elements.EachOfFour(func(b asm.Block) {
		for i, row := range m.rows {
			d := m.Sub(b.Load(row.dst), means[i])
			m.Accumulate(squares[i], b.Keep(m.Mul(d, d)))
		}
	})
	inverses := m.forRows(func(i int) asm.V { return m.inverseRoot(squares[i]) })
	m.output(func(i int, v asm.V) asm.V { return m.Mul(m.Sub(v, means[i]), inverses[i]) })
}

// output replaces dst by normalised(dst)·scale + bias.
func (m *norm) output(normalised func(i int, v asm.V) asm.V) {
	bias := asm.Int("bias")
	plain, done := asm.Unique("plain"), asm.Unique("normalised")
	TESTQ(bias, bias)
	JZ(LabelRef(plain))
	m.elements.EachOfFour(func(b asm.Block) {
		scale, bias := b.Load(m.scale), b.Load(bias)
		for i, row := range m.rows {
			m.store(b, m.Add(m.Mul(normalised(i, b.Load(row.dst)), scale), bias), i)
		}
	})
	JMP(LabelRef(done))
	Label(plain)
	m.elements.EachOfFour(func(b asm.Block) {
		scale := b.Load(m.scale)
		for i, row := range m.rows {
			m.store(b, m.Mul(normalised(i, b.Load(row.dst)), scale), i)
		}
	})
	Label(done)
}

func (m *norm) rmsNorm() {
	squares := m.sumUp(func(v asm.V) asm.V { return m.Mul(v, v) })
	inverses := m.forRows(func(i int) asm.V { return m.inverseRoot(squares[i]) })
	m.elements.EachOfFour(func(b asm.Block) {
		scale := b.Load(m.scale)
		for i, row := range m.rows {
			m.store(b, m.Mul(m.Mul(b.Load(row.dst), inverses[i]), scale), i)
		}
	})
}
