//go:build linux && (amd64 || arm64) && !nogpu

package gpukernels

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluice-mt/sluice/gpukernels/cuda"
	"github.com/sluice-mt/sluice/gpukernels/emulated"
)

// emulate changes a setting of an emulated device, and says whether there is one.
func emulate(t testing.TB, name, value string) bool {
	t.Helper()
	set := emulated.Setting(t, library(t))
	if set == nil {
		return false
	}
	if code := set(name, value); code != 0 {
		t.Fatalf("setting %s=%s: %d", name, value, code)
	}
	return true
}

// set is emulate for tests that are skipped on another device.
func (r *rig) set(name, value string) {
	r.t.Helper()
	if !emulate(r.t, name, value) {
		r.t.Skip("for an emulated device only")
	}
}

// offer lets cuBLASLt offer algorithms until the test ends.
func (r *rig) offer(algorithms string) {
	r.t.Helper()
	r.set("algorithms", algorithms)
	r.t.Cleanup(func() { r.set("algorithms", "sliced,wide,narrow") })
}

func (r *rig) blas() *cuda.BLAS {
	r.t.Helper()
	b, err := r.context.OpenBLAS(library(r.t))
	must(r.t, err)
	r.t.Cleanup(func() { must(r.t, b.Close()) })
	return b
}

// choose returns the algorithms for a kind of product.
func (r *rig) choose(b *cuda.BLAS, way Multiplication, kind ProductKind, tuning ProductTuning, d time.Duration) (Algorithms, error) {
	r.t.Helper()
	c, err := NewChooser(r.context, r.kernels, b, r.kernels.stored, way, tuning, d)
	must(r.t, err)
	chosen, err := c.Choose(kind)
	must(r.t, c.Close())
	return chosen, err
}

// fewRows is a tuning that leaves only the first class of rows to be measured, which takes an emulated device long enough.
func fewRows(kind ProductKind) ProductTuning {
	tuning := ProductTuning{}
	for class := range rowClasses[1:] {
		tuning[kind.key(Float16, class+1)] = ownName
	}
	return tuning
}

// chosen names the emulated algorithms by their numbers, which are their places in cublaslt.cpp.
func (a Algorithms) chosen() (names []string) {
	for _, algorithm := range a {
		name := ownName
		if algorithm != nil {
			name, _, _ = strings.Cut(algorithm.String(), ",")
		}
		names = append(names, name)
	}
	return names
}

const (
	wide, sliced, needy = "number 0", "number 2", "number 5"
	long                = 10 * time.Second
)

// runBy returns the product by a multiplier.
func (c *productCase) runBy(r *rig, b *cuda.BLAS, a Algorithms) []number {
	r.t.Helper()
	kind := ProductKind{N: c.n, K: c.k, Rectified: c.rectified, Residual: c.residual != nil}
	by, err := a.Multiplier(b, kind, Float16, in(r, numbersOf(c.bias)))
	must(r.t, err)
	defer func() { must(r.t, by.Close()) }()
	p := Product{X: Matrix{in(r, c.x), c.m, c.k, c.xStride}, Weights: Matrix{in(r, c.weights), c.n, c.k, 0}, Rectified: c.rectified, Bias: in(r, c.bias),
		Result: Matrix{in(r, make([]number, c.m*c.resultStride)), c.m, c.n, c.resultStride}}
	if c.residual != nil {
		p.Residual = Matrix{in(r, c.residual), c.m, c.n, c.residualStride}
	}
	workspace := alloc[byte](r, max(a.Workspace(), 1))
	graph, err := r.stream.Capture(func() error { return r.kernels.ProductBy(r.stream, by, p, workspace) })
	must(r.t, err)
	must(r.t, graph.Launch(r.stream))
	rows := r.withoutGaps(p.Result, "the library")
	must(r.t, graph.Close())
	return rows
}

// forLibrary makes the bias one of 16 bits, and strides those that the library takes.
func (c *productCase) forLibrary(r *rig) {
	for i, h := range numbersOf(c.bias) {
		c.bias[i] = h.Float32()
	}
	c.residualStride, c.resultStride = c.n+8, c.n+16
	c.residual = r.halves(c.m*c.residualStride, 4)
}

func TestLibraryProducts(t *testing.T) {
	r := newRig(t)
	b := r.blas()
	for i, shape := range [][3]int{{1, 8, 8}, {3, 16, 40}, {17, 72, 96}, {65, 136, 72}} {
		c := r.productCase(shape[0], shape[1], shape[2])
		c.forLibrary(r)
		c.rectified = i%2 == 0
		if c.rectified {
			c.residual = nil
		}
		kind := ProductKind{N: c.n, K: c.k, Rectified: c.rectified, Residual: c.residual != nil}
		for _, algorithms := range []string{"wide", "sliced", "workspace"} {
			r.offer(algorithms)
			chosen, err := r.choose(b, LibraryProducts, kind, nil, 0)
			must(t, err)
			if slices.Contains(chosen.chosen(), ownName) {
				t.Fatalf("%v, %s: %v", kind, algorithms, chosen.chosen())
			}
			near(t, fmt.Sprint(algorithms, shape), c.runBy(r, b, chosen), c.want(), 1e-5*float64(c.k))
		}
	}
}

// What is taken of what the library offers.
func TestChoose(t *testing.T) {
	r := newRig(t)
	b := r.blas()
	plain, rectified, residual := ProductKind{N: 24, K: 64}, ProductKind{N: 24, K: 64, Rectified: true}, ProductKind{N: 24, K: 64, Residual: true}
	for _, c := range []struct {
		way     Multiplication
		kind    ProductKind
		offered string
		want    string
	}{
		{LibraryProducts, plain, "varying,split,picky,wrong,sliced,wide", sliced},
		{LibraryProducts, plain, "workspace,wide", needy},
		{LibraryProducts, residual, "sliced", sliced},
		{LibraryProducts, rectified, "hiding,wide", wide},
		{LibraryProducts, plain, "none", ownName},
		{LibraryProducts, plain, "varying,wrong,picky,split", ownName},
		{LibraryProducts, ProductKind{N: 20, K: 64}, "wide", ownName},
		{MeasuredProducts, plain, "sliced,varying,wrong,split,slow,wide", wide},
		{MeasuredProducts, plain, "workspace", needy},
		{MeasuredProducts, rectified, "hiding,sliced", ownName},
		{MeasuredProducts, residual, "wide", ownName}, // adds the residual before the bias
		{MeasuredProducts, plain, "none", ownName},
		{OwnProducts, plain, "wide", ownName},
	} {
		r.offer(c.offered)
		tuning := fewRows(c.kind)
		chosen, err := r.choose(b, c.way, c.kind, tuning, long)
		must(t, err)
		if have := chosen.chosen(); have[0] != c.want || c.way == LibraryProducts && len(slices.Compact(have)) != 1 {
			t.Errorf("%v, %v of %s: %v, want %s", c.way, c.kind, c.offered, have, c.want)
		}
		if _, known := tuning[c.kind.key(Float16, 0)]; known != (c.way == MeasuredProducts) {
			t.Errorf("%v, %v of %s: remembered %v", c.way, c.kind, c.offered, tuning)
		}
	}
}

// In bfloat16, other orders of sums and of what is added to them show as well.
func TestChooseInBFloat16(t *testing.T) {
	if os.Getenv(emulated.LibraryVariable) != "" {
		t.Skip("needs an emulated device of its own")
	}
	at := libraryFor(t, BFloat16, emulated.Unwatched)
	r := openRig(t, at, Arithmetic{Stored: BFloat16})
	b, err := r.context.OpenBLAS(at) // which offers sliced first, and then wide
	must(t, err)
	defer func() { must(t, b.Close()) }()
	for kind, want := range map[ProductKind]string{{N: 16, K: 48}: wide, {N: 16, K: 48, Residual: true}: ownName} {
		tuning := ProductTuning{}
		for class := range rowClasses[1:] {
			tuning[kind.key(BFloat16, class+1)] = ownName
		}
		chosen, err := r.choose(b, MeasuredProducts, kind, tuning, long)
		must(t, err)
		if have := chosen.chosen()[0]; have != want && !(want == wide && have == "number 1") {
			t.Errorf("%v: %s, want %s", kind, have, want)
		}
		chosen, err = r.choose(b, LibraryProducts, kind, nil, 0)
		must(t, err)
		if have := chosen.chosen()[0]; have != sliced {
			t.Errorf("%v from the library: %s, want %s", kind, have, sliced)
		}
	}
}

// What was measured is taken again without a measurement, if it is still offered and has the right bits.
func TestTuningIsRemembered(t *testing.T) {
	r := newRig(t)
	b, kind := r.blas(), ProductKind{N: 16, K: 48}
	tuning := fewRows(kind)
	first, err := r.choose(b, MeasuredProducts, kind, tuning, long)
	must(t, err)
	again, err := r.choose(b, MeasuredProducts, kind, maps.Clone(tuning), 0)
	must(t, err)
	if !slices.Equal(again.chosen(), first.chosen()) || first[0] == nil {
		t.Errorf("%v, and then %v", first.chosen(), again.chosen())
	}
	if tuning["float16 16x48, 16 rows"] == "" {
		t.Errorf("remembered %v", tuning)
	}
	for _, known := range []string{"nonsense", "number 3, tile 0, splits 1, reduction 0, swizzling 0, custom 0, stages 0, inner 0, cluster 0"} {
		r.offer("varying,wide")
		foreign := fewRows(kind)
		foreign[kind.key(Float16, 0)] = known
		without, err := r.choose(b, MeasuredProducts, kind, foreign, 0)
		must(t, err)
		if without[0] != nil {
			t.Errorf("%q and no time: %v", known, without.chosen())
		}
		with, err := r.choose(b, MeasuredProducts, kind, foreign, long)
		must(t, err)
		if with[0] == nil || foreign[kind.key(Float16, 0)] != with[0].String() {
			t.Errorf("%q: %v, remembered %v", known, with.chosen(), foreign)
		}
	}
}

// Calls that fail while it is chosen: an algorithm that does not run is not taken, and other failures are said.
func TestChooseErrors(t *testing.T) {
	r := newRig(t)
	b, kind := r.blas(), ProductKind{N: 16, K: 48}
	for fault, want := range map[string]string{ // of an algorithm, or what is said
		"cublasLtMatmul:1:14":                 wide,
		"cublasLtMatmulAlgoCheck:1:15":        wide,
		"cublasLtMatmulAlgoGetHeuristic:1:14": "cublasLtMatmulAlgoGetHeuristic: CUBLAS_STATUS_INTERNAL_ERROR",
		"cuMemAlloc:2:2":                      "OUT_OF_MEMORY",
		"cuMemcpyDtoHAsync:2:700":             "ILLEGAL_ADDRESS",
	} {
		r.offer("narrow,wide")
		r.set("fault", fault)
		chosen, err := r.choose(b, LibraryProducts, kind, nil, 0)
		r.set("fault", "")
		said := chosen.chosen()[0]
		if err != nil {
			said = err.Error()
		}
		if !strings.Contains(said, want) || (err != nil) != (want != wide) {
			t.Errorf("%s: %v and %v, want %s", fault, chosen.chosen(), err, want)
		}
	}
}

// What sluice bench gpu shows: times of what there is.
func TestProductTimes(t *testing.T) {
	r := newRig(t)
	b := r.blas()
	for _, c := range []struct {
		offered             string
		kind                ProductKind
		sameBits, byLibrary bool
	}{
		{"wide,sliced", ProductKind{N: 16, K: 48}, true, true}, {"sliced", ProductKind{N: 16, K: 48}, false, true},
		{"varying", ProductKind{N: 16, K: 48}, false, false}, {"wide", ProductKind{N: 20, K: 48}, false, false},
	} {
		r.offer(c.offered)
		chooser, err := NewChooser(r.context, r.kernels, b, r.kernels.stored, LibraryProducts, nil, 0)
		must(t, err)
		times, err := chooser.Times(c.kind, 5)
		must(t, err)
		must(t, chooser.Close())
		if times.Own <= 0 || times.SameBits > 0 != c.sameBits || times.Library > 0 != c.byLibrary {
			t.Errorf("%v of %s: %+v", c.kind, c.offered, times)
		}
	}
}

// Every number of rows is in one class.
func TestRowClasses(t *testing.T) {
	for rows, want := range map[int]int{1: 0, 16: 0, 17: 1, 64: 1, 65: 2, 1024: 3, 1025: 4, 4096: 4, 8192: 4} {
		if have := classOf(rows); have != want {
			t.Errorf("%d rows are in class %d, want %d", rows, have, want)
		}
	}
	for class := range rowClasses {
		for _, rows := range countsOf(class) {
			if classOf(rows) != class {
				t.Errorf("%d rows are tried for class %d", rows, class)
			}
		}
	}
}

func TestMultiplications(t *testing.T) {
	for _, m := range []Multiplication{MeasuredProducts, OwnProducts, LibraryProducts} {
		if again, err := ParseMultiplication(m.String()); again != m || err != nil {
			t.Errorf("%v is %v: %v", m, again, err)
		}
	}
	if _, err := ParseMultiplication("fast"); err == nil {
		t.Error("products cannot be fast")
	}
}
