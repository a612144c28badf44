package main

import (
	"errors"
	"math/rand/v2"
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
	took     time.Duration // all of them
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
	w.steps, w.took = 0, 0
	for len(sources) > 0 || w.decoder.Active() > 0 {
		sources = sources[w.refill(sources):]
		begin := time.Now()
		w.decoder.Step()
		w.steps, w.took = w.steps+1, w.took+time.Since(begin)
	}
}

// slotsOf is how many slots a search takes for a source: those of a beam, or of samples.
func slotsOf(source search.Source, options search.Options) int {
	return max((&search.Sentence{Source: source, Options: options}).Slots(), 1)
}

// refill begins with as many of the sources, which are of one length, as there are slots for, if the share of them is free at which
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

// randomSources are sentences of modelLength pieces, for models of several sources with as many of each.
func randomSources(random *rand.Rand, count, vocabulary int, further ...int) []search.Source {
	sources := make([]search.Source, count)
	for i := range sources {
		sources[i].Tokens = randomSentence(random, vocabulary)
		for _, size := range further {
			sources[i].Further = append(sources[i].Further, randomSentence(random, size))
		}
	}
	return sources
}

func randomSentence(random *rand.Rand, vocabulary int) (tokens []search.Token) {
	for range modelLength - 1 {
		tokens = append(tokens, 1+random.Int32N(int32(vocabulary-1)))
	}
	return append(tokens, 0)
}
