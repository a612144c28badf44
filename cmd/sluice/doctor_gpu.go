package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/sluice-mt/sluice/gpukernels/cuda"
	"github.com/sluice-mt/sluice/translator/gpumodel"
)

// gpus looks for NVIDIA's driver and at what it shows. That there is none is nothing to complain of: the processor translates.
func (e *examination) gpus(library string) {
	driver, err := cuda.Open(library)
	switch {
	case errors.Is(err, cuda.ErrOutdated):
		e.warn("GPU", reasonOf(err), "install a newer driver, or translate on the CPU")
		return
	case err != nil:
		e.skip("GPU", "%s", reasonOf(err))
		return
	}
	n, err := driver.Devices()
	if err != nil {
		e.warn("GPU", reasonOf(err), "nvidia-smi tells more")
		return
	}
	for number := range n {
		name := (&gpu{number: number}).name()
		device, err := gpumodel.Open(driver, number)
		if err != nil {
			e.warn(name, reasonOf(err), "leave it out of --devices")
			continue
		}
		e.ok(name, "%v, driver for CUDA %v: --devices %d uses it", device.Properties(), driver.Version(), number)
		e.blas(name, device)
		device.Close()
	}
}

// blas looks for cuBLASLt, without which own kernels multiply.
func (e *examination) blas(name string, device *gpumodel.Device) {
	if err := device.UseBLAS(os.Getenv(blasVariable)); err != nil {
		e.skip(name+", cuBLASLt", "own kernels multiply: %s", reasonOf(err))
		return
	}
	e.ok(name+", cuBLASLt", "%v: used where it is faster and gives the same bits (--gpu-products)", device.BLAS())
}

// gpusInUse tells how GPUs that were asked for are kept busy with a model.
func (e *examination) gpusInUse(options *jobOptions, parts *engineParts) {
	using := parts.gpusInUse()
	for _, g := range using {
		e.ok(g.Name+", model", "streams: %d, slots of each: %d, products by %s", g.Streams, g.Slots, g.Products)
	}
	if len(using) > 0 {
		_, pinned, most := parts.models.gpus[0].driver.Pinned()
		limit := "without a limit"
		if most > 0 {
			limit = fmt.Sprintf("of %d MiB at most", most>>20)
		}
		e.ok("memory for GPUs", "%.1f MiB of this machine's memory were kept from being paged out for them, %s", float64(pinned)/(1<<20), limit)
	}
	choice, err := options.model.chooseDevices(options.batch.threads)
	if err == nil && choice.wanted() && len(using) == 0 {
		e.warn("devices", "none of the GPUs can be used for the model: the processor translates", "see what is said of GPUs above, or leave devices out")
	}
}
