//go:build linux && (amd64 || arm64) && !nogpu

package gpukernels

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluice-mt/sluice/gpukernels/cuda"
)

// A trainedProduct is a product as training has it, with operands that have gaps where they may.
type trainedProduct struct {
	name    string
	product TrainingProduct
	old     []byte // what is where the results come
}

// trainedProducts are products of all forms, with so many rows and so wide matrices.
func (r *trainingRig) trainedProducts(rows, k, n int) []trainedProduct {
	matrix := func(rows, columns, gap int) Matrix {
		return Matrix{At: in(r.rig, r.halves(rows*(columns+gap), 1)), Rows: rows, Columns: columns, Stride: columns + gap}
	}
	bias, floats := in(r.rig, r.halves(n, 1)), in(r.rig, r.floats(n, 1))
	result := func(rows, columns, gap int) Matrix {
		m := matrix(rows, columns, gap)
		m.At = in(r.rig, make([]number, rows*(columns+gap)))
		return m
	}
	sums := func(rows, columns int) cuda.Pointer { return in(r.rig, r.floats(rows*columns, 1)) }
	residual := result(rows, n, 0)
	residual.At = in(r.rig, r.halves(rows*n, 1))
	return []trainedProduct{
		{name: "forward", product: TrainingProduct{A: matrix(rows, k, 8), B: matrix(k, n, 0), Bias: bias, Result: result(rows, n, 16)}},
		{name: "rectified", product: TrainingProduct{A: matrix(rows, k, 0), B: matrix(k, n, 0), Bias: bias, Rectified: true, Result: result(rows, n, 0)}},
		{name: "without bias", product: TrainingProduct{A: matrix(rows, k, 0), B: matrix(k, n, 0), Rectified: true, Result: result(rows, n, 0)}},
		{name: "gradient of the input", product: TrainingProduct{A: matrix(rows, k, 8), B: matrix(n, k, 0), Order: TransposedB, Result: result(rows, n, 0)}},
		{name: "added gradient of the input", product: TrainingProduct{A: matrix(rows, k, 0), B: matrix(n, k, 0), Order: TransposedB, Residual: residual.At, Result: residual}},
		{name: "gradient of the weights", product: TrainingProduct{A: matrix(rows, k, 0), B: matrix(rows, n, 8), Order: TransposedA, Sums: sums(k, n), Add: true,
			Result: Matrix{Rows: k, Columns: n}}},
		{name: "logits", product: TrainingProduct{A: matrix(rows, k, 0), B: matrix(n, k, 0), Order: TransposedB, Bias: floats, Sums: sums(rows, n+8),
			Result: Matrix{Rows: rows, Columns: n, Stride: n + 8}}},
		{name: "gradient by the logits", product: TrainingProduct{A: matrix(rows, k, 16), B: matrix(k, n, 0), Sums: sums(rows, n), Add: true,
			Result: Matrix{Rows: rows, Columns: n}}},
	}
}

// place is where the results are, and how many bytes they take.
func (p *trainedProduct) place() (cuda.Pointer, int) {
	if p.product.Sums != 0 {
		return p.product.Sums, 4 * p.product.Result.Rows * p.product.Result.stride()
	}
	return p.product.Result.At, 2 * p.product.Result.Rows * p.product.Result.stride()
}

// run returns what a product gives, gaps included, and brings back what was there before.
func (p *trainedProduct) run(r *trainingRig, multiply func(s *cuda.Stream, p TrainingProduct) error) []float32 {
	r.t.Helper()
	at, bytes := p.place()
	if p.old == nil {
		p.old = out[byte](r.rig, at, bytes)
	}
	must(r.t, multiply(r.stream, p.product))
	var have []float32
	if p.product.Sums != 0 {
		have = out[float32](r.rig, at, bytes/4)
	} else {
		for _, n := range out[number](r.rig, at, bytes/2) {
			have = append(have, n.Float32())
		}
	}
	must(r.t, cuda.CopyIn(r.stream, at, p.old))
	return have
}

func doublesOf(x []float32) []float64 {
	all := make([]float64, len(x))
	for i, v := range x {
		all[i] = float64(v)
	}
	return all
}

// chooseBy lets the rig's kernels choose, until the test ends.
func (r *trainingRig) chooseBy(b *cuda.BLAS, way Multiplication, tuning ProductTuning, d time.Duration) *Chooser {
	r.t.Helper()
	must(r.t, r.kernels.library.close())
	r.kernels.library = nil
	c, err := NewTrainingChooser(r.context, r.kernels, b, way, tuning, d)
	must(r.t, err)
	must(r.t, r.kernels.ChooseBy(c))
	return c
}

// openWithLibrary returns a rig and the library, which must outlive the kernels.
func openWithLibrary(t *testing.T) (*trainingRig, *cuda.BLAS) {
	t.Helper()
	r := newTrainingRig(t)
	b := r.blas()
	t.Cleanup(func() {
		must(t, r.kernels.library.close())
		r.kernels.library = nil
	})
	return r, b
}

// What is measured gives the bits of the kernels here; what the library gives on demand is near them, and where nothing is rounded to 16 bits it has
// others.
func TestTrainingLibrary(t *testing.T) {
	r, b := openWithLibrary(t)
	for _, shape := range [][3]int{{37, 48, 24}, {20, 40, 16}} {
		products := r.trainedProducts(shape[0], shape[1], shape[2])
		for i := range products {
			p := &products[i]
			own := p.run(r, r.kernels.ownProduct)
			for _, c := range []struct {
				way     Multiplication
				offered string
				own     bool // the library has nothing
			}{
				{MeasuredProducts, "slow,wide", false}, {MeasuredProducts, "workspace", false}, {MeasuredProducts, "sliced,wrong,split", true},
				{LibraryProducts, "wide", false}, {LibraryProducts, "split,wrong,sliced", false}, {LibraryProducts, "none", true}, {OwnProducts, "wide", true},
			} {
				r.offer(c.offered)
				r.chooseBy(b, c.way, ProductTuning{}, long)
				have := p.run(r, r.kernels.Product)
				what := fmt.Sprintf("%v, %s, %v of %s", shape, p.name, c.way, c.offered)
				choices := r.kernels.Choices()
				if choices.Kinds != 1 || choices.Refused > 0 || choices.ByLibrary == 1 && c.own || choices.ByLibrary == 0 && c.way == LibraryProducts && !c.own {
					t.Errorf("%s: %+v", what, choices)
				}
				if c.way == LibraryProducts && strings.Contains(c.offered, "sliced") {
					nearFloats(t, what, have, doublesOf(own), 0.02*coarser())
					if p.product.Sums != 0 && slices.Equal(have, own) {
						t.Errorf("%s: the bits of the kernels here", what)
					}
				} else if !slices.Equal(have, own) {
					t.Errorf("%s: other bits than the kernels here", what)
				}
			}
		}
	}
}

// Products of one kind have a bias each.
func TestTrainingLibraryBiases(t *testing.T) {
	r, b := openWithLibrary(t)
	r.offer("wide")
	r.chooseBy(b, LibraryProducts, nil, 0)
	product := &r.trainedProducts(13, 48, 24)[0]
	for range 3 {
		product.product.Bias = in(r.rig, r.halves(24, 1))
		if own := product.run(r, r.kernels.ownProduct); !slices.Equal(product.run(r, r.kernels.Product), own) {
			t.Error("other bits than the kernels here")
		}
	}
	if have := r.kernels.Choices(); have != (Choices{Kinds: 1, ByLibrary: 1}) {
		t.Errorf("%+v", have)
	}
}

// What is taken of what the library offers, for each form of product.
func TestTrainingChoose(t *testing.T) {
	r, b := openWithLibrary(t)
	products := r.trainedProducts(60, 40, 24)
	for i := range products {
		p := &products[i]
		kind := p.product.Kind()
		for _, c := range []struct {
			way           Multiplication
			offered, want string
		}{
			{MeasuredProducts, "sliced,varying,wrong,split,wide", wide}, {MeasuredProducts, "workspace", needy}, {MeasuredProducts, "sliced,wrong", ""},
			{LibraryProducts, "wrong,split,sliced", sliced}, {LibraryProducts, "hiding,wrong,wide", wide}, {LibraryProducts, "wrong,split", ""},
		} {
			if strings.Contains(c.offered, "varying") && kind.overRows() {
				continue // it does not vary with the number of rows
			}
			if strings.Contains(c.offered, "hiding") && !kind.Rectified {
				continue // it does not hide
			}
			r.offer(c.offered)
			chooser := r.chooseBy(b, c.way, ProductTuning{}, long)
			probe, err := chooser.openProbe(kind, 60)
			must(t, err)
			all, err := chooser.algorithms(probe, 60)
			must(t, err)
			var taken []*cuda.BLASAlgorithm
			if c.way == MeasuredProducts {
				taken, err = probe.right(all, classOf(60))
			} else if first, e := chooser.firstNear(probe, classOf(60)); first != nil || e != nil {
				taken, err = append(taken, first), e
			}
			must(t, err)
			must(t, probe.close())
			var have string
			if len(taken) > 0 {
				have, _, _ = strings.Cut(taken[0].String(), ",")
			}
			if have != c.want || len(taken) > 1 {
				t.Errorf("%s, %v of %s: %q, want %q", p.name, c.way, c.offered, have, c.want)
			}
		}
	}
}

// What was measured is remembered, for a class of rows; without time, the kernels here compute what is not known.
func TestTrainingTuning(t *testing.T) {
	r, b := openWithLibrary(t)
	product := &r.trainedProducts(13, 48, 24)[0]
	r.offer("wide")
	r.chooseBy(b, MeasuredProducts, ProductTuning{}, 0)
	product.run(r, r.kernels.Product)
	if have := r.kernels.Choices(); have != (Choices{Kinds: 1}) {
		t.Errorf("without time: %+v", have)
	}
	tuning := ProductTuning{}
	chooser := r.chooseBy(b, MeasuredProducts, tuning, long)
	product.run(r, r.kernels.Product)
	key := fmt.Sprintf("%v 24x48 straight, 16 rows", stored)
	if _, known := tuning[key]; !known || len(tuning) != 1 || !chooser.Changed() {
		t.Errorf("remembered %v", tuning)
	}
	tuning[key] = wide + ", tile 0, splits 1, reduction 0, swizzling 0, custom 0, stages 0, inner 0, cluster 0"
	chooser = r.chooseBy(b, MeasuredProducts, tuning, 0)
	product.run(r, r.kernels.Product)
	if have := r.kernels.Choices(); have.ByLibrary != 1 || chooser.Changed() {
		t.Errorf("what is known to be faster by the library: %+v, measured: %v", have, chooser.Changed())
	}
	tuning[key] = ownName
	r.chooseBy(b, MeasuredProducts, tuning, long)
	product.run(r, r.kernels.Product)
	if r.kernels.Choices().ByLibrary != 0 {
		t.Error("the library computes what the kernels here are known to do faster")
	}
}

// Where the library refuses a product after all, or cannot take its operands, the kernels here compute it; other failures are said.
func TestTrainingLibraryRefuses(t *testing.T) {
	r, b := openWithLibrary(t)
	r.offer("sliced")
	product := &r.trainedProducts(13, 48, 24)[0]
	own := product.run(r, r.kernels.ownProduct)
	r.chooseBy(b, LibraryProducts, nil, 0)
	if slices.Equal(product.run(r, r.kernels.Product), own) {
		t.Fatal("the library has the bits of the kernels here")
	}
	for _, code := range []int{7, 15} {
		r.set("fault", fmt.Sprintf("cublasLtMatmul:1:%d", code))
		if !slices.Equal(product.run(r, r.kernels.Product), own) {
			t.Errorf("code %d: not the bits of the kernels here", code)
		}
	}
	if have := r.kernels.Choices(); have != (Choices{Kinds: 1, ByLibrary: 1, Refused: 2}) {
		t.Errorf("%+v after two refusals", have)
	}
	r.set("fault", "cublasLtMatmul:1:13")
	if err := r.kernels.Product(r.stream, product.product); err == nil || !strings.Contains(err.Error(), "EXECUTION_FAILED") {
		t.Errorf("a product that fails: %v", err)
	}
	odd := product.product
	odd.A.At, odd.A.Rows, odd.Result.Rows = cuda.Offset[number](odd.A.At, 4), 12, 12
	if odd.forLibrary() || !product.product.forLibrary() {
		t.Error("operands that are not where the library takes them")
	}
}

// There is room to measure what each training multiplies for its loss, with whatever number of rows.
func TestRoomForLoss(t *testing.T) {
	for _, vocabulary := range []int{500, 8000, 32000, 64000} {
		for _, d := range []int{256, 512, 1024} {
			for rows := 1; rows <= 20000; rows += 1 + rows/16 {
				n, need := LossChunk(rows, vocabulary), rowClasses[classOf(rows)]
				for _, kind := range []ProductKind{
					{N: n, K: d, Training: true, Order: TransposedB, Sums: true},
					{N: d, K: n, Training: true, Order: Straight, Sums: true, Residual: true},
					{N: d, K: n, Training: true, Order: TransposedA, Sums: true, Residual: true},
				} {
					if room := mostTrainingProbeBytes / kind.bytesOfRow(); room < need {
						t.Errorf("%v, %d rows: room for %d, and %d are measured", kind, rows, room, need)
					}
				}
			}
		}
	}
}
