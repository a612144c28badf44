package cpumodel

import (
	"math"
	"slices"

	"github.com/sluice-mt/sluice/kernels"
	"github.com/sluice-mt/sluice/translator/search"
)

// Greedy search wants to know the best candidate of each row and nothing else. What sentences have in common is multiplied some
// columns at a time, the best scores of these are kept, and the others make room for those of the next columns before they leave the
// nearest caches (fused with the search, as Hoang et al., 2018, do it on GPUs).

// tileColumns is how many columns are multiplied at a time: a multiple of the bits in a word and of the columns in a panel.
const tileColumns = 512

// The leaders are the best candidates of some rows among those in common.
type leaders struct {
	first, end int // rows
	of         []leader
	tile       []float32 // scores of the rows over some columns
	rare       []float32 // scores of a row
	part       kernels.Int8Matrix
}

// A leader is the best candidate of a row so far.
type leader struct {
	token  search.Token
	score  float32
	broken bool // a score is not finite
}

func (b *leaders) forget() { b.first, b.end = 0, 0 }

// bestInCommon returns the best candidate of a row, or false if its scores are not computed in common, or if that candidate is not
// allowed, so that the next one has to be found.
func (s *Stepper) bestInCommon(row int, banned []search.Token) (search.Scored, bool) {
	of, ok := s.inCommon(row)
	if !ok {
		return search.Scored{}, false
	}
	b := &s.common.leaders
	if row < b.first || row >= b.end {
		s.fillLeaders(row)
	}
	l := b.of[row-b.first]
	if len(of.rare.IDs()) > 0 {
		s.lookAtRare(row, of, &l)
	}
	switch {
	case l.broken || s.rows[row].broken:
		return search.Scored{Token: s.token(row, 0), Score: float32(math.NaN())}, true
	case l.token != search.NoToken && (l.token == s.early(row) || slices.Contains(banned, l.token)):
		return search.Scored{}, false
	}
	s.stats.MACs += int64(len(of.places)) * int64(s.w.dim)
	return search.Scored{Token: l.token, Score: l.score}, true
}

// fillLeaders finds the best candidates in common of the rows that are multiplied together with one.
func (s *Stepper) fillLeaders(row int) {
	c, b := &s.common, &s.common.leaders
	b.first, b.end = s.together(row)
	rows := b.end - b.first
	b.of, b.tile = grow(b.of, rows), grow(b.tile, rows*tileColumns)
	for i := range b.of {
		b.of[i] = leader{token: search.NoToken, score: float32(math.Inf(-1))}
	}
	for column := 0; column < len(c.tokens); column += tileColumns {
		end := min(column+tileColumns, len(c.tokens))
		var bias []float32
		if c.bias != nil {
			bias = c.bias[column:end]
		}
		b.part = c.matrix.Columns(column, end)
		s.mulTop(b.tile, tileColumns, b.first, rows, &b.part, bias)
		for i := range b.of {
			if of, ok := s.inCommon(b.first + i); ok {
				b.of[i].look(b.tile[i*tileColumns:(i+1)*tileColumns], of, column, c.tokens[column:end])
			}
		}
	}
}

// look compares the leader with the candidates among some columns in common.
func (l *leader) look(scores []float32, of *choice, column int, tokens []search.Token) {
	words := (len(tokens) + 63) / 64
	open := of.open[column/64 : column/64+words]
	largest, ok := kernels.MaxChosen(scores[:words*64], open)
	for _, place := range of.closed {
		if i := int(place) - column; i >= 0 && i < len(tokens) {
			ok = ok && finite(kernels.AbsMax(scores[i:i+1]))
		}
	}
	if !ok {
		l.broken = true
	}
	if largest <= l.score {
		return
	}
	for i, score := range scores[:len(tokens)] {
		if score == largest && open[i/64]>>(i%64)&1 != 0 {
			l.token, l.score = tokens[i], score
			return
		}
	}
}

// lookAtRare compares the leader with the candidates of the row that are not in common. The first of equal ones leads.
func (s *Stepper) lookAtRare(row int, of *choice, l *leader) {
	b, rare := &s.common.leaders, of.rare.IDs()
	b.rare = grow(b.rare, len(rare))
	s.dotTop(b.rare, row, &of.rare)
	if !finite(kernels.AbsMax(b.rare)) {
		l.broken = true
	}
	for _, place := range of.closedRare {
		b.rare[place] = float32(math.Inf(-1))
	}
	place, score := kernels.ArgMax(b.rare)
	if token := rare[place]; score > l.score || score == l.score && token < l.token {
		l.token, l.score = token, score
	}
}
