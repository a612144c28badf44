package main

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"testing"
)

// What was measured is read again on its kind of device alone, by who measures in the same way. Nonsense says nothing.
func TestMeasurements(t *testing.T) {
	file := func(path string, version int, kind gpuAndDriver) *measurements[gpuAndDriver, gpuLoad] {
		return &measurements[gpuAndDriver, gpuLoad]{path, version, kind}
	}
	path, kind := filepath.Join(t.TempDir(), "cache", "sluice", "loads.json"), gpuAndDriver{"a card", "12.2"}
	want := map[string]gpuLoad{"a model": {4, 256}, "another": {1, 16}}
	if have := file(path, 3, kind).read(); have == nil || len(have) > 0 {
		t.Errorf("without a file: %v", have)
	}
	if err := file(path, 3, kind).write(func() map[string]gpuLoad { return want }); err != nil {
		t.Fatal(err)
	}
	if have := file(path, 3, kind).read(); !maps.Equal(have, want) {
		t.Errorf("read %v, want %v", have, want)
	}
	for _, other := range []*measurements[gpuAndDriver, gpuLoad]{
		file(path, 2, kind), file(path, 3, gpuAndDriver{"a card", "12.4"}), file(path, 3, gpuAndDriver{"another card", "12.2"}),
	} {
		if have := other.read(); have == nil || len(have) > 0 {
			t.Errorf("version %d, %v: read %v", other.version, other.kind, have)
		}
	}
	const found = `"found": {"a model": {"streams": 4, "slots": 256}}}`
	for content, understood := range map[string]bool{
		"": false, "{": false, "null": false, "[]": false, "3": false, `"nonsense"`: false,
		`{"version": 3, "of": {"device": "a card", "driver": "12.2"}}`:                                         false,
		`{"version": 3, "of": {"device": "a card", "driver": "12.2"}, "found": {"a model": {"streams": 4.5}}}`: false,
		`{"version": 3, ` + found: false,
		`{"version": 3, "of": {"device": "a card", "driver": "12.2"}, ` + found: true,
	} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if have := file(path, 3, kind).read(); have == nil || (len(have) == 1) != understood {
			t.Errorf("%q was understood as %v", content, have)
		}
	}
}

// Where nothing can be remembered nothing is measured.
func TestMeasurementsWithoutPlace(t *testing.T) {
	nowhere := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(nowhere, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	file := measurements[string, int]{filepath.Join(nowhere, "sluice", "kernels.json"), 1, "one"}
	err := file.write(func() map[string]int {
		t.Error("measured without a place to remember it")
		return nil
	})
	if failed := (*os.PathError)(nil); !errors.As(err, &failed) {
		t.Errorf("the error is %v", err)
	}
}
