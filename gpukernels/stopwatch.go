package gpukernels

import (
	"cmp"
	"errors"
	"slices"
	"time"

	"github.com/sluice-mt/sluice/gpukernels/cuda"
)

// A Stretch is from when to when a device worked on something that was asked of it, since a Clock was started.
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

// A Clock is a moment of a device's time, from which Stopwatches count. The device's context is bound whenever a Clock or a Stopwatch is called.
type Clock struct {
	context *cuda.Context
	stream  *cuda.Stream
	began   *cuda.Event
}

// StartClock returns the present moment.
func StartClock(c *cuda.Context) (*Clock, error) {
	clock := &Clock{context: c}
	if err := clock.start(); err != nil {
		return nil, errors.Join(err, clock.Close())
	}
	return clock, nil
}

func (c *Clock) start() (err error) {
	if c.stream, err = c.context.Stream(); err != nil {
		return err
	}
	if c.began, err = c.context.Event(); err != nil {
		return err
	}
	return cmp.Or(c.stream.Record(c.began), c.stream.Synchronize())
}

// Close gives the clock back, once no Stopwatch measures with it.
func (c *Clock) Close() error {
	var failed []error
	if c.began != nil {
		failed = append(failed, c.began.Close())
	}
	if c.stream != nil {
		failed = append(failed, c.stream.Close())
	}
	return errors.Join(failed...)
}

// A Stopwatch measures stretches of streams with pairs of events. Several may be under way, and one within another. Its zero value measures
// nothing.
type Stopwatch struct {
	clock     *Clock
	most      int // stretches under way; 0: any number
	underWay  []pairOfEvents
	unused    []pairOfEvents
	stretches []Stretch
	total     time.Duration
}

type pairOfEvents struct{ begin, end *cuda.Event }

// Start lets the stopwatch measure by a clock. With most stretches under way, another one waits until the device has done the first of them; most
// is 0 for one that never waits, whose stretches have to be read now and then. Those that were read before are forgotten.
func (w *Stopwatch) Start(clock *Clock, most int) {
	w.clock, w.most = clock, most
	w.stretches, w.total = nil, 0
}

// Around does work, which asks something of a stream, between two events.
func (w *Stopwatch) Around(s *cuda.Stream, work func() error) error {
	if w.clock == nil {
		return work()
	}
	pair, err := w.pair()
	if err != nil {
		return err
	}
	if err := s.Record(pair.begin); err != nil {
		w.unused = append(w.unused, pair)
		return err
	}
	if err := work(); err != nil {
		w.unused = append(w.unused, pair)
		return err
	}
	w.underWay = append(w.underWay, pair)
	return s.Record(pair.end)
}

// pair returns events that nothing uses.
func (w *Stopwatch) pair() (pairOfEvents, error) {
	if w.most > 0 && len(w.underWay) == w.most {
		if err := w.readFirst(); err != nil {
			return pairOfEvents{}, err
		}
	}
	if last := len(w.unused) - 1; last >= 0 {
		pair := w.unused[last]
		w.unused = w.unused[:last]
		return pair, nil
	}
	begin, err := w.clock.context.Event()
	if err != nil {
		return pairOfEvents{}, err
	}
	end, err := w.clock.context.Event()
	if err != nil {
		return pairOfEvents{}, errors.Join(err, begin.Close())
	}
	return pairOfEvents{begin, end}, nil
}

// Read adds up the stretches that are under way, when the device has done them.
func (w *Stopwatch) Read() error {
	for len(w.underWay) > 0 {
		if err := w.readFirst(); err != nil {
			return err
		}
	}
	return nil
}

func (w *Stopwatch) readFirst() error {
	pair := w.underWay[0]
	w.underWay = w.underWay[1:]
	w.unused = append(w.unused, pair)
	if err := pair.end.Synchronize(); err != nil {
		return err
	}
	begin, err := pair.begin.Since(w.clock.began)
	if err != nil {
		return err
	}
	stretch, err := pair.end.Since(pair.begin)
	w.total += stretch
	w.stretches = append(w.stretches, Stretch{begin, begin + stretch})
	return err
}

// Stretches are all that were read.
func (w *Stopwatch) Stretches() []Stretch { return w.stretches }

// Total is how long they are together.
func (w *Stopwatch) Total() time.Duration { return w.total }

// Close gives the events back. The stopwatch measures nothing any more.
func (w *Stopwatch) Close() error {
	var failed []error
	for _, p := range append(w.underWay, w.unused...) {
		failed = append(failed, p.begin.Close(), p.end.Close())
	}
	*w = Stopwatch{}
	return errors.Join(failed...)
}
