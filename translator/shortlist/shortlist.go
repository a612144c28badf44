// Package shortlist reads, writes and builds lexical shortlists: for every source piece the target pieces that its
// translations are made of. The output layer then scores a few hundred candidates instead of the whole vocabulary.
//
// Two forms exist on disk, both Marian's. The text form is what word alignment gives, a line for each pair:
//
//	target source probability
//
// The binary form holds the pieces that were chosen from such a text, with the parameters of the choice. Open tells
// them apart by content and gives the candidates that Marian gives for the same parameters when it translates one
// sentence at a time. Marian itself takes the union over a mini-batch, which makes a translation depend on its
// neighbours; here it never does.
package shortlist

import (
	"encoding/binary"
	"fmt"
	"math/bits"
	"slices"
	"sync"
)

// Multiple is what the number of candidates is filled up to a multiple of, as 8-bit matrix products want it.
const Multiple = 8

// A Vocabulary is what a shortlist needs to know about one side's pieces.
type Vocabulary interface {
	// ID returns the id of a piece, and false if there is none.
	ID(piece string) (int32, bool)
	// Size returns the number of pieces.
	Size() int
	// Unk returns the id that stands for unknown pieces.
	Unk() int32
	// Fingerprint tells vocabularies apart. It is the same for the same pieces in the same order.
	Fingerprint() string
}

// A Shortlist holds the candidates of every source piece. It does not change, so any number of goroutines may use it.
type Shortlist struct {
	params  Parameters
	shared  bool
	targets int    // size of the target vocabulary; above every id
	offsets []byte // uint64, one more than source pieces: where the entries of each begin in ids
	ids     []byte // uint32, ascending for each source piece
	scratch sync.Pool
}

// Parameters say how entries were chosen from a table of probabilities.
type Parameters struct {
	First     int     // the ids below it are candidates of every sentence
	Best      int     // entries kept for each source piece, the most probable ones
	Threshold float64 // entries must be more probable than this; unknown (0) for a binary file
}

// Defaults are Marian's parameters.
func Defaults() Parameters { return Parameters{First: 100, Best: 100} }

// Check says what is wrong with the parameters.
func (p Parameters) Check() error {
	switch {
	case p.First < 0:
		return fmt.Errorf("shortlist: first is %d, but must not be negative", p.First)
	case p.Best < 0:
		return fmt.Errorf("shortlist: best is %d, but must not be negative", p.Best)
	case !(p.Threshold >= 0 && p.Threshold <= 1):
		return fmt.Errorf("shortlist: threshold is %v, but must be between 0 and 1", p.Threshold)
	}
	return nil
}

// Parameters returns how the entries were chosen. For a binary file they are those it was written with.
func (s *Shortlist) Parameters() Parameters { return s.params }

// Sources returns the number of source pieces.
func (s *Shortlist) Sources() int { return len(s.offsets)/8 - 1 }

// Targets returns the size of the target vocabulary, or one more than the largest id if it was opened without one.
func (s *Shortlist) Targets() int { return s.targets }

// Entries returns the number of entries of all source pieces together.
func (s *Shortlist) Entries() int { return len(s.ids) / 4 }

// bounds returns where the entries of a source piece lie, counted in entries.
func (s *Shortlist) bounds(source int) (from, to int) {
	at := s.offsets[8*source:]
	return int(binary.LittleEndian.Uint64(at)), int(binary.LittleEndian.Uint64(at[8:]))
}

// Of appends the entries of one source piece to dst, in ascending order. An id outside of the vocabulary has none.
func (s *Shortlist) Of(source int32, dst []int32) []int32 {
	if source < 0 || int(source) >= s.Sources() {
		return dst
	}
	from, to := s.bounds(int(source))
	for i := from; i < to; i++ {
		dst = append(dst, int32(binary.LittleEndian.Uint32(s.ids[4*i:])))
	}
	return dst
}

// Candidates appends to dst the candidates of a sentence in ascending order: the ids below Parameters.First, the entries
// of every source piece, the source pieces themselves if the vocabulary is shared, and then ids from First upwards until
// their number is a multiple of Multiple or the vocabulary ends. source holds the pieces with the end of sentence.
//
// It allocates nothing once dst is large enough; callers that need ids of their own among the candidates use a Scratch.
func (s *Shortlist) Candidates(source, dst []int32) []int32 {
	scratch, _ := s.scratch.Get().(*Scratch)
	if scratch == nil {
		scratch = s.NewScratch()
	}
	dst = scratch.Candidates(source, nil, dst)
	s.scratch.Put(scratch)
	return dst
}

// A Scratch is one goroutine's memory for finding candidates.
type Scratch struct {
	list  *Shortlist
	marks []uint64 // one bit for each target piece; all clear between calls
	count int
}

// NewScratch returns the memory that one goroutine needs, a bit for each target piece.
func (s *Shortlist) NewScratch() *Scratch {
	return &Scratch{list: s, marks: make([]uint64, (s.targets+63)/64)}
}

// Candidates is Shortlist.Candidates with the ids in required always among the candidates, as a forced prefix needs it.
func (c *Scratch) Candidates(source, required, dst []int32) []int32 {
	s := c.list
	first := min(s.params.First, s.targets)
	c.count = 0
	c.markBelow(first)
	for _, id := range required {
		c.mark(id)
	}
	for _, piece := range source {
		if s.shared {
			c.mark(piece)
		}
		if piece < 0 || int(piece) >= s.Sources() {
			continue
		}
		from, to := s.bounds(int(piece))
		for entries := s.ids[4*from : 4*to]; len(entries) >= 4; entries = entries[4:] {
			c.mark(int32(binary.LittleEndian.Uint32(entries)))
		}
	}
	for id := first; c.count%Multiple != 0 && id < s.targets; id++ {
		c.mark(int32(id))
	}
	return c.collect(dst)
}

func (c *Scratch) markBelow(n int) {
	for i := range n / 64 {
		c.marks[i] = ^uint64(0)
	}
	if n%64 != 0 {
		c.marks[n/64] = 1<<(n%64) - 1
	}
	c.count = n
}

// mark adds one id; an id outside of the target vocabulary is left out.
func (c *Scratch) mark(id int32) {
	if uint(id) >= uint(c.list.targets) {
		return
	}
	word, bit := &c.marks[id>>6], uint64(1)<<(id&63)
	if *word&bit == 0 {
		*word |= bit
		c.count++
	}
}

// collect appends the marked ids and clears the marks.
func (c *Scratch) collect(dst []int32) []int32 {
	dst = slices.Grow(dst, c.count)
	for i, word := range c.marks {
		for ; word != 0; word &= word - 1 {
			dst = append(dst, int32(i<<6+bits.TrailingZeros64(word)))
		}
		c.marks[i] = 0
	}
	return dst
}
