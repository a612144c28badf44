//go:build linux && (amd64 || arm64) && !nogpu

package main

import (
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/sluice-mt/sluice/gpukernels/emulated"
)

// TestTrainDevicesScript trains on an emulated device.
func TestTrainDevicesScript(t *testing.T) {
	library := emulated.LibraryOfBFloat16(t, emulated.Unwatched, emulated.Sources(t)...)
	testscript.Run(t, testscript.Params{
		Dir:  "testdata/gpu/train",
		Cmds: scriptCommands(),
		Setup: func(env *testscript.Env) error {
			env.Setenv(driverVariable, library)
			return nil
		},
	})
}
