package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"

	"github.com/sluice-mt/sluice/gpukernels"
	"github.com/sluice-mt/sluice/gpukernels/cuda"
	"github.com/sluice-mt/sluice/translator/gpumodel"
)

// gpuProductsUsage describes --gpu-products.
const gpuProductsUsage = "what multiplies matrices on GPUs: measured (own kernels, or cuBLASLt where it is there, faster and gives the same bits), own, cublaslt (demanded; other bits)"

// blasVariable names the library cuBLASLt where it is not the one that the system finds.
const blasVariable = "SLUICE_CUBLASLT_LIBRARY"

// gpuTuningVersion changes with the own kernels, of which old measurements say nothing, and with how they are compared with cuBLASLt.
const gpuTuningVersion = 2

// A gpuProducts is how products on GPUs are computed: --gpu-products.
type gpuProducts struct {
	way    gpukernels.Multiplication
	wish   bool   // own kernels multiply where cuBLASLt is to and is not there
	tuner  *tuner // nil: nothing is measured
	logger *slog.Logger
}

// tune readies a GPU for cuBLASLt, if it is to be used. What is returned says how models are to be multiplied, and is told afterwards that
// they have been loaded.
func (p *gpuProducts) tune(driver *cuda.Driver, device *gpumodel.Device) (tuning *gpumodel.Tuning, loaded func(), err error) {
	nothing := func() {}
	if used, err := p.useBLAS(device.UseBLAS); !used {
		return nil, nothing, err
	}
	if p.way == gpukernels.LibraryProducts {
		return &gpumodel.Tuning{Way: p.way}, nothing, nil
	}
	file := p.tuner.ofGPU(driver, device)
	tuning = &gpumodel.Tuning{Way: p.way, Known: file.read(), Time: tuningTime}
	return tuning, func() {
		if tuning.Changed {
			p.remember(file, tuning.Known)
		}
	}, nil
}

// useBLAS opens cuBLASLt on a device, if it is to be used, and says whether it is there.
func (p *gpuProducts) useBLAS(open func(library string) error) (bool, error) {
	if p.way == gpukernels.OwnProducts || p.way == gpukernels.MeasuredProducts && p.tuner == nil {
		return false, nil
	}
	err := open(os.Getenv(blasVariable))
	if err == nil {
		return true, nil
	}
	asked := p.way == gpukernels.LibraryProducts
	if asked && !p.wish {
		return false, fmt.Errorf("--gpu-products %v: %w", p.way, err)
	}
	level := slog.LevelDebug // nobody asked for it
	if asked || os.Getenv(blasVariable) != "" {
		level = slog.LevelWarn
	}
	p.logger.Log(context.Background(), level, "products are computed without cuBLASLt", "reason", err)
	return false, nil
}

// remember writes down what was measured.
func (p *gpuProducts) remember(file *measurements[kindOfGPU, string], known gpukernels.ProductTuning) {
	if err := file.write(func() map[string]string { return known }); err != nil {
		p.logger.Debug("how products on GPUs are fastest is not remembered", "error", err)
	}
}

// ofArithmetic leaves products that are not of 16 bits to own kernels, unless cuBLASLt was asked for.
func ofArithmetic(way gpukernels.Multiplication, as gpukernels.Arithmetic) (gpukernels.Multiplication, error) {
	switch {
	case as.Products == gpukernels.Stored:
		return way, nil
	case way == gpukernels.LibraryProducts:
		return way, usageErrorf("--gpu-products %v multiplies in 16 bits: not with --precision %v", way, as.Products)
	}
	return gpukernels.OwnProducts, nil
}

// arithmeticOfGPUs names what the models are computed with on GPUs. Products that only one version of cuBLASLt gives are named by it.
func (e *ensemble) arithmeticOfGPUs() string {
	if e.products.way != gpukernels.LibraryProducts {
		return e.onGPU.String()
	}
	return fmt.Sprintf("%v by cuBLASLt %v", e.onGPU, e.gpus[0].device.BLAS().Version())
}

// A blasTimer measures cuBLASLt beside own kernels. Nil measures nothing.
type blasTimer struct {
	blas    *cuda.BLAS
	chooser *gpukernels.Chooser
}

// newBLASTimer returns nil if there is no library, and takes the Chooser that choose makes if there is one.
func newBLASTimer(c *cuda.Context, choose func(*cuda.BLAS) (*gpukernels.Chooser, error)) (*blasTimer, error) {
	blas, err := c.OpenBLAS(os.Getenv(blasVariable))
	if err != nil {
		return nil, nil
	}
	chooser, err := choose(blas)
	if err != nil {
		return nil, errors.Join(err, blas.Close())
	}
	return &blasTimer{blas, chooser}, nil
}

// time fills in what cuBLASLt takes for a product.
func (t *blasTimer) time(p productShape, row *kernelRow) error {
	return t.timeKind(gpukernels.ProductKind{N: p.n, K: p.k}, p.m, row)
}

// timeKind fills in what cuBLASLt takes for a kind of product with so many rows.
func (t *blasTimer) timeKind(kind gpukernels.ProductKind, rows int, row *kernelRow) error {
	if t == nil {
		return nil
	}
	times, err := t.chooser.Times(kind, rows)
	row.Beside = 1e6 * times.Own.Seconds()
	row.SameBits, row.Library = 1e6*times.SameBits.Seconds(), 1e6*times.Library.Seconds()
	return err
}

func (t *blasTimer) close() error {
	if t == nil {
		return nil
	}
	return errors.Join(t.chooser.Close(), t.blas.Close())
}

// microsecondsOrDash writes microseconds, and a dash for none.
func microsecondsOrDash(microseconds float64) string {
	if microseconds == 0 {
		return "-"
	}
	return fmt.Sprintf("%.1f", microseconds)
}

// kindOfGPU is what the speed of products depends on.
type kindOfGPU struct {
	Device  string `json:"device"`
	Driver  string `json:"driver"`
	Library string `json:"cublaslt"`
}

// ofGPU returns the file for the products of a GPU, beside that for the processor.
func (t *tuner) ofGPU(driver *cuda.Driver, device *gpumodel.Device) *measurements[kindOfGPU, string] {
	return t.productsOfGPU("gpu", kindOfGPU{device.Properties().String(), driver.Version().String(), device.BLAS().Version().String()})
}

// productsOfGPU returns the file of a name for products on a kind of GPU.
func (t *tuner) productsOfGPU(name string, kind kindOfGPU) *measurements[kindOfGPU, string] {
	return &measurements[kindOfGPU, string]{t.fileOf(name, kind), gpuTuningVersion, kind}
}
