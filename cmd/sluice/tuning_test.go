package main

import (
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/sluice-mt/sluice/gpukernels"
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

func tunerAt(path string) *tuner {
	return &tuner{path: path, processor: "one", logger: slog.New(slog.DiscardHandler)}
}

func TestTunerRemembers(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cache", "sluice", "kernels.json")
	tunerAt(path).tune(testMatrices())
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
	tuner := tunerAt(path)
	if known := tuner.read(); !known.Knows(testMatrices()...) {
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

func TestTunerIgnoresFilesOfOthers(t *testing.T) {
	path := filepath.Join(t.TempDir(), "kernels.json")
	for _, content := range []string{
		"", "{", "null", "[]", `{"version": 3, "processor": "one"}`,
		`{"version": 0, "processor": "one", "products": {"int8 64x128": 13}}`,
		`{"version": 3, "processor": "another", "products": {"int8 64x128": 13}}`,
		`{"version": 3, "processor": "one", "products": {"int8 64x128": 1e99}}`,
	} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if known := tunerAt(path).read(); len(known) > 0 || known == nil {
			t.Errorf("%q was understood as %v", content, known)
		}
	}
}

// Where nothing can be remembered nothing is measured, and nothing fails.
func TestTunerWithoutPlace(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	tunerAt(filepath.Join(file, "sluice", "kernels.json")).tune(testMatrices())
	var none *tuner
	none.tune(testMatrices())
}

// What was measured on a GPU is read again on its kind alone.
func TestGPUTuning(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cache", "sluice", "gpu.json")
	kind := kindOfGPU{"a card", "12.2", "12.2.5"}
	want := gpukernels.ProductTuning{"float16 64x64, 16 rows": "own"}
	if err := (&gpuTuning{path, kind}).write(want); err != nil {
		t.Fatal(err)
	}
	if have := (&gpuTuning{path, kind}).read(); !maps.Equal(have, want) {
		t.Errorf("read %v, want %v", have, want)
	}
	for _, other := range []kindOfGPU{{"a card", "12.2", "12.9.1"}, {"a card", "12.8", "12.2.5"}, {"another card", "12.2", "12.2.5"}} {
		if have := (&gpuTuning{path, other}).read(); len(have) > 0 {
			t.Errorf("%v: read %v", other, have)
		}
	}
	for _, content := range []string{"", "{", `{"version": 1}`, `{"version": 99, "device": "a card", "driver": "12.2", "cublaslt": "12.2.5", "fastest": {}}`} {
		if err := os.WriteFile(path, []byte(content), 0o666); err != nil {
			t.Fatal(err)
		}
		if have := (&gpuTuning{path, kind}).read(); have == nil || len(have) > 0 {
			t.Errorf("%s: read %v", content, have)
		}
	}
}
