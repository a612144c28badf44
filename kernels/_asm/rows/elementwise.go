package main

import (
	"strings"

	. "github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/reg"

	"github.com/sluice-mt/sluice/kernels/_asm/asm"
)

// env is what the body of an elementwise kernel sees: one block of its slices, and its scalars.
type env struct {
	asm.ISA
	block    asm.Block
	pointers map[string]reg.GPVirtual
	scalars  map[string]asm.V
}

func (e *env) load(name string) asm.V     { return e.block.Load(e.pointers[name]) }
func (e *env) store(v asm.V, name string) { e.block.Store(v, e.pointers[name]) }
func (e *env) scalar(name string) asm.V   { return e.scalars[name] }
func (e *env) sigmoid(name string) asm.V  { return e.Sigmoid(e.load(name)) }

// kernel generates name<ISA>(slices *float32, n int, scalars float32): body for each block of 16 elements.
func kernel(isa asm.ISA, name, slices, scalars string, body func(e *env)) {
	signature := "func(" + strings.ReplaceAll(slices, " ", ", ") + " *float32, n int"
	if scalars != "" {
		signature += ", " + strings.ReplaceAll(scalars, " ", ", ") + " float32"
	}
	asm.Kernel(name+isa.String(), signature+")", name+isa.String()+" computes "+name+"Generic for n elements.")
	e := &env{ISA: isa, pointers: map[string]reg.GPVirtual{}, scalars: map[string]asm.V{}}
	for _, s := range strings.Fields(slices) {
		e.pointers[s] = asm.Int(s)
	}
	for _, s := range strings.Fields(scalars) {
		e.scalars[s] = isa.Splat(asm.Addr(s))
	}
	isa.NewRow(asm.Int("n")).Each(func(b asm.Block) {
		e.block = b
		body(e)
	})
	VZEROUPPER()
	RET()
}

func elementwise(isa asm.ISA) {
	kernel(isa, "add", "dst a b", "", func(e *env) { e.store(e.Add(e.load("a"), e.load("b")), "dst") })
	kernel(isa, "scale", "dst x", "s", func(e *env) { e.store(e.Mul(e.load("x"), e.scalar("s")), "dst") })
	kernel(isa, "shift", "x", "a b", func(e *env) {
		e.store(e.Sub(e.Sub(e.load("x"), e.scalar("a")), e.scalar("b")), "x")
	})
	kernel(isa, "embed", "dst row position", "s", func(e *env) {
		e.store(e.Add(e.Mul(e.load("row"), e.scalar("s")), e.load("position")), "dst")
	})
	kernel(isa, "average", "a x", "t t1", func(e *env) {
		e.store(e.Div(e.Add(e.Mul(e.load("a"), e.scalar("t")), e.load("x")), e.scalar("t1")), "a")
	})
	activations(isa)
	recurrent(isa)
}

func activations(isa asm.ISA) {
	kernel(isa, "relu", "x", "", func(e *env) { e.store(e.Floor0(e.load("x")), "x") })
	kernel(isa, "sigmoid", "x", "", func(e *env) { e.store(e.sigmoid("x"), "x") })
	kernel(isa, "tanh", "x", "", func(e *env) { e.store(e.Tanh(e.load("x")), "x") })
	kernel(isa, "swish", "x", "slope", func(e *env) {
		gate := e.Sigmoid(e.Mul(e.load("x"), e.scalar("slope")))
		e.store(e.Mul(e.load("x"), gate), "x") // loaded again: there are 16 registers without AVX-512
	})
	kernel(isa, "gelu", "x", "", func(e *env) {
		x := e.load("x")
		e.store(e.Mul(x, phi(e.ISA, x)), "x")
	})
}

func recurrent(isa asm.ISA) {
	kernel(isa, "ssru", "c h f x", "", func(e *env) {
		c := e.Blend(e.sigmoid("f"), e.load("c"), e.load("x"))
		e.store(c, "c")
		e.store(e.Floor0(c), "h")
	})
	kernel(isa, "sru", "c h f r wx x", "", func(e *env) {
		c := e.Blend(e.sigmoid("f"), e.load("c"), e.load("wx"))
		e.store(c, "c")
		t := e.Tanh(c)
		e.store(e.Blend(e.sigmoid("r"), t, e.load("x")), "h")
	})
	kernel(isa, "gatedSum", "dst gi x gf y", "", func(e *env) {
		first := e.Mul(e.sigmoid("gi"), e.load("x"))
		e.store(e.Add(first, e.Mul(e.sigmoid("gf"), e.load("y"))), "dst")
	})
	kernel(isa, "highway", "dst gate x y", "", func(e *env) {
		e.store(e.Blend(e.sigmoid("gate"), e.load("x"), e.load("y")), "dst")
	})
}

// phi is phi32: with t = 1/(1 + 0.3275911·|x|/√2), t·P(t)·e^(-x²/2)/2 below zero, one minus that above.
func phi(isa asm.ISA, x asm.V) asm.V {
	a := isa.Abs(x)
	e := isa.Exp(isa.Mul(isa.Mul(a, asm.F(-0.5)), a))
	t := isa.Div(isa.Register(asm.F(1)), isa.Add(isa.Mul(a, asm.F(0.3275911*0.70710678118654752)), asm.F(1)))
	p := isa.Polynomial(t, 1.061405429/2, -1.453152027/2, 1.421413741/2, -0.284496736/2, 0.254829592/2)
	tail := isa.Mul(isa.Mul(p, t), e)
	return isa.SelectLess(x, isa.Zero(), tail, isa.Sub(isa.Register(asm.F(1)), tail))
}
