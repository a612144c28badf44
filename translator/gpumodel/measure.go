package gpumodel

import (
	"cmp"
	"errors"
	"slices"
	"time"

	"github.com/sluice-mt/sluice/gpukernels/cuda"
)

// Times is what a Stepper measured.
type Times struct {
	// How long the device worked on what was asked of it, by its own clock. The parts are those of different streams and calls and may overlap.
	Encode, Step, Output time.Duration
	Stretches            []Stretch     // of all parts
	Waited               time.Duration // how long the processor waited for the device in steps
}

// A Stretch is from when to when the device worked on something that was asked of it, since a Clock was started.
type Stretch struct{ Begin, End time.Duration }

// Busy returns for how long the device worked on at least one of the stretches.
func Busy(stretches []Stretch) time.Duration {
	sorted := slices.SortedFunc(slices.Values(stretches), func(a, b Stretch) int { return cmp.Compare(a.Begin, b.Begin) })
	var busy, until time.Duration
	for i, s := range sorted {
		if i == 0 || s.Begin > until {
			until = s.Begin
		}
		if s.End > until {
			busy, until = busy+s.End-until, s.End
		}
	}
	return busy
}

// A Clock is a moment of a device's time, from which Steppers count.
type Clock struct {
	device *Device
	stream *cuda.Stream
	began  *cuda.Event
}

// StartClock returns the present moment.
func (d *Device) StartClock() (*Clock, error) {
	clock := &Clock{device: d}
	err := d.bound(func() (err error) {
		if clock.stream, err = d.context.Stream(); err != nil {
			return err
		}
		if clock.began, err = d.context.Event(); err != nil {
			return err
		}
		return cmp.Or(clock.stream.Record(clock.began), clock.stream.Synchronize())
	})
	if err != nil {
		return nil, errors.Join(err, clock.Close())
	}
	return clock, nil
}

// Close gives the clock back, once no Stepper measures with it.
func (c *Clock) Close() error {
	return c.device.bound(func() error {
		var failed []error
		if c.began != nil {
			failed = append(failed, c.began.Close())
		}
		if c.stream != nil {
			failed = append(failed, c.stream.Close())
		}
		return errors.Join(failed...)
	})
}

// A stopwatch measures stretches of a stream with pairs of events. Several may be under way. Its zero value measures nothing.
type stopwatch struct {
	pairs     []pairOfEvents // none if nothing is measured
	next      int            // which is used next
	began     *cuda.Event    // of the clock
	stretches []Stretch
	total     time.Duration
}

type pairOfEvents struct {
	begin, end *cuda.Event
	running    bool // end may not have been reached yet
}

// stretchesAtATime is how many may be under way: those of a step, of one that is run ahead, and of the two before, which need no waiting for.
const stretchesAtATime = 4

func (w *stopwatch) open(c *cuda.Context, clock *Clock) (err error) {
	w.began = clock.began
	for range stretchesAtATime {
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
	w.next = (w.next + 1) % stretchesAtATime
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
	begin, err := p.begin.Since(w.began)
	if err != nil {
		return err
	}
	stretch, err := p.end.Since(p.begin)
	w.total += stretch
	w.stretches = append(w.stretches, Stretch{begin, begin + stretch})
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

// Measure lets the Stepper measure times from now on, by a clock of its device, which costs some events for each step.
func (s *Stepper) Measure(clock *Clock) {
	s.measures = true
	s.do(func() error {
		var failed []error
		for _, w := range s.watches() {
			failed = append(failed, w.open(s.w.device.context, clock))
		}
		return errors.Join(failed...)
	})
}

// wait does what waits for the device, and notes for how long.
func (s *Stepper) wait(until func() error) error {
	if !s.measures {
		return until()
	}
	begin := time.Now()
	err := until()
	s.waited += time.Since(begin)
	return err
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
	t := Times{Encode: s.encodeTime.total, Step: s.stepTime.total, Output: s.outputTime.total, Waited: s.waited}
	for _, w := range s.watches() {
		t.Stretches = append(t.Stretches, w.stretches...)
	}
	return t
}
