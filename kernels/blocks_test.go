//go:build (amd64 || arm64) && !purego

package kernels

import "testing"

// A call does as much as it may, and reads no more than it may, but a part in any case.
func TestPartsPerCall(t *testing.T) {
	const work = 4 << 20
	for _, c := range []struct{ rows, weights, size, want int }{
		{1, 32 << 10, 1, 32},
		{1, 32 << 10, 2, 16},
		{1, 32 << 10, 4, 8},
		{2, 32 << 10, 1, 32},
		{4, 32 << 10, 1, 32},
		{8, 32 << 10, 1, 16},
		{64, 32 << 10, 1, 2},
		{64, 32 << 10, 4, 2},
		{300, 32 << 10, 1, 1},
		{1, 8 << 20, 1, 1},
	} {
		if got := partsPerCall(work, c.rows, c.weights, c.size); got != c.want {
			t.Errorf("%d rows, %d weights of %d bytes: %d parts in a call, want %d", c.rows, c.weights, c.size, got, c.want)
		}
	}
}
