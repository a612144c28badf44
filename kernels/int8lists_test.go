//go:build (amd64 || arm64) && !purego

package kernels

import "testing"

// What has to be counted for a call of assembly is counted as it is in one piece, wherever a negative activation is.
func TestCountNonzero(t *testing.T) {
	if !packsSparse() {
		t.Skip("this kind of processor has no lists")
	}
	r := source(5)
	for _, n := range []int{0, 64, 128, 640, countedBytes, countedBytes + 64, 3*countedBytes + 192} {
		a := thinned(r, n, 200)
		want, _ := countInt8Generic(a)
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
