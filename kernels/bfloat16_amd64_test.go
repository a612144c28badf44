//go:build !purego

package kernels

import (
	"testing"

	"github.com/sluice-mt/sluice/internal/cpu"
)

// Whether VDPBF16PS is used depends on its speed; that it gives the bits of the reference does not.
func TestVDPBF16PSAgrees(t *testing.T) {
	if !cpu.HasBF16() {
		t.Skip("needs AVX512_BF16")
	}
	if !nativeAgrees() {
		t.Skip("this processor's VDPBF16PS computes something else than the reference, so it is not used")
	}
	for rows := range 30 {
		r := source(uint64(rows))
		k, n := lengths[rows%len(lengths)], 20+3*rows
		var w BFloat16Matrix
		w.Pack(k, n, awkward(r, k*n, rows%3 == 0), n)
		x, y := make([]uint16, rows*BFloat16Stride(k)), awkward(r, rows*n, rows%3 == 0)
		ToBFloat16(x, awkward(r, rows*k, rows%3 == 0), k, rows, k)
		want := append([]float32(nil), y...)
		accumulateBFloat16Generic(want, n, x, rows, &w)
		a := &arena{t: t, before: rows%2 == 1}
		got := guard(a, y)
		if rows > 0 {
			c := bfloat16Call{y: got, yStride: n, x: guard(a, x), stride: BFloat16Stride(k), w: &w, level: cpu.AVX512, native: true, floor: floorOf(None)}
			c.multiply(rows)
		}
		a.check("VDPBF16PS")
		for i := range want {
			if !same(got[i], want[i]) {
				t.Fatalf("%d×%d×%d: element %d is %v, the reference gives %v", rows, k, n, i, got[i], want[i])
			}
		}
	}
}
