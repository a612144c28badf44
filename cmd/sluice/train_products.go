package main

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/sluice-mt/sluice/gpukernels"
	"github.com/sluice-mt/sluice/gpukernels/cuda"
	"github.com/sluice-mt/sluice/train/gpunetwork"
)

// trainingTuningTime is about how long a training measures products on a kind of GPU that has not seen their like.
const trainingTuningTime = 2 * time.Second

// newTrainingProducts reads the --gpu-products of a training that demands no GPU.
func newTrainingProducts(name string, logger *slog.Logger) (p gpuProducts, err error) {
	p = gpuProducts{wish: true, tuner: newTuner(logger), logger: logger}
	if p.way, err = gpukernels.ParseMultiplication(name); err != nil {
		err = usageErrorf("--gpu-products: %v", err)
	}
	return p, err
}

// A chosenTrainer remembers, when it is closed, what was measured on its GPUs.
type chosenTrainer struct {
	*gpunetwork.Trainer
	driver   *cuda.Driver
	products gpuProducts
	demanded bool                               // of the products: a checkpoint's do not count
	files    []*measurements[kindOfGPU, string] // of the workers; nil where nothing is measured
	known    []gpukernels.ProductTuning
}

// Multiply lets the workers choose what multiplies: as it was before a checkpoint, unless something was demanded. It returns what multiplies with
// other bits than own kernels, and nothing if nothing does.
func (c *chosenTrainer) Multiply(before string) (now string, err error) {
	p := &c.products
	if !c.demanded && strings.HasPrefix(before, gpukernels.LibraryProducts.String()) {
		p.way, p.wish = gpukernels.LibraryProducts, true
	}
	c.files, c.known = make([]*measurements[kindOfGPU, string], c.Workers()), make([]gpukernels.ProductTuning, c.Workers())
	for worker, number := range c.Numbers() {
		if err := c.choose(c.driver, worker, number); err != nil {
			return "", err
		}
	}
	if blas := c.BLAS(0); blas != nil && p.way == gpukernels.LibraryProducts {
		now = fmt.Sprintf("%v %v", p.way, blas.Version())
	}
	return now, nil
}

func (c *chosenTrainer) choose(driver *cuda.Driver, worker, number int) error {
	p := &c.products
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
