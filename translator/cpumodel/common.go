package cpumodel

import (
	"slices"

	"github.com/sluice-mt/sluice/kernels"
	"github.com/sluice-mt/sluice/translator/search"
)

// A common holds what the shortlists of the sentences in a step have in common. The frequent words of a language are candidates
// of many sentences: with the table's rows for them packed as a matrix, they are multiplied with all rows of the step at once,
// at the speed of a product. What is rare is left to each row. Both give the same bits (see kernels.Int8Rows.Matrix).
//
// The choice holds for the steps that follow: it decides how scores are computed, not what they are. Sentences that come join it, since
// frequent words are much the same for all. It is made anew when half as many have joined as it was made for, or more than half have left.
// A sentence counts as many times as it has slots: a beam has a single row in its first step, and all of them in those that the choice is for.
type common struct {
	made    int  // number of the choice; 0 before the first
	slots   int  // of the sentences that it was made for
	joined  int  // slots of the sentences that have joined it since
	on      bool // whether it serves the rows of the current step
	decided bool // whether on holds for the current step

	tokens []search.Token // in common, ascending
	matrix kernels.Int8Matrix
	bias   []float32
	where  []int32        // for each token of the vocabulary its place in common, or notCommon
	rare   []search.Token // of a sentence, while the choice is made

	block              []float32 // scores of some rows: those in common, then room for the rare ones of a row
	stride             int       // from row to row
	first, end         int       // rows in the block
	rareFirst, rareEnd int       // those of them that have the scores of their rare candidates

	leaders leaders
}

// A choice says where the scores of a sentence's candidates are found.
type choice struct {
	made   int                // the common it belongs to
	slots  int                // of the sentence, while it is made
	places []int32            // for each candidate its place in a row of the block
	rare   kernels.Int8Choice // the candidates that are not in common

	// The candidates that the search may take: those in common, one bit for each of common.tokens. What is suppressed is closed.
	open       []uint64
	closed     []int32 // places in common
	closedRare []int32 // places in rare

	all      kernels.Int8Choice // the candidates, for when nothing is in common
	complete bool               // whether all is made
}

const (
	notCommon = -1
	// commonRows is from how many rows on looking for what they have in common pays.
	commonRows = 6
	// commonBlock is how many rows are multiplied together, to bound the memory of their scores.
	commonBlock = 64
)

// forget makes the next step decide again.
func (c *common) forget() {
	c.decided, c.on, c.first, c.end, c.rareFirst, c.rareEnd = false, false, 0, 0, 0, 0
	c.leaders.forget()
}

// inCommon returns the choice that a row's scores are computed with, or false if they are computed for the row alone.
func (s *Stepper) inCommon(row int) (*choice, bool) {
	c, of := &s.common, &s.contexts[s.rows[row].context]
	if len(of.candidates) == 0 {
		return nil, false
	}
	if !c.decided {
		c.decided, c.on = true, s.choose()
	}
	return &of.choice, c.on && of.choice.made == c.made
}

// commonScores returns the scores of a row over its candidates, or false if they are not computed in common.
func (s *Stepper) commonScores(row int) ([]float32, bool) {
	of, ok := s.inCommon(row)
	if !ok {
		return nil, false
	}
	c := &s.common
	if row < c.first || row >= c.end {
		s.fillCommon(row)
	}
	scores := c.block[(row-c.first)*c.stride : (row-c.first+1)*c.stride]
	if row < c.rareFirst || row >= c.rareEnd {
		s.fillRare(row, of)
	}
	s.scores.short = grow(s.scores.short, len(of.places))
	kernels.Pick(s.scores.short, scores, of.places)
	return s.scores.short, true
}

// fillCommon multiplies some rows with what they have in common.
func (s *Stepper) fillCommon(row int) {
	c := &s.common
	c.first, c.end = s.together(row)
	c.block = grow(c.block, (c.end-c.first)*c.stride)
	c.rareFirst, c.rareEnd = 0, 0
	s.mulTop(c.block, c.stride, c.first, c.end-c.first, &c.matrix, c.bias)
}

// fillRare multiplies a row, and those of the block that follow it and belong to the same sentence, with the sentence's rare candidates.
func (s *Stepper) fillRare(row int, of *choice) {
	c := &s.common
	c.rareFirst, c.rareEnd = row, min(row+s.ofSentence(row), c.end)
	s.mulRare(c.block[(row-c.first)*c.stride+len(c.tokens):], c.stride, row, c.rareEnd-row, &of.rare)
}

// ofSentence returns how many rows from this one on belong to its sentence.
func (s *Stepper) ofSentence(row int) int {
	n := 1
	for row+n < len(s.rows) && s.rows[row+n].context == s.rows[row].context {
		n++
	}
	return n
}

// together returns the rows that are multiplied together with one.
func (s *Stepper) together(row int) (first, end int) {
	first = row / commonBlock * commonBlock
	return first, min(first+commonBlock, len(s.rows))
}

// choose decides whether the rows of the step are computed in common. Sentences that are new join the last choice, or a new one is made if it
// is for too many others.
func (s *Stepper) choose() bool {
	if s.w.output.int8 == nil {
		return false
	}
	c, rows := &s.common, 0
	for i := range s.rows {
		if len(s.contexts[s.rows[i].context].candidates) > 0 {
			rows++
		}
	}
	if rows < commonRows {
		return false
	}
	slots, joining := 0, 0
	for i := range s.slots {
		if of := s.choosing(i); of != nil {
			slots++
			if of.choice.made != c.made {
				joining++
			}
		}
	}
	switch {
	case c.made == 0 || slots < c.slots/2 || c.joined+joining > c.slots/2:
		s.makeChoice(slots)
	case joining > 0:
		c.joined += joining
		s.join()
	}
	return true
}

// choosing returns the sentence of a slot, nil if there is none or if it may take any token.
func (s *Stepper) choosing(slot int) *context {
	handle := s.slots[slot].context
	if handle == noContext || len(s.contexts[handle].candidates) == 0 {
		return nil
	}
	return &s.contexts[handle]
}

// join has sentences that are new take part in the last choice.
func (s *Stepper) join() {
	c := &s.common
	for i := range s.slots {
		if of := s.choosing(i); of != nil && of.choice.made != c.made {
			of.choice.made = c.made
			s.take(of)
		}
	}
}

// makeChoice finds what the shortlists of the sentences have in common, which have that many slots together.
func (s *Stepper) makeChoice(slots int) {
	c := &s.common
	c.made++
	c.slots, c.joined, c.stride = slots, 0, 0
	if c.where == nil {
		c.where = make([]int32, s.w.vocabulary)
	}
	s.count()
	c.pack(&s.w.output, int32(kernels.LeastSharing(slots)))
	for i := range s.slots {
		if of := s.choosing(i); of != nil && of.choice.slots > 0 {
			s.take(of)
		}
	}
}

// take notes where the scores of a sentence's candidates will be.
func (s *Stepper) take(of *context) {
	c := &s.common
	c.locate(&of.choice, of.candidates)
	s.w.output.choose(&of.choice.rare, c.rare)
	c.open(&of.choice, of.suppressed)
	c.stride = max(c.stride, (len(c.tokens)+len(c.rare)+15)&^15)
}

// count sets where to the number of slots of which each token is a candidate, and marks the choices of their sentences.
func (s *Stepper) count() {
	c := &s.common
	clear(c.where)
	for i := range s.slots {
		if of := s.choosing(i); of != nil {
			of.choice.slots = 0
		}
	}
	for i := range s.slots {
		if of := s.choosing(i); of != nil {
			of.choice.slots++
		}
	}
	for i := range s.slots {
		of := s.choosing(i)
		if of == nil || of.choice.made == c.made {
			continue
		}
		of.choice.made = c.made
		slots := int32(of.choice.slots)
		for _, token := range of.candidates {
			c.where[token] += slots
		}
	}
}

// pack makes the matrix of the tokens that are candidates of at least so many slots, and replaces their numbers by their places.
func (c *common) pack(o *output, least int32) {
	c.tokens = c.tokens[:0]
	for token, slots := range c.where {
		if slots < least {
			c.where[token] = notCommon
			continue
		}
		c.where[token] = int32(len(c.tokens))
		c.tokens = append(c.tokens, search.Token(token))
	}
	o.int8.rows.Matrix(&c.matrix, c.tokens)
	c.bias = c.bias[:0]
	if o.bias == nil {
		c.bias = nil
		return
	}
	for _, token := range c.tokens {
		c.bias = append(c.bias, o.bias[token])
	}
}

// locate notes where the scores of candidates will be, and which of them are rare. It does so once for all rows of a sentence.
func (c *common) locate(of *choice, candidates []search.Token) {
	of.slots = 0
	of.places, c.rare = slices.Grow(of.places[:0], len(candidates)), c.rare[:0]
	for _, token := range candidates {
		place := c.where[token]
		if place == notCommon {
			place = int32(len(c.tokens) + len(c.rare))
			c.rare = append(c.rare, token)
		}
		of.places = append(of.places, place)
	}
}

// open notes which candidates in common the search may take.
func (c *common) open(of *choice, suppressed []int32) {
	of.open = grow(of.open, (len(c.tokens)+63)/64)
	clear(of.open)
	for _, place := range of.places {
		if int(place) < len(c.tokens) {
			of.open[place/64] |= 1 << (place % 64)
		}
	}
	of.closed, of.closedRare = of.closed[:0], of.closedRare[:0]
	for _, candidate := range suppressed {
		if place := of.places[candidate]; int(place) < len(c.tokens) {
			of.open[place/64] &^= 1 << (place % 64)
			of.closed = append(of.closed, place)
		} else {
			of.closedRare = append(of.closedRare, place-int32(len(c.tokens)))
		}
	}
}
