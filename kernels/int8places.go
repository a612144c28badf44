package kernels

import "math"

const (
	// placedRows is how many rows of a matrix may change places: their activations are moved by one instruction.
	placedRows = 16
	// placedStrips is how many strips have the rows in the same places, since activations are brought together for all of them.
	placedStrips  = 64
	placedColumns = placedStrips * chainColumns
)

// placeRows says which of each 16 rows of k×n weights is where for placedStrips strips from a column on, so that few neighbours, which
// VPMADDUBSW adds, have weights that are too large together, by a limit of chainStrip.
func placeRows(k, n int, weights []int8, column, limit int) []uint8 {
	places := make([]uint8, roundUp(k, placedRows))
	for i := range places {
		places[i] = uint8(i % placedRows)
	}
	if limit > chainLimit { // no two weights are
		return places
	}
	for first := 0; first+placedRows <= k; first += placedRows {
		together := countTooLarge(n, weights[first*n:(first+placedRows)*n], column, limit)
		copy(places[first:], together.pairs())
	}
	return places
}

// rowAt returns which row is at a place.
func rowAt(places []uint8, place int) int { return place/placedRows*placedRows + int(places[place]) }

// tooLarge says of each two of 16 rows in how many columns their weights are too large together.
type tooLarge [placedRows][placedRows]int

// countTooLarge counts them in placedColumns columns of 16 rows of n weights.
func countTooLarge(n int, weights []int8, column, limit int) (t tooLarge) {
	large := limit / 2 // of two that are too large together, one is larger than this
	for i := range placedRows {
		for j, q := range weights[i*n:][column:min(n, column+placedColumns)] {
			if w := int(q); w > large {
				t.count(i, n, weights[column+j:], 1, large, limit-w)
			} else if -w > large {
				t.count(i, n, weights[column+j:], -1, large, limit+w)
			}
		}
	}
	for i := range placedRows {
		for other := range i {
			t[i][other] += t[other][i]
			t[other][i] = t[i][other]
		}
	}
	return t
}

// count counts the rows whose weights in one column, taken times the sign, exceed what row i has left. Those that are large themselves count
// for the later of both rows alone.
func (t *tooLarge) count(i, n int, column []int8, sign, large, left int) {
	for other := range i {
		if sign*int(column[other*n]) > left {
			t[i][other]++
		}
	}
	for other := i + 1; other < placedRows; other++ {
		if v := sign * int(column[other*n]); v > left && v <= large {
			t[i][other]++
		}
	}
}

// pairs orders the rows so that neighbours are seldom too large together. It begins with the rounds of a tournament in which each meets
// every other one, and keeps the best that comes of one.
func (t *tooLarge) pairs() []uint8 {
	var best []uint8
	fewest := math.MaxInt
	for round := range uint8(placedRows - 1) {
		rows := []uint8{placedRows - 1, round}
		for i := uint8(1); i < placedRows/2; i++ {
			rows = append(rows, (round+i)%(placedRows-1), (round+placedRows-1-i)%(placedRows-1))
		}
		t.exchangeAll(rows)
		if n := t.among(rows); n < fewest {
			best, fewest = rows, n
		}
	}
	return best
}

// among counts the columns in which neighbours are too large together.
func (t *tooLarge) among(rows []uint8) (n int) {
	for i := 0; i < len(rows); i += 2 {
		n += t[rows[i]][rows[i+1]]
	}
	return n
}

// exchangeAll has each two pairs exchange rows as long as that helps.
func (t *tooLarge) exchangeAll(rows []uint8) {
	for better := true; better; {
		better = false
		for i := 0; i < len(rows); i += 2 {
			for j := i + 2; j < len(rows); j += 2 {
				better = t.exchange(rows[i:i+2], rows[j:j+2]) || better
			}
		}
	}
}

// exchange exchanges the second of a pair with one of another if that helps.
func (t *tooLarge) exchange(a, b []uint8) (better bool) {
	now := t[a[0]][a[1]] + t[b[0]][b[1]]
	switch {
	case t[a[0]][b[0]]+t[a[1]][b[1]] < now:
		a[1], b[0] = b[0], a[1]
	case t[a[0]][b[1]]+t[b[0]][a[1]] < now:
		a[1], b[1] = b[1], a[1]
	default:
		return false
	}
	return true
}
