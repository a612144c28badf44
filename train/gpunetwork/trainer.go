package gpunetwork

import (
	"errors"
	"fmt"

	"github.com/sluice-mt/sluice/gpukernels"
	"github.com/sluice-mt/sluice/gpukernels/cuda"
	"github.com/sluice-mt/sluice/train/network"
	"github.com/sluice-mt/sluice/train/optimiser"
	"github.com/sluice-mt/sluice/translator/gpumodel"
	"github.com/sluice-mt/sluice/translator/marian"
)

// A Trainer trains a network on one GPU or several. Each has the parameters and works on mini-batches of its own. For an update, the first one
// adds up the gradients of all, in their order, makes the step, and gives the others the new parameters.
type Trainer struct {
	workers     []*worker
	translating *gpumodel.Device // the first device, to translate with; nil until it is asked for
}

// partNumbers is how much of a gradient is brought from another device at a time.
const partNumbers = 16 << 20

// Open takes devices of a driver, numbered from 0, for a network and puts the state there.
func Open(driver *cuda.Driver, numbers []int, n *network.Network, state optimiser.State) (*Trainer, error) {
	return open(driver, numbers, n, state, gpukernels.BFloat16)
}

// OpenSome is Open without the devices whose memory is too small for the network, as long as there is one that has enough. It says why these are left
// out.
func OpenSome(driver *cuda.Driver, numbers []int, n *network.Network, state optimiser.State) (t *Trainer, leftOut []error, err error) {
	return openThose(driver, numbers, n, state, gpukernels.BFloat16, true)
}

// open is Open for any type of 16 bits. Float16 is for tests: it shows mistakes that the rounding to bfloat16 would hide, but gradients
// are often too small for it.
func open(driver *cuda.Driver, numbers []int, n *network.Network, state optimiser.State, stored gpukernels.Storage) (*Trainer, error) {
	t, _, err := openThose(driver, numbers, n, state, stored, false)
	return t, err
}

// openThose opens all devices, or those that have memory for the network.
func openThose(driver *cuda.Driver, numbers []int, n *network.Network, state optimiser.State, stored gpukernels.Storage, some bool) (
	t *Trainer, leftOut []error, err error) {
	l, err := newLayout(n)
	if err != nil {
		return nil, nil, err
	}
	if err := check(l); err != nil {
		return nil, nil, err
	}
	t = new(Trainer)
	for _, number := range numbers {
		w, err := openWorker(driver, number, l, state, stored)
		if err != nil {
			err = withoutRoom(fmt.Errorf("GPU %d: %w", number, err))
			if some && errors.Is(err, network.ErrNoRoom) {
				leftOut = append(leftOut, err)
				continue
			}
			return nil, nil, errors.Join(err, t.Close())
		}
		t.workers = append(t.workers, w)
		state = optimiser.State{Values: state.Values} // the first one has what the optimiser keeps
	}
	if len(t.workers) == 0 {
		return nil, nil, errors.Join(leftOut...)
	}
	if err := t.connect(); err != nil {
		return nil, nil, errors.Join(withoutRoom(err), t.Close())
	}
	return t, leftOut, nil
}

// withoutRoom says of an error of a device that gets the parameters if its memory is too small for them.
func withoutRoom(err error) error {
	if errors.Is(err, cuda.ErrOutOfMemory) {
		return fmt.Errorf("%w: %w", network.ErrNoRoom, err)
	}
	return err
}

// connect readies the first device for what comes from the others.
func (t *Trainer) connect() error {
	if len(t.workers) == 1 {
		return nil
	}
	first := t.workers[0]
	return first.bound(func() error {
		for _, other := range t.workers[1:] {
			if err := first.context.Reach(other.context); err != nil {
				return err
			}
		}
		var err error
		first.part, err = cuda.Alloc[float32](first.context, min(first.n, partNumbers))
		return err
	})
}

// Workers is how many devices there are.
func (t *Trainer) Workers() int { return len(t.workers) }

// Numbers are those of the devices.
func (t *Trainer) Numbers() []int {
	var numbers []int
	for _, w := range t.workers {
		numbers = append(numbers, w.number)
	}
	return numbers
}

// Fix leaves tables of embeddings as they are: they have no gradient.
func (t *Trainer) Fix(tables []*marian.Tensor) {
	for _, w := range t.workers {
		w.fixed = nil
		for _, table := range tables {
			w.fixed = append(w.fixed, w.layout.tensor(table))
		}
	}
}

// Quantise lets what meets a matrix be rounded to 8 bits, row by row, as in the engine's arithmetic.
func (t *Trainer) Quantise() {
	for _, w := range t.workers {
		w.quantised = true
	}
}

// Put replaces what the devices have by the vectors of a state that are not nil, and lets losses and gradients be those of other parameters than
// the state's, if trained is not nil: of rounded ones.
func (t *Trainer) Put(state optimiser.State, trained []float32) error {
	for i, w := range t.workers {
		if i > 0 {
			state = optimiser.State{Values: state.Values}
		}
		if err := w.bound(func() error { return w.put(state, trained) }); err != nil {
			return withoutRoom(err)
		}
	}
	return nil
}

// Begin asks a worker for the loss of a batch, and to add its gradient to that of the worker. The seed decides about dropout. The batch must stay as it is
// until Losses has returned its loss. Different workers may work at the same time.
func (t *Trainer) Begin(worker int, b *network.Batch, options network.Options, seed uint64) error {
	return t.workers[worker].begin(b, options, seed)
}

// Losses waits until a worker has done what it was asked for, and returns the losses that were not returned before, in the order of their mini-batches.
func (t *Trainer) Losses(worker int) ([]network.Loss, error) { return t.workers[worker].losses() }

// Squares adds the gradients of all devices to that of the first, in their order, and returns the sum of its squares, times scale.
func (t *Trainer) Squares(scale float64) (float64, error) {
	for _, other := range t.workers[1:] {
		if err := t.gather(other); err != nil {
			return 0, err
		}
	}
	return t.workers[0].sumOfSquares(scale)
}

// gather adds the gradient of another device to that of the first, and sets it to zero.
func (t *Trainer) gather(other *worker) error {
	if err := other.bound(other.stream.Synchronize); err != nil { // one that had no mini-batch may not have begun with zeros yet
		return err
	}
	first := t.workers[0]
	err := first.bound(func() error {
		for from := 0; from < first.n; from += partNumbers {
			numbers := min(partNumbers, first.n-from)
			part, theirs := cuda.Place{Context: first.context, At: first.part}, cuda.Place{Context: other.context, At: cuda.Offset[float32](other.gradient, from)}
			if err := first.stream.CopyAcross(part, theirs, 4*numbers); err != nil {
				return err
			}
			if err := first.kernels.AddNumbers(first.stream, cuda.Offset[float32](first.gradient, from), first.part, numbers); err != nil {
				return err
			}
		}
		return first.stream.Synchronize()
	})
	if err != nil {
		return err
	}
	return other.bound(other.clear)
}

// Move makes a step with the gradient, times scale, and sets it to zero.
func (t *Trainer) Move(m optimiser.Move, scale float64) error {
	first := t.workers[0]
	if err := first.move(m, scale); err != nil || len(t.workers) == 1 {
		return err
	}
	err := first.bound(func() error {
		for _, other := range t.workers[1:] {
			to, from := cuda.Place{Context: other.context, At: other.values}, cuda.Place{Context: first.context, At: first.values}
			if err := first.stream.CopyAcross(to, from, 4*first.n); err != nil {
				return err
			}
		}
		return first.stream.Synchronize()
	})
	for _, other := range t.workers[1:] {
		if err == nil {
			err = other.bound(other.store)
		}
	}
	return err
}

// Clear sets the gradients to zero.
func (t *Trainer) Clear() error {
	for _, w := range t.workers {
		if err := w.bound(w.clear); err != nil {
			return err
		}
	}
	return nil
}

// Fetch copies the vectors of a state that are not nil from the first device.
func (t *Trainer) Fetch(state optimiser.State) error { return t.workers[0].fetch(state) }

// Memory says what the last mini-batch of the first worker took of the device's memory, in bytes: what grows with its pieces, and what does
// not, for mini-batches that have so much room.
func (t *Trainer) Memory(room int) (growing, fixed int) { return t.workers[0].tape.uses(room) }

// Reserve takes memory for mini-batches on all devices.
func (t *Trainer) Reserve(bytes int) error {
	for _, w := range t.workers {
		err := w.bound(func() error { return w.tape.reserve(bytes) })
		if errors.Is(err, cuda.ErrOutOfMemory) {
			err = fmt.Errorf("%w: %w", network.ErrOutOfMemory, err)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Close gives the devices back.
func (t *Trainer) Close() error {
	var failures []error
	if t.translating != nil {
		failures = append(failures, withoutLost(t.translating.Close()))
	}
	for _, w := range t.workers {
		failures = append(failures, w.close())
	}
	return errors.Join(failures...)
}
