package main

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/sluice-mt/sluice/gpukernels/cuda"
	"github.com/sluice-mt/sluice/train"
	"github.com/sluice-mt/sluice/train/gpunetwork"
	"github.com/sluice-mt/sluice/train/network"
	"github.com/sluice-mt/sluice/train/optimiser"
)

// openDevice returns what opens the GPUs that --devices asks for, nil for the processor.
func (t *training) openDevice(logger *slog.Logger) (train.OpenDevice, error) {
	if len(t.devices) == 0 || len(t.devices) == 1 && t.devices[0] == "cpu" {
		return nil, nil
	}
	var numbers []int
	for _, word := range t.devices {
		number, ok := numberOfGPU(word)
		if !ok {
			return nil, usageErrorf("--devices %s: expected cpu, or numbers of GPUs, beginning with 0", strings.Join(t.devices, " "))
		}
		if slices.Contains(numbers, number) {
			return nil, usageErrorf("--devices names GPU %d twice", number)
		}
		numbers = append(numbers, number)
	}
	return func(n *network.Network, state optimiser.State) (train.Device, error) {
		driver, err := cuda.Open(os.Getenv(driverVariable))
		if err != nil {
			return nil, err
		}
		trainer, err := gpunetwork.Open(driver, numbers, n, state)
		if errors.Is(err, gpunetwork.ErrUnsupported) {
			return nil, usageError{fmt.Errorf("%w; --devices cpu trains it on the processor", err)}
		}
		if err != nil {
			return nil, err
		}
		for _, number := range numbers {
			if properties, err := driver.Properties(number); err == nil {
				logger.Info("training on GPU "+strconv.Itoa(number), "device", properties)
			}
		}
		return trainer, nil
	}, nil
}
