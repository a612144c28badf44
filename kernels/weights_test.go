package kernels

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestQuantizeColumns checks that weights are off by at most half a step, except those that are cut off.
func TestQuantizeColumns(t *testing.T) {
	random := rand.New(rand.NewPCG(12, 12))
	const k, n, stride = 500, 6, 9
	w := make([]float32, k*n)
	for i := range w {
		w[i] = float32(random.NormFloat64()) + float32(i%n)
	}
	w[3*n+1] = 40   // cut off
	w[9*n+2] = -300 // cut off
	for i := range k {
		w[i*n+5] = 0
	}
	for _, saturation := range []float64{0, 7} {
		q, scales := make([]int8, k*stride), make([]float32, n)
		QuantizeColumns(q, stride, scales, w, k, n, saturation)
		for i := range k {
			for j := range n {
				got, want := float32(q[i*stride+j])*scales[j], w[i*n+j]
				cut := saturation > 0 && (got == 127*scales[j] && want > got || got == -127*scales[j] && want < got)
				if !cut && math.Abs(float64(got-want)) > float64(scales[j])*0.5001 {
					t.Errorf("saturation %v: weight %v of column %d became %v in steps of %v", saturation, want, j, got, scales[j])
				}
			}
		}
		if saturated := scales[1]*127 < 39; saturated != (saturation > 0) {
			t.Errorf("saturation %v: column 1 ends at %v", saturation, scales[1]*127)
		}
		if scales[5] != 0 {
			t.Errorf("a column of zeros has the scale %v", scales[5])
		}
		transposed := make([]float32, n*k)
		for i := range transposed {
			transposed[i] = w[i%k*n+i/k]
		}
		rows, rowScales := make([]int8, k*n), make([]float32, n)
		QuantizeTable(rows, rowScales, transposed, n, k, saturation)
		if !slices.Equal(scales, rowScales) || rows[2*k+9] != q[9*stride+2] || rows[4*k+77] != q[77*stride+4] {
			t.Errorf("saturation %v: rows are not quantised as columns are", saturation)
		}
	}
}

func TestRound8(t *testing.T) {
	for _, v := range []float32{0, 0.5, 1.5, -0.5, -2.5, 126.5, 127.4, 300, -126.5, -128, 3.49, 3.51, float32(math.Copysign(0, -1))} {
		want := max(-127, min(127, math.RoundToEven(float64(v))))
		if got := round8(v); float64(got) != want {
			t.Errorf("%v is rounded to %d, want %v", v, got, want)
		}
	}
}
