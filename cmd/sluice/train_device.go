package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"time"

	"github.com/sluice-mt/sluice/gpukernels"
	"github.com/sluice-mt/sluice/gpukernels/cuda"
	"github.com/sluice-mt/sluice/train"
	"github.com/sluice-mt/sluice/train/gpunetwork"
	"github.com/sluice-mt/sluice/train/network"
	"github.com/sluice-mt/sluice/train/optimiser"
)

// trainingGPUs are the GPUs that train; none for the processor.
type trainingGPUs struct {
	numbers  []int
	demanded bool // what they cannot train is an error; otherwise the processor trains it
	some     bool // those that have no memory for the model are left out
	products gpuProducts
	said     bool          // the products are demanded, whatever a checkpoint says
	grace    time.Duration // after a signal: see boundGPUs
}

// trainingGrace is how long what is in flight may take on GPUs by default: an update, validation, a checkpoint.
const trainingGrace = 2 * time.Minute

const trainingGraceUsage = "how long what is in flight may take on GPUs after a signal, before the process ends at once (0: as long as it takes)"

func checkTrainingGrace(grace time.Duration) error {
	if grace < 0 {
		return usageErrorf("--grace-period %v: at least 0, which waits as long as it takes", grace)
	}
	return nil
}

// boundGPUs is endAfter for work on GPUs, which may hang. The processor does not, and a training on it is waited for. A grace period of 0 waits, too.
func boundGPUs(ctx context.Context, wanted bool, grace time.Duration) (callOff func()) {
	if !wanted || grace == 0 {
		return func() {}
	}
	return endAfter(ctx, grace)
}

// findTrainingGPUs reads the --devices of a training. It looks for the GPUs where all or auto ask for them, and a warning says why auto has none, or
// why one of them is left out.
func findTrainingGPUs(words []string, logger *slog.Logger) (trainingGPUs, error) {
	choice, err := readDevices(words, "each has one worker")
	if err != nil || !choice.all {
		return trainingGPUs{numbers: choice.numbers, demanded: choice.demanded}, err
	}
	numbers, err := gpusThatTrain(logger)
	if err == nil {
		return trainingGPUs{numbers: numbers, demanded: choice.demanded, some: true}, nil
	}
	if choice.demanded {
		return trainingGPUs{}, demandedError(err)
	}
	logger.Warn("training on the CPU", "reason", err)
	return trainingGPUs{}, nil
}

// gpusThatTrain returns the GPUs that the driver shows and that can train, and warns of those that cannot. It is an error if there are none.
func gpusThatTrain(logger *slog.Logger) (numbers []int, err error) {
	driver, err := openDriver()
	if err != nil {
		return nil, err
	}
	n, err := driver.Devices()
	if err != nil {
		return nil, err
	}
	var failed []error
	for number := range n {
		properties, err := driver.Properties(number)
		if err == nil {
			err = gpukernels.Arithmetic{Stored: gpukernels.BFloat16}.Check(driver, properties)
		}
		if err != nil {
			failed = append(failed, fmt.Errorf("GPU %d: %w", number, err))
			continue
		}
		numbers = append(numbers, number)
	}
	if len(numbers) == 0 {
		return nil, errors.Join(failed...)
	}
	warnOfLeftOut(failed, logger)
	return numbers, nil
}

// train trains a model. What GPUs that are not demanded cannot train, or have no memory for, the processor trains.
func (g trainingGPUs) train(ctx context.Context, config train.Config, logger *slog.Logger) (train.Result, error) {
	if len(g.numbers) > 0 {
		callOff := boundGPUs(ctx, true, g.grace)
		result, err := train.RunOn(ctx, config, g.opener(logger), logger)
		callOff()
		if g.demanded || !errors.Is(err, network.ErrUnsupported) && !errors.Is(err, network.ErrNoRoom) {
			return result, err
		}
		logger.Warn("training on the CPU", "reason", err)
	}
	return train.Run(ctx, config, logger)
}

// checkGPUs says at once which of the GPUs for a long work is not there.
func checkGPUs(numbers []int) error {
	if len(numbers) == 0 {
		return nil
	}
	driver, err := openDriver()
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

// opener returns what opens the GPUs for a training.
func (g trainingGPUs) opener(logger *slog.Logger) train.OpenDevice {
	return func(n *network.Network, state optimiser.State) (train.Device, error) {
		driver, err := openDriver()
		if err != nil {
			return nil, err
		}
		trainer, err := g.open(driver, n, state, logger)
		if err != nil {
			return nil, err
		}
		for _, number := range trainer.Numbers() {
			if properties, err := driver.Properties(number); err == nil {
				logger.Info("training on GPU "+strconv.Itoa(number), "device", properties)
			}
		}
		return &chosenTrainer{Trainer: trainer, driver: driver, products: g.products, demanded: g.said}, nil
	}
}

// open opens all GPUs, or those that have memory for the model.
func (g trainingGPUs) open(driver *cuda.Driver, n *network.Network, state optimiser.State, logger *slog.Logger) (*gpunetwork.Trainer, error) {
	if !g.some {
		return gpunetwork.Open(driver, g.numbers, n, state)
	}
	trainer, leftOut, err := gpunetwork.OpenSome(driver, g.numbers, n, state)
	warnOfLeftOut(leftOut, logger)
	return trainer, err
}
