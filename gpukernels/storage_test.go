//go:build linux && (amd64 || arm64) && !nogpu

package gpukernels

import (
	"math"
	"math/big"
	"os"
	"slices"
	"testing"

	"github.com/sluice-mt/sluice/gpukernels/emulated"
)

// Numbers of each type are themselves again, and others the nearest, as arithmetic of any precision has it.
func TestStorage(t *testing.T) {
	for stored, bits := range map[Storage]uint{Float16: 11, BFloat16: 8} {
		for i := range 1 << 16 {
			x := stored.Float32(uint16(i))
			if again := stored.Round(x); int(again) != i && x == x {
				t.Fatalf("%v: %#x is %v and then %#x", stored, i, x, again)
			}
			if again := stored.Float32(stored.Round(x)); x != x && again == again {
				t.Fatalf("%v: of the NaN %#x becomes %v", stored, i, again)
			}
		}
		for i := range 20000 {
			x := math.Float32frombits(0x38801000 + uint32(i)*2741) // from 2⁻¹⁴ on
			want, _ := new(big.Float).SetPrec(bits).SetMode(big.ToNearestEven).SetFloat64(float64(x)).Float32()
			if have := stored.Float32(stored.Round(x)); have != want && want <= 65504 {
				t.Fatalf("%v: %v becomes %v, want %v", stored, x, have, want)
			}
		}
	}
	for stored, largest := range map[Storage]float32{Float16: 65504, BFloat16: math.Float32frombits(0x7f7f0000)} {
		if have := stored.Float32(stored.Round(largest)); have != largest {
			t.Errorf("%v: the largest number %v becomes %v", stored, largest, have)
		}
		if have := stored.Float32(stored.Round(-largest * (1 + 1.0/256))); !math.IsInf(float64(have), -1) {
			t.Errorf("%v: what is too large becomes %v", stored, have)
		}
	}
}

// bfloat16 returns random multiples of a unit, which the type can hold.
func (r *rig) bfloat16(n, most int, unit float32) (stored []uint16, values []float32) {
	for range n {
		x := float32(r.random.IntN(2*most+1)-most) * unit
		stored, values = append(stored, BFloat16.Round(x)), append(values, x)
	}
	return stored, values
}

// In bfloat16, products of small whole numbers are exact, and what is stored is their sum, rounded: the same bits for every tiling. A norm
// and an embedding round as the type does.
func TestBFloat16(t *testing.T) {
	at := os.Getenv(emulated.LibraryVariable)
	if at == "" {
		at = libraryFor(t, BFloat16, emulated.Unwatched)
	}
	r := openRig(t, at, Arithmetic{Stored: BFloat16})
	const m, n, k = 35, 70, 72
	x, ofX := r.bfloat16(m*k, 7, 1)
	weights, ofWeights := r.bfloat16(n*k, 3, 1)
	residual, ofResidual := r.bfloat16(m*n, 100, 1)
	want := make([]uint16, m*n)
	for i := range want {
		sum := float32(0)
		for j := range k {
			sum += ofX[i/n*k+j] * ofWeights[i%n*k+j]
		}
		want[i] = BFloat16.Round(max(0, sum) + ofResidual[i])
	}
	for _, tiling := range tilings {
		result := alloc[uint16](r, m*n)
		must(t, r.kernels.product(r.stream, Product{X: Matrix{At: in(r, x), Rows: m, Columns: k}, Weights: Matrix{At: in(r, weights), Rows: n, Columns: k},
			Residual: Matrix{At: in(r, residual), Rows: m, Columns: n}, Result: Matrix{At: result, Rows: m, Columns: n}, Rectified: true}, tiling))
		if have := out[uint16](r, result, m*n); !slices.Equal(have, want) {
			t.Errorf("%s: other bits than those of the rounded sums, want them", tiling.name)
		}
	}
	table, ofTable := r.bfloat16(3*64, 100, 1)
	signal := r.floats(2*64, 1)
	embedded := Matrix{At: alloc[uint16](r, 2*64), Rows: 2, Columns: 64}
	must(t, r.kernels.Embed(r.stream, embedded, in(r, []int32{2, 0}), in(r, []int32{1, 0}), in(r, table), in(r, signal), 1e30))
	for i, have := range out[uint16](r, embedded.At, 2*64) {
		token, position := 2-2*(i/64), 1-i/64
		exact := float64(ofTable[token*64+i%64])*1e30 + float64(signal[position*64+i%64])
		if got := float64(BFloat16.Float32(have)); math.Abs(got-exact) > math.Abs(exact)/256 {
			t.Fatalf("embedding %d is %v, want %v", i, got, exact)
		}
	}
}
