package main

import (
	"cmp"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/sluice-mt/sluice/translator/gpumodel"
	"github.com/sluice-mt/sluice/translator/search"
)

// A gpuWorker translates random sentences on streams of its own.
type gpuWorker struct {
	steppers []search.Stepper // one for each model
	decoder  *search.Decoder
	options  search.Options
	steps    int           // of the decoder, in the last translation
	took     time.Duration // that translation
}

// newGPUWorker returns a worker with Steppers, which it closes in the end.
func newGPUWorker(steppers []search.Stepper, weights []float32, end search.Token, options search.Options) (*gpuWorker, error) {
	w := &gpuWorker{steppers: steppers, options: options}
	var err error
	if w.decoder, err = search.NewDecoder(steppers, weights, end); err != nil {
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

// translate translates sources.
func (w *gpuWorker) translate(sources []search.Source) {
	began := time.Now()
	for w.steps = 0; len(sources) > 0 || w.decoder.Active() > 0; w.steps++ {
		sources = sources[w.refill(sources):]
		w.decoder.Step()
	}
	w.took = time.Since(began)
}

// slotsOf is how many slots a search takes for a source: those of a beam, or of samples.
func slotsOf(source search.Source, options search.Options) int {
	return max((&search.Sentence{Source: source, Options: options}).Slots(), 1)
}

// refill begins with as many of the sources as there are slots for, if the share of them is free at which
// the engine does so, and returns how many these are.
func (w *gpuWorker) refill(sources []search.Source) int {
	if len(sources) == 0 {
		return 0
	}
	d := w.decoder
	count := min(d.Free()/slotsOf(sources[0], w.options), len(sources))
	if count == 0 || d.Active() > 0 && float64(d.Free()) < gpumodel.TopUp*float64(d.Slots()) {
		return 0
	}
	sentences := make([]*search.Sentence, count)
	for i := range sentences {
		sentences[i] = &search.Sentence{Source: sources[i], Options: w.options}
	}
	d.Encode(sentences)
	for _, sentence := range sentences {
		d.Start(sentence)
	}
	return count
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

// length draws how many pieces a sentence has, with its end, by a log-normal distribution, as lengths of real sentences are spread.
func (t randomText) length() int {
	logarithm := math.Log(modelLength) - t.spread*t.spread/2 + t.spread*t.random.NormFloat64()
	return min(max(int(math.Round(math.Exp(logarithm))), 1), usualLongest)
}

func (t randomText) sentence(length, vocabulary int) (tokens []search.Token) {
	for range length - 1 {
		tokens = append(tokens, 1+t.random.Int32N(int32(vocabulary-1)))
	}
	return append(tokens, 0)
}
