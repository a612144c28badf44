package main

import (
	"math"

	"github.com/sluice-mt/sluice/kernels/_asm/neon"
)

// A body is straight-line code on four lanes. It is recorded with as many values as it likes; write gives them registers.
type body struct {
	code      []instruction
	values    int
	constants []constant
}

// value is a register to be.
type value int

// instruction writes itself once the registers of its values are known.
type instruction struct {
	reads  []value
	writes value // -1: none
	emit   func(f *neon.Func, reg func(value) neon.V)
}

// constant is a value that is set before the loop: bits, or a parameter.
type constant struct {
	value
	bits      uint32
	parameter string
}

func (b *body) new() value {
	b.values++
	return value(b.values - 1)
}

// F is a constant.
func (b *body) F(f float32) value { return b.bits(math.Float32bits(f)) }

func (b *body) bits(bits uint32) value {
	for _, c := range b.constants {
		if c.parameter == "" && c.bits == bits {
			return c.value
		}
	}
	b.constants = append(b.constants, constant{value: b.new(), bits: bits})
	return b.constants[len(b.constants)-1].value
}

// parameter is a float32 parameter in all lanes.
func (b *body) parameter(name string) value {
	for _, c := range b.constants {
		if c.parameter == name {
			return c.value
		}
	}
	b.constants = append(b.constants, constant{value: b.new(), parameter: name})
	return b.constants[len(b.constants)-1].value
}

func (b *body) add(writes value, emit func(f *neon.Func, reg func(value) neon.V), reads ...value) value {
	b.code = append(b.code, instruction{reads, writes, emit})
	return writes
}

// op is x op y.
func (b *body) op(name string, x, y value) value {
	d := b.new()
	return b.add(d, func(f *neon.Func, reg func(value) neon.V) { f.Op(name, reg(d), reg(x), reg(y)) }, x, y)
}

func (b *body) op2(name string, x value) value {
	d := b.new()
	return b.add(d, func(f *neon.Func, reg func(value) neon.V) { f.Op2(name, reg(d), reg(x)) }, x)
}

func (b *body) Add(x, y value) value { return b.op("fadd", x, y) }
func (b *body) Sub(x, y value) value { return b.op("fsub", x, y) }
func (b *body) Mul(x, y value) value { return b.op("fmul", x, y) }
func (b *body) Div(x, y value) value { return b.op("fdiv", x, y) }

// fused is c + x·y, or c - x·y, rounded once.
func (b *body) fused(name string, c, x, y value) value {
	d := b.new()
	b.add(d, func(f *neon.Func, reg func(value) neon.V) { f.Move(reg(d), reg(c)) }, c)
	return b.add(d, func(f *neon.Func, reg func(value) neon.V) { f.Op(name, reg(d), reg(x), reg(y)) }, d, x, y)
}

// shift is an arithmetic shift, to the left if by is negative.
func (b *body) shift(x value, by int) value {
	d := b.new()
	return b.add(d, func(f *neon.Func, reg func(value) neon.V) {
		if by < 0 {
			f.ShiftLeft(reg(d), reg(x), -by)
		} else {
			f.ShiftRight(reg(d), reg(x), by)
		}
	}, x)
}

// choose is yes in the lanes of the mask, else no.
func (b *body) choose(mask, yes, no value) value {
	d := b.new()
	b.add(d, func(f *neon.Func, reg func(value) neon.V) { f.Move(reg(d), reg(no)) }, no)
	return b.add(d, func(f *neon.Func, reg func(value) neon.V) { f.Op("bit", reg(d), reg(yes), reg(mask)) }, d, yes, mask)
}

// less is all ones where x < y.
func (b *body) less(x, y value) value { return b.op("fcmgt", y, x) }

// load loads four elements at a pointer.
func (b *body) load(p neon.R) value {
	d := b.new()
	return b.add(d, func(f *neon.Func, reg func(value) neon.V) { f.Load(reg(d), p, 0) })
}

func (b *body) store(x value, p neon.R) {
	b.add(-1, func(f *neon.Func, reg func(value) neon.V) { f.Store(reg(x), p, 0) }, x)
}

// into combines x into a register that lives across turns of the loop: sum = sum op x.
func (b *body) into(name string, sum neon.V, x value) {
	b.add(-1, func(f *neon.Func, reg func(value) neon.V) { f.Op(name, sum, sum, reg(x)) }, x)
}

// prepare sets the constants, which take the registers from the last on.
func (b *body) prepare(f *neon.Func) {
	for i, c := range b.constants {
		register := neon.V(31 - i)
		if c.parameter != "" {
			f.ArgSplat(c.parameter, register)
		} else {
			f.Splat(c.bits, register)
		}
	}
}

// write writes the code. Registers below first are not its own.
func (b *body) write(f *neon.Func, first neon.V) {
	registers := map[value]neon.V{}
	for i, c := range b.constants {
		registers[c.value] = neon.V(31 - i)
	}
	var free []neon.V
	for r := neon.V(31 - len(b.constants)); r >= first; r-- {
		free = append(free, r)
	}
	last := map[value]int{}
	for i, in := range b.code {
		for _, v := range in.reads {
			last[v] = i
		}
	}
	isConstant := func(v value) bool { return registers[v] > neon.V(31-len(b.constants)) }
	for i, in := range b.code {
		_, written := registers[in.writes]
		release := map[value]bool{}
		for _, v := range in.reads {
			if last[v] == i && !isConstant(v) && v != in.writes {
				release[v] = true
			}
		}
		before := map[value]neon.V{}
		for v, r := range registers {
			before[v] = r
		}
		for _, v := range in.reads { // in the order of the operands, so that the code is always the same
			if release[v] {
				free = append(free, registers[v])
				delete(registers, v)
				delete(release, v)
			}
		}
		if in.writes >= 0 && !written {
			if len(free) == 0 {
				panic("too many values")
			}
			registers[in.writes] = free[len(free)-1]
			free = free[:len(free)-1]
		}
		in.emit(f, func(v value) neon.V {
			if v == in.writes {
				return registers[v]
			}
			return before[v]
		})
	}
}

// Exp is exp32:
//
//	n = round(x·log2(e)), z = x - n·ln2, e^z ≈ 1 + z + z²·P(z), e^x = 2^n·e^z, zero if x < expLow.
func (b *body) Exp(x value) value {
	x = b.op("fmin", x, b.F(89))
	n := b.op2("frintn", b.Mul(x, b.F(1.44269504088896341)))
	z := b.fused("fmls", x, n, b.F(0.693359375))
	z = b.fused("fmls", z, n, b.F(-2.12194440e-4))
	p := b.polynomial(z, 1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1)
	p = b.Add(b.fused("fmla", z, p, b.Mul(z, z)), b.F(1))
	// 2^n in two steps, each by a power that is a normal number
	whole := b.op2("fcvtns", n)
	half := b.shift(whole, 1)
	rest := b.op("sub", whole, half)
	for _, power := range []value{half, rest} {
		p = b.Mul(p, b.shift(b.op("add", power, b.bits(127)), -23))
	}
	return b.op("bic", p, b.less(x, b.F(-87.33654)))
}

// polynomial evaluates c[0]·z^n + … + c[n] by Horner's rule, fused.
func (b *body) polynomial(z value, c ...float32) value {
	p := b.F(c[0])
	for _, f := range c[1:] {
		p = b.fused("fmla", b.F(f), p, z)
	}
	return p
}

const signBit = 1 << 31

// Sigmoid is 1/(1 + e^-x).
func (b *body) Sigmoid(x value) value {
	return b.Div(b.F(1), b.Add(b.F(1), b.Exp(b.op2("fneg", x))))
}

// Blend is g·x + (1-g)·y.
func (b *body) Blend(g, x, y value) value {
	return b.Add(b.Mul(g, x), b.Mul(b.Sub(b.F(1), g), y))
}

// Floor0 is max(0, x), keeping NaN and -0.
func (b *body) Floor0(x value) value { return b.op("bic", x, b.less(x, b.F(0))) }

func (b *body) abs(x value) value { return b.op("bic", x, b.bits(signBit)) }

// Tanh is tanh32.
func (b *body) Tanh(x value) value {
	a := b.abs(x)
	z := b.Mul(x, x)
	p := b.polynomial(z, -5.70498872745e-3, 2.06390887954e-2, -5.37397155531e-2, 1.33314422036e-1, -3.33332819422e-1)
	small := b.Add(b.Mul(b.Mul(p, z), x), x)
	t := b.Sub(b.F(1), b.Div(b.F(2), b.Add(b.Exp(b.Add(a, a)), b.F(1))))
	t = b.op("orr", t, b.op("and", x, b.bits(signBit)))
	return b.choose(b.less(a, b.F(0.625)), small, t)
}

// Phi is phi32.
func (b *body) Phi(x value) value {
	a := b.abs(x)
	t := b.Div(b.F(1), b.Add(b.F(1), b.Mul(a, b.F(0.3275911*0.70710678118654752))))
	p := b.polynomial(t, 1.061405429/2, -1.453152027/2, 1.421413741/2, -0.284496736/2, 0.254829592/2)
	tail := b.Mul(b.Mul(p, t), b.Exp(b.Mul(b.Mul(a, b.F(-0.5)), a)))
	return b.choose(b.less(x, b.F(0)), tail, b.Sub(b.F(1), tail))
}
