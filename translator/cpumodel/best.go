package cpumodel

import (
	"math"
	"slices"

	"github.com/sluice-mt/sluice/kernels"
	"github.com/sluice-mt/sluice/translator/search"
)

// Greedy search wants to know the best candidate of each row and nothing else. What sentences have in common is multiplied some
// columns at a time, the best scores of these are kept, and the others make room for those of the next columns before they leave the
// nearest caches (fused with the search, as Hoang et al., 2018, do it on GPUs). Rows without candidates have the whole vocabulary in common.

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

// A whole is the vocabulary as what rows without candidates have in common.
type whole struct {
	decided, on bool // whether it serves the rows of the current step

	tokens  []search.Token // all
	of      choice         // all but the suppressed ones
	leaders leaders
}

// forget makes the next step decide again.
func (w *whole) forget() {
	w.decided, w.on = false, false
	w.leaders.forget()
}

// bestOfMany returns the best candidate of a row, or false if its scores are not computed in common with those of others, or if that
// candidate is not allowed, so that the next one has to be found.
func (s *Stepper) bestOfMany(row int, banned []search.Token) (search.Scored, bool) {
	var l leader
	candidates := s.w.output.n
	if of, ok := s.inCommon(row); ok {
		c := &s.common
		l = s.lead(&c.leaders, row, c.tokens, &c.matrix, c.bias, (*Stepper).inCommon)
		if len(of.rare.IDs()) > 0 {
			s.lookAtRare(row, of, &l)
		}
		candidates = len(of.places)
	} else if _, ok := s.inWhole(row); ok {
		l = s.lead(&s.whole.leaders, row, s.whole.tokens, s.w.output.int8.packed(), s.w.output.bias, (*Stepper).inWhole)
	} else {
		return search.Scored{}, false
	}
	switch {
	case l.broken || s.rows[row].broken:
		return search.Scored{Token: s.token(row, 0), Score: float32(math.NaN())}, true
	case l.token != search.NoToken && (l.token == s.early(row) || slices.Contains(banned, l.token)):
		return search.Scored{}, false
	}
	s.stats.MACs += int64(candidates) * int64(s.w.dim)
	return search.Scored{Token: l.token, Score: l.score}, true
}

// inWhole returns the choice of a row that may take any token, or false if its scores are not computed in common with those of others.
func (s *Stepper) inWhole(row int) (*choice, bool) {
	w := &s.whole
	if !w.decided {
		w.decided, w.on = true, s.chooseWhole()
	}
	return &w.of, w.on && len(s.contexts[s.rows[row].context].candidates) == 0
}

// chooseWhole decides whether rows that may take any token are multiplied together with all others: in 8 bits, if nearly all rows may.
func (s *Stepper) chooseWhole() bool {
	if s.w.output.int8 == nil {
		return false
	}
	rows := 0
	for i := range s.rows {
		if len(s.contexts[s.rows[i].context].candidates) == 0 {
			rows++
		}
	}
	if rows < commonRows || rows < len(s.rows)*3/4 {
		return false
	}
	if w := &s.whole; w.tokens == nil {
		w.openAll(s.w.output.n, s.w.suppressed)
	}
	return true
}

// openAll lets rows take all tokens but some.
func (w *whole) openAll(n int, but []search.Token) {
	w.tokens, w.of.open, w.of.closed = make([]search.Token, n), make([]uint64, (n+63)/64), but
	for token := range n {
		w.tokens[token] = search.Token(token)
		w.of.open[token/64] |= 1 << (token % 64)
	}
	for _, token := range but {
		w.of.open[token/64] &^= 1 << (token % 64)
	}
}

// lead returns the best of the tokens that a row has in common with others. choiceOf returns the choice of a row, or false if the tokens are
// not for it.
func (s *Stepper) lead(b *leaders, row int, tokens []search.Token, matrix *kernels.Int8Matrix, bias []float32,
	choiceOf func(s *Stepper, row int) (*choice, bool),
) leader {
	if row >= b.first && row < b.end {
		return b.of[row-b.first]
	}
	b.first, b.end = s.together(row)
	rows := b.end - b.first
	b.of, b.tile = grow(b.of, rows), grow(b.tile, rows*tileColumns)
	for i := range b.of {
		b.of[i] = leader{token: search.NoToken, score: float32(math.Inf(-1))}
	}
	for column := 0; column < len(tokens); column += tileColumns {
		end := min(column+tileColumns, len(tokens))
		var part []float32
		if bias != nil {
			part = bias[column:end]
		}
		b.part = matrix.Columns(column, end)
		s.mulTop(b.tile, tileColumns, b.first, rows, &b.part, part)
		for i := range b.of {
			if of, ok := choiceOf(s, b.first+i); ok {
				b.of[i].look(b.tile[i*tileColumns:(i+1)*tileColumns], of, column, tokens[column:end])
			}
		}
	}
	return b.of[row-b.first]
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
