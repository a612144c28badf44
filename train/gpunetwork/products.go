package gpunetwork

import (
	"time"

	"github.com/sluice-mt/sluice/gpukernels"
	"github.com/sluice-mt/sluice/gpukernels/cuda"
)

// Multiply leaves products to own kernels, whatever computed them before a checkpoint. It returns what gives other bits than these do: nothing.
func (t *Trainer) Multiply(string) (now string, err error) { return "", nil }

// UseBLAS opens NVIDIA's library cuBLASLt for a worker's device, by default the one that the driver can run. The error is cuda.ErrNoBLAS or
// cuda.ErrBLASOutdated where there is none that can be used: the worker goes on without it.
func (t *Trainer) UseBLAS(worker int, library string) error {
	w := t.workers[worker]
	return w.bound(func() (err error) {
		w.blas, err = w.context.OpenBLAS(library)
		return err
	})
}

// BLAS returns the library that was opened for a worker's device, nil if none was.
func (t *Trainer) BLAS(worker int) *cuda.BLAS { return t.workers[worker].blas }

// ChooseProducts lets a worker choose how its products are computed, with the library that was opened, at the first one of each kind. What it measures
// it adds to what is known, for about as long as is given. The worker must not have trained yet.
func (t *Trainer) ChooseProducts(worker int, way gpukernels.Multiplication, known gpukernels.ProductTuning, d time.Duration) error {
	w := t.workers[worker]
	return w.bound(func() (err error) {
		if w.chooser, err = gpukernels.NewTrainingChooser(w.context, w.kernels, w.blas, way, known, d); err != nil {
			return err
		}
		return w.kernels.ChooseBy(w.chooser)
	})
}

// Products says what computes a worker's products, and whether something was measured. The worker must not be training.
func (t *Trainer) Products(worker int) (choices gpukernels.Choices, measured bool) {
	w := t.workers[worker]
	return w.kernels.Choices(), w.chooser != nil && w.chooser.Changed()
}
