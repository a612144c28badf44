package kernels

import (
	"fmt"
	"math/rand/v2"
	"slices"
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
func TestChainsHoldTheWeights(t *testing.T) {
	for name, weight := range map[string]func(r *rand.Rand) int8{
		"trained": func(r *rand.Rand) int8 { return trained(r, 1, 40)[0] },
		"small":   func(r *rand.Rand) int8 { return trained(r, 1, 8)[0] },
		"uniform": func(r *rand.Rand) int8 { return int8(r.IntN(256) - 128) },
		"largest": func(*rand.Rand) int8 { return 127 },
		"lowest":  func(*rand.Rand) int8 { return -128 },
		"extreme": func(r *rand.Rand) int8 { return []int8{127, -127, -128, 0}[r.IntN(4)] },
		"limit":   func(r *rand.Rand) int8 { return []int8{64, -64, 63, 65}[r.IntN(4)] },
		"ones":    func(r *rand.Rand) int8 { return []int8{1, -128, 0, 0, 0, 0, 0, 0}[r.IntN(8)] },
		"zero":    func(*rand.Rand) int8 { return 0 },
	} {
		for _, shape := range [][2]int{{1, 1}, {3, 7}, {4, 8}, {5, 9}, {63, 17}, {256, 40}} {
			for _, rectified := range []bool{false, true} {
				k, n := shape[0], shape[1]
				r := source(uint64(k))
				weights := make([]int8, k*n)
				for i := range weights {
					weights[i] = weight(r)
				}
				c, _ := newInt8Chains(k, n, weights, rectified)
				what := fmt.Sprintf("%s %d×%d, rectified: %v", name, k, n, rectified)
				checkSums(t, what, c)
				zero := uint8(0)
				if rectified {
					zero = int8Zero
				}
				for j := range n {
					for i := range k {
						row := slices.Repeat([]uint8{zero}, k+3)
						row[i]++
						sums := make([]int32, chainColumns)
						c.addStrip(sums, row, j/chainColumns)
						if got, want := sums[j%chainColumns], int32(weights[i*n+j]); got != want {
							t.Fatalf("%s: the weight of row %d and column %d is %d, want %d", what, i, j, got, want)
						}
					}
				}
			}
		}
	}
}

// checkSums fails if 16 bits are too few for what is added in them, with the largest activations.
func checkSums(t *testing.T, what string, c *int8Chains) {
	t.Helper()
	step, largest := 0, 255
	if c.rectified {
		largest = 127
	}
	check := func(together int) {
		for i := 0; i < stepWeights; i += 2 {
			positive, negative := 0, 0
			for s := range together {
				for _, w := range c.weights[(step+s)*stepWeights+i:][:2] {
					positive, negative = positive+largest*max(0, int(w)), negative+largest*min(0, int(w))
				}
			}
			if positive > 32767 || negative < -32768 {
				t.Fatalf("%s: sums from %d to %d in 16 bits", what, negative, positive)
			}
		}
		step += together
	}
	for strip, start := range c.starts[:c.strips()] {
		if step != start {
			t.Fatalf("%s: strip %d starts at step %d, want %d", what, strip, start, step)
		}
		for i, chains := range c.counts[longestChain*strip:][:longestChain] {
			for range chains {
				check(longestChain - i)
			}
		}
	}
	if step != len(c.order) {
		t.Fatalf("%s: %d steps, %d are used", what, len(c.order), step)
	}
}

func TestWhenChainsArePacked(t *testing.T) {
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
			chains  bool
		}{
			{"trained", 256, trained(r, 256*64, 32), true},
			{"largest", 256, largest, false},
			{"uniform", 256, int8s(r, 256*64), false},
			{"too long", maxChainK + 1, trained(r, (maxChainK+1)*64, 1), false},
		} {
			w := PackInt8(c.k, 64, c.weights, make([]float32, 64))
			if got, want := w.chains != nil, c.chains && (cpu.Integer() == cpu.AVX2 || cpu.Integer() == cpu.AVX512); got != want {
				t.Errorf("%s weights are packed as chains: %v, want %v", c.name, got, want)
			}
			if (w.panels == nil) != (w.chains != nil) {
				t.Errorf("%s weights are packed twice, or not at all", c.name)
			}
		}
	})
}

// The products of matrices that are packed as chains have the bits of the reference with the same weights in panels.
func TestMulInt8ChainsAgrees(t *testing.T) {
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
					for what, pack := range packings {
						a := a
						if what == "rectified" {
							a = atLeastZero(a)
						}
						agree(t, fmt.Sprintf("MulInt8 %s %d×%d×%d", what, rows, k, n), func(g *arena) []float32 {
							w := pack(k, n, weights, scales)
							out := guard(g, y)
							MulInt8(out, yStride, guard(g, a), guard(g, aScales), rows, w, guardOrNil(g, b), act)
							return out
						})
					}
				}
			}
		}
		for rows := range 36 {
			check(uint64(rows), rows, 36, 21)
			check(uint64(rows), rows, 48, 21)
		}
		for i, k := range lengths {
			check(uint64(i), 1+i%14, k, 33+i)
			check(uint64(i), 13, 20, lengths[i])
		}
		check(2, 300, 1536, 64)
		check(3, 14, maxChainK, 9)
		check(2, 25, 1024, 1040) // more weights than pass at once
	})
}

// packings are the ways to pack a matrix. That of "rectified" ones is for activations that are not negative.
var packings = map[string]func(k, n int, weights []int8, scales []float32) *Int8Matrix{"any": PackInt8, "rectified": PackInt8Rectified}

// atLeastZero returns activations of which none is negative, nor larger than what is quantised.
func atLeastZero(a []uint8) []uint8 {
	floored := slices.Clone(a)
	for i := range floored {
		floored[i] |= int8Zero
	}
	return floored
}

// A negative activation of a matrix that is packed for results of a ReLU is no silent fault.
func TestNegativeActivations(t *testing.T) {
	cputest.Each(t, func(t *testing.T) {
		const k, n, rows = 32, 9, 3
		r := source(1)
		w := PackInt8Rectified(k, n, trained(r, k*n, 20), normals(r, n))
		if w.chains == nil {
			t.Skip("this kind of processor multiplies them like any")
		}
		for place := range rows * Int8Stride(k) {
			if place%Int8Stride(k) >= k {
				continue
			}
			a := slices.Repeat([]uint8{int8Zero}, rows*Int8Stride(k))
			a[place]--
			func() {
				defer func() {
					if recover() == nil {
						t.Errorf("no panic with a negative activation at %d", place)
					}
				}()
				MulInt8(make([]float32, rows*n), n, a, make([]float32, rows), rows, w, nil, None)
			}()
		}
	})
}
