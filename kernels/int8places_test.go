package kernels

import (
	"fmt"
	"math"
	"math/bits"
	"slices"
	"testing"
)

// Rows whose weights are too large together are no neighbours, in all groups of strips. None of these groups can have the places of another.
func TestPlacesKeepLargeWeightsApart(t *testing.T) {
	large := []func(row int) bool{
		func(row int) bool { return row < 8 },
		func(row int) bool { return row/2%2 == 0 },
		func(row int) bool { return row%2 == 0 },
		func(row int) bool { return row%3 == 0 },
	}
	for _, k := range []int{16, 48, 53} {
		n := len(large)*placedColumns - 3
		r := source(uint64(k))
		weights := make([]int8, k*n)
		for i := range k {
			for j := range n {
				w := r.IntN(41) - 20
				if large[j/placedColumns](i%placedRows) && i < k/placedRows*placedRows {
					w = 100 - 200*(j/chainColumns%2)
				}
				weights[i*n+j] = int8(w)
			}
		}
		c, _ := newInt8Chains(k, n, weights, false)
		what := fmt.Sprintf("%d×%d", k, n)
		if got, want := len(c.order), roundUp(k, 4)/4*c.strips(); got != want {
			t.Errorf("%s: %d steps, want %d: some had to be taken apart", what, got, want)
		}
		checkPlaces(t, what, c)
		checkSums(t, what, c)
	}
}

// checkPlaces fails if not each 16 rows have 16 places.
func checkPlaces(t *testing.T, what string, c *int8Chains) {
	t.Helper()
	for strip := range c.strips() {
		for i, places := 0, c.placesOf(strip); i < len(places); i += placedRows {
			of16 := slices.Sorted(slices.Values(places[i : i+placedRows]))
			for row, place := range of16 {
				if int(place) != row {
					t.Fatalf("%s: strip %d has the rows from %d on at places %v", what, strip, i, places[i:i+placedRows])
				}
			}
		}
	}
}

// Columns in which two rows are too large together are counted once, whichever of them is large by itself.
func TestCountTooLarge(t *testing.T) {
	const n = placedColumns + 5
	r := source(1)
	weights := int8s(r, placedRows*n)
	for _, column := range []int{0, placedColumns} {
		got := countTooLarge(n, weights, column, chainLimit)
		for a := range placedRows {
			for b := range placedRows {
				want := 0
				for j := column; j < min(n, column+placedColumns); j++ {
					v, w := int(weights[a*n+j]), int(weights[b*n+j])
					if a != b && (v < 0) == (w < 0) && max(v+w, -v-w) > chainLimit {
						want++
					}
				}
				if got[a][b] != want {
					t.Errorf("rows %d and %d are too large together in %d columns from %d on, want %d", a, b, got[a][b], column, want)
				}
			}
		}
	}
}

// Pairs are hardly worse than the best ones.
func TestPairsOfRows(t *testing.T) {
	const matrices = 50
	r := source(1)
	found, fewest := 0, 0
	for range matrices {
		together := countTooLarge(3*placedColumns, trained(r, placedRows*3*placedColumns, 32), 0, chainLimit)
		found += together.among(together.pairs())
		fewest += fewestAmong(&together)
	}
	if found > fewest+fewest/10 {
		t.Errorf("pairs of rows are too large together in %d columns, %d are possible", found, fewest)
	}
}

// fewestAmong tries all ways to pair 16 rows.
func fewestAmong(t *tooLarge) int {
	var fewest [1 << placedRows]int // of the rows that have a bit
	for rows := 1; rows < len(fewest); rows++ {
		if bits.OnesCount(uint(rows))%2 == 1 {
			continue
		}
		fewest[rows] = math.MaxInt
		first := bits.TrailingZeros(uint(rows))
		for other := first + 1; other < placedRows; other++ {
			if rows>>other&1 == 1 {
				fewest[rows] = min(fewest[rows], fewest[rows&^(1<<first|1<<other)]+t[first][other])
			}
		}
	}
	return fewest[len(fewest)-1]
}
