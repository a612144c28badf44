package main

import (
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/sluice-mt/sluice/translator/gpumodel"
	"github.com/sluice-mt/sluice/translator/search"
)

// A gpuWorker translates on a stream of its own.
type gpuWorker struct {
	stepper *gpumodel.Stepper
	decoder *search.Decoder
	options search.Options
	steps   int           // of the decoder
	took    time.Duration // all of them
}

func newGPUWorker(weights *gpumodel.Weights, slots, beam int) (*gpuWorker, error) {
	stepper, err := weights.NewStepper(slots)
	if err != nil {
		return nil, err
	}
	w := &gpuWorker{stepper: stepper, options: search.Options{Beam: beam, Normalize: 1, MaxLengthFactor: 1}}
	if w.decoder, err = search.NewDecoder([]search.Stepper{stepper}, nil, 0); err != nil {
		return nil, errors.Join(err, stepper.Close())
	}
	return w, nil
}

// translate translates sources, the decoder being filled again when a quarter of it is free.
func (w *gpuWorker) translate(sources []search.Source) {
	d := w.decoder
	w.steps, w.took = 0, 0
	for len(sources) > 0 || d.Active() > 0 {
		if count := min(d.Free()/w.options.Beam, len(sources)); count > 0 && (d.Active() == 0 || 4*d.Free() >= d.Slots()) {
			sentences := w.sentences(sources[:count])
			d.Encode(sentences)
			for _, sentence := range sentences {
				d.Start(sentence)
			}
			sources = sources[count:]
		}
		begin := time.Now()
		d.Step()
		w.steps, w.took = w.steps+1, w.took+time.Since(begin)
	}
}

func (w *gpuWorker) sentences(sources []search.Source) []*search.Sentence {
	var all []*search.Sentence
	for _, source := range sources {
		all = append(all, &search.Sentence{Source: source, Options: w.options})
	}
	return all
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

// randomSources are sentences of modelLength pieces.
func randomSources(random *rand.Rand, count, vocabulary int) []search.Source {
	sources := make([]search.Source, count)
	for i := range sources {
		for range modelLength - 1 {
			sources[i].Tokens = append(sources[i].Tokens, 1+random.Int32N(int32(vocabulary-1)))
		}
		sources[i].Tokens = append(sources[i].Tokens, 0)
	}
	return sources
}
