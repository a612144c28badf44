//go:build !purego

package kernels

import (
	"slices"
	"testing"

	"github.com/sluice-mt/sluice/internal/cpu"
)

// What has to be counted for a call of assembly is counted as it is in one piece, wherever a negative activation is.
func TestCountNonzero(t *testing.T) {
	if !packsSparse() {
		t.Skip("this kind of processor has no lists")
	}
	r := source(5)
	for _, n := range []int{0, 64, 128, 640, countedBytes, countedBytes + 64, 3*countedBytes + 192} {
		a, want := thinned(r, n, 200), 0
		for _, v := range a {
			if v != int8Zero {
				want++
			}
		}
		if got, ok := countNonzero(a); got != want || !ok {
			t.Errorf("of %d activations %d are something: %v, want %d", n, got, ok, want)
		}
		for _, place := range []int{0, 1, 31, 32, 63, n / 2, n - 1} {
			if place < 0 || place >= n {
				continue
			}
			kept := a[place]
			a[place] = int8Zero - 1 - uint8(r.IntN(128))
			if _, ok := countNonzero(a); ok {
				t.Errorf("a negative activation at %d of %d is not noticed", place, n)
			}
			a[place] = kept
		}
	}
}

// Both ways to list activations give the places and values of all that are something, and four zeros behind them.
func TestListsAreComplete(t *testing.T) {
	if !packsSparse() {
		t.Skip("this kind of processor has no lists")
	}
	ways := map[string]func(ks *uint16, values, a *uint8, k int) int{"AVX2": listInt8AVX2}
	if cpu.HasByteCompress() {
		ways["AVX-512"] = listInt8AVX512
	}
	r := source(6)
	for name, list := range ways {
		for _, k := range []int{64, 128, 1536, maxSparseK} {
			for _, share := range []int{0, 5, 200, 700, 1000} {
				a := thinned(r, k, share)
				ks, values := slices.Repeat([]uint16{1}, k+sparsePad), slices.Repeat([]uint8{1}, k+sparsePad)
				n := list(&ks[0], &values[0], &a[0], k)
				at := 0
				for i, v := range a {
					if v == int8Zero {
						continue
					}
					if at >= n || int(ks[at]) != i || values[at] != v-int8Zero {
						t.Fatalf("%s, %d in a thousand of %d: entry %d of %d is not activation %d", name, share, k, at, n, i)
					}
					at++
				}
				if at != n || !slices.Equal(ks[n:n+4], make([]uint16, 4)) || !slices.Equal(values[n:n+4], make([]uint8, 4)) {
					t.Fatalf("%s, %d in a thousand of %d: %d entries, want %d and four zeros", name, share, k, n, at)
				}
			}
		}
	}
}
