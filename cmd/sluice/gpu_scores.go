package main

import (
	"errors"
	"math/rand/v2"

	"github.com/sluice-mt/sluice/translator/batch"
	"github.com/sluice-mt/sluice/translator/gpumodel"
	"github.com/sluice-mt/sluice/translator/search"
)

// scoredOfList is how many translations a sentence of a busyScorer has: as many as n-best lists often have.
const scoredOfList = 10

// A busyScorer scores random translations of modelLength pieces on a stream of its own, in the way of package rescore: all of a sentence side by
// side, one piece after another, of which only the scores of the next pieces are read.
type busyScorer struct {
	stepper    *gpumodel.Stepper
	from       supply
	vocabulary int
	random     *rand.Rand

	queue *batch.TopUp[scoredList]
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
	pieces  int // of the source
	slots   []search.Slot
	depth   int // pieces that have been scored
}

// newBusyScorer returns a busyScorer with a Stepper, which it closes in the end.
func newBusyScorer(stepper *gpumodel.Stepper, sources []search.Source, vocabulary int) (*busyScorer, error) {
	s := &busyScorer{stepper: stepper, from: supply{sources: sources, endless: true}, vocabulary: vocabulary, random: rand.New(rand.NewPCG(2018, 3))}
	for slot := range stepper.Slots() {
		s.free = append(s.free, search.Slot(slot))
	}
	var err error
	if s.queue, err = batch.NewTopUp[scoredList](stepper.Slots(), gpumodel.TopUp); err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

func (s *busyScorer) failure() error { return s.stepper.Err() }

func (s *busyScorer) close() error { return s.stepper.Close() }

// busyStep scores a piece of each translation, begins with others when the share of slots is free at which package rescore does so, and has the next
// mini-batch encoded beside that if there is room.
func (s *busyScorer) busyStep() int64 {
	if s.queue.Due(len(s.free)) {
		for s.queue.Hungry(len(s.free)) {
			s.encode()
		}
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
	slots := s.stepper.Slots()
	if s.queue.RoomAhead(gpumodel.Encoded(slots, s.from.texts()), gpumodel.MiniBatch(slots)) > 0 {
		s.encode()
	}
	return int64(len(s.slots))
}

// encode encodes a mini-batch.
func (s *busyScorer) encode() {
	sources := s.from.miniBatch(gpumodel.MiniBatch(s.stepper.Slots()))
	contexts := make([]search.Context, len(sources))
	s.stepper.Encode(sources, contexts)
	for i, context := range contexts {
		pieces := sources[i].Pieces()
		s.queue.Push(scoredList{context: context, pieces: pieces}, s.width(), pieces)
	}
}

// width is how many translations a sentence has.
func (s *busyScorer) width() int { return min(scoredOfList, s.stepper.Slots()) }

// fill begins with lists that wait, while there are slots for them.
func (s *busyScorer) fill() {
	for list, ok := s.queue.Next(len(s.free)); ok; list, ok = s.queue.Next(len(s.free)) {
		rest := len(s.free) - s.width()
		list.slots = append([]search.Slot(nil), s.free[rest:]...)
		s.free = s.free[:rest]
		for _, slot := range list.slots {
			s.stepper.Begin(slot, list.context)
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
		s.queue.Done(list.pieces)
	}
	s.lists = remaining
}
