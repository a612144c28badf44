package network

import (
	"slices"

	"github.com/sluice-mt/sluice/train/autodiff"
)

// A schedule puts the words of sentences into the order of time: first the first word of every sentence, then the second ones,
// and so on. The longest sentences come first, so that the rows of a step are those of the first sentences of the step before.
type schedule struct {
	sentences []int32 // in their order
	steps     []int   // where the rows of each step begin, and their end
	forward   timeOrder
	backward  timeOrder // for reading from the end
}

// A timeOrder says which rows belong together in the order of words and in the order of time.
type timeOrder struct{ words, times []int32 } // of each time the word, of each word the time

// set finds the order for sentences. What was there before must not be in use any more.
func (s *schedule) set(sentences autodiff.Segments) {
	s.sentences = s.sentences[:0]
	for i := range sentences.Sentences() {
		s.sentences = append(s.sentences, int32(i))
	}
	slices.SortStableFunc(s.sentences, func(a, b int32) int { return sentences.Len(int(b)) - sentences.Len(int(a)) })
	rows := sentences.Rows()
	s.steps = append(s.steps[:0], 0)
	s.forward.resize(rows)
	s.backward.resize(rows)
	count, time := len(s.sentences), 0
	for step := 0; time < rows; step++ {
		for sentences.Len(int(s.sentences[count-1])) <= step {
			count--
		}
		for _, i := range s.sentences[:count] {
			s.forward.set(time, sentences[i]+step)
			s.backward.set(time, sentences[i+1]-1-step)
			time++
		}
		s.steps = append(s.steps, time)
	}
}

func (o *timeOrder) resize(rows int) {
	o.words = slices.Grow(o.words[:0], rows)[:rows]
	o.times = slices.Grow(o.times[:0], rows)[:rows]
}

func (o *timeOrder) set(time, word int) { o.words[time], o.times[word] = int32(word), int32(time) }

// order returns the order for a direction.
func (s *schedule) order(backward bool) *timeOrder {
	if backward {
		return &s.backward
	}
	return &s.forward
}

// count is the number of steps.
func (s *schedule) count() int { return len(s.steps) - 1 }

// rows is the number of words.
func (s *schedule) rows() int { return s.steps[len(s.steps)-1] }

// of returns the rows of a step: the first one, and how many there are.
func (s *schedule) of(step int) (first, rows int) {
	return s.steps[step], s.steps[step+1] - s.steps[step]
}
