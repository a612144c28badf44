package gpunetwork

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"github.com/sluice-mt/sluice/gpukernels"
	"github.com/sluice-mt/sluice/gpukernels/cuda"
	"github.com/sluice-mt/sluice/train/network"
	"github.com/sluice-mt/sluice/train/optimiser"
	"github.com/sluice-mt/sluice/translator/marian"
)

// A worker computes losses and gradients on one GPU. The first of several makes the updates, too, and has what the optimiser keeps. A worker
// belongs to one goroutine at a time.
type worker struct {
	driver  *cuda.Driver
	number  int
	context *cuda.Context
	stream  *cuda.Stream
	kernels *gpukernels.Training
	layout  *layout
	network *network.Network // as it is stored

	n        int          // numbers of each stored vector
	values   cuda.Pointer // float32
	trained  cuda.Pointer // float32: the parameters that losses are of; 0 if they are the values
	judged   cuda.Pointer // float32: those that are validated, for as long as they are; 0 if they are those that losses are of
	stored   cuda.Pointer // those as bfloat16
	gradient cuda.Pointer // float32
	means    cuda.Pointer // of the optimiser, float32
	squares  cuda.Pointer
	averages cuda.Pointer // 0 without
	sums     cuda.Pointer // float64: squares of the gradient's chunks
	part     cuda.Pointer // room for a part of another device's gradient; 0 without others

	blas      *cuda.BLAS          // nil: not opened
	chooser   *gpukernels.Chooser // of how products are computed; nil: by own kernels
	quantised bool                // what meets a matrix is rounded to 8 bits
	fixed     []*marian.Tensor    // stored tables that stay as they are
	tape      tape
	positions positionTable

	clock  *gpukernels.Clock    // nil if nothing is measured
	watch  gpukernels.Stopwatch // of operations
	waited time.Duration        // of the processor, for the device
}

// openWorker takes a device for a network and puts the state there, all of it on the first device.
func openWorker(driver *cuda.Driver, number int, l *layout, state optimiser.State, stored gpukernels.Storage) (*worker, error) {
	properties, err := driver.Properties(number)
	if err != nil {
		return nil, err
	}
	if err := (gpukernels.Arithmetic{Stored: stored}).Check(driver, properties); err != nil {
		return nil, err
	}
	w := &worker{driver: driver, number: number, layout: l, network: l.stored, n: l.stored.Size()}
	if w.context, err = driver.Context(number); err != nil {
		return nil, err
	}
	err = w.bound(func() error {
		if err := w.load(driver, number, stored); err != nil {
			return err
		}
		if err := w.allocate(state); err != nil {
			return fmt.Errorf("put the parameters onto %v: %w", properties, err)
		}
		if err := w.put(state, nil); err != nil {
			return err
		}
		return w.clear()
	})
	if err != nil {
		return nil, errors.Join(err, w.close())
	}
	return w, nil
}

func (w *worker) load(driver *cuda.Driver, number int, stored gpukernels.Storage) (err error) {
	if w.stream, err = w.context.Stream(); err != nil {
		return err
	}
	w.kernels, err = gpukernels.LoadTraining(driver, number, w.context, stored)
	w.tape = tape{context: w.context, stream: w.stream, kernels: w.kernels, worker: w}
	return err
}

func (w *worker) allocate(state optimiser.State) error {
	vectors := []*cuda.Pointer{&w.values, &w.gradient}
	if state.Mean != nil {
		vectors = append(vectors, &w.means, &w.squares)
	}
	if state.Average != nil {
		vectors = append(vectors, &w.averages)
	}
	for _, vector := range vectors {
		var err error
		if *vector, err = cuda.Alloc[float32](w.context, w.n); err != nil {
			return err
		}
	}
	var err error
	if w.stored, err = cuda.Alloc[uint16](w.context, w.n); err != nil {
		return err
	}
	w.sums, err = cuda.Alloc[float64](w.context, gpukernels.SquareSums(w.n))
	return err
}

// put copies the vectors of a state that are not nil to the device, and the parameters that losses are to be of, if they are others. The context
// is bound.
func (w *worker) put(state optimiser.State, trained []float32) error {
	err := w.each(state, func(at cuda.Pointer, vector []float32) error {
		return cuda.CopyIn(w.stream, at, w.layout.spread(vector))
	})
	if err != nil {
		return err
	}
	if trained != nil {
		if err := w.putTrained(trained); err != nil {
			return err
		}
	}
	return w.store()
}

func (w *worker) putTrained(trained []float32) (err error) {
	if n := w.layout.network.Size(); len(trained) != n {
		return fmt.Errorf("gpunetwork: %d parameters for a network of %d", len(trained), n)
	}
	if w.trained == 0 {
		if w.trained, err = cuda.Alloc[float32](w.context, w.n); err != nil {
			return err
		}
	}
	return cuda.CopyIn(w.stream, w.trained, w.layout.spread(trained))
}

// parameters are those that losses are of.
func (w *worker) parameters() cuda.Pointer { return cmp.Or(w.judged, w.trained, w.values) }

// store rounds the parameters for the products. The context is bound.
func (w *worker) store() error { return w.kernels.Store(w.stream, w.stored, w.parameters(), w.n) }

// fetch copies the vectors of a state that are not nil from the device.
func (w *worker) fetch(state optimiser.State) error {
	return w.bound(func() error {
		return w.each(state, func(at cuda.Pointer, vector []float32) error {
			return w.layout.collect(vector, func(stored []float32) error { return cuda.CopyOut(w.stream, stored, at) })
		})
	})
}

func (w *worker) each(state optimiser.State, work func(at cuda.Pointer, vector []float32) error) error {
	places := []cuda.Pointer{w.values, w.means, w.squares, w.averages}
	for i, vector := range [][]float32{state.Values, state.Mean, state.Square, state.Average} {
		if places[i] == 0 || vector == nil {
			continue
		}
		if n := w.layout.network.Size(); len(vector) != n {
			return fmt.Errorf("gpunetwork: a vector of %d numbers for a network of %d", len(vector), n)
		}
		if err := work(places[i], vector); err != nil {
			return err
		}
	}
	return nil
}

// begin asks for the loss of a batch and for its gradient, which is added to that on the device. The seed decides about dropout.
func (w *worker) begin(b *network.Batch, options network.Options, seed uint64) error {
	err := w.bound(func() error {
		w.tape.reset(seed)
		f := forward{tape: &w.tape, worker: w, model: w.network.Model, options: options}
		err := f.train(b)
		for _, table := range w.fixed {
			if err == nil {
				err = w.stream.Zero(w.tape.slope(table), 4*w.network.Parameter(table).Size())
			}
		}
		return err
	})
	switch {
	case errors.Is(err, gpukernels.ErrNoRoomToChoose):
		err = fmt.Errorf("%w: %w", network.ErrNoRoomToChoose, err)
	case errors.Is(err, cuda.ErrOutOfMemory):
		err = fmt.Errorf("%w of %d source and %d target pieces: %w", network.ErrOutOfMemory, len(b.Source.Tokens), len(b.Target.Tokens), err)
	}
	return err
}

// losses waits for the losses that were asked for, and returns them.
func (w *worker) losses() (losses []network.Loss, err error) {
	err = w.bound(func() (err error) {
		losses, err = w.tape.takeLosses()
		return err
	})
	return losses, err
}

// sumOfSquares returns the sum of the squares of the gradient, times scale.
func (w *worker) sumOfSquares(scale float64) (square float64, err error) {
	sums := make([]float64, gpukernels.SquareSums(w.n))
	err = w.bound(func() error {
		err := w.watch.Around(w.stream, func() error { return w.kernels.Squares(w.stream, w.sums, w.gradient, w.n, float32(scale)) })
		if err != nil {
			return err
		}
		return w.wait(func() error { return cuda.CopyOut(w.stream, sums, w.sums) })
	})
	for _, s := range sums {
		square += s
	}
	return square, err
}

// move makes a step with the gradient, times scale, and sets it to zero.
func (w *worker) move(m optimiser.Move, scale float64) error {
	return w.bound(func() error {
		adam := gpukernels.Adam{Values: w.values, Gradient: w.gradient, Means: w.means, Squares: w.squares,
			Averages: w.averages, Stored: w.stored, N: w.n, Scale: float32(scale) * m.Clip, Beta1: m.Beta1, Beta2: m.Beta2, Epsilon: m.Epsilon,
			Rate: m.Rate, Root: m.Root, Weight: m.Weight}
		return w.watch.Around(w.stream, func() error {
			if err := w.kernels.Adam(w.stream, adam); err != nil || w.trained == 0 {
				return err
			}
			return w.store() // of the parameters that losses are of, which have not moved
		})
	})
}

// clear sets the gradient to zero. The context is bound.
func (w *worker) clear() error { return w.stream.Zero(w.gradient, 4*w.n) }

// close gives the device back. Of one that is lost, nothing is left to give back.
func (w *worker) close() error {
	return withoutLost(errors.Join(w.free(), w.context.Close()))
}

// withoutLost is err, unless that is of a lost device.
func withoutLost(err error) error {
	if errors.Is(err, cuda.ErrLost) {
		return nil
	}
	return err
}

func (w *worker) free() error {
	return w.bound(func() error {
		var failures []error
		if w.stream != nil {
			failures = append(failures, w.stream.Synchronize())
		}
		failures = append(failures, w.tape.closeFeeds(), w.watch.Close())
		if w.clock != nil {
			failures = append(failures, w.clock.Close())
		}
		if w.kernels != nil {
			failures = append(failures, w.kernels.Close())
		}
		if w.blas != nil {
			failures = append(failures, w.blas.Close())
		}
		for _, memory := range append(w.tape.memory(), w.values, w.trained, w.judged, w.stored, w.gradient, w.means, w.squares, w.averages, w.sums, w.part, w.positions.at) {
			failures = append(failures, w.context.Free(memory))
		}
		if w.stream != nil {
			failures = append(failures, w.stream.Close())
		}
		return errors.Join(failures...)
	})
}

// bound runs work on a thread that has the device's context.
func (w *worker) bound(work func() error) error {
	release, err := w.context.Bind()
	if err != nil {
		return err
	}
	defer release()
	return work()
}
