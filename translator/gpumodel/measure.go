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

// A stopwatch measures stretches of a stream with a pair of events. Its zero value measures nothing.
type stopwatch struct {
	begin, end *cuda.Event
	running    bool // end may not have been reached yet
	total      time.Duration
}

// around does work between the events.
func (w *stopwatch) around(s *cuda.Stream, work func() error) error {
	if w.begin == nil {
		return work()
	}
	if err := w.read(); err != nil {
		return err
	}
	if err := s.Record(w.begin); err != nil {
		return err
	}
	if err := work(); err != nil {
		return err
	}
	w.running = true
	return s.Record(w.end)
}

// read adds the last stretch, once it is done.
func (w *stopwatch) read() error {
	if !w.running {
		return nil
	}
	w.running = false
	if err := w.end.Synchronize(); err != nil {
		return err
	}
	stretch, err := w.end.Since(w.begin)
	w.total += stretch
	return err
}

func (w *stopwatch) close() error {
	if w.begin == nil {
		return nil
	}
	failed := []error{w.begin.Close()}
	if w.end != nil {
		failed = append(failed, w.end.Close())
	}
	*w = stopwatch{}
	return errors.Join(failed...)
}

// Measure lets the Stepper measure times from now on, which costs some events for each step.
func (s *Stepper) Measure() {
	s.do(func() (err error) {
		for _, w := range s.watches() {
			if w.begin, err = s.w.device.context.Event(); err != nil {
				return err
			}
			if w.end, err = s.w.device.context.Event(); err != nil {
				return err
			}
		}
		return nil
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
