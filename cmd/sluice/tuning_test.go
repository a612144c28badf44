package main

import (
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/sluice-mt/sluice/kernels"
)

// testMatrices are matrices of which a processor may have several ways to multiply, or none.
func testMatrices() []kernels.Matrix {
	return []kernels.Matrix{
		kernels.PackInt8(64, 128, make([]int8, 64*128), make([]float32, 128)),
		kernels.PackFloat32(64, 128, make([]float32, 64*128)),
	}
}

// choices reports whether this processor has any.
func choices() bool { return !kernels.Tuning{}.Knows(testMatrices()...) }

func testTuner(path string) *tuner { return tunerAt(path, "one", slog.New(slog.DiscardHandler)) }

func TestTunerRemembers(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cache", "sluice", "kernels.json")
	for range 10 { // once, unless the machine is too busy
		testTuner(path).tune(testMatrices())
	}
	first, err := os.ReadFile(path)
	if !choices() {
		if err == nil {
			t.Errorf("nothing to choose, and yet there is %s", first)
		}
		t.Skip("this processor has one way to multiply")
	}
	if err != nil {
		t.Fatal(err)
	}
	tuner := testTuner(path)
	if known := kernels.Tuning(tuner.file.read()); !known.Knows(testMatrices()...) {
		t.Errorf("the file does not say what was measured: %s", first)
	}
	longAgo := time.Date(2001, 2, 3, 4, 5, 6, 0, time.UTC)
	if err := os.Chtimes(path, longAgo, longAgo); err != nil {
		t.Fatal(err)
	}
	tuner.tune(testMatrices())
	if info, err := os.Stat(path); err != nil || !info.ModTime().Equal(longAgo) {
		t.Errorf("measured again, and written: %v, %v", info.ModTime(), err)
	}
	if left, err := filepath.Glob(path + "*.tmp"); err != nil || len(left) > 0 {
		t.Errorf("left over: %q, %v", left, err)
	}
}

// Where nothing can be remembered nothing is measured, and nothing fails.
func TestTunerWithoutPlace(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	testTuner(filepath.Join(file, "sluice", "kernels.json")).tune(testMatrices())
	var none *tuner
	none.tune(testMatrices())
}

// What was measured is in one file for each kind of device and each thing that is measured.
func TestFilesOfMeasurements(t *testing.T) {
	tuner := testTuner(filepath.Join(t.TempDir(), "kernels.json"))
	paths := []string{tuner.file.path}
	for _, driver := range []string{"12.2", "12.4"} {
		paths = append(paths, tuner.loadsOfGPU(gpuAndDriver{"a card", driver}).path)
		for _, library := range []string{"12.2.5", "12.9.1"} {
			for _, name := range []string{"gpu", "gpu-training"} {
				paths = append(paths, tuner.productsOfGPU(name, kindOfGPU{"a card", driver, library}).path)
			}
		}
	}
	slices.Sort(paths)
	if different := slices.Compact(slices.Clone(paths)); len(different) != 11 {
		t.Errorf("different things are in one file: %q", paths)
	}
}
