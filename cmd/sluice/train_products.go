package main

import (
	"errors"
	"log/slog"
	"time"

	"github.com/sluice-mt/sluice/gpukernels"
	"github.com/sluice-mt/sluice/gpukernels/cuda"
	"github.com/sluice-mt/sluice/train"
	"github.com/sluice-mt/sluice/train/gpunetwork"
)

// trainingTuningTime is about how long a training measures products on a kind of GPU that has not seen their like.
const trainingTuningTime = 2 * time.Second

// newTrainingProducts reads the --gpu-products of a training.
func newTrainingProducts(name string, logger *slog.Logger) (p gpuProducts, err error) {
	p = gpuProducts{tuner: newTuner(logger), logger: logger}
	if p.way, err = gpukernels.ParseMultiplication(name); err != nil {
		err = usageErrorf("--gpu-products: %v", err)
	}
	return p, err
}

// A chosenTrainer remembers, when it is closed, what was measured on its GPUs.
type chosenTrainer struct {
	*gpunetwork.Trainer
	products *gpuProducts
	files    []*measurements[kindOfGPU, string] // of the workers; nil where nothing is measured
	known    []gpukernels.ProductTuning
}

// ofTraining lets the workers of a trainer, which are GPUs of these numbers, choose what multiplies.
func (p *gpuProducts) ofTraining(driver *cuda.Driver, numbers []int, trainer *gpunetwork.Trainer) (train.Device, error) {
	chosen := &chosenTrainer{trainer, p, make([]*measurements[kindOfGPU, string], len(numbers)), make([]gpukernels.ProductTuning, len(numbers))}
	for worker, number := range numbers {
		if err := chosen.choose(driver, worker, number); err != nil {
			return nil, errors.Join(err, trainer.Close())
		}
	}
	return chosen, nil
}

func (c *chosenTrainer) choose(driver *cuda.Driver, worker, number int) error {
	p := c.products
	used, err := p.useBLAS(func(library string) error { return c.UseBLAS(worker, library) })
	if !used {
		return err
	}
	if p.way == gpukernels.MeasuredProducts {
		properties, err := driver.Properties(number)
		if err != nil {
			return err
		}
		c.files[worker] = p.tuner.productsOfGPU("gpu-training", kindOfGPU{properties.String(), driver.Version().String(), c.BLAS(worker).Version().String()})
		c.known[worker] = c.files[worker].read()
	}
	err = c.ChooseProducts(worker, p.way, c.known[worker], trainingTuningTime)
	if p.way == gpukernels.MeasuredProducts && errors.Is(err, cuda.ErrOutOfMemory) {
		return nil // own kernels need no more
	}
	return err
}

// Close gives the GPUs back.
func (c *chosenTrainer) Close() error {
	for worker := range c.files {
		choices, measured := c.Products(worker)
		if measured {
			c.products.remember(c.files[worker], c.known[worker])
		}
		if choices.Kinds > 0 {
			c.products.logger.Debug("products of training", "kinds", choices.Kinds, "cublaslt", choices.ByLibrary, "refused", choices.Refused)
		}
	}
	return c.Trainer.Close()
}
