package kernels

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/sluice-mt/sluice/internal/cpu/cputest"
)

// chosenOf returns bits for n elements, each set with a probability.
func chosenOf(r *rand.Rand, n int, share float64) []uint64 {
	chosen := make([]uint64, (n+63)/64)
	for i := range n {
		if r.Float64() < share {
			chosen[i/64] |= 1 << (i % 64)
		}
	}
	return chosen
}

func TestMaxChosenAgrees(t *testing.T) {
	cputest.Each(t, func(t *testing.T) {
		r := source(5)
		for _, n := range append([]int{0, 191, 192, 193, 511, 512, 1000, 1<<15 - 1, 1 << 15, 1<<15 + 64, 1<<16 + 65}, lengths...) {
			for _, share := range []float64{0, 0.02, 0.5, 1} {
				for _, wild := range []bool{false, true} {
					x, chosen := awkward(r, n, wild), chosenOf(r, n, share)
					agree(t, fmt.Sprintf("%v of %d", share, n), func(g *arena) []float32 {
						largest, finite := MaxChosen(guard(g, x), guard(g, chosen))
						if !finite {
							return []float32{0, 0}
						}
						return []float32{1, largest + 0} // of two zeros any is the largest
					})
				}
			}
		}
	})
}

// What is not chosen has no influence, whatever it is, and one that is chosen is found wherever it is.
func TestMaxChosenLooksAtNothingElse(t *testing.T) {
	nan, infinite := float32(math.NaN()), float32(math.Inf(1))
	cputest.Each(t, func(t *testing.T) {
		const n = 200
		for place := range n {
			x, chosen := make([]float32, n), make([]uint64, 4)
			for i := range x {
				x[i] = []float32{nan, infinite, -infinite, 7}[i%4]
			}
			chosen[place/64] = 1 << (place % 64)
			x[place] = -3
			if largest, finite := MaxChosen(x, chosen); largest != -3 || !finite {
				t.Fatalf("place %d: %v, %v", place, largest, finite)
			}
			for _, broken := range []float32{nan, -nan, infinite, -infinite} {
				x[place] = broken
				if _, finite := MaxChosen(x, chosen); finite {
					t.Fatalf("place %d: %v is finite", place, broken)
				}
			}
		}
		if largest, finite := MaxChosen([]float32{1, 2}, []uint64{0}); largest != -math.MaxFloat32 || !finite {
			t.Errorf("of nothing: %v, %v", largest, finite)
		}
		for _, wrong := range []func(){
			func() { MaxChosen(make([]float32, 65), make([]uint64, 1)) },
			func() { MaxChosen(make([]float32, 65), []uint64{0, 2}) },
		} {
			if !panics(wrong) {
				t.Error("elements that are not there were chosen")
			}
		}
	})
}
