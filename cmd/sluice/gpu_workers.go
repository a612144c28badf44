package main

import (
	"cmp"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/sluice-mt/sluice/translator/batch"
	"github.com/sluice-mt/sluice/translator/gpumodel"
	"github.com/sluice-mt/sluice/translator/search"
)

// A gpuWorker translates random sentences on streams of its own.
type gpuWorker struct {
	steppers []search.Stepper // one for each model
	decoder  *search.Decoder
	queue    *batch.TopUp[*search.Sentence]
	options  search.Options
	steps    int           // of the decoder, in the last translation
	took     time.Duration // that translation
}

// newGPUWorker returns a worker with Steppers, which it closes in the end.
func newGPUWorker(steppers []search.Stepper, weights []float32, end search.Token, options search.Options) (*gpuWorker, error) {
	w := &gpuWorker{steppers: steppers, options: options}
	var err error
	if w.decoder, err = search.NewDecoder(steppers, weights, end); err == nil {
		w.queue, err = batch.NewTopUp[*search.Sentence](w.decoder.Slots(), gpumodel.TopUp)
	}
	if err != nil {
		return nil, errors.Join(err, w.close())
	}
	return w, nil
}

// failure is the first error of the device.
func (w *gpuWorker) failure() error {
	for _, s := range w.steppers {
		if err := s.(*gpumodel.Stepper).Err(); err != nil {
			return err
		}
	}
	return nil
}

func (w *gpuWorker) close() error {
	var failed []error
	for _, s := range w.steppers {
		failed = append(failed, s.(*gpumodel.Stepper).Close())
	}
	return errors.Join(failed...)
}

// A supply is sentences that workers take in mini-batches, once or again and again.
type supply struct {
	sources []search.Source
	endless bool
	next    int
}

// miniBatch takes as many sentences as have so many pieces together, and one at least, but none at the end.
func (s *supply) miniBatch(pieces int) []search.Source {
	first := s.next
	for s.next < len(s.sources) {
		pieces -= s.sources[s.next].Pieces()
		if pieces < 0 && s.next > first {
			break
		}
		s.next++
	}
	taken := s.sources[first:s.next]
	if s.endless && s.next == len(s.sources) {
		s.next = 0
	}
	return taken
}

// texts is how many sources each sentence has.
func (s *supply) texts() int {
	if len(s.sources) == 0 {
		return 0
	}
	return 1 + len(s.sources[0].Further)
}

// translate translates sources.
func (w *gpuWorker) translate(sources []search.Source) {
	began := time.Now()
	all := &supply{sources: sources}
	for w.steps = 0; all.next < len(sources) || w.queue.Len() > 0 || w.decoder.Active() > 0; w.steps++ {
		w.step(all)
	}
	w.took = time.Since(began)
}

// step does what a worker of the engine does in a turn, and returns how many hypotheses it advanced: it fills the slots, steps, and has the next
// mini-batch encoded beside that if there is room.
func (w *gpuWorker) step(from *supply) (advanced int) {
	w.refill(from)
	advanced = w.decoder.Slots() - w.decoder.Free()
	for _, result := range w.decoder.Step() {
		w.queue.Done(result.Sentence.Source.Pieces())
	}
	slots := w.decoder.Slots()
	if w.queue.RoomAhead(gpumodel.Encoded(slots, from.texts()), gpumodel.MiniBatch(slots)) > 0 {
		w.encode(from)
	}
	return advanced
}

// refill begins with as many sentences as there are slots for, if the share of them is free at which the engine does so.
func (w *gpuWorker) refill(from *supply) {
	if !w.queue.Due(w.decoder.Free()) {
		return
	}
	for w.queue.Hungry(w.decoder.Free()) && w.encode(from) {
	}
	for sentence, ok := w.queue.Next(w.decoder.Free()); ok; sentence, ok = w.queue.Next(w.decoder.Free()) {
		w.decoder.Start(sentence)
	}
}

// encode encodes a mini-batch, and reports false if there is none.
func (w *gpuWorker) encode(from *supply) bool {
	var sentences []*search.Sentence
	for _, source := range from.miniBatch(gpumodel.MiniBatch(w.decoder.Slots())) {
		sentences = append(sentences, &search.Sentence{Source: source, Options: w.options})
	}
	if len(sentences) == 0 {
		return false
	}
	w.decoder.Encode(sentences)
	for _, sentence := range sentences {
		w.queue.Push(sentence, sentence.Slots(), sentence.Source.Pieces())
	}
	return true
}

// slotsOf is how many slots a search takes for a source: those of a beam, or of samples.
func slotsOf(source search.Source, options search.Options) int {
	return max((&search.Sentence{Source: source, Options: options}).Slots(), 1)
}

// translateTogether lets each worker translate the sources of its own, and returns how long they took together.
func translateTogether(workers []*gpuWorker, sources [][]search.Source) time.Duration {
	begin := time.Now()
	var all sync.WaitGroup
	for i, w := range workers {
		all.Go(func() { w.translate(sources[i]) })
	}
	all.Wait()
	return time.Since(begin)
}

// A randomText is one of random sentences.
type randomText struct {
	random     *rand.Rand
	vocabulary int
	further    []int   // vocabularies of further sources
	spread     float64 // standard deviation of the lengths' logarithm
}

const (
	// What is usual in news, in the demonstration model's pieces.
	usualSpread  = 0.54
	usualLongest = 125

	mostSpread = 2.0
)

// sources are so many sentences of modelLength pieces in the mean, in the order of a maxi-batch: the longest first. For models of several sources
// they have as many pieces of each.
func (t randomText) sources(count int) []search.Source {
	sources := make([]search.Source, count)
	for i := range sources {
		length := t.length()
		sources[i].Tokens = t.sentence(length, t.vocabulary)
		for _, size := range t.further {
			sources[i].Further = append(sources[i].Further, t.sentence(length, size))
		}
	}
	slices.SortStableFunc(sources, func(a, b search.Source) int { return cmp.Compare(len(b.Tokens), len(a.Tokens)) })
	return sources
}

// length draws how many pieces a sentence has, with its end.
func (t randomText) length() int { return lengthAt(t.spread, t.random.NormFloat64()) }

// lengthAt is the length of a sentence that lies so many standard deviations from the middle of a log-normal distribution, by which lengths of real
// sentences are spread: modelLength in the mean.
func lengthAt(spread, deviations float64) int {
	logarithm := math.Log(modelLength) - spread*spread/2 + spread*deviations
	return min(max(int(math.Round(math.Exp(logarithm))), 1), usualLongest)
}

func (t randomText) sentence(length, vocabulary int) (tokens []search.Token) {
	for range length - 1 {
		tokens = append(tokens, 1+t.random.Int32N(int32(vocabulary-1)))
	}
	return append(tokens, 0)
}
