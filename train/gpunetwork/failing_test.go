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
		for _, nth := range []int{1, 2, 5, 14} {
			free := freeOn(t, driver)
			setEmulated(t, "fault", fmt.Sprintf("%s:%d:%d", call, nth, code), "")
			err := trainOnce(driver, n, state, batch, libraryFor(t, gpukernels.BFloat16))
			setEmulated(t, "fault", "", "")
			if err != nil {
				failed++
			}
			// Where the context cannot be bound, memory cannot be freed either: the driver does so when the device is given back.
			if left := freeOn(t, driver); left != free && call != "cuCtxSetCurrent" {
				t.Errorf("call %d of %s fails (%v), and %d bytes stay on the device", nth, call, err, free-left)
			}
		}
	}
	if failed < 2*len(calls) {
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

// freeOn is what is free on the first device.
func freeOn(t *testing.T, driver *cuda.Driver) uint64 {
	t.Helper()
	c, err := driver.Context(0)
	must(t, err)
	release, err := c.Bind()
	must(t, err)
	defer release()
	free, _, err := c.Memory()
	must(t, err)
	must(t, c.Close())
	return free
}
