//go:build linux && (amd64 || arm64) && !nogpu

package main

import (
	"fmt"
	"testing"
	"time"

	"github.com/sluice-mt/sluice/gpukernels/emulated"
)

// Whichever call of the driver fails while loads are measured: that is an error at most, and nothing stays on the device.
func TestAnyCallFailsInLoads(t *testing.T) {
	if testing.Short() {
		t.Skip("many loads on an emulated device")
	}
	for name, scores := range map[string]int{"translations": 0, "scores": 50} {
		t.Run(name, func(t *testing.T) {
			trial := toyTrial(t)
			trial.scores = scores
			set := emulated.Setting(t, emulated.Library(t, emulated.Unwatched, emulated.Sources(t)...))
			t.Cleanup(func() { set("fault", "") })
			free := func() uint64 {
				context, err := trial.gpu.driver.Context(0)
				if err != nil {
					t.Fatal(err)
				}
				defer context.Close()
				release, err := context.Bind()
				if err != nil {
					t.Fatal(err)
				}
				defer release()
				free, _, err := context.Memory()
				if err != nil {
					t.Fatal(err)
				}
				return free
			}
			if rate, err := trial.rate(t.Context(), gpuLoad{2, 12}, time.Millisecond); err != nil || rate == 0 {
				t.Fatal(rate, err)
			}
			failed, calls := 0, emulated.FailingCalls()
			for call, code := range calls {
				for _, nth := range []int{3, 21} { // each second cuCtxSetCurrent unbinds
					before := free()
					set("fault", fmt.Sprintf("%s:%d:%d", call, nth, code))
					rate, err := trial.rate(t.Context(), gpuLoad{2, 12}, time.Millisecond)
					set("fault", "")
					if err != nil {
						failed++
					}
					// Where the context cannot be bound, memory cannot be freed either: the driver does so when the device is given back.
					if left := free(); left != before && call != "cuCtxSetCurrent" {
						t.Errorf("call %d of %s fails (%v, %v), and %d bytes stay on the device", nth, call, rate, err, before-left)
					}
					if err == nil && !emulated.Dispensable(call) {
						break // it is not made so often
					}
				}
			}
			if failed < len(calls)/3 {
				t.Errorf("%d loads failed, of %d calls", failed, len(calls))
			}
		})
	}
}
