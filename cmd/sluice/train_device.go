package main

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strconv"

	"github.com/sluice-mt/sluice/gpukernels/cuda"
	"github.com/sluice-mt/sluice/train"
	"github.com/sluice-mt/sluice/train/gpunetwork"
	"github.com/sluice-mt/sluice/train/network"
	"github.com/sluice-mt/sluice/train/optimiser"
)

// openDevice returns what opens the GPU that --devices asks for, nil for the processor.
func (t *training) openDevice(logger *slog.Logger) (train.OpenDevice, error) {
	if t.devices == "cpu" {
		return nil, nil
	}
	number, ok := numberOfGPU(t.devices)
	if !ok {
		return nil, usageErrorf("--devices %s: expected cpu, or the number of one GPU, beginning with 0", t.devices)
	}
	return func(n *network.Network, state optimiser.State) (train.Device, error) {
		driver, err := cuda.Open(os.Getenv(driverVariable))
		if err != nil {
			return nil, err
		}
		properties, err := driver.Properties(number)
		if err != nil {
			return nil, fmt.Errorf("GPU %d: %w", number, err)
		}
		device, err := gpunetwork.Open(driver, number, n, state)
		if errors.Is(err, gpunetwork.ErrUnsupported) {
			return nil, usageError{fmt.Errorf("%w; --devices cpu trains it on the processor", err)}
		}
		if err != nil {
			return nil, fmt.Errorf("GPU %d: %w", number, err)
		}
		logger.Info("training on GPU "+strconv.Itoa(number), "device", properties)
		return device, nil
	}, nil
}
