//go:build linux && (amd64 || arm64) && !nogpu

package main

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-mt/sluice/gpukernels"
	"github.com/sluice-mt/sluice/gpukernels/emulated"
	"github.com/sluice-mt/sluice/internal/sharedtest"
	"github.com/sluice-mt/sluice/translator/gpumodel"
)

// Models that are opened one after another share a GPU as long as one of them has it, each arithmetic by itself.
func TestModelsShareGPUs(t *testing.T) {
	t.Setenv(driverVariable, emulated.Library(t, emulated.Unwatched, emulated.Sources(t)...))
	var opened openedGPUs
	open := func(as gpukernels.Arithmetic) *gpumodel.Device {
		t.Helper()
		if err := opened.start(); err != nil {
			t.Fatal(err)
		}
		d, err := opened.device(openedGPU{0, as})
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	first, second, other := open(gpukernels.Arithmetic{}), open(gpukernels.Arithmetic{}), open(gpukernels.Arithmetic{Products: gpukernels.Int8})
	if first != second || other == first {
		t.Errorf("one arithmetic has one device: %v, another one has another: %v", first == second, other != first)
	}
	closeOnce := func(d *gpumodel.Device) {
		t.Helper()
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
	}
	closeOnce(other)
	closeOnce(first)
	if third := open(gpukernels.Arithmetic{}); third != second {
		t.Error("the device is given back while a model has it")
	}
	closeOnce(first)
	closeOnce(first)
	last := open(gpukernels.Arithmetic{})
	if last == first {
		t.Error("a device that was given back is lent")
	}
	closeOnce(last)
}

// What GPUs give a hypothesis is near what the processor gives it in float32: a right-to-left model, a language model, recurrent ones and
// one of two sources, with lists whose hypotheses begin alike.
func TestRescoringOnGPUs(t *testing.T) {
	if testing.Short() {
		t.Skip("an emulated device is slow")
	}
	t.Setenv(driverVariable, emulated.Library(t, emulated.Unwatched, emulated.Sources(t)...))
	reference := sharedtest.Path(t, "models/reference")
	lines := func(name string) []string {
		text, err := os.ReadFile(filepath.Join(reference, name))
		if err != nil {
			t.Fatal(err)
		}
		return strings.Split(string(text), "\n")[:6]
	}
	var list, sources, two strings.Builder
	targets, further := lines("data/reference.de"), lines("data/input.mt")
	for i, line := range lines("data/input.en") {
		fmt.Fprintf(&list, "%d ||| %s\n%[1]d ||| %[2]s !\n%[1]d ||| %s\n", i, targets[i], targets[(i+1)%len(targets)])
		fmt.Fprintln(&sources, line)
		fmt.Fprintln(&two, line+"\t"+further[i])
	}
	joint := filepath.Join(reference, "vocab/joint.spm")
	path, one := writeTestFile(t, "list", list.String()), writeTestFile(t, "source", sources.String())
	both := writeTestFile(t, "sources", two.String())
	for _, c := range []struct{ model, vocabulary, source string }{
		{"right-left", "", one}, {"transformer-selfatt", "", one}, {"transformer-prenorm", "", one}, {"transformer-ssru-tied", "", one},
		{"s2s-gru", "", one}, {"s2s-deep", "", one}, {"lm-transformer", joint, one}, {"multi-transformer", joint, both},
	} {
		t.Run(c.model, func(t *testing.T) {
			arguments := []string{"-s", c.source, "-i", path, "--features-only", "--feature", "X", "-m", filepath.Join(reference, c.model, "model.npz")}
			if c.vocabulary == "" {
				arguments[len(arguments)-1] = filepath.Join(reference, c.model)
			} else {
				arguments = append(arguments, "-v", c.vocabulary)
			}
			want := entriesOf(t, runCommand(t, newRescoreCommand(), append(arguments, "--precision", "float32")...))
			have := entriesOf(t, runCommand(t, newRescoreCommand(), append(arguments, "-d", "0", "--tune-kernels=false")...))
			for i := range want {
				x, y, length := have[i].Feature("X")[0], want[i].Feature("X")[0], want[i].Feature(lengthFeature)[0]
				if !(math.Abs(x-y) <= 0.01*length+1e-3*math.Abs(y)) || have[i].Text != want[i].Text {
					t.Errorf("%q scores %v, but %v on the processor", want[i].Text, x, y)
				}
			}
			if len(have) != len(want) || len(want) != 18 {
				t.Errorf("%d hypotheses, %d on the processor", len(have), len(want))
			}
		})
	}
}
