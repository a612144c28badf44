package kernels

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/sluice-mt/sluice/internal/cpu/cputest"
)

// additiveCase is additive attention with its operands.
type additiveCase struct {
	AdditiveAttention
	nk           int
	query, v     []float32 // Dim
	keys, values []float32
	paddedV      []float32 // Width
	scratch      []float32
}

func newAdditiveCase(r *rand.Rand, dim, valueDim, nk int, numbers func(n int) []float32) additiveCase {
	c := additiveCase{AdditiveAttention: AdditiveAttention{Dim: dim, ValueDim: valueDim}, nk: nk}
	c.query, c.v, c.keys, c.values = numbers(dim), numbers(dim), numbers(nk*dim), numbers(nk*valueDim)
	c.paddedV = make([]float32, c.Width())
	copy(c.paddedV, c.v)
	c.scratch = normals(r, c.ScratchLen(nk))
	return c
}

// run keeps keys and values, and returns everything that is computed with them.
func (c additiveCase) run(g *arena) []float32 {
	kept, query, scratch, v := guard(g, make([]float32, c.KeptLen(c.nk))), guard(g, make([]float32, c.Width())), guard(g, c.scratch), guard(g, c.paddedV)
	out, weights := guard(g, make([]float32, c.ValueDim)), guard(g, make([]float32, c.nk))
	c.Keep(kept, guard(g, c.keys), guard(g, c.values), c.nk, scratch)
	c.Query(query, guard(g, c.query), 1)
	c.Run(out, query, v, kept, c.nk, scratch)
	c.Weights(weights, query, v, kept, c.nk)
	// What is kept in pairs has the bits of other numbers, and maybe of NaN.
	return slices.Concat(out, weights, query)
}

func TestAdditiveAttentionAgrees(t *testing.T) {
	cputest.EachFamily(t, func(t *testing.T) {
		check := func(seed uint64, dim, valueDim, nk int) {
			t.Helper()
			r := source(seed)
			c := newAdditiveCase(r, dim, valueDim, nk, func(n int) []float32 { return awkward(r, n, seed%4 == 0) })
			for _, c.KeepBFloat16 = range []bool{false, true} {
				what := fmt.Sprintf("additive attention over %d keys of %d, values of %d, bfloat16: %v", nk, dim, valueDim, c.KeepBFloat16)
				agree(t, what, c.run)
				got := c.run(&arena{t: t})
				plain := c
				plain.OneByOne = true
				for i, want := range plain.run(&arena{t: t}) {
					if !same(got[i], want) {
						t.Fatalf("%s: element %d is %v, one by one %v", what, i, got[i], want)
					}
				}
			}
		}
		for i, n := range lengths {
			check(uint64(i), n, lengths[len(lengths)-1-i], i)
		}
		for nk := range 20 {
			check(uint64(nk), 64, 256, nk)
		}
		check(1, 512, 640, 26)
		check(2, 1024, 1000, 70)
	})
}

// TestAdditiveAttentionAgainstFloat64 compares with the formula that everybody knows.
func TestAdditiveAttentionAgainstFloat64(t *testing.T) {
	cputest.EachFamily(t, func(t *testing.T) {
		for seed := range uint64(20) {
			r := source(seed)
			c := newAdditiveCase(r, 1+r.IntN(300), 1+r.IntN(300), 1+r.IntN(30), func(n int) []float32 { return normals(r, n) })
			for i := range c.keys { // some of them where tangents are flat, or beyond what an exponential may be
				c.keys[i] *= []float32{0.1, 1, 4, 60}[r.IntN(4)]
			}
			weights, out := c.inFloat64()
			for _, c.KeepBFloat16 = range []bool{false, true} {
				tolerance := map[bool]float64{false: 2e-5, true: 0.05}[c.KeepBFloat16]
				got := c.run(&arena{t: t})
				for d, want := range out {
					near(t, "result", got[d], want, tolerance, 0)
				}
				for j, want := range weights {
					near(t, "weight", got[c.ValueDim+j], want, tolerance, 0)
				}
			}
		}
	})
}

// inFloat64 returns the weights and the result.
func (c *additiveCase) inFloat64() (weights, out []float64) {
	largest, sum := math.Inf(-1), 0.0
	for j := range c.nk {
		score := 0.0
		for d, v := range c.v {
			score += float64(v) * math.Tanh(float64(c.keys[j*c.Dim+d])+float64(c.query[d]))
		}
		weights, largest = append(weights, score), max(largest, score)
	}
	for j := range weights {
		weights[j] = math.Exp(weights[j] - largest)
		sum += weights[j]
	}
	out = make([]float64, c.ValueDim)
	for j := range weights {
		weights[j] /= sum
		for d := range out {
			out[d] += weights[j] * float64(c.values[j*c.ValueDim+d])
		}
	}
	return weights, out
}

// What is not a number, in a key, a query or a value, is seen in the result; infinities are numbers to a tangent.
func TestAdditiveAttentionShowsNaN(t *testing.T) {
	cputest.EachFamily(t, func(t *testing.T) {
		nan, inf := float32(math.NaN()), float32(math.Inf(1))
		for _, brief := range []bool{false, true} {
			for at := range 4 {
				r := source(1)
				c := newAdditiveCase(r, 70, 70, 5, func(n int) []float32 { return normals(r, n) })
				c.KeepBFloat16 = brief
				c.keys[3], c.query[4] = inf, -inf
				if at < 3 {
					[][]float32{c.keys, c.query, c.values}[at][at] = nan
				}
				out := c.run(&arena{t: t})[:c.ValueDim]
				if broken := slices.ContainsFunc(out, func(x float32) bool { return x != x }); broken != (at < 3) {
					t.Errorf("operand %d, bfloat16 %v: results %v", at, brief, out[:4])
				}
			}
		}
	})
}

// TestRecurrentKernelsGiveTheSameBitsEverywhere is TestEveryMachineGivesTheSameBits for these kernels.
func TestRecurrentKernelsGiveTheSameBitsEverywhere(t *testing.T) {
	cputest.EachFamily(t, func(t *testing.T) {
		r := source(43)
		c := newAdditiveCase(r, 100, 330, 7, func(n int) []float32 { return exact(r, n) })
		all := c.run(&arena{t: t})
		c.KeepBFloat16 = true
		all = append(all, c.run(&arena{t: t})...)
		s, m, x, u := exact(r, 100), exact(r, 100), exact(r, 400), exact(r, 400)
		GRU(s, x, u)
		LSTM(s, m, x, u)
		h := fnv.New64a()
		for _, v := range slices.Concat(all, s, m) {
			h.Write(binary.LittleEndian.AppendUint32(nil, math.Float32bits(v)))
		}
		if got, want := h.Sum64(), uint64(0xa980ae8032ae1510); got != want {
			t.Errorf("the hash of the results is %#x, want %#x", got, want)
		}
	})
}

func TestAdditiveAttentionAllocatesNothing(t *testing.T) {
	cputest.EachFamily(t, func(t *testing.T) {
		r := source(1)
		c := newAdditiveCase(r, 70, 330, 5, func(n int) []float32 { return normals(r, n) })
		for _, c.KeepBFloat16 = range []bool{false, true} {
			kept, query, out, weights := make([]float32, c.KeptLen(c.nk)), make([]float32, c.Width()), make([]float32, c.ValueDim), make([]float32, c.nk)
			if n := testing.AllocsPerRun(5, func() {
				c.Keep(kept, c.keys, c.values, c.nk, c.scratch)
				c.Query(query, c.query, 1)
				c.Run(out, query, c.paddedV, kept, c.nk, c.scratch)
				c.Weights(weights, query, c.paddedV, kept, c.nk)
			}); n != 0 {
				t.Errorf("bfloat16 %v: %v allocations", c.KeepBFloat16, n)
			}
		}
	})
}

func FuzzAdditiveAttention(f *testing.F) {
	seeds(f, uint8(70), uint8(37), uint8(5))
	f.Fuzz(func(t *testing.T, data []byte, dim, valueDim, nk uint8) {
		r := source(1)
		c := newAdditiveCase(r, int(dim), int(valueDim), int(nk)%20, func(n int) []float32 { return fuzzFloats(data, n) })
		for _, c.KeepBFloat16 = range []bool{false, true} {
			agreeEverywhere(t, fmt.Sprintf("additive attention, bfloat16: %v", c.KeepBFloat16), c.run)
		}
	})
}

func BenchmarkAdditiveAttention(b *testing.B) {
	for _, dim := range []int{1024, 2048} {
		for _, brief := range []bool{false, true} {
			b.Run(fmt.Sprintf("%d bfloat16=%v", dim, brief), func(b *testing.B) {
				r := source(1)
				const nk = 26
				c := newAdditiveCase(r, dim, dim, nk, func(n int) []float32 { return normals(r, n) })
				c.KeepBFloat16 = brief
				kept, query, out := make([]float32, c.KeptLen(nk)), make([]float32, c.Width()), make([]float32, dim)
				c.Keep(kept, c.keys, c.values, nk, c.scratch)
				c.Query(query, c.query, 1)
				for b.Loop() {
					c.Run(out, query, c.paddedV, kept, nk, c.scratch)
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/nk/float64(dim), "ns/pair")
			})
		}
	}
}
