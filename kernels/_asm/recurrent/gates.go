package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"

	"github.com/sluice-mt/sluice/kernels/_asm/asm"
)

// gates are the parts of a row that a product gave, dim elements each.
type gates []reg.GPVirtual

// newGates returns the addresses of so many parts from that of the first on.
func newGates(first reg.GPVirtual, dim reg.GPVirtual, n int) gates {
	g := gates{first}
	for len(g) < n {
		next := GP64()
		LEAQ(Mem{Base: g[len(g)-1], Index: dim, Scale: 4}, next)
		g = append(g, next)
	}
	return g
}

// gru generates r, z = σ(u + x), h = tanh(r·u + x), s = z·s + (1-z)·h.
func gru(isa asm.ISA) {
	name := "gru" + isa.String()
	asm.Kernel(name, "func(s, x, u *float32, n int)", name+" computes gruGeneric for n >= 1 elements. x may be nil.")
	n, s := asm.Int("n"), asm.Int("s")
	x, u := newGates(asm.Int("x"), n, 3), newGates(asm.Int("u"), n, 3)
	withInput(isa, n, x[0], func(b asm.Block, input bool) {
		gate := func(i int) asm.V { return loadGate(isa, b, u[i], x[i], input) }
		reset := isa.Sigmoid(gate(0))
		h := isa.Add(isa.Mul(reset, b.Load(u[2])), isa.Zero())
		if input {
			h = isa.Add(h, b.Load(x[2]))
		}
		h = isa.Tanh(h)
		b.Store(isa.Blend(isa.Sigmoid(gate(1)), b.Load(s), h), s)
	})
}

// lstm generates f, i, c, o = u + x, m = σ(i)·tanh(c) + σ(f)·m, s = σ(o)·tanh(m).
func lstm(isa asm.ISA) {
	name := "lstm" + isa.String()
	asm.Kernel(name, "func(s, m, x, u *float32, n int)", name+" computes lstmGeneric for n >= 1 elements. x may be nil.")
	n, s, m := asm.Int("n"), asm.Int("s"), asm.Int("m")
	x, u := newGates(asm.Int("x"), n, 4), newGates(asm.Int("u"), n, 4)
	withInput(isa, n, x[0], func(b asm.Block, input bool) {
		gate := func(i int) asm.V { return loadGate(isa, b, u[i], x[i], input) }
		in := isa.Mul(isa.Sigmoid(gate(1)), isa.Tanh(gate(2)))
		memory := isa.Add(in, isa.Mul(isa.Sigmoid(gate(0)), b.Load(m)))
		b.Store(memory, m)
		out := isa.Sigmoid(gate(3))
		b.Store(isa.Add(isa.Mul(out, isa.Tanh(memory)), isa.Zero()), s)
	})
}

// loadGate loads u + x, or u without input.
func loadGate(isa asm.ISA, b asm.Block, u, x reg.GPVirtual, input bool) asm.V {
	if input {
		return isa.Add(b.Load(u), b.Load(x))
	}
	return b.Load(u)
}

// withInput generates the loop over n elements twice: with an input at x, and without if x is nil.
func withInput(isa asm.ISA, n, x reg.GPVirtual, body func(b asm.Block, input bool)) {
	row := isa.NewRow(n)
	TESTQ(x, x)
	JZ(LabelRef("alone"))
	row.Each(func(b asm.Block) { body(b, true) })
	VZEROUPPER()
	RET()
	Label("alone")
	row.Each(func(b asm.Block) { body(b, false) })
	VZEROUPPER()
	RET()
}
