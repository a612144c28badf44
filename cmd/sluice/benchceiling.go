package main

import (
	"io"
	"sync"
	"time"

	"github.com/sluice-mt/sluice/kernels"
	"github.com/sluice-mt/sluice/translator"
	"github.com/sluice-mt/sluice/translator/cpumodel"
	"github.com/sluice-mt/sluice/translator/search"
)

// A ceilingSampler measures, while a text is translated, what multiply-accumulates a second the cores could do at that moment: clocks
// change within seconds, and on virtual machines other guests take their share of a core, so that the best that a
// machine has ever shown says little about what a pass could have reached. The workers themselves stop for a moment now and then.
type ceilingSampler struct {
	precision cpumodel.Precision

	mu    sync.Mutex
	sum   float64
	count int
	took  time.Duration // of all workers together
}

// sampleEvery is how long a worker translates between two samples, of which each takes less than a millisecond.
const sampleEvery = 100 * time.Millisecond

func (c *ceilingSampler) sample() {
	begin := time.Now()
	peak := ceiling(c.precision, 0)
	took := time.Since(begin)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sum += peak
	c.count++
	c.took += took
}

// spent returns how long each of the workers has measured since the last reset, instead of translating.
func (c *ceilingSampler) spent(workers int) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.took / time.Duration(workers)
}

func (c *ceilingSampler) reset() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sum, c.count, c.took = 0, 0, 0
}

// mean returns the mean of the samples since the last reset; of a text too short for samples, one that it takes itself.
func (c *ceilingSampler) mean() float64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.count == 0 {
		return ceiling(c.precision, 200*time.Millisecond)
	}
	return c.sum / float64(c.count)
}

// ceiling measures for about the time d the multiply-accumulates that a core can do in a second.
func ceiling(precision cpumodel.Precision, d time.Duration) float64 {
	switch precision {
	case cpumodel.Float32:
		return kernels.Float32Peak(d)
	case cpumodel.BFloat16:
		return kernels.BFloat16Peak(d)
	case cpumodel.Int16:
		return kernels.Int16Peak(d)
	}
	return kernels.Int8Peak(d)
}

// sampledModels are models whose workers take samples.
type sampledModels struct {
	translator.Models
	sampler *ceilingSampler
}

// NewSteppers makes the first Stepper of a worker take the samples.
func (m sampledModels) NewSteppers(slots int) []search.Stepper {
	steppers := m.Models.NewSteppers(slots)
	steppers[0] = &sampledStepper{steppers[0], m.sampler, time.Now()}
	return steppers
}

type sampledStepper struct {
	search.Stepper
	sampler *ceilingSampler
	last    time.Time
}

// Spread and Close are those of the Stepper, if it has them.
func (s *sampledStepper) Spread(cores int) {
	if spreader, ok := s.Stepper.(search.Spreader); ok {
		spreader.Spread(cores)
	}
}

func (s *sampledStepper) Close() error {
	if closer, ok := s.Stepper.(io.Closer); ok {
		return closer.Close()
	}
	return nil
}

func (s *sampledStepper) Step(slots []search.Slot, tokens []search.Token, align bool) {
	if time.Since(s.last) > sampleEvery {
		s.sampler.sample()
		s.last = time.Now()
	}
	s.Stepper.Step(slots, tokens, align)
}
