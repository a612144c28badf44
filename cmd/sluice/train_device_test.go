//go:build linux && (amd64 || arm64) && !nogpu

package main

import (
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/sluice-mt/sluice/gpukernels/emulated"
)

// TestTrainDevicesScript trains on an emulated device. FLOAT16 is one with the kernels of other arithmetic, BOTH one with those for both, as a real
// one has them.
func TestTrainDevicesScript(t *testing.T) {
	kernels := emulated.Sources(t)
	library, float16 := emulated.LibraryOfBFloat16(t, emulated.Unwatched, kernels...), emulated.Library(t, emulated.Unwatched, kernels...)
	both := emulated.LibraryOfBoth(t, emulated.Unwatched, kernels...)
	testscript.Run(t, testscript.Params{
		Dir:  "testdata/gpu/train",
		Cmds: scriptCommands(),
		Setup: func(env *testscript.Env) error {
			env.Setenv(driverVariable, library)
			env.Setenv("FLOAT16", float16)
			env.Setenv("BOTH", both)
			return nil
		},
	})
}
