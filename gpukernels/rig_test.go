//go:build linux && (amd64 || arm64) && !nogpu

package gpukernels

import (
	"math"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/sluice-mt/sluice/gpukernels/cuda"
	"github.com/sluice-mt/sluice/gpukernels/emulated"
)

// storedVariable names the type of numbers in memory that the tests of kernels run with: bfloat16, or else float16.
const storedVariable = "SLUICE_KERNELS_STORE"

// stored is that type.
var stored = map[bool]Storage{true: BFloat16}[os.Getenv(storedVariable) == BFloat16.String()]

// A number is one of that type.
type number uint16

func (n number) Float32() float32 { return stored.Float32(uint16(n)) }

func numberOf(x float32) number { return number(stored.Round(x)) }

// numbersOf rounds all numbers.
func numbersOf(x []float32) []number {
	n := make([]number, len(x))
	for i, v := range x {
		n[i] = numberOf(v)
	}
	return n
}

// coarser is how many times the steps from number to number are those of float16.
func coarser() float64 { return map[Storage]float64{Float16: 1, BFloat16: 8}[stored] }

// library returns the driver that tests run on: what the environment names, a real one perhaps, or an emulated device.
func library(t testing.TB) string {
	t.Helper()
	if named := os.Getenv(emulated.LibraryVariable); named != "" {
		return named
	}
	return libraryFor(t, stored, emulated.Unwatched)
}

// libraryFor builds an emulated device with the kernels for a type.
func libraryFor(t testing.TB, stored Storage, s emulated.Sanitizer) string {
	t.Helper()
	if stored == BFloat16 {
		return emulated.LibraryOfBFloat16(t, s, emulated.Sources(t)...)
	}
	return emulated.Library(t, s, emulated.Sources(t)...)
}

// A rig is what a test works with: kernels and a stream, and memory that is freed at the end of the test.
type rig struct {
	t       testing.TB
	context *cuda.Context
	stream  *cuda.Stream
	kernels *Kernels
	random  *rand.Rand
}

func newRig(t testing.TB) *rig {
	t.Helper()
	return openRig(t, library(t), map[Storage]Arithmetic{Float16: {Float16, Int8}, BFloat16: {BFloat16, Stored}}[stored])
}

func openRig(t testing.TB, library string, as Arithmetic) *rig {
	t.Helper()
	d, err := cuda.Open(library)
	must(t, err)
	c, err := d.Context(0)
	must(t, err)
	release, err := c.Bind()
	must(t, err)
	r := &rig{t: t, context: c, random: rand.New(rand.NewPCG(1, 2))}
	r.stream, err = c.Stream()
	must(t, err)
	r.kernels, err = Load(d, 0, c, as)
	must(t, err)
	t.Cleanup(func() {
		must(t, r.stream.Close())
		must(t, r.kernels.Close())
		release()
		must(t, c.Close())
	})
	return r
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// alloc returns memory for n elements that nobody has written: NaNs, on an emulated device.
func alloc[T any](r *rig, n int) cuda.Pointer {
	r.t.Helper()
	p, err := cuda.Alloc[T](r.context, n)
	must(r.t, err)
	r.t.Cleanup(func() { must(r.t, r.context.Free(p)) })
	return p
}

// in returns x on the device.
func in[T any](r *rig, x []T) cuda.Pointer {
	r.t.Helper()
	p := alloc[T](r, len(x))
	must(r.t, cuda.CopyIn(r.stream, p, x))
	return p
}

func out[T any](r *rig, p cuda.Pointer, n int) []T {
	r.t.Helper()
	x := make([]T, n)
	must(r.t, cuda.CopyOut(r.stream, x, p))
	return x
}

// halves returns random numbers between -limit and limit that the type of 16 bits can hold.
func (r *rig) halves(n int, limit float32) []number {
	return numbersOf(r.floats(n, limit))
}

func (r *rig) floats(n int, limit float32) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = limit * (2*r.random.Float32() - 1)
	}
	return x
}

// near compares results with float64 references; the tolerance, that of float16, is relative to the larger of the reference and 1, and never
// less than what rounding costs.
func near(t testing.TB, what string, have []number, want []float64, tolerance float64) {
	t.Helper()
	if len(have) != len(want) {
		t.Fatalf("%s: %d elements, want %d", what, len(have), len(want))
	}
	for i, h := range have {
		allowed := coarser() * (max(math.Abs(want[i]), 1)*tolerance + math.Abs(want[i])/1024)
		if difference := math.Abs(float64(h.Float32()) - want[i]); !(difference <= allowed) {
			t.Fatalf("%s: element %d is %v, want %v", what, i, h.Float32(), want[i])
		}
	}
}
