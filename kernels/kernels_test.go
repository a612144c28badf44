package kernels

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"
)

// source gives the same numbers in every run of a test.
func source(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 1)) }

// normals returns n numbers of a normal distribution.
func normals(r *rand.Rand, n int) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(r.NormFloat64())
	}
	return x
}

// int8s returns n weights in [-127, 127].
func int8s(r *rand.Rand, n int) []int8 {
	w := make([]int8, n)
	for i := range w {
		w[i] = int8(r.IntN(255) - 127)
	}
	return w
}

// uint8s returns n bytes.
func uint8s(r *rand.Rand, n int) []uint8 {
	a := make([]uint8, n)
	for i := range a {
		a[i] = uint8(r.IntN(256))
	}
	return a
}

// special are the numbers that kernels go wrong on.
var special = []float32{
	0, float32(math.Copysign(0, -1)), 1, -1, 0.5, 1.5, 2.5, -2.5,
	float32(math.Inf(1)), float32(math.Inf(-1)), float32(math.NaN()),
	math.MaxFloat32, -math.MaxFloat32, math.SmallestNonzeroFloat32, -math.SmallestNonzeroFloat32, 0x1p-126, -0x1p-126, 1e-38,
	1e-30, 1e30, -1e30, 87, 88.72284, -87.33654, -87.3366, 89, -88, 90, -104, 128, -127.5, 0.625, -0.625, 0.6249999, 1 << 24, 3e9, -3e9,
}

// same reports whether two results have the same bits; all NaN are the same.
func same(a, b float32) bool {
	return math.Float32bits(a) == math.Float32bits(b) || a != a && b != b
}

// near fails unless got is within absolute or relative error of want.
func near(t *testing.T, what string, got float32, want, absolute, relative float64) {
	t.Helper()
	if e := math.Abs(float64(got) - want); !(e <= absolute+relative*math.Abs(want)) {
		t.Errorf("%s = %v, want %v, off by %.2g", what, got, want, e)
	}
}

func TestFMA32RoundsOnce(t *testing.T) {
	r := source(1)
	random := func() float32 {
		if r.IntN(4) == 0 {
			return math.Float32frombits(r.Uint32()) // any exponent, NaN and infinities too
		}
		return float32(r.NormFloat64()) * float32(math.Ldexp(1, r.IntN(60)-30))
	}
	for range 300_000 {
		a, b, c := random(), random(), random()
		if r.IntN(2) == 0 { // provoke cancellation and halfway cases
			c = -a * b * (1 + float32(r.IntN(3)-1)*0x1p-23)
		}
		if got, want := fma32(a, b, c), fmaBig(a, b, c); !same(got, want) {
			t.Fatalf("fma32(%x, %x, %x) = %x, want %x", a, b, c, got, want)
		}
	}
	// 1 + 2^-24 + 2^-60 lies above halfway, but is halfway when rounded to float64.
	if got := fma32(0x1p-30, 0x1p-30, 1); got != 1 {
		t.Errorf("1 + 2^-60 = %x", got)
	}
	for _, a := range special {
		for _, b := range special {
			for _, c := range special {
				if got, want := fma32(a, b, c), fmaBig(a, b, c); !same(got, want) {
					t.Errorf("fma32(%x, %x, %x) = %x, want %x", a, b, c, got, want)
				}
			}
		}
	}
}

// fmaBig computes a·b + c with as many bits as it takes.
func fmaBig(a, b, c float32) float32 {
	p := float64(a) * float64(b)
	if s := p + float64(c); math.IsNaN(s) || math.IsInf(s, 0) || s == 0 {
		return float32(s)
	}
	x := new(big.Float).SetPrec(700).SetFloat64(p)
	f, _ := x.Add(x, new(big.Float).SetFloat64(float64(c))).Float32()
	return f
}

func TestScalarFunctionsAgainstFloat64(t *testing.T) {
	for x := float32(-95); x < 95; x += 0.00371 {
		d := float64(x)
		if x > expLow && x < 88.7 {
			near(t, "exp", exp32(x), math.Exp(d), 0, 2e-7)
		}
		near(t, "sigmoid", sigmoid32(x), 1/(1+math.Exp(-d)), 2e-38, 3e-7)
		near(t, "tanh", tanh32(x), math.Tanh(d), 0, 3e-7)
		near(t, "phi", phi32(x), math.Erfc(-d/math.Sqrt2)/2, 3e-7, 0)
	}
	for x := float32(1); x > 1e-30; x *= 0.5 {
		near(t, "tanh", tanh32(x), math.Tanh(float64(x)), 0, 3e-7)
		near(t, "exp", exp32(-x), math.Exp(-float64(x)), 0, 2e-7)
	}
}

func TestScalarFunctionsAtTheEdges(t *testing.T) {
	inf, nan := float32(math.Inf(1)), float32(math.NaN())
	for _, c := range []struct {
		name      string
		f         func(float32) float32
		arg, want float32
	}{
		{"exp", exp32, inf, inf}, {"exp", exp32, -inf, 0}, {"exp", exp32, nan, nan}, {"exp", exp32, 0, 1},
		{"exp", exp32, 1e30, inf}, {"exp", exp32, -1e30, 0}, {"exp", exp32, 89, inf}, {"exp", exp32, -88, 0},
		{"sigmoid", sigmoid32, inf, 1}, {"sigmoid", sigmoid32, -inf, 0}, {"sigmoid", sigmoid32, nan, nan}, {"sigmoid", sigmoid32, 0, 0.5},
		{"tanh", tanh32, inf, 1}, {"tanh", tanh32, -inf, -1}, {"tanh", tanh32, nan, nan}, {"tanh", tanh32, 1e-40, 1e-40},
		{"phi", phi32, inf, 1}, {"phi", phi32, -inf, 0}, {"phi", phi32, nan, nan},
	} {
		if got := c.f(c.arg); !same(got, c.want) {
			t.Errorf("%s(%v) = %v, want %v", c.name, c.arg, got, c.want)
		}
	}
	near(t, "phi(0)", phi32(0), 0.5, 1e-7, 0)
}
