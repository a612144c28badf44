//go:build linux && (amd64 || arm64) && !nogpu

package gpunetwork

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/sluice-mt/sluice/gpukernels"
	"github.com/sluice-mt/sluice/gpukernels/cuda"
	"github.com/sluice-mt/sluice/train/network"
)

// What is measured changes no bit of a gradient. What cuBLASLt computes on demand changes some, the same ones each time.
func TestLibraryProducts(t *testing.T) {
	for name, more := range map[string]string{"student": "", "recurrent": s2s, "Devlin": s2s + "type: devlin\ndec-fc-depth: 3\ndim-fc: 40"} {
		t.Run(name, func(t *testing.T) {
			n := newNetwork(t, student(more))
			batch := randomBatch(5, [2]int{5, 4}, [2]int{1, 1}, [2]int{3, 9}, [2]int{7, 12})
			train := func(offered string, way gpukernels.Multiplication, known gpukernels.ProductTuning) ([]float32, *Trainer) {
				setEmulated(t, "algorithms", offered, "sliced,wide,narrow")
				gpu := openTrainer(t, n, initial(n), gpukernels.BFloat16)
				must(t, gpu.UseBLAS(0, libraryFor(t, gpukernels.BFloat16)))
				must(t, gpu.ChooseProducts(0, way, known, time.Minute))
				_, err := gpu.Train(0, batch, everything, 5)
				must(t, err)
				gradient, err := gradientOf(gpu)
				must(t, err)
				sameAgain(t, gpu, batch, everything, gradient)
				return gradient, gpu
			}
			want, own := train("wide", gpukernels.OwnProducts, nil)
			if choices, measured := own.Products(0); choices.ByLibrary > 0 || choices.Kinds == 0 || measured {
				t.Errorf("own kernels: %+v, measured: %v", choices, measured)
			}
			known := gpukernels.ProductTuning{}
			have, gpu := train("sliced,workspace", gpukernels.MeasuredProducts, known)
			if choices, measured := gpu.Products(0); choices.Kinds < 8 || choices.Kinds != len(known) || !measured || choices.Refused > 0 {
				t.Errorf("measured: %+v, %d of them remembered, measured: %v", choices, len(known), measured)
			}
			if !slices.Equal(have, want) {
				t.Error("what is measured gives another gradient than own kernels")
			}
			have, gpu = train("sliced", gpukernels.LibraryProducts, nil)
			if choices, _ := gpu.Products(0); choices.ByLibrary < choices.Kinds || choices.Kinds < 8 || choices.Refused > 0 {
				t.Errorf("by the library: %+v", choices)
			}
			if slices.Equal(have, want) {
				t.Error("the library gives the bits of own kernels")
			}
			for i := range n.Parameters {
				compareDirectionWithin(t, &n.Parameters[i], network.Values(&n.Parameters[i], have), network.Values(&n.Parameters[i], want), 0.01)
			}
		})
	}
}

// A library that cannot be used is said, and the worker goes on without it.
func TestNoLibrary(t *testing.T) {
	n := newNetwork(t, student(""))
	gpu := openTrainer(t, n, initial(n), gpukernels.BFloat16)
	if err := gpu.UseBLAS(0, "/nowhere/libcublasLt.so.12"); !errors.Is(err, cuda.ErrNoBLAS) || gpu.BLAS(0) != nil {
		t.Errorf("%v, and the library is %v", err, gpu.BLAS(0))
	}
	_, err := gpu.Train(0, randomBatch(1, [2]int{6, 6}), network.Options{}, 1)
	must(t, err)
}

// Where there is no memory to measure, own kernels multiply; where the library was demanded, that is an error, which is not that of a mini-batch that is too
// large.
func TestNoMemoryToChoose(t *testing.T) {
	for _, way := range []gpukernels.Multiplication{gpukernels.MeasuredProducts, gpukernels.LibraryProducts} {
		n := newNetwork(t, student(""))
		gpu := openTrainer(t, n, initial(n), gpukernels.BFloat16)
		must(t, gpu.UseBLAS(0, libraryFor(t, gpukernels.BFloat16)))
		must(t, gpu.ChooseProducts(0, way, gpukernels.ProductTuning{}, time.Minute))
		must(t, gpu.Reserve(1<<20))
		setEmulated(t, "fault", "cuMemAlloc:2:2", "") // the first one is for positions
		_, err := gpu.Train(0, randomBatch(1, [2]int{3, 3}), network.Options{}, 1)
		measured, named := way == gpukernels.MeasuredProducts, errors.Is(err, network.ErrNoRoomToChoose) && !errors.Is(err, network.ErrOutOfMemory)
		if measured != (err == nil) || !measured && !named {
			t.Errorf("%v: %v", way, err)
		}
	}
}
