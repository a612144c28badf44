package gpumodel

import (
	"errors"
	"time"

	"github.com/sluice-mt/sluice/gpukernels"
)

// Times is what a Stepper measured.
type Times struct {
	// How long the device worked on what was asked of it, by its own clock. The parts are those of different streams and calls and may overlap.
	Encode, Step, Output time.Duration
	Stretches            []gpukernels.Stretch // of all parts
	Waited               time.Duration        // how long the processor waited for the device in steps
}

// A Clock is a moment of a device's time, from which Steppers count.
type Clock struct {
	device *Device
	clock  *gpukernels.Clock
}

// StartClock returns the present moment.
func (d *Device) StartClock() (*Clock, error) {
	clock := &Clock{device: d}
	err := d.bound(func() (err error) {
		clock.clock, err = gpukernels.StartClock(d.context)
		return err
	})
	if err != nil {
		return nil, err
	}
	return clock, nil
}

// Close gives the clock back, once no Stepper measures with it.
func (c *Clock) Close() error { return c.device.bound(c.clock.Close) }

// stretchesAtATime is how many may be under way: those of a step, of one that is run ahead, and of the two before, which need no waiting for.
const stretchesAtATime = 4

// Measure lets the Stepper measure times from now on, by a clock of its device, which costs some events for each step. What Times returned before is
// forgotten.
func (s *Stepper) Measure(clock *Clock) {
	s.measures, s.waited = true, 0
	for _, w := range s.watches() {
		w.Start(clock.clock, stretchesAtATime)
	}
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

func (s *Stepper) watches() []*gpukernels.Stopwatch {
	return []*gpukernels.Stopwatch{&s.encodeTime, &s.stepTime, &s.outputTime}
}

// Times returns what was measured since Measure was called, after waiting for the device.
func (s *Stepper) Times() Times {
	s.do(func() error {
		var failed []error
		for _, w := range s.watches() {
			failed = append(failed, w.Read())
		}
		return errors.Join(failed...)
	})
	t := Times{Encode: s.encodeTime.Total(), Step: s.stepTime.Total(), Output: s.outputTime.Total(), Waited: s.waited}
	for _, w := range s.watches() {
		t.Stretches = append(t.Stretches, w.Stretches()...)
	}
	return t
}
