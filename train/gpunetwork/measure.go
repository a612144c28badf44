package gpunetwork

import (
	"errors"
	"time"

	"github.com/sluice-mt/sluice/gpukernels"
)

// Times is what a worker of a Trainer measured.
type Times struct {
	Waited    time.Duration        // how long the processor waited for the device, since Open
	Stretches []gpukernels.Stretch // in which the device worked on an operation, since Measure; some are within others
}

// Measure lets the trainer measure by the devices' clocks from now on, which costs two events for each operation. Events are used again once Times
// has read them, and not before, since reading takes the time of a launch.
func (t *Trainer) Measure() error {
	var failed []error
	for _, w := range t.workers {
		failed = append(failed, w.bound(w.measure))
	}
	return errors.Join(failed...)
}

// Times returns what a worker measured, after waiting for its device.
func (t *Trainer) Times(worker int) (Times, error) {
	w := t.workers[worker]
	err := w.bound(w.watch.Read)
	return Times{w.waited, w.watch.Stretches()}, err
}

func (w *worker) measure() (err error) {
	if w.clock != nil {
		return nil
	}
	if w.clock, err = gpukernels.StartClock(w.context); err == nil {
		w.watch.Start(w.clock, 0)
	}
	return err
}

// wait does what waits for the device, and notes for how long.
func (w *worker) wait(until func() error) error {
	began := time.Now()
	err := until()
	w.waited += time.Since(began)
	return err
}
