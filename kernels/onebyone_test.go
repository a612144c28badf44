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
		row := make([]float32, n)
		for i := range row {
			row[i] = float32(random.NormFloat64() * 4)
		}
		vector, plain := slices.Clone(row), slices.Clone(row)
		Tanh(vector)
		TanhOneByOne(plain)
		if !slices.Equal(vector, plain) {
			t.Fatalf("hyperbolic tangents of %v: %v, one by one %v", row, vector, plain)
		}
	}
}
