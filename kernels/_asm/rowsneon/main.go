// Command rowsneon generates the row kernels for arm64.
//
// They take what is whole of a row: a multiple of 4 elements, or of 16 where sums are striped. The callers do the rest in
// Go, as the reference does.
package main

import (
	"fmt"

	"github.com/sluice-mt/sluice/kernels/_asm/neon"
)

func main() {
	neon.Main(func(f *neon.File) {
		elementwise(f)
		reductions(f)
		quantize(f)
		quantizeInt16(f)
		norms(f)
		attention(f)
		maxChosen(f)
		embedInt8(f)
	})
}

// pointers are the registers of the pointer parameters, in their order; count that of n.
const count neon.R = 7

// each generates a loop over n elements, four at a time: parameters are the names of the pointers, which step along.
// Registers below first are not the body's. after is what follows the loop.
func each(f *neon.Func, pointers int, first neon.V, b *body) {
	b.prepare(f)
	turn := f.Unique("turn")
	f.Label(turn)
	b.write(f, first)
	for i := range pointers {
		f.Step(16, neon.R(i))
	}
	f.G("SUBS $4, %v", count)
	f.G("BNE %s", turn)
}

// elementwise generates the kernels that compute each element from those at the same place.
func elementwise(file *neon.File) {
	for _, k := range []struct {
		name       string
		pointers   []string
		parameters []string
		body       func(b *body)
	}{
		{"add", []string{"dst", "a", "b"}, nil, func(b *body) { b.store(b.Add(b.load(1), b.load(2)), 0) }},
		{"scale", []string{"dst", "x"}, []string{"s"}, func(b *body) { b.store(b.Mul(b.load(1), b.parameter("s")), 0) }},
		{"shift", []string{"x"}, []string{"a", "b"}, func(b *body) {
			b.store(b.Sub(b.Sub(b.load(0), b.parameter("a")), b.parameter("b")), 0)
		}},
		{"average", []string{"a", "x"}, []string{"t", "t1"}, func(b *body) {
			b.store(b.Div(b.Add(b.Mul(b.load(0), b.parameter("t")), b.load(1)), b.parameter("t1")), 0)
		}},
		{"relu", []string{"x"}, nil, func(b *body) { b.store(b.Floor0(b.load(0)), 0) }},
		{"sigmoid", []string{"x"}, nil, func(b *body) { b.store(b.Sigmoid(b.load(0)), 0) }},
		{"tanh", []string{"x"}, nil, func(b *body) { b.store(b.Tanh(b.load(0)), 0) }},
		{"swish", []string{"x"}, []string{"slope"}, func(b *body) {
			x := b.load(0)
			b.store(b.Mul(x, b.Sigmoid(b.Mul(x, b.parameter("slope")))), 0)
		}},
		{"gelu", []string{"x"}, nil, func(b *body) {
			x := b.load(0)
			b.store(b.Mul(x, b.Phi(x)), 0)
		}},
		{"ssru", []string{"c", "h", "f", "x"}, nil, func(b *body) {
			c := b.Blend(b.Sigmoid(b.load(2)), b.load(0), b.load(3))
			b.store(c, 0)
			b.store(b.Floor0(c), 1)
		}},
		{"sru", []string{"c", "h", "f", "r", "wx", "x"}, nil, func(b *body) {
			c := b.Blend(b.Sigmoid(b.load(2)), b.load(0), b.load(4))
			h := b.Blend(b.Sigmoid(b.load(3)), b.Tanh(c), b.load(5))
			b.store(c, 0)
			b.store(h, 1)
		}},
		{"gatedSum", []string{"dst", "gi", "x", "gf", "y"}, nil, func(b *body) {
			b.store(b.Add(b.Mul(b.Sigmoid(b.load(1)), b.load(2)), b.Mul(b.Sigmoid(b.load(3)), b.load(4))), 0)
		}},
		{"highway", []string{"dst", "gate", "x", "y"}, nil, func(b *body) {
			b.store(b.Blend(b.Sigmoid(b.load(1)), b.load(2), b.load(3)), 0)
		}},
		{"embed", []string{"dst", "row", "position"}, []string{"s"}, func(b *body) {
			b.store(b.Add(b.Mul(b.load(1), b.parameter("s")), b.load(2)), 0)
		}},
		{"normalise", []string{"x", "scale"}, []string{"mean", "inverse"}, func(b *body) {
			b.store(b.Mul(b.Mul(b.Sub(b.load(0), b.parameter("mean")), b.parameter("inverse")), b.load(1)), 0)
		}},
	} {
		name, signature := k.name+"NEON", ""
		for _, p := range k.pointers {
			signature += p + " *float32, "
		}
		signature += "n int"
		for _, p := range k.parameters {
			signature += ", " + p + " float32"
		}
		doc := fmt.Sprintf("%s computes %sGeneric for n elements, a multiple of 4 and at least 4.", name, k.name)
		if k.name == "normalise" {
			doc = name + " replaces x by ((x - mean)·inverse)·scale. n is a multiple of 4 and at least 4."
		}
		f := file.Func(name, signature, "", doc)
		f.Args(0, k.pointers...)
		f.Arg("n", count)
		b := &body{}
		k.body(b)
		each(f, len(k.pointers), 0, b)
		f.G("RET")
	}
}

// reductions generates the maxima.
func reductions(file *neon.File) {
	for _, k := range []struct {
		name, doc, combine, across string
		start                      uint32
		element                    func(b *body, x value) value
	}{
		{"maximum", "returns the largest element, ignoring NaN, -Inf if there is none.", "fmaxnm", "fmaxnmv", 0xff800000, func(_ *body, x value) value { return x }},
		{"largest", "returns the largest element, NaN if one is.", "fmax", "fmaxv", 0xff800000, func(_ *body, x value) value { return x }},
		{"absMax", "computes absMaxGeneric.", "umax", "umaxv", 0, func(b *body, x value) value { return b.abs(x) }},
	} {
		f := file.Func(k.name+"NEON", "x *float32, n int", "float32", k.name+"NEON "+k.doc+" n is a multiple of 16 and at least 16.")
		f.Arg("x", 0)
		f.Arg("n", count)
		const maxima = 4
		for i := range neon.V(maxima) {
			f.Splat(k.start, i)
		}
		b := &body{}
		for i := range neon.V(maxima) {
			b.into(k.combine, i, k.element(b, b.loadAt(0, 16*int(i))))
		}
		striped(f, 1, b)
		f.Op(k.combine, 0, 0, 1)
		f.Op(k.combine, 2, 2, 3)
		f.Op(k.combine, 0, 0, 2)
		f.Across(k.across, 0, 0)
		f.Return(0)
	}
}

// loadAt loads four elements at an offset from a pointer.
func (b *body) loadAt(p neon.R, offset int) value {
	d := b.new()
	return b.add(d, func(f *neon.Func, reg func(value) neon.V) { f.Load(reg(d), p, offset) })
}

func (b *body) storeAt(x value, p neon.R, offset int) {
	b.add(-1, func(f *neon.Func, reg func(value) neon.V) { f.Store(reg(x), p, offset) }, x)
}

// striped generates a loop over n elements, 16 at a time, with four registers of stripes: 0 to 3.
func striped(f *neon.Func, pointers int, b *body) {
	b.prepare(f)
	turn := f.Unique("turn")
	f.Label(turn)
	b.write(f, 4)
	for i := range pointers {
		f.Step(64, neon.R(i))
	}
	f.G("SUBS $16, %v", count)
	f.G("BNE %s", turn)
}

// quantize generates the conversion of activations to bytes.
func quantize(file *neon.File) {
	f := file.Func("quantizeNEON", "dst *uint8, x *float32, n int, multiplier float32", "",
		"quantizeNEON computes quantizeGeneric for n elements, a multiple of 16 and at least 16, and a multiplier that is not zero.")
	f.Args(0, "dst", "x")
	f.Arg("n", count)
	b := &body{}
	limit, low := b.F(127), b.F(-127)
	var whole []value
	for i := range 4 {
		q := b.Mul(b.loadAt(1, 16*i), b.parameter("multiplier"))
		whole = append(whole, b.op2("fcvtns", b.op("fmax", b.op("fmin", q, limit), low))) // NaN becomes 0
	}
	bytes := b.new()
	b.add(bytes, func(f *neon.Func, reg func(value) neon.V) {
		const words = 0 // and 1
		for i, w := range whole {
			f.NarrowWords(words+neon.V(i/2), reg(w), i%2 == 1)
		}
		f.NarrowBytes(reg(bytes), words, false)
		f.NarrowBytes(reg(bytes), words+1, true)
	}, whole...)
	b.storeAt(b.op("eor", bytes, b.bits(0x80808080)), 0, 0)
	b.prepare(f)
	f.Label("turn")
	b.write(f, 2)
	f.Step(16, 0)
	f.Step(64, 1)
	f.G("SUBS $16, %v", count)
	f.G("BNE turn")
	f.G("RET")
}

// quantizeInt16 generates the conversion of activations to words.
func quantizeInt16(file *neon.File) {
	f := file.Func("quantizeInt16NEON", "dst *int16, x *float32, n int, multiplier float32, limit float32", "",
		"quantizeInt16NEON computes quantizeInt16Generic for n elements, a multiple of 16 and at least 16, and a multiplier that is not zero.")
	f.Args(0, "dst", "x")
	f.Arg("n", count)
	b := &body{}
	low := b.op2("fneg", b.parameter("limit"))
	for i := range 2 {
		var whole []value
		for j := range 2 {
			q := b.Mul(b.loadAt(1, 32*i+16*j), b.parameter("multiplier"))
			whole = append(whole, b.op2("fcvtns", b.op("fmax", b.op("fmin", q, b.parameter("limit")), low))) // NaN becomes 0
		}
		words := b.new()
		b.add(words, func(f *neon.Func, reg func(value) neon.V) {
			f.NarrowWords(0, reg(whole[0]), false)
			f.NarrowWords(0, reg(whole[1]), true)
			f.Move(reg(words), 0)
		}, whole...)
		b.storeAt(words, 0, 16*i)
	}
	b.prepare(f)
	f.Label("turn")
	b.write(f, 1)
	f.Step(32, 0)
	f.Step(64, 1)
	f.G("SUBS $16, %v", count)
	f.G("BNE turn")
	f.G("RET")
}

// norms generates the striped sums of normalisations and of the softmax: they add to the 16 numbers at sums.
func norms(file *neon.File) {
	const tail = " n is a multiple of 16 and at least 16."
	sums := func(name, pointers, parameters, doc string, registers int, element func(b *body, offset int) value) {
		f := file.Func(name, pointers+", n int"+parameters+", sums *[16]float32", "", name+" "+doc+tail)
		for i, p := range splitNames(pointers) {
			f.Arg(p, neon.R(i))
		}
		f.Arg("n", count)
		const stripes neon.R = 6
		f.Arg("sums", stripes)
		b := &body{}
		for i := range neon.V(4) {
			f.Load(i, stripes, 16*int(i))
			b.into("fadd", i, element(b, 16*int(i)))
		}
		striped(f, registers, b)
		for i := range neon.V(4) {
			f.Store(i, stripes, 16*int(i))
		}
		f.G("RET")
	}
	sums("sumNEON", "x *float32", "", "adds x to the stripes.", 1, func(b *body, at int) value { return b.loadAt(0, at) })
	sums("squaresNEON", "x *float32", ", mean float32", "adds (x - mean)² to the stripes.", 1, func(b *body, at int) value {
		d := b.Sub(b.loadAt(0, at), b.parameter("mean"))
		return b.Mul(d, d)
	})
	sums("expNEON", "dst *float32, x *float32", ", largest float32", "sets dst to e^(x-largest) and adds it to the stripes, like expGeneric.", 2, func(b *body, at int) value {
		e := b.Exp(b.Sub(b.loadAt(1, at), b.parameter("largest")))
		b.storeAt(e, 0, at)
		return e
	})
	sums("expSumNEON", "x *float32", ", largest float32", "adds e^(x-largest) to the stripes, like expSumGeneric.", 1, func(b *body, at int) value {
		return b.Exp(b.Sub(b.loadAt(0, at), b.parameter("largest")))
	})
}
