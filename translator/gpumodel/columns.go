package gpumodel

import (
	"math/bits"

	"github.com/sluice-mt/sluice/translator/search"
)

// With candidates, the output layer multiplies with the columns of those tokens that any of its rows may have. Hundreds of rows have hundreds
// of thousands of candidates between them, too many to go through at each step. So it is counted in how many contexts a token is a
// candidate, from when a context is first asked about until it is released. That may be some more tokens than the rows of a step need,
// which changes nothing: the kernel looks at the candidates of each row.

// A union counts the candidates of contexts.
type union struct {
	counts   []int32  // of contexts, for each token
	set      []uint64 // of tokens that have a count
	list     []int32  // the same, ascending, once listed
	listed   bool
	listings int // how often list was made
}

// add counts the candidates of one more context.
func (u *union) add(candidates []search.Token, vocabulary int) {
	if u.counts == nil {
		u.counts, u.set = make([]int32, vocabulary), make([]uint64, setWords(vocabulary))
	}
	for _, token := range candidates {
		if u.counts[token]++; u.counts[token] == 1 {
			u.set[token/64] |= 1 << (token % 64)
			u.listed = false
		}
	}
}

// remove counts the candidates of a context no more.
func (u *union) remove(candidates []search.Token) {
	for _, token := range candidates {
		if u.counts[token]--; u.counts[token] == 0 {
			u.set[token/64] &^= 1 << (token % 64)
			u.listed = false
		}
	}
}

// tokens lists the candidates of all contexts that are counted.
func (u *union) tokens() []int32 {
	if !u.listed {
		u.list, u.listed = appendSet(u.list[:0], u.set), true
		u.listings++
	}
	return u.list
}

// setWords is how many words of 64 bits a set of tokens has on the processor.
func setWords(vocabulary int) int { return (vocabulary + 63) / 64 }

// appendSet appends the tokens of a set, ascending.
func appendSet(to []int32, set []uint64) []int32 {
	for i, word := range set {
		for ; word != 0; word &= word - 1 {
			to = append(to, int32(i*64+bits.TrailingZeros64(word)))
		}
	}
	return to
}

// columns returns tokens among which are all that rows of these contexts may have, if multiplying with them alone is less work than with the
// vocabulary, and nil otherwise. Normalised scores always go over the vocabulary: their sums would run in an order that the other rows decide.
func (s *Stepper) columns(contexts []search.Context, normalised bool) []int32 {
	if normalised {
		return nil
	}
	candidates, last := 0, noContext
	for _, handle := range contexts {
		c := &s.contexts[handle]
		if len(c.candidates) == 0 {
			return nil
		}
		if handle == last {
			continue
		}
		last = handle
		candidates += len(c.candidates)
		if !c.counted {
			s.union.add(c.candidates, s.w.vocabulary)
			c.counted = true
		}
	}
	list := s.union.tokens()
	if 2*candidates < len(list) {
		list = s.columnsOf(contexts)
	}
	if 2*len(list) > s.w.vocabulary {
		return nil
	}
	return list
}

// columnsOf returns no more than the candidates of these contexts, which are few beside those of all that are counted.
func (s *Stepper) columnsOf(contexts []search.Context) []int32 {
	s.few = append(s.few[:0], make([]uint64, setWords(s.w.vocabulary))...)
	for _, handle := range contexts {
		for _, token := range s.contexts[handle].candidates {
			s.few[token/64] |= 1 << (token % 64)
		}
	}
	s.columnList = appendSet(s.columnList[:0], s.few)
	return s.columnList
}
