package main

import (
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

// trainingGPUs reads the --devices of a training: numbers of GPUs, none for the processor.
func trainingGPUs(words []string) (numbers []int, err error) {
	if len(words) == 1 && words[0] == "cpu" {
		return nil, nil
	}
	for _, word := range words {
		number, ok := numberOfGPU(word)
		if !ok {
			return nil, usageErrorf("--devices %s: expected cpu, or numbers of GPUs, beginning with 0", strings.Join(words, " "))
		}
		if slices.Contains(numbers, number) {
			return nil, usageErrorf("--devices names GPU %d twice", number)
		}
		numbers = append(numbers, number)
	}
	return numbers, nil
}

// checkGPUs says at once which of the GPUs for a long work is not there.
func checkGPUs(numbers []int) error {
	if len(numbers) == 0 {
		return nil
	}
	driver, err := cuda.Open(os.Getenv(driverVariable))
	if err != nil {
		return err
	}
	for _, number := range numbers {
		if _, err := driver.Properties(number); err != nil {
			return fmt.Errorf("GPU %d: %w", number, err)
		}
	}
	return nil
}

// openTrainer returns what opens GPUs for a training, nil for the processor if there are none.
func openTrainer(numbers []int, logger *slog.Logger) train.OpenDevice {
	if len(numbers) == 0 {
		return nil
	}
	return func(n *network.Network, state optimiser.State) (train.Device, error) {
		driver, err := cuda.Open(os.Getenv(driverVariable))
		if err != nil {
			return nil, err
		}
		trainer, err := gpunetwork.Open(driver, numbers, n, state)
		if err != nil {
			return nil, err
		}
		for _, number := range numbers {
			if properties, err := driver.Properties(number); err == nil {
				logger.Info("training on GPU "+strconv.Itoa(number), "device", properties)
			}
		}
		return trainer, nil
	}
}
