package translator

import (
	"errors"
	"fmt"
	"io"

	"github.com/sluice-mt/sluice/translator/batch"
	"github.com/sluice-mt/sluice/translator/search"
)

// A Device runs the models for workers of its own, and may fail while it works, as the processor does not.
//
// What fails says so with a method Err of its Stepper, error being what happened; a Stepper that has something to give back has a
// method Close.
type Device struct {
	Name            string  // for messages
	Workers         int     // each with Steppers of its own
	Slots           int     // of a worker; 0 is Batching's
	TopUp           float64 // share of free slots at which they are filled again, where Batching leaves it open; 0 is the processor's
	MiniBatchTokens int     // source pieces that a worker encodes at a time; 0 is Batching's

	// Encoded is for how many source pieces of encoded sentences, waiting or being decoded, a worker has memory when it encodes ahead of what its
	// slots need, as a device does that encodes beside its steps; 0: sentences are encoded when slots wait for them.
	Encoded int

	// Open returns a Stepper for each model of the ensemble, with that many slots.
	Open func(slots int) ([]search.Stepper, error)
	// Fits says whether a worker that failed so can go on with half of the slots and of the pieces: the device had no memory left.
	Fits func(err error) bool
}

// A Failure is what became of a worker whose device failed. The sentences that it had are translated by others, or by itself.
type Failure struct {
	Device string
	Err    error
	Slots  int  // with which the worker goes on; 0 if it ended
	Last   bool // no device is left: the processor takes over, in float32
}

// devices are where the engine's workers work: what Config names, or the processor.
func (c *Config) devices() []Device {
	if len(c.Devices) > 0 {
		return c.Devices
	}
	return []Device{processor(c.Models, c.Batching.Workers)}
}

// processor is the device that never fails.
func processor(models Models, workers int) Device {
	return Device{Name: "CPU", Workers: workers, Open: func(slots int) ([]search.Stepper, error) { return models.NewSteppers(slots), nil }}
}

// miniBatch is the most pieces that any worker encodes at a time: what mini-batches are cut to.
func (c *Config) miniBatch() int {
	most := c.Batching.MiniBatchTokens
	for i := range c.Devices {
		most = max(most, c.Devices[i].MiniBatchTokens)
	}
	return most
}

// A Budget bounds what a worker has in the memory of its device at a time.
type Budget struct {
	Slots   int
	Tokens  int // of the source, encoded together
	Encoded int // of the source, up to which sentences are encoded ahead: see Device.Encoded
}

func (d *Device) budget(b Batching) Budget {
	return Budget{positiveOr(d.Slots, b.Slots), positiveOr(d.MiniBatchTokens, b.MiniBatchTokens), d.Encoded}
}

// topUp is the share of free slots at which the device's workers fill them again.
func (d *Device) topUp(b Batching) float64 {
	switch {
	case b.TopUp > 0:
		return b.TopUp
	case d.TopUp > 0:
		return d.TopUp
	}
	return batch.ProcessorTopUp
}

// Half is less, and false where there is no less: a worker has to have the slots of one sentence, which least is.
func (b Budget) Half(least int) (Budget, bool) {
	h := Budget{max(b.Slots/2, least), max(b.Tokens/2, 1), b.Encoded / 2}
	return h, h.Slots < b.Slots || h.Tokens >= leastTokens
}

// leastTokens is the budget of source pieces from which on nothing is won by halving it: one sentence has more.
const leastTokens = 32

// open fills in the worker's decoder. While the device has no memory for it, the budget is halved.
func (w *worker) open() error {
	for {
		err := w.openOnce()
		if err == nil || !w.shrink(err) {
			return err
		}
	}
}

func (w *worker) openOnce() error {
	steppers, err := w.device.Open(w.budget.Slots)
	if err != nil {
		return err
	}
	w.steppers = steppers
	return w.connect()
}

// shrink halves the budget if that can help against an error.
func (w *worker) shrink(err error) bool {
	if w.device.Fits == nil || !w.device.Fits(err) {
		return false
	}
	smaller, ok := w.budget.Half(w.engine.leastSlots)
	if ok {
		w.budget = smaller
	}
	return ok
}

// failure is the first error of the worker's device, nil as long as all is well.
func (w *worker) failure() error {
	for _, s := range w.steppers {
		if f, ok := s.(interface{ Err() error }); ok && f.Err() != nil {
			return f.Err()
		}
	}
	return nil
}

// close gives back what the worker has on its device.
func (w *worker) close() error {
	var failed []error
	for _, s := range w.steppers {
		if c, ok := s.(io.Closer); ok {
			failed = append(failed, c.Close())
		}
	}
	w.steppers, w.decoder = nil, nil
	return errors.Join(failed...)
}

// recover gives the worker's sentences to others after its device has failed, and lets it go on with a smaller budget if that may
// help. It reports false if the worker has to end.
func (w *worker) recover(cause error) bool {
	e := w.engine
	units := w.unfinished()
	e.counters.returned.Add(int64(len(units)))
	w.close() // what is lost cannot be closed
	goesOn := w.shrink(cause)
	if goesOn {
		if err := w.open(); err != nil {
			cause, goesOn = errors.Join(cause, err), false
		}
	}
	e.giveBack(units)
	f := Failure{Device: w.device.Name, Err: cause}
	if goesOn {
		f.Slots = w.budget.Slots
	} else {
		f.Last = e.live.Add(-1) == 0
	}
	if e.config.OnFailure != nil {
		e.config.OnFailure(f)
	}
	if f.Last {
		e.takeOver(cause)
	}
	return goesOn
}

// unfinished takes all sentences that the worker has not finished.
func (w *worker) unfinished() []*unit {
	units := w.redo
	w.redo = nil
	for u, ok := w.queue.Next(w.decoder.Slots()); ok; u, ok = w.queue.Next(w.decoder.Slots()) {
		units = append(units, u)
	}
	for _, s := range w.decoder.Abandon() {
		units = append(units, s.Tag.(*unit))
	}
	return units
}

// giveBack queues units before all others: somebody has waited for them for long. Once the engine is closed, nobody would take them,
// and they fail.
func (e *Engine) giveBack(units []*unit) {
	if e.queueReturned(units) {
		return
	}
	for _, u := range units {
		u.fail(ErrClosed)
	}
}

func (e *Engine) queueReturned(units []*unit) bool {
	e.mutex.Lock()
	defer e.mutex.Unlock()
	if e.closed {
		return false
	}
	e.returned = append(e.returned, units...)
	e.changed.Broadcast()
	return true
}

// takeOver lets the processor go on in float32 where every device has failed. The last device's worker calls it.
func (e *Engine) takeOver(cause error) {
	models, err := e.precise.load()
	if err != nil {
		e.failAll(fmt.Errorf("no device is left (%w), and the processor cannot take over: %w", cause, err))
		return
	}
	cpu := processor(models, e.config.Batching.Workers)
	for range cpu.Workers {
		w := e.newWorker(&cpu)
		if err := w.open(); err != nil {
			e.failAll(err)
			return
		}
		e.live.Add(1)
		e.workers.Go(w.run)
	}
}

// failAll fails everything that is queued and everything that still comes.
func (e *Engine) failAll(err error) {
	for {
		units, open := e.take(nil, e.miniBatch, true)
		if !open {
			return
		}
		for _, u := range units {
			u.fail(err)
		}
	}
}
