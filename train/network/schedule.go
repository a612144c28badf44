package network

import (
	"slices"

	"github.com/sluice-mt/sluice/train/autodiff"
)

// A Schedule puts the words of sentences into the order of time: first the first word of every sentence, then the second ones,
// and so on. The longest sentences come first, so that the rows of a step are those of the first sentences of the step before.
type Schedule struct {
	Sentences []int32 // in their order

	steps    []int // where the rows of each step begin, and their end
	forward  TimeOrder
	backward TimeOrder // for reading from the end
}

// A TimeOrder says which rows belong together in the order of words and in the order of time.
type TimeOrder struct{ Words, Times []int32 } // of each time the word, of each word the time

// Set finds the order for sentences. What was there before must not be in use any more.
func (s *Schedule) Set(sentences autodiff.Segments) {
	s.Sentences = s.Sentences[:0]
	for i := range sentences.Sentences() {
		s.Sentences = append(s.Sentences, int32(i))
	}
	slices.SortStableFunc(s.Sentences, func(a, b int32) int { return sentences.Len(int(b)) - sentences.Len(int(a)) })
	rows := sentences.Rows()
	s.steps = append(s.steps[:0], 0)
	s.forward.resize(rows)
	s.backward.resize(rows)
	count, time := len(s.Sentences), 0
	for step := 0; time < rows; step++ {
		for sentences.Len(int(s.Sentences[count-1])) <= step {
			count--
		}
		for _, i := range s.Sentences[:count] {
			s.forward.set(time, sentences[i]+step)
			s.backward.set(time, sentences[i+1]-1-step)
			time++
		}
		s.steps = append(s.steps, time)
	}
}

func (o *TimeOrder) resize(rows int) {
	o.Words = slices.Grow(o.Words[:0], rows)[:rows]
	o.Times = slices.Grow(o.Times[:0], rows)[:rows]
}

func (o *TimeOrder) set(time, word int) { o.Words[time], o.Times[word] = int32(word), int32(time) }

// Order returns the order for a direction.
func (s *Schedule) Order(backward bool) *TimeOrder {
	if backward {
		return &s.backward
	}
	return &s.forward
}

// Count is the number of steps.
func (s *Schedule) Count() int { return len(s.steps) - 1 }

// Rows is the number of words.
func (s *Schedule) Rows() int { return s.steps[len(s.steps)-1] }

// Of returns the rows of a step: the first one, and how many there are.
func (s *Schedule) Of(step int) (first, rows int) {
	return s.steps[step], s.steps[step+1] - s.steps[step]
}
