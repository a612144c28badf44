package emulated

import (
	"path/filepath"
	"slices"
	"testing"
)

// What a kernel is compiled from is known, and no more is taken for it: neither other kernels nor what plays the driver.
func TestIncluded(t *testing.T) {
	names := func(files []string) (names []string) {
		for _, file := range files {
			names = append(names, filepath.Base(file))
		}
		slices.Sort(names)
		return names
	}
	product := names(included(t, prelude(), filepath.Join(SourceFolder(), "product.cu")))
	for _, needed := range []string{"product.cu", "product.cuh", "tensor.cuh", "language.cuh", "prelude.h", "cuda_language.h", "block.h", "tensor_emulated.h"} {
		if !slices.Contains(product, needed) {
			t.Errorf("product.cu is compiled without %s: %v", needed, product)
		}
	}
	for _, other := range []string{"driver.cpp", "cublaslt.cpp", "settings.h", "ssru.cu", "bytes.cuh"} {
		if slices.Contains(product, other) {
			t.Errorf("product.cu is compiled anew after each change of %s", other)
		}
	}
	driver := names(included(t, filepath.Join(deviceFolder(), "driver.cpp")))
	if !slices.Contains(driver, "status.h") || !slices.Contains(driver, "block.h") {
		t.Errorf("headers of driver.cpp are left out: %v", driver)
	}
	if again := slices.Compact(slices.Clone(driver)); len(again) != len(driver) {
		t.Errorf("a header is counted twice: %v", driver)
	}
}

// A header beside the file that includes it comes before one of the device with the same name, as for the compiler.
func TestHeaderBesideItsFile(t *testing.T) {
	if at := findHeader(t, "rows.cuh", filepath.Join(SourceFolder(), "ssru.cu")); at != filepath.Join(SourceFolder(), "rows.cuh") {
		t.Errorf("rows.cuh is found at %s", at)
	}
	if at := findHeader(t, "tensor_emulated.h", filepath.Join(SourceFolder(), "tensor.cuh")); at != filepath.Join(deviceFolder(), "tensor_emulated.h") {
		t.Errorf("tensor_emulated.h is found at %s", at)
	}
}
