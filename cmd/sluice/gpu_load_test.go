//go:build linux && (amd64 || arm64) && !nogpu

package main

import (
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/sluice-mt/sluice/gpukernels/cuda"
	"github.com/sluice-mt/sluice/gpukernels/emulated"
	"github.com/sluice-mt/sluice/translator/gpumodel"
	"github.com/sluice-mt/sluice/translator/search"
)

// toyTrial is what an emulated device with a toy tries loads with.
func toyTrial(t *testing.T) *loadTrial {
	t.Helper()
	driver, err := cuda.Open(emulated.Library(t, emulated.Unwatched, emulated.Sources(t)...))
	if err != nil {
		t.Fatal(err)
	}
	device, err := gpumodel.Open(driver, 0)
	if err != nil {
		t.Fatal(err)
	}
	toy := toys()[1]
	m, err := randomModel(toy.description(), rand.New(rand.NewPCG(2018, 1)))
	if err != nil {
		t.Fatal(err)
	}
	weights, err := device.Load(m, gpumodel.Options{})
	if err != nil {
		t.Fatal(err)
	}
	g := &gpu{driver: driver, device: device, weights: []*gpumodel.Weights{weights}}
	t.Cleanup(g.close)
	return &loadTrial{gpu: g, options: search.Options{Beam: 2, MaxLengthFactor: 1}, vocabulary: toy.size().Vocabulary, limit: time.Minute,
		logger: slog.New(slog.DiscardHandler)}
}

// A load is measured on a device, and one for which there is no memory does nothing.
func TestLoadRate(t *testing.T) {
	trial := toyTrial(t)
	for _, l := range []gpuLoad{{1, 4}, {2, 5}} {
		if rate, err := trial.rate(l, 20*time.Millisecond); err != nil || !(rate > 0) {
			t.Errorf("%+v: %v hypotheses a second, %v", l, rate, err)
		}
	}
	free, _ := trial.gpu.weights[0].Batch(1)
	if !trial.gpu.fits(gpuLoad{1, free}) || trial.gpu.fits(gpuLoad{1 << 20, 1 << 20}) {
		t.Error("it is not seen what there is memory for")
	}
}

// There is room for less where there is less memory.
func TestRoomForLoads(t *testing.T) {
	g := toyTrial(t).gpu
	context, err := g.driver.Context(0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { context.Close() })
	bound := func(work func() error) {
		t.Helper()
		release, err := context.Bind()
		if err == nil {
			err = work()
			release()
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	before := g.room()
	var taken cuda.Pointer
	bound(func() error {
		free, _, err := context.Memory()
		if err == nil {
			taken, err = cuda.Alloc[byte](context, int(free/16*15))
		}
		return err
	})
	if less := g.room(); less >= before || !g.fits(gpuLoad{usualStreams, less}) || g.fits(gpuLoad{usualStreams, 2 * less}) {
		t.Errorf("room for %d slots, and for %d with a sixteenth of the memory", before, less)
	}
	bound(func() error { return context.Free(taken) })
}

// What was measured is in the file, and is taken from there. Nothing is measured with a device that takes long for a sentence, or without a
// place for the file.
func TestLoadIsRemembered(t *testing.T) {
	trial := toyTrial(t)
	file := tunerAt(filepath.Join(t.TempDir(), "sluice", "kernels.json")).loadsOfGPU(gpuAndDriver{"a card", "12.2"})
	trial.limit = time.Nanosecond
	if l := trial.remembered(file, "toy", 6); l != (gpuLoad{usualStreams, 6}) || len(file.read()) > 0 {
		t.Errorf("a slow device: %+v, remembered are %v", l, file.read())
	}
	trial.limit, trial.weights = 2*time.Second, []float32{1, 1} // of which a model has one
	if l := trial.remembered(file, "toy", 6); l != (gpuLoad{usualStreams, 6}) || len(file.read()) > 0 {
		t.Errorf("a failure: %+v, remembered are %v", l, file.read())
	}
	trial.weights = nil
	if l := trial.remembered(file, "toy", 1); l != (gpuLoad{usualStreams, 1}) || len(file.read()) > 0 {
		t.Errorf("no load that does anything: %+v, remembered are %v", l, file.read())
	}
	found := trial.remembered(file, "toy", 6)
	if known := file.read()["toy"]; known != found || found.Slots != 6 {
		t.Fatalf("found %+v, remembered are %v", found, file.read())
	}
	want := gpuLoad{3, 6} // which nobody tries
	if err := writeTuning(file.path, func() any { return knownLoads{loadVersion, file.kind, map[string]gpuLoad{"toy": want}} }); err != nil {
		t.Fatal(err)
	}
	if l := trial.remembered(file, "toy", 6); l != want {
		t.Errorf("%+v is remembered, and %+v taken", want, l)
	}
	if l := trial.remembered(file, "another toy", 7); l.Slots != 7 || len(file.read()) != 2 {
		t.Errorf("%+v, remembered are %v", l, file.read())
	}
	nowhere := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(nowhere, nil, 0o666); err != nil {
		t.Fatal(err)
	}
	lost := tunerAt(filepath.Join(nowhere, "sluice", "kernels.json")).loadsOfGPU(gpuAndDriver{"a card", "12.2"})
	if l := trial.remembered(lost, "toy", 6); l != (gpuLoad{usualStreams, 6}) {
		t.Errorf("without a place: %+v", l)
	}
}
