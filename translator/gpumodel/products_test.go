//go:build linux && (amd64 || arm64) && !nogpu

package gpumodel

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/sluice-mt/sluice/gpukernels"
	"github.com/sluice-mt/sluice/gpukernels/cuda"
	"github.com/sluice-mt/sluice/gpukernels/emulated"
	"github.com/sluice-mt/sluice/translator/cpumodel"
	"github.com/sluice-mt/sluice/translator/model"
	"github.com/sluice-mt/sluice/translator/search"
)

// emulatedSetting returns what changes a setting of the emulated device, nil on another one.
func emulatedSetting(t testing.TB) func(name, value string) int32 {
	t.Helper()
	return emulated.Setting(t, library(t, emulated.Unwatched))
}

// setEmulated changes a setting of the emulated device until the test ends.
func setEmulated(t testing.TB, name, value, before string) {
	t.Helper()
	set := emulatedSetting(t)
	if set == nil {
		t.Skip("for an emulated device only")
	}
	if code := set(name, value); code != 0 {
		t.Fatalf("setting %s=%s: %d", name, value, code)
	}
	t.Cleanup(func() { set(name, before) })
}

// openWithBLAS returns a device whose cuBLASLt offers algorithms.
func openWithBLAS(t testing.TB, algorithms string) *Device {
	t.Helper()
	setEmulated(t, "algorithms", algorithms, "sliced,wide,narrow")
	d := openDevice(t)
	must(t, d.UseBLAS(library(t, emulated.Unwatched)))
	return d
}

// newTuned returns a Stepper whose products are computed as a tuning says. Own kernels that are asked for a product where cuBLASLt has one
// for it, in another form, would find no bias.
func newTuned(t testing.TB, d *Device, m *model.Model, slots int, tuning *Tuning, suppress ...search.Token) *Stepper {
	t.Helper()
	w, err := d.Load(m, Options{Suppress: suppress, Tuning: tuning})
	must(t, err)
	if w.kindsByBLAS == 0 || tuning.Way == gpukernels.LibraryProducts && w.kindsByBLAS < w.kinds {
		t.Fatalf("%s", w.Multiplied())
	}
	if tuning.Way == gpukernels.LibraryProducts {
		for _, use := range w.uses() {
			use.of.bias = 0
		}
	}
	s, err := w.NewStepper(slots)
	must(t, err)
	t.Cleanup(func() {
		must(t, s.Err())
		must(t, s.Close())
		must(t, w.Close())
	})
	return s
}

// tunedKinds are models that multiply in all places where products stand.
var tunedKinds = []string{"pre-norm self-attention", "highways", "deep average attention", "average attention", "two sources", "no projection", "mlstm with norms",
	"deep s2s", "deep cells", "s2s of two sources", "odd heads, pre-norm", "odd s2s", "deep devlin", "devlin", "hard and soft attention", "hard attention"}

func TestLibraryProducts(t *testing.T) {
	d := openWithBLAS(t, "sliced,workspace")
	kinds := tunedKinds
	if testing.Short() {
		kinds = tunedKinds[:2]
	}
	for _, kind := range kinds {
		t.Run(kind, func(t *testing.T) {
			m := randomModel(t, describe(descriptions[kind]))
			packed, err := cpumodel.Load(m, cpumodel.Float32, cpumodel.Options{Suppress: []search.Token{5}})
			must(t, err)
			p := pair{newTuned(t, d, m, 4, &Tuning{Way: gpukernels.LibraryProducts}, 5), packed.NewStepper(4)}
			c := comparison{t: t, p: p, tolerance: 0.05, most: 5, scored: true}
			c.run(randomSources(3, 17, 1, 9))
			if c.ties > 2 {
				t.Errorf("%d other tokens", c.ties)
			}
		})
	}
}

func TestInvarianceOfLibraryProducts(t *testing.T) {
	for _, algorithm := range []string{"varying,sliced", "workspace"} {
		d := openWithBLAS(t, algorithm)
		testInvariance(t, newTuned(t, d, randomModel(t, small("")), 40, &Tuning{Way: gpukernels.LibraryProducts}))
	}
}

// What is measured does not change a bit of any score.
func TestMeasuredProducts(t *testing.T) {
	d := openWithBLAS(t, "sliced,varying,workspace,wide")
	for _, kind := range []string{"post-norm", "pre-norm self-attention"} {
		m := randomModel(t, describe(descriptions[kind]))
		tuning := &Tuning{Known: gpukernels.ProductTuning{}, Time: 300 * time.Millisecond}
		sources := randomSources(9, 20, 3, 1, 2, 7)
		want := scoresOf(newStepper(t, d, m, 6), sources)
		if have := scoresOf(newTuned(t, d, m, 6, tuning), sources); !slices.EqualFunc(have, want, slices.Equal) {
			t.Errorf("%s: other scores than with own kernels", kind)
		}
		if !tuning.Changed {
			t.Errorf("%s: nothing was measured", kind)
		}
		again := &Tuning{Known: tuning.Known}
		if have := scoresOf(newTuned(t, d, m, 6, again), sources); !slices.EqualFunc(have, want, slices.Equal) || again.Changed {
			t.Errorf("%s: other scores the second time, or measured again: %v", kind, again.Changed)
		}
	}
}

// Every matrix of a model is one of its uses.
func TestUsesAreComplete(t *testing.T) {
	d := openDevice(t)
	for name, more := range descriptions {
		w, err := d.Load(randomModel(t, describe(more)), Options{})
		must(t, err)
		used := map[cuda.Pointer]bool{}
		for _, use := range w.uses() {
			used[use.of.weights] = true
		}
		all := 0
		visitLinears(reflect.ValueOf(w), map[uintptr]bool{}, func(path string, weights cuda.Pointer) {
			all++
			if weights != 0 && !used[weights] {
				t.Errorf("%s: nobody chooses how to multiply with%s", name, path)
			}
		})
		if all < len(used) {
			t.Errorf("%s: %d matrices were found, and %d have uses", name, all, len(used))
		}
		must(t, w.Close())
	}
}

// visitLinears visits all linears that can be reached.
func visitLinears(v reflect.Value, seen map[uintptr]bool, visit func(path string, weights cuda.Pointer)) {
	var walk func(v reflect.Value, path string)
	walk = func(v reflect.Value, path string) {
		switch v.Kind() {
		case reflect.Pointer:
			if !v.IsNil() && !seen[v.Pointer()] && v.Type() != reflect.TypeFor[*Device]() {
				seen[v.Pointer()] = true
				walk(v.Elem(), path)
			}
		case reflect.Slice:
			for i := range v.Len() {
				walk(v.Index(i), path)
			}
		case reflect.Struct:
			if v.Type() == reflect.TypeFor[linear]() {
				visit(path, cuda.Pointer(v.FieldByName("weights").Uint()))
				return
			}
			for i := range v.NumField() {
				walk(v.Field(i), path+" "+v.Type().Field(i).Name)
			}
		}
	}
	walk(v, "")
}

// A product that fails ends the Stepper, and says why.
func TestProductFailures(t *testing.T) {
	d := openWithBLAS(t, "wide")
	w, err := d.Load(randomModel(t, small("")), Options{Tuning: &Tuning{Way: gpukernels.LibraryProducts}})
	must(t, err)
	for code, wanted := range map[int]error{3: cuda.ErrOutOfMemory, 13: nil} {
		s, err := w.NewStepper(2)
		must(t, err)
		setEmulated(t, "fault", fmt.Sprintf("cublasLtMatmul:5:%d", code), "")
		scores := scoresOf(s, randomSources(5, 6))
		if score := scores[0][len(scores[0])-1].Score; score == score {
			t.Errorf("code %d: a score of %v", code, score)
		}
		var of *cuda.BLASError
		if !errors.As(s.Err(), &of) || of.Code != code || wanted != nil && !errors.Is(s.Err(), wanted) {
			t.Errorf("code %d: %v", code, s.Err())
		}
		must(t, s.Close())
	}
	must(t, w.Close())
}

// Where there is no memory to measure, the model runs with own kernels; where cuBLASLt was demanded, it does not.
func TestNoMemoryToChoose(t *testing.T) {
	d := openWithBLAS(t, "wide")
	m := randomModel(t, small(""))
	w, err := d.Load(m, Options{})
	must(t, err)
	allocations := len(w.allocated)
	must(t, w.Close())
	for _, way := range []gpukernels.Multiplication{gpukernels.MeasuredProducts, gpukernels.LibraryProducts} {
		var faults string
		for i := range 20 {
			faults += fmt.Sprintf("cuMemAlloc:%d:2,", allocations+1+i)
		}
		setEmulated(t, "fault", faults, "")
		w, err := d.Load(m, Options{Tuning: &Tuning{Way: way, Known: gpukernels.ProductTuning{}, Time: time.Second}})
		if measured := way == gpukernels.MeasuredProducts; measured != (err == nil) || !measured && !errors.Is(err, cuda.ErrOutOfMemory) {
			t.Errorf("%v: %v", way, err)
		}
		if err == nil {
			if w.Multiplied() != "own kernels" {
				t.Errorf("%v: %s", way, w.Multiplied())
			}
			must(t, w.Close())
		}
	}
}

// What cuBLASLt needs is counted where batches are sized.
func TestWorkspaceIsCounted(t *testing.T) {
	d := openWithBLAS(t, "workspace")
	s := newTuned(t, d, randomModel(t, small("")), 2, &Tuning{Way: gpukernels.LibraryProducts})
	if s.w.workspace == 0 || s.workspaces[0].at == 0 || s.workspaces[0].at == s.workspaces[1].at {
		t.Errorf("%d bytes, at %x and %x", s.w.workspace, s.workspaces[0].at, s.workspaces[1].at)
	}
	before, _ := s.w.Batch(Sharing{Workers: 1, Models: 1})
	s.w.workspace = 1 << 40
	if after, _ := s.w.Batch(Sharing{Workers: 1, Models: 1}); after >= before {
		t.Errorf("%d slots, and %d beside workspaces without end", before, after)
	}
}
