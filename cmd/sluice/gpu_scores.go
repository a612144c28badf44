package main

import (
	"math/rand/v2"

	"github.com/sluice-mt/sluice/translator/gpumodel"
	"github.com/sluice-mt/sluice/translator/search"
)

// scoredOfList is how many translations a sentence of a busyScorer has: as many as n-best lists often have.
const scoredOfList = 10

// A busyScorer scores random translations of modelLength pieces on a stream of its own, in the way of package rescore: all of a sentence side by
// side, one piece after another, of which only the scores of the next pieces are read.
type busyScorer struct {
	stepper    *gpumodel.Stepper
	sources    []search.Source
	vocabulary int
	random     *rand.Rand

	lists []scoredList
	free  []search.Slot

	unread int // scores of the step before, which are read when the next one is under way

	// Lists of a step.
	slots  []search.Slot
	tokens []search.Token
	wanted []search.Token
	starts []int32
	scores []float32
}

// A scoredList is the translations of a sentence that are being scored.
type scoredList struct {
	context search.Context
	slots   []search.Slot
	depth   int // pieces that have been scored
}

func newBusyScorer(stepper *gpumodel.Stepper, sources []search.Source, vocabulary int) *busyScorer {
	s := &busyScorer{stepper: stepper, sources: sources, vocabulary: vocabulary, random: rand.New(rand.NewPCG(2018, 3))}
	for slot := range stepper.Slots() {
		s.free = append(s.free, search.Slot(slot))
	}
	return s
}

func (s *busyScorer) failure() error { return s.stepper.Err() }

func (s *busyScorer) close() error { return s.stepper.Close() }

// busyStep scores a piece of each translation, and begins with others when a quarter of the slots is free.
func (s *busyScorer) busyStep() int64 {
	if 4*len(s.free) >= s.stepper.Slots() {
		s.fill()
	}
	s.slots, s.tokens, s.wanted, s.starts = s.slots[:0], s.tokens[:0], s.wanted[:0], append(s.starts[:0], 0)
	for i := range s.lists {
		for _, slot := range s.lists[i].slots {
			given := search.NoToken
			if s.lists[i].depth > 0 {
				given = s.random.Int32N(int32(s.vocabulary))
			}
			s.slots, s.tokens = append(s.slots, slot), append(s.tokens, given)
			s.wanted, s.starts = append(s.wanted, s.random.Int32N(int32(s.vocabulary))), append(s.starts, int32(len(s.slots)))
		}
		s.lists[i].depth++
	}
	s.stepper.Step(s.slots, s.tokens, false)
	s.stepper.AskLogProbs(s.starts, s.wanted)
	if s.unread > 0 {
		s.scores = append(s.scores[:0], make([]float32, s.unread)...)
		s.stepper.AnswerLogProbs(s.scores)
	}
	s.unread = len(s.wanted)
	s.retire()
	return int64(len(s.slots))
}

// fill begins with lists in all free slots, the last of which may have fewer translations.
func (s *busyScorer) fill() {
	count := min((len(s.free)+scoredOfList-1)/scoredOfList, len(s.sources))
	contexts := make([]search.Context, count)
	s.stepper.Encode(s.sources[:count], contexts)
	for _, context := range contexts {
		width := min(scoredOfList, len(s.free))
		list := scoredList{context: context, slots: append([]search.Slot(nil), s.free[:width]...)}
		s.free = s.free[width:]
		for _, slot := range list.slots {
			s.stepper.Begin(slot, context)
		}
		s.lists = append(s.lists, list)
	}
}

// retire frees what the lists hold that are done.
func (s *busyScorer) retire() {
	remaining := s.lists[:0]
	for _, list := range s.lists {
		if list.depth < modelLength {
			remaining = append(remaining, list)
			continue
		}
		s.free = append(s.free, list.slots...)
		s.stepper.Release(list.context)
	}
	s.lists = remaining
}
