//go:build linux && (amd64 || arm64) && !nogpu

package gpukernels

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/sluice-mt/sluice/gpukernels/cuda"
	"github.com/sluice-mt/sluice/train/autodiff"
	"github.com/sluice-mt/sluice/train/optimiser"
)

// A trainingRig compares operations with those of the trainer on the processor, in float64.
type trainingRig struct {
	*rig
	kernels *Training
	tape    *autodiff.Tape[float64]
}

const dropoutSeed = 77

func newTrainingRig(t testing.TB) *trainingRig {
	t.Helper()
	r := openRig(t, library(t), Arithmetic{Stored: stored})
	d, err := cuda.Open(library(t))
	must(t, err)
	k, err := LoadTraining(d, 0, r.context, stored)
	must(t, err)
	t.Cleanup(func() { must(t, k.Close()) })
	tape := autodiff.NewTape[float64](autodiff.Plain[float64]{})
	tape.Reset(true, dropoutSeed)
	return &trainingRig{r, k, tape}
}

// dropout is what the next operation with random numbers drops.
func dropoutOf(operation uint64, p float64) Dropout {
	seed, threshold, keep := autodiff.DropoutOf(dropoutSeed, operation, p)
	return Dropout{seed, threshold, float32(keep)}
}

// matrix returns random numbers of 16 bits, for the processor and on the device.
func (r *trainingRig) matrix(rows, columns int, limit float32) (*autodiff.Matrix[float64], cuda.Pointer) {
	h := r.halves(rows*columns, limit)
	m := &autodiff.Matrix[float64]{Rows: rows, Cols: columns, Value: doubles(h), Grad: make([]float64, rows*columns)}
	return m, in(r.rig, h)
}

// vector is the same for float32.
func (r *trainingRig) vector(n int, limit float32) (*autodiff.Matrix[float64], cuda.Pointer) {
	x := r.floats(n, limit)
	m := &autodiff.Matrix[float64]{Rows: 1, Cols: n, Grad: make([]float64, n)}
	for _, v := range x {
		m.Value = append(m.Value, float64(v))
	}
	return m, in(r.rig, x)
}

func doubles(h []number) []float64 {
	var all []float64
	for _, v := range h {
		all = append(all, float64(v.Float32()))
	}
	return all
}

// backward gives y a random gradient, goes back, and returns where it is on the device.
func (r *trainingRig) backward(y *autodiff.Matrix[float64]) cuda.Pointer {
	g := r.halves(len(y.Grad), 1)
	copy(y.Grad, doubles(g))
	r.tape.Backward()
	return in(r.rig, g)
}

// nearFloats is near for float32.
func nearFloats(t testing.TB, what string, have []float32, want []float64, tolerance float64) {
	t.Helper()
	for i, h := range have {
		if !(math.Abs(float64(h)-want[i]) <= tolerance*max(math.Abs(want[i]), 1)) {
			t.Fatalf("%s: element %d is %v, want %v", what, i, h, want[i])
		}
	}
}

func (r *trainingRig) near(what string, at cuda.Pointer, want []float64, tolerance float64) {
	r.t.Helper()
	near(r.t, what, out[number](r.rig, at, len(want)), want, tolerance)
}

func (r *trainingRig) nearFloats(what string, at cuda.Pointer, want []float64, tolerance float64) {
	r.t.Helper()
	nearFloats(r.t, what, out[float32](r.rig, at, len(want)), want, tolerance)
}

func (r *trainingRig) zeros(n int) cuda.Pointer { return in(r.rig, make([]float32, n)) }

// An affine function forward, and both of its gradients, in both tilings, which must give the same bits.
func TestTrainingProduct(t *testing.T) {
	r := newTrainingRig(t)
	shapes := [][3]int{{1, 8, 8}, {37, 40, 72}, {70, 136, 64}}
	if testing.Short() {
		shapes = shapes[:2]
	}
	for _, shape := range shapes {
		rows, length, columns := shape[0], shape[1], shape[2]
		x, xAt := r.matrix(rows, length, 1)
		w, wAt := r.matrix(length, columns, 1)
		b, bAt := r.matrix(1, columns, 1)
		_, squareAt := r.matrix(8, 8, 1)
		y := r.tape.AffineReLU(x, w, b)
		var bits [2][3][]number
		for i, tile := range []tiling{large, middle} {
			what := fmt.Sprint(tile.name, shape)
			result := Matrix{At: alloc[number](r.rig, rows*columns), Rows: rows, Columns: columns}
			must(t, r.kernels.product(r.stream, TrainingProduct{A: Matrix{At: xAt, Rows: rows, Columns: length},
				B: Matrix{At: wAt, Rows: length, Columns: columns}, Bias: bAt, Rectified: true, Result: result}, tile))
			r.near(what, result.At, y.Value, 1e-4)

			g := r.halves(rows*columns, 1)
			dy := &autodiff.Matrix[float64]{Rows: rows, Cols: columns, Value: doubles(g)}
			device, dyAt := autodiff.Plain[float64]{}, in(r.rig, g)
			old, dxAt := r.matrix(rows, length, 3)
			device.Multiply(viewOf(old), viewOf(dy), viewOf(w), autodiff.TransposedB, true)
			must(t, r.kernels.product(r.stream, TrainingProduct{A: Matrix{At: dyAt, Rows: rows, Columns: columns}, Order: TransposedB,
				B: Matrix{At: wAt, Rows: length, Columns: columns}, Residual: dxAt, Result: Matrix{At: dxAt, Rows: rows, Columns: length}}, tile))
			r.near(what+" dx", dxAt, old.Value, 1e-4)

			sums, sumsAt := r.vector(length*columns, 3)
			sums.Rows, sums.Cols = length, columns
			device.Multiply(viewOf(sums), viewOf(x), viewOf(dy), autodiff.TransposedA, true)
			must(t, r.kernels.product(r.stream, TrainingProduct{A: Matrix{At: xAt, Rows: rows, Columns: length}, Order: TransposedA, Add: true,
				B: Matrix{At: dyAt, Rows: rows, Columns: columns}, Sums: sumsAt, Result: Matrix{Rows: length, Columns: columns}}, tile))
			r.nearFloats(what+" dw", sumsAt, sums.Value, 1e-5*float64(rows))

			for j, order := range []Order{Straight, TransposedB, TransposedA} {
				bits[i][j] = r.squareProduct(squareAt, wAt, order, tile)
			}
		}
		for j := range bits[0] {
			if !slices.Equal(bits[0][j], bits[1][j]) {
				t.Errorf("%v, order %d: the tilings differ", shape, j)
			}
		}
	}
}

// squareProduct returns a product of 8×8 elements.
func (r *trainingRig) squareProduct(a, b cuda.Pointer, order Order, tile tiling) []number {
	eight := Matrix{Rows: 8, Columns: 8}
	p := TrainingProduct{A: eight, B: eight, Order: order, Result: eight}
	p.A.At, p.B.At, p.Result.At = a, b, alloc[number](r.rig, 64)
	must(r.t, r.kernels.product(r.stream, p, tile))
	return out[number](r.rig, p.Result.At, 64)
}

func viewOf(m *autodiff.Matrix[float64]) autodiff.View[float64] {
	return autodiff.View[float64]{Data: m.Value, Rows: m.Rows, Cols: m.Cols, Stride: m.Cols}
}

func TestTrainingProductRefuses(t *testing.T) {
	k := &Training{kernels: &Kernels{multiprocessors: 1}}
	for i, spoil := range []func(p *TrainingProduct){
		func(p *TrainingProduct) { p.A.Rows = 5 }, func(p *TrainingProduct) { p.Order = TransposedA }, func(p *TrainingProduct) { p.A.Stride = 20 },
		func(p *TrainingProduct) { p.B.Stride = 12 }, func(p *TrainingProduct) { p.Result.Stride = 9 },
		func(p *TrainingProduct) { p.Sums, p.Residual = 1, 1 },
	} {
		p := TrainingProduct{A: Matrix{1, 4, 16, 0}, B: Matrix{1, 16, 8, 0}, Result: Matrix{1, 4, 8, 0}}
		spoil(&p)
		if err := k.Product(nil, p); err == nil {
			t.Errorf("case %d was launched", i)
		}
	}
}

// Elements: sums, the gradient of max(0, ·), and the same dropout as the processor's.
func TestTrainingElements(t *testing.T) {
	r := newTrainingRig(t)
	for i, n := range []int{8, 1032, 2056} {
		a, aAt := r.matrix(1, n, 3)
		b, bAt := r.matrix(1, n, 3)
		sum := r.tape.Add(a, b)
		must(t, r.kernels.Add(r.stream, aAt, aAt, bAt, n))
		r.near("sums", aAt, sum.Value, 1e-3)

		dy, dyAt := r.matrix(1, n, 3)
		autodiff.Plain[float64]{}.Mask(dy.Value, b.Value)
		must(t, r.kernels.Mask(r.stream, dyAt, bAt, n))
		r.near("masked", dyAt, dy.Value, 0)

		r.tape.Dropout(b, 0.3)
		must(t, r.kernels.Dropout(r.stream, bAt, n, Spacing{}, dropoutOf(uint64(i+1), 0.3)))
		r.near("dropped", bAt, b.Value, 1e-3)

		x, xAt := r.vector(n, 100)
		to := alloc[number](r.rig, n)
		must(t, r.kernels.Store(r.stream, to, xAt, n))
		r.near("stored", to, x.Value, 1e-3)
	}
	if err := r.kernels.Add(r.stream, 1, 1, 1, 12); err == nil {
		t.Error("12 elements were added eight at a time")
	}
}

// Rows are rounded to the processor's numbers, rows of zeros and rows that are not finite among them.
func TestTrainingRoundRows(t *testing.T) {
	r := newTrainingRig(t)
	tape := autodiff.NewTape[float32](autodiff.Plain[float32]{})
	for _, n := range []int{8, 264} {
		const rows = 7
		h := r.halves(rows*n, 3)
		for i := range n {
			h[i] = 0
		}
		h[2*n+3], h[3*n+5] = numberOf(float32(math.Inf(-1))), numberOf(float32(math.NaN()))
		x := &autodiff.Matrix[float32]{Rows: rows, Cols: n}
		for _, v := range h {
			x.Value = append(x.Value, v.Float32())
		}
		tape.Reset(false, 0)
		want, at := tape.QuantiseRows(x), alloc[number](r.rig, rows*n)
		must(t, r.kernels.RoundRows(r.stream, at, Matrix{At: in(r.rig, h), Rows: rows, Columns: n}))
		for i, have := range out[number](r.rig, at, rows*n) {
			if have, want := have.Float32(), numberOf(want.Value[i]).Float32(); have != want && !(have != have && want != want) {
				t.Fatalf("%d columns: element %d is %v, want %v", n, i, have, want)
			}
		}
	}
}

func TestTrainingNorm(t *testing.T) {
	r := newTrainingRig(t)
	const epsilon = 1e-6
	for i, shape := range [][2]int{{1, 8}, {67, 264}, {130, 40}, {67, 264}, {3, 8}} {
		rows, n, rms := shape[0], shape[1], i > 2
		r.tape.Reset(true, dropoutSeed)
		x, xAt := r.matrix(rows, n, 3)
		scale, scaleAt := r.vector(n, 2)
		bias, biasAt := r.vector(n, 2)
		y := r.tape.LayerNorm(x, scale, bias, epsilon)
		if rms {
			r.tape.Reset(true, dropoutSeed)
			y, biasAt = r.tape.RMSNorm(x, scale, epsilon), 0
		}
		norm := Norm{X: Matrix{At: xAt, Rows: rows, Columns: n}, Scale: scaleAt, Bias: biasAt, RMS: rms, Statistics: alloc[float32](r.rig, 2*rows)}
		yAt := alloc[number](r.rig, rows*n)
		must(t, r.kernels.Norm(r.stream, yAt, norm, epsilon))
		r.near(fmt.Sprint("norm", shape), yAt, y.Value, 1e-4)

		add := i == 1 || i == 3
		dx := alloc[number](r.rig, rows*n)
		if add {
			old, at := r.matrix(rows, n, 2)
			copy(x.Grad, old.Value)
			dx = at
		}
		dyAt, dscale, dbias := r.backward(y), r.zeros(n), r.zeros(n)
		must(t, r.kernels.NormBackward(r.stream, dx, add, dyAt, norm))
		must(t, r.kernels.NormParameters(r.stream, dscale, dbias, dyAt, norm, alloc[float32](r.rig, 2*GroupNumbers(rows, n))))
		r.near(fmt.Sprint("norm dx", shape), dx, x.Grad, 1e-3)
		r.nearFloats("dscale", dscale, scale.Grad, 1e-4)
		r.nearFloats("dbias", dbias, bias.Grad, 1e-4)
	}
}

// In rows with gaps, norms and dropout are those of rows without, and the gaps stay zeros.
func TestTrainingNormSpaced(t *testing.T) {
	r := newTrainingRig(t)
	const rows, epsilon = 5, 1e-6
	for i, c := range []struct {
		width, stored, groups int
		rms                   bool
	}{{5, 8, 1, false}, {13, 16, 3, false}, {270, 272, 1, true}, {9, 16, 4, true}} {
		n, of := c.width*c.groups, Spacing{c.width, c.stored}
		spaced := c.stored * c.groups
		r.tape.Reset(true, dropoutSeed)
		x, xAt := r.spacedMatrix(of, rows, n)
		scale, scaleAt := r.spacedVector(of, n)
		bias, biasAt := r.spacedVector(of, n)
		r.tape.Dropout(x, 0.3)
		must(t, r.kernels.Dropout(r.stream, xAt, rows*spaced, of, dropoutOf(1, 0.3)))
		r.nearSpaced(fmt.Sprint("dropped ", i), of, xAt, x.Value, 1e-4)
		var y *autodiff.Matrix[float64]
		if c.rms {
			y, biasAt = r.tape.RMSNorm(x, scale, epsilon), 0
		} else {
			y = r.tape.LayerNorm(x, scale, bias, epsilon)
		}
		norm := Norm{X: Matrix{At: xAt, Rows: rows, Columns: spaced}, Scale: scaleAt, Bias: biasAt, RMS: c.rms, Statistics: alloc[float32](r.rig, 2*rows), Spacing: of}
		yAt, dx, dscale, dbias := alloc[number](r.rig, rows*spaced), alloc[number](r.rig, rows*spaced), r.zeros(spaced), r.zeros(spaced)
		must(t, r.kernels.Norm(r.stream, yAt, norm, epsilon))
		r.nearSpaced(fmt.Sprint("norm ", i), of, yAt, y.Value, 1e-3)
		g := r.halves(rows*n, 1)
		copy(y.Grad, doubles(g))
		dyAt := in(r.rig, spacedOut(of, g))
		must(t, r.kernels.NormBackward(r.stream, dx, false, dyAt, norm))
		must(t, r.kernels.NormParameters(r.stream, dscale, dbias, dyAt, norm, alloc[float32](r.rig, 2*GroupNumbers(rows, spaced))))
		must(t, r.kernels.Dropout(r.stream, dx, rows*spaced, of, dropoutOf(1, 0.3)))
		r.tape.Backward()
		r.nearSpaced(fmt.Sprint("norm dx ", i), of, dx, x.Grad, 1e-3)
		nearFloats(t, "dscale", out[float32](r.rig, dscale, spaced), spacedOut(of, scale.Grad), 1e-3*coarser())
		if !c.rms {
			nearFloats(t, "dbias", out[float32](r.rig, dbias, spaced), spacedOut(of, bias.Grad), 1e-4*coarser())
		}
	}
}

// spacedOut returns rows with gaps.
func spacedOut[T any](of Spacing, dense []T) []T {
	var spaced []T
	for i := 0; i < len(dense); i += of.Width {
		spaced = append(append(spaced, dense[i:i+of.Width]...), make([]T, of.Stored-of.Width)...)
	}
	return spaced
}

// spacedMatrix is matrix with gaps on the device.
func (r *trainingRig) spacedMatrix(of Spacing, rows, columns int) (*autodiff.Matrix[float64], cuda.Pointer) {
	h := r.halves(rows*columns, 3)
	return &autodiff.Matrix[float64]{Rows: rows, Cols: columns, Value: doubles(h), Grad: make([]float64, len(h))}, in(r.rig, spacedOut(of, h))
}

// spacedVector is the same for a row of float32.
func (r *trainingRig) spacedVector(of Spacing, n int) (*autodiff.Matrix[float64], cuda.Pointer) {
	x := r.floats(n, 2)
	return &autodiff.Matrix[float64]{Rows: 1, Cols: n, Value: doublesOf(x), Grad: make([]float64, n)}, in(r.rig, spacedOut(of, x))
}

// nearSpaced compares what is in groups, and wants zeros elsewhere.
func (r *trainingRig) nearSpaced(what string, of Spacing, at cuda.Pointer, want []float64, tolerance float64) {
	r.t.Helper()
	spaced := spacedOut(of, want)
	have := out[number](r.rig, at, len(spaced))
	near(r.t, what, have, spaced, tolerance)
	for i, h := range have {
		if i%of.Stored >= of.Width && h.Float32() != 0 {
			r.t.Fatalf("%s: %v at %d, between groups", what, h.Float32(), i)
		}
	}
}

func TestTrainingColumns(t *testing.T) {
	r := newTrainingRig(t)
	for _, shape := range [][2]int{{1, 1}, {64, 200}, {129, 9}} {
		rows, n := shape[0], shape[1]
		x, at := r.matrix(rows, n+3, 1)
		sums, to := r.vector(n, 5)
		for i := range rows {
			for j := range n {
				sums.Value[j] += x.Row(i)[j]
			}
		}
		must(t, r.kernels.AddColumns(r.stream, to, Matrix{At: at, Rows: rows, Columns: n, Stride: n + 3}, alloc[float32](r.rig, GroupNumbers(rows, n))))
		r.nearFloats(fmt.Sprint("columns of ", shape), to, sums.Value, 1e-5)
	}
}

func TestTrainingEmbed(t *testing.T) {
	r := newTrainingRig(t)
	const factor = 4
	tokens := []int32{3, -1, 0, 3, 6, 3, 0}
	order, starts := []int32{2, 6, 0, 3, 5, 4}, []int32{0, 2, 5, 6}
	for _, n := range []int{8, 264} {
		r.tape.Reset(true, dropoutSeed)
		table, tableAt := r.matrix(7, n, 1)
		signal, signalAt := r.vector(4*n, 1)
		signal.Rows, signal.Cols = 4, n
		y := r.tape.Embed(table, tokens, factor)
		r.tape.DropoutRows(y, 0.4)
		r.tape.AddPositions(y, autodiff.Segments{0, 4, 7}, signal)
		e := Embedding{Tokens: in(r.rig, tokens), Factor: factor, Dropout: dropoutOf(1, 0.4)}
		yAt := alloc[number](r.rig, len(tokens)*n)
		must(t, r.kernels.Embed(r.stream, Matrix{At: yAt, Rows: len(tokens), Columns: n}, e, tableAt, signalAt, in(r.rig, []int32{0, 1, 2, 3, 0, 1, 2})))
		r.near("embeddings", yAt, y.Value, 1e-3)
		old, to := r.vector(7*n, 1) // of other mini-batches
		copy(table.Grad, old.Value)
		dy := r.backward(y)
		must(t, r.kernels.EmbedBackward(r.stream, to, dy, n, e, TokenRows{in(r.rig, order), in(r.rig, starts), len(starts) - 1}))
		r.nearFloats("the table's gradient", to, table.Grad, 1e-5)
	}
}

func TestTrainingSSRU(t *testing.T) {
	r := newTrainingRig(t)
	r.eachWidth(func(segments autodiff.Segments, c Columns) {
		n := c.Columns
		x, xAt := r.matrix(13, n, 2)
		f, fAt := r.matrix(13, n, 4)
		h := r.tape.SSRU(f, x, segments)
		units := Recurrence{X: xAt, F: fAt, States: alloc[float32](r.rig, 13*n), Starts: c.Starts, Sentences: c.Sentences, Columns: n}
		hAt, dx, df := alloc[number](r.rig, 13*n), alloc[number](r.rig, 13*n), alloc[number](r.rig, 13*n)
		must(t, r.kernels.SSRU(r.stream, hAt, units))
		r.near("units", hAt, h.Value, 1e-4)
		must(t, r.kernels.SSRUBackward(r.stream, dx, df, r.backward(h), units))
		r.near("dx", dx, x.Grad, 1e-4)
		r.near("df", df, f.Grad, 1e-4)
	})
}

// sentences are lists for sentences of given lengths.
func (r *trainingRig) sentences(lengths ...int) (autodiff.Segments, Sentences) {
	segments, starts, of := autodiff.Segments{0}, []int32{0}, []int32{}
	for i, n := range lengths {
		for range n {
			of = append(of, int32(i))
		}
		segments, starts = append(segments, len(of)), append(starts, int32(len(of)))
	}
	return segments, Sentences{Of: in(r.rig, of), Starts: in(r.rig, starts), Rows: len(of)}
}

// Attention of one side to another and to itself, causal or not, with dropout or without, over more keys than a warp takes at once, with heads of
// one part and of several.
func TestTrainingAttention(t *testing.T) {
	r := newTrainingRig(t)
	for i, c := range []struct {
		width, heads  int
		queries, keys []int
		causal        bool
		dropout       float64
	}{
		{16, 2, []int{3, 1, 5}, []int{2, 4, 1}, false, 0}, {80, 2, []int{2, 3}, []int{35, 1}, false, 0.3},
		{128, 1, []int{4, 1}, []int{4, 1}, true, 0.2}, {32, 4, []int{34, 2}, []int{34, 2}, true, 0},
		{2 * 136, 2, []int{1, 35}, []int{34, 2}, false, 0.3}, {MostHeadDim, 1, []int{3, 1}, []int{3, 1}, true, 0.2},
	} {
		r.tape.Reset(true, dropoutSeed)
		queries, ofQueries := r.sentences(c.queries...)
		keys, ofKeys := r.sentences(c.keys...)
		q, qAt := r.matrix(queries.Rows(), c.width, 2)
		k, kAt := r.matrix(keys.Rows(), c.width, 2)
		v, vAt := r.matrix(keys.Rows(), c.width, 1)
		y, _ := r.tape.Attend(q, k, v, queries, keys, autodiff.AttentionOptions{Heads: c.heads, Causal: c.causal, Dropout: c.dropout})
		a := TrainingAttention{Q: qAt, K: kAt, V: vAt, Out: alloc[number](r.rig, len(y.Value)), LogSums: alloc[float32](r.rig, q.Rows*c.heads),
			Queries: ofQueries, Keys: ofKeys, Width: c.width, Heads: c.heads, Causal: c.causal,
			Scale: float32(1 / math.Sqrt(float64(c.width/c.heads)))}
		if c.dropout > 0 {
			a.Dropout = dropoutOf(1, c.dropout)
		}
		must(t, r.kernels.Attention(r.stream, a))
		what := fmt.Sprintf("case %d: ", i)
		r.near(what+"attention", a.Out, y.Value, 1e-4)
		dout, dq, dk, dv := r.backward(y), alloc[number](r.rig, len(q.Value)), alloc[number](r.rig, len(k.Value)), alloc[number](r.rig, len(v.Value))
		must(t, r.kernels.AttentionBackward(r.stream, dq, dk, dv, dout, alloc[float32](r.rig, q.Rows*c.heads), a))
		r.near(what+"dq", dq, q.Grad, 1e-4)
		r.near(what+"dk", dk, k.Grad, 1e-4)
		r.near(what+"dv", dv, v.Grad, 1e-4)
	}
	for _, dim := range []int{12, MostHeadDim + 8} {
		if err := r.kernels.Attention(r.stream, TrainingAttention{Width: 2 * dim, Heads: 2, Queries: Sentences{Rows: 1}}); err == nil {
			t.Errorf("heads of %d elements were taken", dim)
		}
	}
}

// The loss and its gradients, in chunks of several sizes and over a vocabulary that is no multiple of anything.
func TestTrainingLoss(t *testing.T) {
	r := newTrainingRig(t)
	const rows, d, vocabulary, smoothing = 5, 24, 75, 0.1
	words, weights := []int32{0, 74, 8, 31, 8}, []float32{1, 2, 0, 0.5, 1}
	for i, chunk := range []int{8, 40, 80} {
		r.tape.Reset(true, dropoutSeed)
		h, hAt := r.matrix(rows, d, 1)
		w, wAt := r.matrix(vocabulary, d, 1)
		b, bAt := r.vector(vocabulary, 1)
		targets := autodiff.Targets{Words: words, Smoothing: smoothing}
		l := TrainingLoss{H: Matrix{At: hAt, Rows: rows, Columns: d}, Weights: Matrix{At: wAt, Rows: vocabulary, Columns: d}, Bias: bAt,
			Words: in(r.rig, words), Smoothing: smoothing, Chunk: chunk, Logits: alloc[float32](r.rig, rows*chunk),
			Gradients: alloc[number](r.rig, rows*chunk), Statistics: alloc[float32](r.rig, 4*rows), Groups: alloc[float32](r.rig, GroupNumbers(rows, chunk))}
		if i > 0 {
			targets.Weights, l.RowWeights = weights, in(r.rig, weights)
		}
		want := r.tape.CrossEntropy(h, w, b, targets)
		must(t, r.kernels.Loss(r.stream, l))
		have := 0.0
		for row, s := range out[Statistic](r.rig, l.Statistics, rows) {
			loss := s.Loss(smoothing, vocabulary)
			if i > 0 {
				loss *= float64(weights[row])
			}
			have += loss
		}
		if !(math.Abs(have-want) < 1e-5*want) {
			t.Errorf("chunks of %d: a loss of %v, want %v", chunk, have, want)
		}
		dh, dw, db := r.zeros(rows*d), r.zeros(vocabulary*d), r.zeros(vocabulary)
		must(t, r.kernels.LossBackward(r.stream, dh, dw, db, l))
		for what, of := range map[string]struct {
			at   cuda.Pointer
			want []float64
		}{"dh": {dh, h.Grad}, "dw": {dw, w.Grad}, "dbias": {db, b.Grad}} {
			r.nearFloats(what, of.at, of.want, 1e-3*coarser()) // the gradients of logits are stored in between
		}
	}
}

// What logits take is never more than what was told.
func TestLossMemory(t *testing.T) {
	for _, vocabulary := range []int{37, 512, 700, 1500, 32000, 1 << 20} {
		for _, room := range []int{1 << 20, 64 << 20, 512 << 20, 8 << 30} {
			fixed, ofRow := LossMemory(room, vocabulary)
			for rows := 1; rows < 200000; rows += 1 + rows/7 {
				chunk := LossChunk(rows, vocabulary)
				if takes := 6*rows*chunk + 4*GroupNumbers(rows, chunk); takes > fixed+rows*ofRow {
					t.Errorf("%d rows of %d words take %d bytes, more than %d + %d for each row", rows, vocabulary, takes, fixed, ofRow)
				}
			}
		}
	}
	if fixed, ofRow := LossMemory(8<<30, 32000); fixed > 210<<20 || ofRow > 4000 {
		t.Errorf("logits of 32,000 words take %d bytes and %d for each row", fixed, ofRow)
	}
	if fixed, ofRow := LossMemory(128<<20, 32000); fixed > 7<<20 || ofRow > 98000 {
		t.Errorf("logits of 32,000 words in little memory take %d bytes and %d for each row", fixed, ofRow)
	}
	if fixed, ofRow := LossMemory(1<<20, 37); fixed > 1000 || ofRow > 800 {
		t.Errorf("logits of 37 words take %d bytes and %d for each row", fixed, ofRow)
	}
}

func TestLossChunk(t *testing.T) {
	for _, c := range [][3]int{{1, 75, 128}, {64, 32000, 32000}, {65, 32000, 16000}, {1024, 32000, 16000}, {2048, 32000, 16000},
		{4096, 32000, 8192}, {3000, 32000, 8192}, {1 << 20, 32000, 512}, {0, 1000, 1024}, {100, 700, 512}, {1000, 500, 512}, {64, 1 << 20, 1 << 19}} {
		if have := LossChunk(c[0], c[1]); have != c[2] {
			t.Errorf("%d rows of %d words: %d at a time, want %d", c[0], c[1], have, c[2])
		}
	}
}

// But for few rows, or few words, no more logits exist at a time than those of half of the vocabulary, and no more than 32 Mi unless 512 words have them.
func TestLogitsNeverAllExist(t *testing.T) {
	for vocabulary := 1; vocabulary < 300000; vocabulary += 1 + vocabulary/9 {
		for rows := 1; rows < 300000; rows += 1 + rows/9 {
			chunk := LossChunk(rows, vocabulary)
			if chunk < 1 || chunk%8 != 0 {
				t.Fatalf("%d rows of %d words: %d at a time", rows, vocabulary, chunk)
			}
			if half := max(512, vocabulary/2+128); rows > 64 && chunk > half || chunk > 512 && rows*chunk > 32<<20 {
				t.Errorf("%d rows of %d words: %d at a time", rows, vocabulary, chunk)
			}
		}
	}
}

func TestTrainingNumbers(t *testing.T) {
	r := newTrainingRig(t)
	for _, n := range []int{1, 255, 256, 1000} {
		to, from := r.floats(n, 1), r.floats(n, 1)
		at := in(r.rig, to)
		must(t, r.kernels.AddNumbers(r.stream, at, in(r.rig, from), n))
		for i, have := range out[float32](r.rig, at, n) {
			if have != to[i]+from[i] {
				t.Fatalf("%d numbers: number %d is %v, want %v", n, i, have, to[i]+from[i])
			}
		}
	}
}

// Sums of squares do not overflow, and show what is not finite.
func TestTrainingSquares(t *testing.T) {
	r := newTrainingRig(t)
	for _, n := range []int{1, 16384, 40000} {
		x := r.floats(n, 1)
		x[n/2] = 1e30
		sums := alloc[float64](r.rig, SquareSums(n))
		must(t, r.kernels.Squares(r.stream, sums, in(r.rig, x), n, 0.5))
		have, want := 0.0, 0.0
		for _, s := range out[float64](r.rig, sums, SquareSums(n)) {
			have += s
		}
		for _, v := range x {
			want += 0.25 * float64(v) * float64(v)
		}
		if !(math.Abs(have-want) <= 1e-6*want) {
			t.Errorf("the squares of %d numbers are %v, want %v", n, have, want)
		}
		x[n-1] = float32(math.NaN())
		must(t, r.kernels.Squares(r.stream, sums, in(r.rig, x), n, 0.5))
		if all := out[float64](r.rig, sums, SquareSums(n)); all[len(all)-1] == all[len(all)-1] {
			t.Errorf("the squares of %d numbers hide a NaN", n)
		}
	}
}

// Steps of the optimiser are those of the processor, the gradient is zero after them, and what products read is the rounded parameters.
func TestTrainingAdam(t *testing.T) {
	r := newTrainingRig(t)
	const n, steps = 1000, 4
	values := r.floats(n, 1)
	config := optimiser.Config{Beta1: 0.9, Beta2: 0.98, Epsilon: 1e-9, LearnRate: 0.01, ClipNorm: 5, Smoothing: 1e-3}
	o := optimiser.New(config, values)
	a := Adam{Values: in(r.rig, values), Gradient: r.zeros(n), Means: r.zeros(n), Squares: r.zeros(n), Averages: in(r.rig, values),
		Stored: alloc[number](r.rig, n), N: n}
	other := optimiser.New(config, slices.Clone(values))
	for range steps {
		g := r.floats(n, 1)
		must(t, cuda.CopyIn(r.stream, a.Gradient, g))
		square := 0.0
		for _, v := range g {
			square += 0.25 * float64(v) * float64(v)
		}
		move, _, err := other.Decide(square)
		must(t, err)
		a.Scale, a.Beta1, a.Beta2, a.Epsilon = 0.5*move.Clip, move.Beta1, move.Beta2, move.Epsilon
		a.Rate, a.Root, a.Weight = move.Rate, move.Root, move.Weight
		must(t, r.kernels.Adam(r.stream, a))
		_, err = o.Step([][]float32{g}, 0.5)
		must(t, err)
	}
	for _, vector := range []struct {
		what string
		at   cuda.Pointer
		want []float32
	}{
		{"values", a.Values, values}, {"means", a.Means, o.Mean}, {"squares", a.Squares, o.Square}, {"averages", a.Averages, o.Average},
		{"gradient", a.Gradient, make([]float32, n)},
	} {
		want := make([]float64, n)
		for i, v := range vector.want {
			want[i] = float64(v)
		}
		r.nearFloats(vector.what, vector.at, want, 1e-5)
	}
	if !slices.Equal(out[number](r.rig, a.Stored, n), numbersOf(out[float32](r.rig, a.Values, n))) {
		t.Error("what is stored is not the rounded parameters")
	}
	a.Averages = 0
	must(t, r.kernels.Adam(r.stream, a))
}
