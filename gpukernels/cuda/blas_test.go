//go:build linux && (amd64 || arm64) && !nogpu

package cuda

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"unsafe"
)

func openBLAS(r *rig) *BLAS {
	r.t.Helper()
	b, err := r.context.OpenBLAS(library(r.t))
	must(r.t, err)
	r.t.Cleanup(func() { must(r.t, b.Close()) })
	return b
}

// A library that is not there, is too old, or does not run: each says what it is.
func TestNoBLAS(t *testing.T) {
	r := newRig(t)
	refused := func(library string, want error, what string) {
		t.Helper()
		_, err := r.context.OpenBLAS(library)
		if !errors.Is(err, want) || !strings.Contains(err.Error(), what) {
			t.Errorf("%s: got %v, want %v and %q", library, err, want, what)
		}
	}
	refused("/nowhere/libcublasLt.so.12", ErrNoBLAS, "/nowhere/libcublasLt.so.12")
	refused("libc.so.6", ErrBLASOutdated, "cublasLtCreate")
	r.set("blas", "110400")
	refused(library(t), ErrBLASOutdated, "version 11.4.0, and 12.0.0")
	r.set("blas", "120205")
	r.set("fault", "cublasLtCreate:1:1")
	refused(library(t), ErrNoBLAS, "CUBLAS_STATUS_NOT_INITIALIZED")
	if b := openBLAS(r); b.Version() != 120205 || !strings.Contains(b.String(), "12.2.5") {
		t.Errorf("the library is %v", b)
	}
}

// A driver for CUDA 12 cannot run a library for CUDA 13.
func TestBLASLibraries(t *testing.T) {
	if have := Version(12040).blasLibraries(); !slices.Equal(have, []string{"libcublasLt.so.12"}) {
		t.Errorf("CUDA 12.4: %v", have)
	}
	if have := Version(13010).blasLibraries(); !slices.Equal(have, []string{"libcublasLt.so.13", "libcublasLt.so.12"}) {
		t.Errorf("CUDA 13.1: %v", have)
	}
}

// The library may say no at every call.
func TestBLASErrors(t *testing.T) {
	r := newRig(t)
	b := openBLAS(r)
	shape := BLASShape{N: 16, K: 8, Rectified: true}
	memory := in(r, make([]uint16, 1024))
	run := func() error {
		p, err := b.Product(shape, memory)
		if err != nil {
			return err
		}
		defer p.Close()
		all, err := p.Algorithms(5, 3, 0)
		if err != nil {
			return err
		}
		if len(all) != 3 {
			t.Fatalf("%d algorithms", len(all))
		}
		return p.Run(r.stream, &all[1], BLASOperands{X: memory, Weights: memory, Result: Offset[uint16](memory, 512), Rows: 5, XStride: 8, ResultStride: 16})
	}
	must(t, run())
	must(t, r.stream.Synchronize())
	for _, call := range []string{"cublasLtMatmulDescCreate", "cublasLtMatmulDescSetAttribute", "cublasLtMatrixLayoutCreate", "cublasLtMatrixLayoutSetAttribute",
		"cublasLtMatmulPreferenceCreate", "cublasLtMatmulPreferenceSetAttribute", "cublasLtMatmulAlgoGetHeuristic", "cublasLtMatmulAlgoConfigGetAttribute",
		"cublasLtMatmul"} {
		r.set("fault", call+":1:3")
		err := run()
		var of *BLASError
		if !errors.As(err, &of) || of.Call != call || !errors.Is(err, ErrOutOfMemory) || !strings.Contains(err.Error(), "16×8") && call == "cublasLtMatmul" {
			t.Errorf("%s: got %v", call, err)
		}
		r.set("fault", "")
		must(t, run())
	}
	r.set("fault", "cuStreamSynchronize:1:719!")
	_ = r.stream.Synchronize()
	if err := run(); err == nil || !strings.Contains(err.Error(), "CUBLAS_STATUS_EXECUTION_FAILED") {
		t.Errorf("on a lost device: %v", err)
	}
	r.set("repair", "")
	r.set("fault", "")
}

// BLASVariable names a real library of cuBLASLt, which takes descriptions of products without a device, too.
const BLASVariable = "SLUICE_CUBLASLT_LIBRARY"

// A real library knows all functions, and accepts each attribute in the size that it is given in.
func TestRealBLAS(t *testing.T) {
	named := os.Getenv(BLASVariable)
	if named == "" {
		t.Skip(BLASVariable + " names no library")
	}
	b := &BLAS{library: named}
	if err := b.open(); err != nil && !errors.Is(err, ErrNoBLAS) {
		t.Fatal(err)
	}
	for _, shape := range []BLASShape{{N: 16, K: 8, Rectified: true}, {N: 512, K: 64, BFloat16: true}, {N: 32, K: 8, StraightWeights: true},
		{N: 32, K: 8, StraightWeights: true, Float32: true, Unbiased: true}, {N: 32, K: 8, TransposedX: true, Float32: true, Unbiased: true, BFloat16: true}} {
		p, err := b.Product(shape, 1<<20)
		must(t, err)
		wider := shape.plain(5)
		wider.x, wider.weights, wider.residual = wider.x+8, wider.weights+8, wider.residual+16
		must(t, p.describe(wider))
		must(t, p.Close())
	}
	preference, err := b.preference(1 << 20)
	must(t, err)
	must(t, b.check("cublasLtMatmulPreferenceDestroy", b.call.MatmulPreferenceDestroy(preference)))
	must(t, b.readConfig(new(BLASAlgorithm)))
	var none *BLASError
	if err := b.prefer(preference, 99, unsafe.Pointer(new(int32)), 4); !errors.As(err, &none) {
		t.Errorf("an attribute that there is not: %v", err)
	}
}
