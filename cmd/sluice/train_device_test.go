//go:build linux && (amd64 || arm64) && !nogpu

package main

import (
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/sluice-mt/sluice/gpukernels/emulated"
)

// TestTrainDevicesScript trains on an emulated device.
func TestTrainDevicesScript(t *testing.T) {
	kernels, err := filepath.Glob(filepath.Join(emulated.SourceFolder(), "*.cu"))
	if err != nil {
		t.Fatal(err)
	}
	library := emulated.LibraryOfBFloat16(t, kernels...)
	testscript.Run(t, testscript.Params{
		Dir:  "testdata/gpu/train",
		Cmds: scriptCommands(),
		Setup: func(env *testscript.Env) error {
			env.Setenv(driverVariable, library)
			return nil
		},
	})
}
