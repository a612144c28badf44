//go:build linux && (amd64 || arm64) && !nogpu

package main

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/spf13/pflag"

	"github.com/sluice-mt/sluice/gpukernels"
	"github.com/sluice-mt/sluice/gpukernels/emulated"
	"github.com/sluice-mt/sluice/internal/sharedtest"
)

// TestDevicesScript runs the command lines in testdata/gpu on an emulated device.
func TestDevicesScript(t *testing.T) {
	if testing.Short() {
		t.Skip("a whole model on an emulated device")
	}
	kernels := emulated.Sources(t)
	library := emulated.Library(t, emulated.Unwatched, kernels...)
	overflows := t.TempDir()
	overflowModel(t, filepath.Join(sharedtest.Root(), "models", "ende-tiny"), overflows)
	testscript.Run(t, testscript.Params{
		Dir:  "testdata/gpu",
		Cmds: scriptCommands(),
		Setup: func(env *testscript.Env) error {
			env.Setenv("MODEL", filepath.Join(sharedtest.Root(), "models", "ende-tiny"))
			env.Setenv("OVERFLOW", overflows)
			env.Setenv("SLUICE_TUNE_KERNELS", "false") // faults are counted from the start
			env.Setenv(driverVariable, library)
			return nil
		},
	})
	bfloat16 := emulated.LibraryOfBFloat16(t, emulated.Unwatched, kernels...)
	testscript.Run(t, testscript.Params{
		Dir:  "testdata/gpu/bfloat16",
		Cmds: scriptCommands(),
		Setup: func(env *testscript.Env) error {
			env.Setenv("OVERFLOW", overflows)
			env.Setenv(driverVariable, bfloat16)
			return nil
		},
	})
}

// What the words of --devices ask for, where they are said, and with --cpu-threads.
func TestChooseDevices(t *testing.T) {
	said := map[string]bool{"devices": true}
	for _, c := range []struct {
		words   string
		threads int
		outside map[string]bool
		want    deviceChoice
		problem string
	}{
		{"", 0, nil, deviceChoice{}, ""},
		{"cpu", 3, said, deviceChoice{}, ""},
		{"0", 0, said, deviceChoice{numbers: []int{0}, demanded: true}, ""},
		{"gpu:0 2", 0, said, deviceChoice{numbers: []int{0, 2}, demanded: true}, ""},
		{"all", 0, said, deviceChoice{all: true, demanded: true}, ""},
		{"auto", 0, said, deviceChoice{all: true}, ""},
		{"auto", 0, nil, deviceChoice{all: true}, ""},
		{"0", 0, nil, deviceChoice{}, ""},                                   // as Marian writes it into every file
		{"1 0", 4, nil, deviceChoice{}, ""},                                 // --cpu-threads comes first
		{"0", 4, said, deviceChoice{numbers: []int{0}, demanded: true}, ""}, // said where it counts more
		{"gpu:0", 0, nil, deviceChoice{numbers: []int{0}}, ""},
		{"0 1", 0, nil, deviceChoice{numbers: []int{0, 1}}, ""},
		{"0", 4, map[string]bool{"devices": true, "cpu-threads": true}, deviceChoice{}, "choose the GPU or the CPU"},
		{"0 0", 0, said, deviceChoice{}, "twice"},
		{"-1", 0, said, deviceChoice{}, "expected cpu"},
		{"0 auto", 0, said, deviceChoice{}, "expected cpu"},
		{"cuda", 0, said, deviceChoice{}, "expected cpu"},
	} {
		f := modelFlags{devices: strings.Fields(c.words), outside: c.outside}
		have, err := f.chooseDevices(c.threads)
		if c.problem != "" {
			if err == nil || !strings.Contains(err.Error(), c.problem) {
				t.Errorf("%q: %v", c.words, err)
			}
			continue
		}
		if err != nil || !slices.Equal(have.numbers, c.want.numbers) || have.all != c.want.all || have.demanded != c.want.demanded {
			t.Errorf("%q with %d threads, said %v: %+v, %v", c.words, c.threads, c.outside, have, err)
		}
	}
}

// Marian's command line has its devices one behind the other.
func TestDevicesOnTheCommandLine(t *testing.T) {
	command := newTranslateCommand(beginEngine)
	flags := command.Flags()
	if err := flags.Parse(marianArguments(strings.Fields("-d 0 gpu:1 3 corpus.en"), flags, translateLists())); err != nil {
		t.Fatal(err)
	}
	nameDevices(flags, changedFlags(flags))
	if have := flags.Lookup("devices").Value.(pflag.SliceValue).GetSlice(); !slices.Equal(have, []string{"gpu:0", "gpu:1", "gpu:3"}) || flags.Arg(0) != "corpus.en" {
		t.Errorf("%q, %q", have, flags.Args())
	}
}

// An arithmetic that GPUs do not have is an error that names the option which asks for it.
func TestArithmeticOfGPUs(t *testing.T) {
	for _, c := range []struct {
		flags modelFlags
		want  gpukernels.Arithmetic
		err   string
	}{
		{modelFlags{precision: "float16"}, gpukernels.Arithmetic{}, ""},
		{modelFlags{precision: "bfloat16"}, gpukernels.Arithmetic{Stored: gpukernels.BFloat16}, ""},
		{modelFlags{precision: "int8"}, gpukernels.Arithmetic{Products: gpukernels.Int8}, ""},
		{modelFlags{precision: "auto", gemmPrecision: "int8shiftAll"}, gpukernels.Arithmetic{Products: gpukernels.Int8}, ""},
		{modelFlags{precision: "fp8"}, gpukernels.Arithmetic{Products: gpukernels.FP8}, ""},
		{modelFlags{precision: "int16"}, gpukernels.Arithmetic{}, "--precision int16 is not for GPUs"},
		{modelFlags{precision: "auto", gemmPrecision: "float32"}, gpukernels.Arithmetic{}, "--gemm-precision float32 is not for GPUs"},
		{modelFlags{precision: "int8", gemmPrecision: "int8shiftAlphaAll"}, gpukernels.Arithmetic{Products: gpukernels.Int8}, ""},
	} {
		name, option := c.flags.arithmeticName()
		have, err := gpuArithmeticOf(option, name)
		if have != c.want || (err == nil) != (c.err == "") || err != nil && !strings.HasPrefix(err.Error(), c.err) {
			t.Errorf("%s %s: %v, %v, want %v, %s", option, name, have, err, c.want, c.err)
		}
	}
}
