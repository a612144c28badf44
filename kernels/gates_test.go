package kernels

import (
	"fmt"
	"slices"
	"testing"

	"github.com/sluice-mt/sluice/internal/cpu/cputest"
)

// gateOperands are states, memories, gates from the input and from the state, for up to four gates of n elements.
func gateOperands(seed uint64, n int, wild bool) (s, m, x, u []float32) {
	r := source(seed)
	return awkward(r, n, wild), awkward(r, n, wild), awkward(r, 4*n, wild), awkward(r, 4*n, wild)
}

func TestGatesAgree(t *testing.T) {
	cputest.EachFamily(t, func(t *testing.T) {
		for seed, n := range append([]int{0}, lengths...) {
			for variant := range 4 {
				s, m, x, u := gateOperands(uint64(seed), n, variant&1 == 1)
				if variant&2 == 2 {
					x = nil
				}
				agree(t, fmt.Sprintf("GRU of %d, variant %d", n, variant), func(g *arena) []float32 {
					out := guard(g, s)
					GRU(out, guardOrNil(g, x), guard(g, u[:3*n]))
					return out
				})
				agree(t, fmt.Sprintf("LSTM of %d, variant %d", n, variant), func(g *arena) []float32 {
					out, memories := guard(g, s), guard(g, m)
					LSTM(out, memories, guardOrNil(g, x), guard(g, u))
					return append(slices.Clone(out), memories...)
				})
			}
		}
	})
}

// TestGatesAreTheirParts compares with the other kernels, one after another, to the last bit.
func TestGatesAreTheirParts(t *testing.T) {
	cputest.EachFamily(t, func(t *testing.T) {
		const n = 70
		s, m, x, u := gateOperands(1, n, false)
		sum, zeros := make([]float32, 4*n), make([]float32, n)

		want := slices.Clone(s)
		Add(sum[:2*n], u[:2*n], x)
		Highway(sum[2*n:3*n], sum[:n], u[2*n:3*n], zeros)
		Add(sum[2*n:3*n], sum[2*n:3*n], x[2*n:])
		Tanh(sum[2*n : 3*n])
		Highway(want, sum[n:2*n], want, sum[2*n:3*n])
		got, plain := slices.Clone(s), slices.Clone(s)
		GRU(got, x, u)
		GRUOneByOne(plain, x, u)
		if !slices.Equal(got, want) || !slices.Equal(plain, want) {
			t.Errorf("GRU: %v, one by one %v, in parts %v", got, plain, want)
		}

		want, memories := slices.Clone(s), slices.Clone(m)
		Add(sum, u, x)
		Tanh(sum[2*n : 3*n])
		GatedSum(memories, sum[n:2*n], sum[2*n:3*n], sum[:n], memories)
		tangents := slices.Clone(memories)
		Tanh(tangents)
		Highway(want, sum[3*n:], tangents, zeros)
		LSTM(s, m, x, u)
		if !slices.Equal(s, want) || !slices.Equal(m, memories) {
			t.Errorf("LSTM: %v and %v, in parts %v and %v", s, m, want, memories)
		}
	})
}
