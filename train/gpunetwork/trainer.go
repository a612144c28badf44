package gpunetwork

import (
	"errors"
	"fmt"

	"github.com/sluice-mt/sluice/gpukernels"
	"github.com/sluice-mt/sluice/gpukernels/cuda"
	"github.com/sluice-mt/sluice/train/network"
	"github.com/sluice-mt/sluice/train/optimiser"
)

// A Trainer trains a network on a GPU. It belongs to one goroutine at a time.
type Trainer struct {
	context *cuda.Context
	stream  *cuda.Stream
	kernels *gpukernels.Training
	network *network.Network

	n        int          // numbers of each vector
	values   cuda.Pointer // float32
	stored   cuda.Pointer // the values as bfloat16
	gradient cuda.Pointer // float32
	means    cuda.Pointer // of the optimiser, float32
	squares  cuda.Pointer
	averages cuda.Pointer // 0 without
	sums     cuda.Pointer // float64: squares of the gradient's chunks

	tape      tape
	positions positionTable
}

// Open takes a device of a driver, numbered from 0, for a network and puts the state there.
func Open(driver *cuda.Driver, number int, n *network.Network, state optimiser.State) (*Trainer, error) {
	return open(driver, number, n, state, gpukernels.BFloat16)
}

// open is Open for any type of 16 bits. Float16 is for tests: it shows mistakes that the rounding to bfloat16 would hide, but gradients
// are often too small for it.
func open(driver *cuda.Driver, number int, n *network.Network, state optimiser.State, stored gpukernels.Storage) (*Trainer, error) {
	if err := check(n); err != nil {
		return nil, err
	}
	properties, err := driver.Properties(number)
	if err != nil {
		return nil, err
	}
	if err := gpukernels.Check(properties); err != nil {
		return nil, err
	}
	t := &Trainer{network: n, n: n.Size()}
	if t.context, err = driver.Context(number); err != nil {
		return nil, err
	}
	err = t.bound(func() error {
		if err := t.load(driver, number, stored); err != nil {
			return err
		}
		if err := t.allocate(state.Average != nil); err != nil {
			return fmt.Errorf("put the parameters onto %v: %w", properties, err)
		}
		return t.put(state)
	})
	if err != nil {
		return nil, errors.Join(err, t.Close())
	}
	return t, nil
}

func (t *Trainer) load(driver *cuda.Driver, number int, stored gpukernels.Storage) (err error) {
	if t.stream, err = t.context.Stream(); err != nil {
		return err
	}
	t.kernels, err = gpukernels.LoadTraining(driver, number, t.context, stored)
	t.tape = tape{context: t.context, stream: t.stream, kernels: t.kernels, trainer: t}
	return err
}

func (t *Trainer) allocate(average bool) error {
	vectors := []*cuda.Pointer{&t.values, &t.gradient, &t.means, &t.squares}
	if average {
		vectors = append(vectors, &t.averages)
	}
	for _, vector := range vectors {
		var err error
		if *vector, err = cuda.Alloc[float32](t.context, t.n); err != nil {
			return err
		}
	}
	var err error
	if t.stored, err = cuda.Alloc[uint16](t.context, t.n); err != nil {
		return err
	}
	t.sums, err = cuda.Alloc[float64](t.context, gpukernels.SquareSums(t.n))
	return err
}

// put copies a state to the device. The gradient begins as zero.
func (t *Trainer) put(state optimiser.State) error {
	err := t.each(state, func(at cuda.Pointer, vector []float32) error { return cuda.CopyIn(t.stream, at, vector) })
	if err != nil {
		return err
	}
	if err := t.kernels.Store(t.stream, t.stored, t.values, t.n); err != nil {
		return err
	}
	return t.clear()
}

// Fetch copies the state from the device.
func (t *Trainer) Fetch(state optimiser.State) error {
	return t.bound(func() error {
		return t.each(state, func(at cuda.Pointer, vector []float32) error { return cuda.CopyOut(t.stream, vector, at) })
	})
}

func (t *Trainer) each(state optimiser.State, work func(at cuda.Pointer, vector []float32) error) error {
	places := []cuda.Pointer{t.values, t.means, t.squares, t.averages}
	for i, vector := range [][]float32{state.Values, state.Mean, state.Square, state.Average} {
		if places[i] == 0 {
			continue
		}
		if len(vector) != t.n {
			return fmt.Errorf("gpunetwork: a vector of %d numbers for a network of %d", len(vector), t.n)
		}
		if err := work(places[i], vector); err != nil {
			return err
		}
	}
	return nil
}

// Gradient copies the gradient from the device.
func (t *Trainer) Gradient() ([]float32, error) {
	gradient := make([]float32, t.n)
	return gradient, t.bound(func() error { return cuda.CopyOut(t.stream, gradient, t.gradient) })
}

// Train adds the gradient of a batch's loss to that on the device and returns the loss. The seed decides about dropout.
func (t *Trainer) Train(b *network.Batch, options network.Options, seed uint64) (loss network.Loss, err error) {
	if err := checkOptions(&options); err != nil {
		return loss, err
	}
	err = t.bound(func() (err error) {
		t.tape.reset(seed)
		f := forward{tape: &t.tape, trainer: t, model: t.network.Model, options: options}
		loss.CrossEntropy, err = f.train(b)
		return err
	})
	if errors.Is(err, cuda.ErrOutOfMemory) {
		err = fmt.Errorf("%w of %d source and %d target pieces: %w", network.ErrOutOfMemory, len(b.Source.Tokens), len(b.Target.Tokens), err)
	}
	loss.Words, loss.Sentences = len(b.Target.Tokens), b.Sentences()
	return loss, err
}

// Squares returns the sum of the squares of the gradient, times scale.
func (t *Trainer) Squares(scale float64) (square float64, err error) {
	sums := make([]float64, gpukernels.SquareSums(t.n))
	err = t.bound(func() error {
		if err := t.kernels.Squares(t.stream, t.sums, t.gradient, t.n, float32(scale)); err != nil {
			return err
		}
		return cuda.CopyOut(t.stream, sums, t.sums)
	})
	for _, s := range sums {
		square += s
	}
	return square, err
}

// Move makes a step with the gradient, times scale, and sets it to zero.
func (t *Trainer) Move(m optimiser.Move, scale float64) error {
	return t.bound(func() error {
		return t.kernels.Adam(t.stream, gpukernels.Adam{Values: t.values, Gradient: t.gradient, Means: t.means, Squares: t.squares,
			Averages: t.averages, Stored: t.stored, N: t.n, Scale: float32(scale) * m.Clip, Beta1: m.Beta1, Beta2: m.Beta2, Epsilon: m.Epsilon,
			Rate: m.Rate, Root: m.Root, Weight: m.Weight})
	})
}

// Clear sets the gradient to zero.
func (t *Trainer) Clear() error { return t.bound(t.clear) }

func (t *Trainer) clear() error { return t.stream.Zero(t.gradient, 4*t.n) }

// Close gives the device back. Of one that is lost, nothing is left to give back.
func (t *Trainer) Close() error {
	if err := errors.Join(t.free(), t.context.Close()); !errors.Is(err, cuda.ErrLost) {
		return err
	}
	return nil
}

func (t *Trainer) free() error {
	return t.bound(func() error {
		var failures []error
		if t.stream != nil {
			failures = append(failures, t.stream.Synchronize())
		}
		if t.kernels != nil {
			failures = append(failures, t.kernels.Close())
		}
		for _, memory := range append(t.tape.memory(), t.values, t.stored, t.gradient, t.means, t.squares, t.averages, t.sums, t.positions.at) {
			failures = append(failures, t.context.Free(memory))
		}
		if t.stream != nil {
			failures = append(failures, t.stream.Close())
		}
		return errors.Join(failures...)
	})
}

// bound runs work on a thread that has the device's context.
func (t *Trainer) bound(work func() error) error {
	release, err := t.context.Bind()
	if err != nil {
		return err
	}
	defer release()
	return work()
}
