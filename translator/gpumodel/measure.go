package gpumodel

import (
	"errors"
	"time"

	"github.com/sluice-mt/sluice/gpukernels/cuda"
)

// Times is how long the device worked on what a Stepper asked of it, by its own clock. The parts are those of different streams and calls
// and may overlap.
type Times struct{ Encode, Step, Output time.Duration }

// Busy is the sum.
func (t Times) Busy() time.Duration { return t.Encode + t.Step + t.Output }

// A stopwatch measures stretches of a stream with pairs of events. Several may be under way. Its zero value measures nothing.
type stopwatch struct {
	pairs []pairOfEvents // none if nothing is measured
	next  int            // which is used next
	total time.Duration
}

type pairOfEvents struct {
	begin, end *cuda.Event
	running    bool // end may not have been reached yet
}

// stretches is how many may be under way: those of a step, of one that is run ahead, and of the two before, which need no waiting for.
const stretches = 4

func (w *stopwatch) open(c *cuda.Context) (err error) {
	for range stretches {
		var p pairOfEvents
		if p.begin, err = c.Event(); err != nil {
			return err
		}
		if p.end, err = c.Event(); err != nil {
			return errors.Join(err, p.begin.Close())
		}
		w.pairs = append(w.pairs, p)
	}
	return nil
}

// around does work between two events.
func (w *stopwatch) around(s *cuda.Stream, work func() error) error {
	if len(w.pairs) == 0 {
		return work()
	}
	p := &w.pairs[w.next]
	w.next = (w.next + 1) % stretches
	if err := w.readOne(p); err != nil {
		return err
	}
	if err := s.Record(p.begin); err != nil {
		return err
	}
	if err := work(); err != nil {
		return err
	}
	p.running = true
	return s.Record(p.end)
}

// read adds all stretches, once they are done.
func (w *stopwatch) read() error {
	for i := range w.pairs {
		if err := w.readOne(&w.pairs[i]); err != nil {
			return err
		}
	}
	return nil
}

func (w *stopwatch) readOne(p *pairOfEvents) error {
	if !p.running {
		return nil
	}
	p.running = false
	if err := p.end.Synchronize(); err != nil {
		return err
	}
	stretch, err := p.end.Since(p.begin)
	w.total += stretch
	return err
}

func (w *stopwatch) close() error {
	var failed []error
	for _, p := range w.pairs {
		failed = append(failed, p.begin.Close(), p.end.Close())
	}
	*w = stopwatch{}
	return errors.Join(failed...)
}

// Measure lets the Stepper measure times from now on, which costs some events for each step.
func (s *Stepper) Measure() {
	s.do(func() error {
		var failed []error
		for _, w := range s.watches() {
			failed = append(failed, w.open(s.w.device.context))
		}
		return errors.Join(failed...)
	})
}

func (s *Stepper) watches() []*stopwatch {
	return []*stopwatch{&s.encodeTime, &s.stepTime, &s.outputTime}
}

// Times returns what was measured so far, after waiting for the device.
func (s *Stepper) Times() Times {
	s.do(func() error {
		var failed []error
		for _, w := range s.watches() {
			failed = append(failed, w.read())
		}
		return errors.Join(failed...)
	})
	return Times{s.encodeTime.total, s.stepTime.total, s.outputTime.total}
}
