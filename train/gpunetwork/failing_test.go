//go:build linux && (amd64 || arm64) && !nogpu

package gpunetwork

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/sluice-mt/sluice/gpukernels"
	"github.com/sluice-mt/sluice/gpukernels/cuda"
	"github.com/sluice-mt/sluice/gpukernels/emulated"
	"github.com/sluice-mt/sluice/train/network"
	"github.com/sluice-mt/sluice/train/optimiser"
)

// Whichever call of the driver fails, and when it does: that is an error at most, and nothing stays on the device.
func TestAnyCallFails(t *testing.T) {
	driver := openDriver(t, gpukernels.BFloat16)
	n := newNetwork(t, student(""))
	state, batch := initial(n), randomBatch(1, [2]int{3, 4})
	failed, calls := 0, emulated.FailingCalls()
	for call, code := range calls {
		for _, nth := range []int{1, 5, 15} { // each second cuCtxSetCurrent unbinds
			free := freeOn(t, driver, 0)
			setEmulated(t, "fault", fmt.Sprintf("%s:%d:%d", call, nth, code), "")
			err := trainOnce(driver, n, state, batch, libraryFor(t, gpukernels.BFloat16))
			setEmulated(t, "fault", "", "")
			if err != nil {
				failed++
			}
			// Where the context cannot be bound, memory cannot be freed either: the driver does so when the device is given back.
			if left := freeOn(t, driver, 0); left != free && call != "cuCtxSetCurrent" {
				t.Errorf("call %d of %s fails (%v), and %d bytes stay on the device", nth, call, err, free-left)
			}
			if err == nil && !emulated.Dispensable(call) {
				break // it is not made so often
			}
		}
	}
	if failed < len(calls) {
		t.Errorf("%d trainings failed, of %d calls", failed, len(calls))
	}
}

// trainOnce is a training with one mini-batch.
func trainOnce(driver *cuda.Driver, n *network.Network, state optimiser.State, batch *network.Batch, library string) (err error) {
	gpu, err := open(driver, []int{0}, n, state, gpukernels.BFloat16)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, gpu.Close()) }()
	if err := gpu.UseBLAS(0, library); err != nil {
		return err
	}
	if err := gpu.ChooseProducts(0, gpukernels.MeasuredProducts, gpukernels.ProductTuning{}, time.Second); err != nil {
		return err
	}
	_, err = gpu.Train(0, batch, network.Options{}, 1)
	return err
}

// freeOn is what is free on a device.
func freeOn(t *testing.T, driver *cuda.Driver, device int) uint64 {
	t.Helper()
	c, err := driver.Context(device)
	must(t, err)
	release, err := c.Bind()
	must(t, err)
	defer release()
	free, _, err := c.Memory()
	must(t, err)
	must(t, c.Close())
	return free
}

// The same with two devices, which are measured, have rounded parameters beside the others, make a step and validate.
func TestAnyCallFailsOnSeveral(t *testing.T) {
	setEmulated(t, "devices", "2", "1")
	driver := openDriver(t, gpukernels.BFloat16)
	n := newNetwork(t, student(""))
	state, batch := initial(n), randomBatch(1, [2]int{3, 4})
	must(t, trainOnTwo(driver, n, state, batch))
	failed, calls := 0, emulated.FailingCalls()
	for call, code := range calls {
		for _, nth := range []int{3, 21} {
			before := [2]uint64{freeOn(t, driver, 0), freeOn(t, driver, 1)}
			setEmulated(t, "fault", fmt.Sprintf("%s:%d:%d", call, nth, code), "")
			err := trainOnTwo(driver, n, state, batch)
			setEmulated(t, "fault", "", "")
			if err != nil {
				failed++
			}
			if after := [2]uint64{freeOn(t, driver, 0), freeOn(t, driver, 1)}; after != before && call != "cuCtxSetCurrent" {
				t.Errorf("call %d of %s fails (%v): %v, %v", nth, call, err, before, after)
			}
			if err == nil && !emulated.Dispensable(call) {
				break
			}
		}
	}
	if failed < len(calls)/2 {
		t.Errorf("%d trainings failed, of %d calls", failed, len(calls))
	}
}

// trainOnTwo is an update by two devices, of which the first has two mini-batches, and validation.
func trainOnTwo(driver *cuda.Driver, n *network.Network, state optimiser.State, batch *network.Batch) (err error) {
	gpu, err := open(driver, []int{0, 1}, n, state, gpukernels.BFloat16)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, gpu.Close()) }()
	train := func(worker int) func() error {
		return func() error {
			_, err := gpu.Train(worker, batch, network.Options{}, 1)
			return err
		}
	}
	times := func() error {
		_, err := gpu.Times(1)
		return err
	}
	for _, work := range []func() error{
		gpu.Measure,
		func() error { return gpu.Put(optimiser.State{}, state.Values) },
		func() error { return gpu.Reserve(1 << 16) },
		train(0), train(1), train(0),
		func() error { _, err := gpu.Squares(1); return err },
		func() error {
			return gpu.Move(optimiser.Move{Clip: 1, Rate: 1e-3, Beta1: 0.9, Beta2: 0.98, Epsilon: 1e-9, Root: 1}, 1)
		},
		times,
		func() error { _, err := gpu.Evaluate([]network.Batch{*batch, *batch}, state.Values); return err },
	} {
		if err := work(); err != nil {
			return err
		}
	}
	return nil
}
