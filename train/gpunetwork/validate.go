package gpunetwork

import (
	"cmp"
	"errors"
	"fmt"
	"sync"

	"github.com/sluice-mt/sluice/gpukernels"
	"github.com/sluice-mt/sluice/gpukernels/cuda"
	"github.com/sluice-mt/sluice/train/network"
	"github.com/sluice-mt/sluice/translator"
	"github.com/sluice-mt/sluice/translator/gpumodel"
	"github.com/sluice-mt/sluice/translator/model"
	"github.com/sluice-mt/sluice/translator/search"
)

// Evaluate returns the losses of batches, unsmoothed and without those of alignments: of the parameters that are given, or of those that are trained
// if there are none. All devices work on them. The error wraps network.ErrCannotValidate if there is no memory for that; nothing has changed then.
func (t *Trainer) Evaluate(batches []network.Batch, of []float32) ([]network.Loss, error) {
	losses, failures := make([]network.Loss, len(batches)), make([]error, len(t.workers))
	var group sync.WaitGroup
	for i, w := range t.workers {
		group.Go(func() {
			failures[i] = w.judge(of, func() (err error) {
				for b := i; b < len(batches); b += len(t.workers) {
					if err := w.evaluate(&batches[b]); err != nil {
						return err
					}
				}
				own, err := w.tape.takeLosses()
				for number, loss := range own {
					losses[i+number*len(t.workers)] = loss
				}
				return err
			})
		})
	}
	group.Wait()
	if err := cmp.Or(failures...); err != nil {
		return nil, withoutMemory(err)
	}
	return losses, nil
}

// judge calls work while losses are those of the parameters that are given, if there are any, and without a way back. The context is bound.
func (w *worker) judge(of []float32, work func() error) error {
	return w.bound(func() error {
		w.tape.judging = true
		err := w.lend(of)
		if err == nil {
			err = work()
		}
		w.tape.judging = false
		if errors.Is(err, cuda.ErrOutOfMemory) {
			err = errors.Join(err, w.tape.forget(), w.tape.spare())
		}
		return errors.Join(err, w.giveBack())
	})
}

// lend lets losses be those of other parameters, if there are any.
func (w *worker) lend(of []float32) (err error) {
	if of == nil {
		return nil
	}
	if w.judged, err = cuda.Alloc[float32](w.context, w.n); err != nil {
		return err
	}
	if err := cuda.CopyIn(w.stream, w.judged, w.layout.spread(of)); err != nil {
		return err
	}
	return w.store()
}

// giveBack lets losses be those of the parameters that are trained.
func (w *worker) giveBack() error {
	if w.judged == 0 {
		return nil
	}
	judged := w.judged
	w.judged = 0
	return cmp.Or(w.store(), w.stream.Synchronize(), w.context.Free(judged))
}

// evaluate asks for the loss of a batch. The context is bound.
func (w *worker) evaluate(b *network.Batch) error {
	w.tape.reset(0)
	f := forward{tape: &w.tape, worker: w, model: w.network.Model}
	return f.train(b)
}

// Translate readies the first device for translating with a model, in 8 bits if they are asked for, until release is called. The error wraps
// network.ErrCannotValidate if it has no memory for the model or cannot run it.
func (t *Trainer) Translate(m *model.Model, inBytes bool, suppress []search.Token) (d translator.Device, release func() error, err error) {
	if err := t.openTranslating(inBytes); err != nil {
		return d, nil, withoutMemory(err)
	}
	weights, err := t.translating.Load(m, gpumodel.Options{Suppress: suppress})
	if errors.Is(err, gpumodel.ErrUnsupported) {
		err = fmt.Errorf("%w: %w", network.ErrCannotValidate, err)
	}
	if err != nil {
		return d, nil, withoutMemory(err)
	}
	slots, tokens := weights.Batch(gpumodel.Sharing{Workers: 1, Models: 1})
	return translator.Device{
		Name: fmt.Sprintf("GPU %d", t.workers[0].number), Workers: 1, Slots: slots, TopUp: gpumodel.TopUp, MiniBatchTokens: tokens,
		Encoded: gpumodel.Encoded(slots, weights.Sources()),
		Open: func(slots int) ([]search.Stepper, error) {
			stepper, err := weights.NewStepper(slots)
			if err != nil {
				return nil, err
			}
			return []search.Stepper{stepper}, nil
		},
		Fits: func(err error) bool { return errors.Is(err, cuda.ErrOutOfMemory) },
	}, func() error { return withoutLost(weights.Close()) }, nil
}

// openTranslating opens the first device for translating: as sluice translate does, in float16.
func (t *Trainer) openTranslating(inBytes bool) (err error) {
	if t.translating != nil {
		return nil
	}
	var as gpukernels.Arithmetic
	if inBytes {
		as.Products = gpukernels.Int8
	}
	first := t.workers[0]
	t.translating, err = gpumodel.OpenFor(first.driver, first.number, as)
	return err
}

// withoutMemory says of an error of validation if there was no memory for it.
func withoutMemory(err error) error {
	if errors.Is(err, cuda.ErrOutOfMemory) {
		return fmt.Errorf("%w: %w", network.ErrCannotValidate, err)
	}
	return err
}
