package train

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/sluice-mt/sluice/train/data"
	"github.com/sluice-mt/sluice/train/network"
	"github.com/sluice-mt/sluice/train/optimiser"
	"github.com/sluice-mt/sluice/translator"
	"github.com/sluice-mt/sluice/translator/marian"
	"github.com/sluice-mt/sluice/translator/model"
	"github.com/sluice-mt/sluice/translator/search"
)

// A Device computes losses, gradients and steps in the place of the processor. It has the parameters and what the optimiser keeps of them;
// the processor gets them for checkpoints, models and validation only. What it cannot validate, the processor does.
type Device interface {
	// Workers is how many mini-batches it can work on at the same time: how many devices it is.
	Workers() int
	// Fix leaves tables of embeddings as they are: they have no gradient.
	Fix(tables []*marian.Tensor)
	// Quantise lets what meets a matrix be rounded to 8 bits.
	Quantise()
	// Multiply says what is to compute products: what did before a checkpoint, unless the device was told otherwise. It is called before any work. It
	// returns what computes them, by a name that is empty for what gives the bits that all such devices give, and is kept in checkpoints.
	Multiply(before string) (now string, err error)
	// Put replaces what the device has by the vectors of a state that are not nil, and lets losses and gradients be those of other parameters than
	// the state's, if trained is not nil: of rounded ones.
	Put(state optimiser.State, trained []float32) error
	// Begin asks a worker for the loss of a batch, and to add its gradient to that of the worker, and need not wait for them. The seed decides about
	// dropout. The batch must stay as it is until Losses has returned its loss. Different workers may work at the same time.
	Begin(worker int, b *network.Batch, options network.Options, seed uint64) error
	// Losses returns the losses of a worker that were not returned before, in the order of their mini-batches.
	Losses(worker int) ([]network.Loss, error)
	// Memory says what the last mini-batch of the first worker took, in bytes: what grows with its pieces, and what does not, for mini-batches
	// that have so much room.
	Memory(room int) (growing, fixed int)
	// Reserve takes memory for mini-batches, on each worker. The error is network.ErrOutOfMemory if there is not so much.
	Reserve(bytes int) error
	// Squares adds up the gradients of the workers, in their order, and returns the sum of the squares of what that gives, times scale.
	Squares(scale float64) (float64, error)
	// Move makes a step with the gradient, times scale, and sets it to zero.
	Move(m optimiser.Move, scale float64) error
	// Clear sets all gradients to zero.
	Clear() error
	// Evaluate returns the losses of batches, unsmoothed and without those of alignments: of the parameters that are given, or of those that losses are
	// of if there are none. The error wraps network.ErrCannotValidate if the processor has to do it.
	Evaluate(batches []network.Batch, of []float32) ([]network.Loss, error)
	// Translate readies the device for translating with a model, in 8 bits if they are asked for, until release is called. The error wraps
	// network.ErrCannotValidate if the processor has to do it.
	Translate(m *model.Model, inBytes bool, suppress []search.Token) (d translator.Device, release func() error, err error)
	// Fetch copies the parameters and what the optimiser keeps into the vectors that are not nil.
	Fetch(optimiser.State) error
	Close() error
}

// An OpenDevice readies a device for a network, which begins with a state.
type OpenDevice func(*network.Network, optimiser.State) (Device, error)

// openDevice opens the device, if one is asked for.
func (r *run) openDevice() error {
	if r.open == nil {
		r.choosePrecision()
		return nil
	}
	var err error
	if r.device, err = r.open(r.network, r.optimiser.State()); err != nil {
		return err
	}
	r.device.Fix(r.config.fixed(r.network.Model))
	return r.chooseProducts()
}

// chooseProducts lets the device compute products as it did before the checkpoint, if it can and was not told otherwise.
func (r *run) chooseProducts() error {
	before := r.state.Products
	now, err := r.device.Multiply(before)
	if err != nil {
		return err
	}
	if r.saved >= 0 && now != before {
		r.logger.Warn("products are computed in another way than before the checkpoint: the model will be another than without the interruption",
			"before", productsName(before), "now", productsName(now))
	}
	r.state.Products = now
	return nil
}

// choosePrecision is chooseProducts for the processor, which computes products as it is told.
func (r *run) choosePrecision() {
	before, now := cmp.Or(r.state.Precision, precisionFloat32), r.config.Precision[0]
	if r.saved >= 0 && now != before {
		r.logger.Warn("products are computed in another precision than before the checkpoint: the model will be another than without the interruption",
			"before", before, "now", now)
	}
	r.state.Precision = now
	if now == precisionFloat32 {
		r.state.Precision = ""
	}
}

// productsName is what to say of what computes products.
func productsName(products string) string { return cmp.Or(products, "own kernels") }

// workers is how many mini-batches are worked on at the same time.
func (r *run) workers() int {
	if r.device != nil {
		return r.device.Workers()
	}
	return r.config.CPUThreads
}

// undone ends an update that the device has failed in before any parameter was moved. position is where the corpus was before it. If there
// was only too little memory, a checkpoint is written: nothing is lost.
func (r *run) undone(position data.Position, err error) error {
	r.state.Position = position
	err = fmt.Errorf("update %d: %w", r.state.Steps+1, err)
	choosing := errors.Is(err, network.ErrNoRoomToChoose)
	if !choosing && !errors.Is(err, network.ErrOutOfMemory) {
		return r.failed(err)
	}
	if failed := r.checkpoint(); failed != nil {
		return errors.Join(err, failed)
	}
	if choosing {
		return fmt.Errorf("%w; the same command goes on from here", err)
	}
	return fmt.Errorf("%w; %s (optimizer-delay makes an update of several mini-batches): the same command goes on from here", err, r.config.lessMemory())
}

// lessMemory says what makes mini-batches smaller.
func (c *Config) lessMemory() string {
	switch {
	case c.MiniBatchFit:
		return fmt.Sprintf("lower workspace, which is %d", c.Workspace)
	case c.MiniBatchWords > 0:
		return fmt.Sprintf("lower mini-batch-words, which is %d", c.MiniBatchWords)
	}
	return fmt.Sprintf("lower mini-batch, which is %d, or set mini-batch-words", c.MiniBatch)
}

// failed says where a run goes on whose device has failed.
func (r *run) failed(err error) error {
	if r.device == nil || err == nil {
		return err
	}
	if r.saved < 0 {
		return fmt.Errorf("%w; the same command begins anew: there is no checkpoint yet (save-freq)", err)
	}
	return fmt.Errorf("%w; the same command goes on from the checkpoint of update %d", err, r.saved)
}

// skip counts an update that cannot be made, and clears the gradients.
func (r *run) skip() error {
	if r.device == nil {
		r.optimiser.Skip(r.gradients)
		return nil
	}
	r.optimiser.Skip(nil)
	return r.device.Clear()
}

// squares returns the sum of the squares of the device's gradient, times scale, and has the losses, too, when it returns: so an update waits for the device
// once. It does nothing on the processor.
func (r *run) squares(scale float64) (square float64, err error) {
	if r.device == nil {
		return 0, nil
	}
	if square, err = r.device.Squares(scale); err != nil {
		return 0, err
	}
	for w := range r.mini {
		losses, err := r.device.Losses(w)
		if err != nil {
			return 0, err
		}
		copy(r.losses[w], losses)
	}
	return square, nil
}

// move makes an update, with the squares of the device's gradient. See optimiser.Optimiser.Step.
func (r *run) move(scale, square float64) (optimiser.Report, error) {
	if r.device == nil {
		return r.optimiser.Step(r.gradients, scale)
	}
	move, report, reason := r.optimiser.Decide(square)
	if reason != nil {
		if err := r.device.Clear(); err != nil {
			return report, err
		}
		return report, reason
	}
	r.moved = true
	return report, r.device.Move(move, scale)
}

// roundTrained makes the parameters that losses are of from those that were moved.
func (r *run) roundTrained() error {
	if r.config.quantisation() == nil {
		return nil
	}
	if r.device != nil {
		if err := r.device.Fetch(optimiser.State{Values: r.values}); err != nil {
			return err
		}
	}
	r.round(r.trained, r.values)
	return r.putTrained(optimiser.State{})
}

// putTrained tells the device, if there is one, of which parameters losses are, and of a state that has changed.
func (r *run) putTrained(changed optimiser.State) error {
	if r.device == nil || r.config.quantisation() == nil {
		return nil
	}
	return r.device.Put(changed, r.trained)
}

// fetch brings the parameters from the device, if it has others.
func (r *run) fetch() error {
	if !r.moved {
		return nil
	}
	if err := r.device.Fetch(r.optimiser.State()); err != nil {
		return r.failed(fmt.Errorf("the parameters could not be brought from the device: %w", err))
	}
	r.moved = false
	return nil
}
