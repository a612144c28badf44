package kernels

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/sluice-mt/sluice/internal/cpu"
	"github.com/sluice-mt/sluice/internal/cpu/cputest"
)

// trained returns n weights as models have them: few are large.
func trained(r *rand.Rand, n int, deviation float64) []int8 {
	w := make([]int8, n)
	for i := range w {
		w[i] = int8(max(-127, min(127, r.NormFloat64()*deviation)))
	}
	return w
}

// Every weight is packed once, or taken apart into parts that make it up, and no sum in 16 bits can overflow.
func TestPairsHoldTheWeights(t *testing.T) {
	for name, weight := range map[string]func(r *rand.Rand) int8{
		"trained": func(r *rand.Rand) int8 { return trained(r, 1, 40)[0] },
		"uniform": func(r *rand.Rand) int8 { return int8(r.IntN(256) - 128) },
		"largest": func(*rand.Rand) int8 { return 127 },
		"lowest":  func(*rand.Rand) int8 { return -128 },
		"extreme": func(r *rand.Rand) int8 { return []int8{127, -127, -128, 0}[r.IntN(4)] },
		"limit":   func(r *rand.Rand) int8 { return []int8{64, -64, 63, 65}[r.IntN(4)] },
		"zero":    func(*rand.Rand) int8 { return 0 },
	} {
		for _, shape := range [][2]int{{1, 1}, {3, 7}, {4, 8}, {5, 9}, {63, 17}, {256, 40}} {
			k, n := shape[0], shape[1]
			r := source(uint64(k))
			weights := make([]int8, k*n)
			for i := range weights {
				weights[i] = weight(r)
			}
			p, _ := newInt8Pairs(k, n, weights)
			what := fmt.Sprintf("%s %d×%d", name, k, n)
			checkSums(t, what, p)
			for j := range n {
				for i := range k {
					row := make([]uint8, k+3)
					row[i] = 1
					sums := make([]int32, pairColumns)
					p.addStrip(sums, row, j/pairColumns)
					if got, want := sums[j%pairColumns], int32(weights[i*n+j]); got != want {
						t.Fatalf("%s: the weight of row %d and column %d is %d, want %d", what, i, j, got, want)
					}
				}
			}
		}
	}
}

// checkSums fails if 16 bits are too few for what is added in them, with activations of 255.
func checkSums(t *testing.T, what string, p *int8Pairs) {
	t.Helper()
	step := 0
	check := func(together int) {
		for i := 0; i < stepWeights; i += 2 {
			positive, negative := 0, 0
			for s := range together {
				for _, w := range p.weights[(step+s)*stepWeights+i:][:2] {
					positive, negative = positive+255*max(0, int(w)), negative+255*min(0, int(w))
				}
			}
			if positive > 32767 || negative < -32768 {
				t.Fatalf("%s: sums from %d to %d in 16 bits", what, negative, positive)
			}
		}
		step += together
	}
	for strip, start := range p.starts {
		if step != start {
			t.Fatalf("%s: strip %d starts at step %d, want %d", what, strip, start, step)
		}
		for range p.counts[2*strip] {
			check(2)
		}
		for range p.counts[2*strip+1] {
			check(1)
		}
	}
	if step != len(p.order) {
		t.Fatalf("%s: %d steps, %d are used", what, len(p.order), step)
	}
}

func TestWhenPairsArePacked(t *testing.T) {
	cputest.Each(t, func(t *testing.T) {
		r := source(1)
		largest := make([]int8, 256*64)
		for i := range largest {
			largest[i] = 127
		}
		for _, c := range []struct {
			name    string
			k       int
			weights []int8
			pairs   bool
		}{
			{"trained", 256, trained(r, 256*64, 32), true},
			{"largest", 256, largest, false},
			{"uniform", 256, int8s(r, 256*64), false},
			{"too long", maxPairK + 1, trained(r, (maxPairK+1)*64, 1), false},
		} {
			w := PackInt8(c.k, 64, c.weights, make([]float32, 64))
			if got, want := w.pairs != nil, c.pairs && (cpu.Integer() == cpu.AVX2 || cpu.Integer() == cpu.AVX512); got != want {
				t.Errorf("%s weights are packed as pairs: %v, want %v", c.name, got, want)
			}
			if (w.panels == nil) != (w.pairs != nil) {
				t.Errorf("%s weights are packed twice, or not at all", c.name)
			}
		}
	})
}

// The products of matrices that are packed as pairs have the bits of the reference with the same weights in panels.
func TestMulInt8PairsAgrees(t *testing.T) {
	cputest.Each(t, func(t *testing.T) {
		check := func(seed uint64, rows, k, n int) {
			t.Helper()
			r := source(seed)
			weights, scales := trained(r, k*n, 10+float64(seed%4)*10), awkward(r, n, seed%3 == 0)
			a, aScales, bias := uint8s(r, rows*Int8Stride(k)), awkward(r, rows, seed%3 == 0), awkward(r, n, seed%3 == 0)
			if seed%2 == 0 { // where sums are largest
				for i := range a {
					a[i] = 255
				}
			}
			yStride := n + int(seed%2)*3
			y := normals(r, span(rows, yStride, n))
			for _, act := range []Activation{None, Rectified} {
				for _, b := range [][]float32{bias, nil} {
					agree(t, fmt.Sprintf("MulInt8 %d×%d×%d", rows, k, n), func(g *arena) []float32 {
						w := PackInt8(k, n, weights, scales)
						out := guard(g, y)
						MulInt8(out, yStride, guard(g, a), guard(g, aScales), rows, w, guardOrNil(g, b), act)
						return out
					})
				}
			}
		}
		for rows := range 36 {
			check(uint64(rows), rows, 36, 21)
		}
		for i, k := range lengths {
			check(uint64(i), 1+i%14, k, 33+i)
			check(uint64(i), 13, 20, lengths[i])
		}
		check(2, 300, 1536, 64)
		check(3, 14, maxPairK, 9)
	})
}
