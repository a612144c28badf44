package kernels

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// What is computed one by one has the bits of what vectors give.
func TestOneByOne(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 41))
	for range 50 {
		n := 1 + random.IntN(200)
		var rows [3][]float32
		for i := range rows {
			for range n {
				rows[i] = append(rows[i], float32(random.NormFloat64()*4))
			}
		}
		vector, plain := slices.Clone(rows[0]), slices.Clone(rows[0])
		Tanh(vector)
		TanhOneByOne(plain)
		if !slices.Equal(vector, plain) {
			t.Fatalf("hyperbolic tangents of %v: %v, one by one %v", rows[0], vector, plain)
		}
		Highway(vector, rows[0], rows[1], rows[2])
		HighwayOneByOne(plain, rows[0], rows[1], rows[2])
		if !slices.Equal(vector, plain) {
			t.Fatalf("gates %v of %v and %v: %v, one by one %v", rows[0], rows[1], rows[2], vector, plain)
		}
	}
}
