//go:build linux && (amd64 || arm64) && !nogpu

package gpukernels

import (
	"fmt"
	"math"
	"testing"

	"github.com/sluice-mt/sluice/gpukernels/cuda"
	"github.com/sluice-mt/sluice/train/autodiff"
)

// given gives a matrix a gradient that there is already, and returns where it is on the device.
func (r *trainingRig) given(m *autodiff.Matrix[float64]) cuda.Pointer {
	g := r.halves(len(m.Grad), 1)
	copy(m.Grad, doubles(g))
	return in(r.rig, g)
}

// givenFloats is given for float32.
func (r *trainingRig) givenFloats(m *autodiff.Matrix[float64]) cuda.Pointer {
	g := r.floats(len(m.Grad), 1)
	for i, v := range g {
		m.Grad[i] = float64(v)
	}
	return in(r.rig, g)
}

// Rows in another order, some of them several times and some not at all.
func TestTrainingGather(t *testing.T) {
	r := newTrainingRig(t)
	rows, order, starts := []int32{3, 0, 3, 5, 3}, []int32{1, 0, 2, 4, 3}, []int32{0, 1, 4, 5}
	for _, n := range []int{8, 264} {
		r.tape.Reset(true, dropoutSeed)
		x, xAt := r.matrix(6, n, 2)
		y := r.tape.Gather(x, rows)
		yAt, dx, rowsAt := alloc[number](r.rig, 5*n), r.given(x), in(r.rig, rows)
		must(t, r.kernels.Gather(r.stream, Matrix{At: yAt, Rows: 5, Columns: n}, xAt, rowsAt))
		r.near("gathered", yAt, y.Value, 0)
		must(t, r.kernels.GatherBackward(r.stream, dx, r.backward(y), rowsAt, n, TokenRows{in(r.rig, order), in(r.rig, starts), 3}))
		r.near("dx of what was gathered", dx, x.Grad, 1e-4)
	}
	if err := r.kernels.Gather(r.stream, Matrix{Rows: 1, Columns: 12}, 0, 0); err == nil {
		t.Error("rows of 12 elements were taken")
	}
}

// Columns are copied into a wider matrix, and added to what is there.
func TestTrainingCopyColumns(t *testing.T) {
	r := newTrainingRig(t)
	for _, n := range []int{8, 264} {
		for _, add := range []bool{false, true} {
			x, xAt := r.matrix(5, n+16, 2)
			y, yAt := r.matrix(5, n+8, 2)
			for i := range 5 {
				for j := range n {
					if !add {
						y.Row(i)[8+j] = 0
					}
					y.Row(i)[8+j] += x.Row(i)[16+j]
				}
			}
			must(t, r.kernels.CopyColumns(r.stream, Matrix{At: cuda.Offset[number](yAt, 8), Rows: 5, Columns: n, Stride: n + 8},
				Matrix{At: cuda.Offset[number](xAt, 16), Rows: 5, Columns: n, Stride: n + 16}, add))
			r.near(fmt.Sprint("copied columns, added ", add), yAt, y.Value, 1e-4)
		}
	}
	if err := r.kernels.CopyColumns(r.stream, Matrix{Rows: 1, Columns: 8, Stride: 12}, Matrix{Rows: 1, Columns: 8}, false); err == nil {
		t.Error("rows 12 elements apart were taken")
	}
}

func TestTrainingSentenceMean(t *testing.T) {
	r := newTrainingRig(t)
	segments, sentences := r.sentences(5, 1, 7)
	for _, n := range []int{8, 264} {
		r.tape.Reset(true, dropoutSeed)
		x, xAt := r.matrix(13, n, 2)
		y := r.tape.SentenceMean(x, segments)
		yAt, dx := alloc[number](r.rig, 3*n), alloc[number](r.rig, 13*n)
		must(t, r.kernels.SentenceMean(r.stream, Matrix{At: yAt, Rows: 3, Columns: n}, xAt, sentences))
		r.near("means", yAt, y.Value, 1e-4)
		must(t, r.kernels.SentenceMeanBackward(r.stream, dx, r.backward(y), n, sentences))
		r.near("dx of means", dx, x.Grad, 1e-4)
	}
}

// The processor's dropout of columns.
func TestTrainingDropColumns(t *testing.T) {
	r := newTrainingRig(t)
	for _, n := range []int{8, 264} {
		r.tape.Reset(true, dropoutSeed)
		x, xAt := r.matrix(7, n, 2)
		y := r.tape.Room(7, n)
		r.tape.Mask(y, x, r.tape.ColumnMask(0.4, n))
		d, yAt, dx := dropoutOf(1, 0.4), alloc[number](r.rig, 7*n), r.given(x)
		must(t, r.kernels.DropColumns(r.stream, yAt, Matrix{At: xAt, Rows: 7, Columns: n}, 0, Spacing{}, d, false))
		r.near("columns", yAt, y.Value, 1e-4)
		must(t, r.kernels.DropColumns(r.stream, dx, Matrix{At: r.backward(y), Rows: 7, Columns: n}, 0, Spacing{}, d, true))
		r.near("dx of columns", dx, x.Grad, 1e-4)
	}
}

// The same of columns in two parts, the second one in groups with gaps between them.
func TestTrainingDropColumnsSpaced(t *testing.T) {
	r := newTrainingRig(t)
	const rows, first, width, groups = 7, 8, 13, 3
	of := Spacing{width, 16}
	const n, stored = first + width*groups, first + 16*groups
	r.tape.Reset(true, dropoutSeed)
	x, _ := r.matrix(rows, n, 2)
	y := r.tape.Room(rows, n)
	r.tape.Mask(y, x, r.tape.ColumnMask(0.4, n))
	var given, want []number
	for row := range rows {
		given = append(append(given, numbersOfDoubles(x.Row(row)[:first])...), spacedOut(of, numbersOfDoubles(x.Row(row)[first:]))...)
		want = append(append(want, numbersOfDoubles(y.Row(row)[:first])...), spacedOut(of, numbersOfDoubles(y.Row(row)[first:]))...)
	}
	xAt, yAt, d := in(r.rig, given), in(r.rig, make([]number, rows*stored)), dropoutOf(1, 0.4)
	must(t, r.kernels.DropColumns(r.stream, yAt, Matrix{At: xAt, Rows: rows, Columns: first, Stride: stored}, 0, Spacing{}, d, false))
	must(t, r.kernels.DropColumns(r.stream, cuda.Offset[number](yAt, first), Matrix{At: cuda.Offset[number](xAt, first), Rows: rows, Columns: 16 * groups, Stride: stored},
		first, of, d, false))
	r.near("columns", yAt, doubles(want), 1e-4)
}

func numbersOfDoubles(x []float64) []number {
	all := make([]number, len(x))
	for i, v := range x {
		all[i] = numberOf(float32(v))
	}
	return all
}

func TestTrainingShift(t *testing.T) {
	r := newTrainingRig(t)
	for _, n := range []int{8, 264} {
		r.tape.Reset(true, dropoutSeed)
		y, yAt := r.matrix(7, n+16, 2)
		bias, biasAt := r.vector(n, 2)
		r.tape.Shift(y, 8, bias)
		must(t, r.kernels.Shift(r.stream, Matrix{At: cuda.Offset[number](yAt, 8), Rows: 7, Columns: n, Stride: n + 16}, biasAt))
		r.near("with a bias", yAt, y.Value, 1e-4)
	}
}

func TestTrainingTimes(t *testing.T) {
	r := newTrainingRig(t)
	for _, n := range []int{8, 1032} {
		r.tape.Reset(true, dropoutSeed)
		a, aAt := r.matrix(1, n, 2)
		b, bAt := r.matrix(1, n, 2)
		y := r.tape.Room(1, n)
		r.tape.Times(y, a, b)
		yAt, da := alloc[number](r.rig, n), r.given(a)
		must(t, r.kernels.Times(r.stream, yAt, aAt, bAt, n, false))
		r.near("products", yAt, y.Value, 1e-4)
		must(t, r.kernels.Times(r.stream, da, r.backward(y), bAt, n, true))
		r.near("da of products", da, a.Grad, 1e-4)
		wide := alloc[float32](r.rig, n)
		must(t, r.kernels.Widen(r.stream, wide, aAt, n))
		r.nearFloats("as float32", wide, a.Value, 0)
	}
}

// A norm of some columns, with and without a bias.
func TestTrainingNormOfColumns(t *testing.T) {
	r := newTrainingRig(t)
	const rows, n, first, epsilon = 67, 40, 16, 1e-6
	for _, biased := range []bool{false, true} {
		r.tape.Reset(true, dropoutSeed)
		factor, _ := r.matrix(n, n, 1)
		x, _ := r.matrix(rows, n, 1)
		scale, scaleAt := r.vector(n, 2)
		bias, biasAt := r.vector(n, 2)
		parameters := autodiff.NormParameters[float64]{Scale: scale, Bias: bias}
		if !biased {
			parameters.Bias, biasAt = nil, 0
		}
		// A product with the unit matrix is where the processor has such a norm.
		clear(factor.Value)
		for i := range n {
			factor.Row(i)[i] = 1
		}
		y := r.tape.Product(&autodiff.Product[float64]{Factors: []autodiff.Factor[float64]{{W: factor}}, Norms: []autodiff.NormParameters[float64]{parameters},
			Epsilon: epsilon}, x, false)
		wide := make([]number, rows*(n+first))
		for i := range rows {
			for j, v := range x.Row(i) {
				wide[i*(n+first)+first+j] = numberOf(float32(v))
			}
		}
		place := func(at cuda.Pointer) cuda.Pointer { return cuda.Offset[number](at, first) }
		xAt, yAt, dyAt, dx := in(r.rig, wide), in(r.rig, wide), in(r.rig, wide), in(r.rig, make([]number, len(wide)))
		norm := Norm{X: Matrix{At: place(xAt), Rows: rows, Columns: n, Stride: n + first}, Scale: scaleAt, Bias: biasAt, Statistics: alloc[float32](r.rig, 2*rows)}
		must(t, r.kernels.Norm(r.stream, place(yAt), norm, epsilon))
		must(t, r.kernels.CopyColumns(r.stream, Matrix{At: place(dyAt), Rows: rows, Columns: n, Stride: n + first},
			Matrix{At: r.backward(y), Rows: rows, Columns: n}, false))
		dscale, dbias := r.zeros(n), r.zeros(n)
		must(t, r.kernels.NormBackward(r.stream, place(dx), false, place(dyAt), norm))
		must(t, r.kernels.NormParameters(r.stream, dscale, dbias, place(dyAt), norm, alloc[float32](r.rig, 2*GroupNumbers(rows, n))))
		for what, of := range map[string]struct {
			at   cuda.Pointer
			want []float64
		}{"y": {yAt, y.Value}, "dx": {dx, x.Grad}} {
			have := alloc[number](r.rig, rows*n)
			must(t, r.kernels.CopyColumns(r.stream, Matrix{At: have, Rows: rows, Columns: n}, Matrix{At: place(of.at), Rows: rows, Columns: n, Stride: n + first}, false))
			r.near(what, have, of.want, 1e-3)
		}
		r.nearFloats("dscale", dscale, scale.Grad, 1e-4)
		if biased {
			r.nearFloats("dbias", dbias, bias.Grad, 1e-4)
		}
	}
	if err := r.kernels.Norm(r.stream, 0, Norm{X: Matrix{Rows: 1, Columns: 8, Stride: 12}}, epsilon); err == nil {
		t.Error("rows 12 elements apart were taken")
	}
}

// Steps of every kind of cell, with and without an input and something remembered, forward and backward, and where a grid has no more than two rows.
func TestTrainingCells(t *testing.T) {
	r := newTrainingRig(t)
	parts := map[CellKind]int{0: 3, 1: 3, 2: 4, 3: 3, 4: 4, 5: 1, 6: 1, sru: 3, ssru: 2}
	const rows = 3
	for kind := range CellKind(mostCellKind + 1) {
		for _, n := range []int{8, 136} {
			for _, whole := range []bool{true, false} {
				for _, r.kernels.most = range []int{mostGridRows, 2} {
					r.cell(fmt.Sprintf("kind %d, %d columns, whole %v, %d rows at a time: ", kind, n, whole, r.kernels.most), kind, parts[kind], rows, n, whole)
				}
			}
		}
	}
	if err := r.kernels.Cell(r.stream, TrainingCell{Kind: mostCellKind + 1}); err == nil {
		t.Error("a cell of no kind was taken")
	}
}

// cell compares a step. Unless it is whole, it has no input, if its kind can do without, and nothing remembered.
func (r *trainingRig) cell(what string, kind CellKind, parts, rows, n int, whole bool) {
	r.t.Helper()
	r.tape.Reset(true, dropoutSeed)
	x, xAt := r.matrix(rows, parts*n, 2)
	u, uAt := r.matrix(rows, parts*n, 2)
	state, stateAt := r.matrix(rows, n, 2)
	before, beforeAt := r.vector(rows*n, 2)
	before.Rows, before.Cols = rows, n
	out, memory := r.tape.Room(rows, n), r.tape.Room(rows, n)
	c := TrainingCell{Kind: kind, X: xAt, Out: alloc[number](r.rig, rows*n), Rows: rows, Columns: n}
	d := TrainingCell{Out: in(r.rig, make([]number, rows*n)), X: r.given(x)}
	if remembers := kind == 2 || kind == 4 || kind == sru || kind == ssru; remembers {
		c.Before, c.Memory, d.Before, d.Memory = beforeAt, alloc[float32](r.rig, rows*n), r.givenFloats(before), r.givenFloats(memory)
		if !whole {
			clear(before.Value)
			c.Before, d.Before = 0, 0
		}
	}
	if simple := kind == sru || kind == ssru; !simple {
		if c.U, d.U = uAt, r.given(u); !whole {
			x, c.X, d.X = nil, 0, 0
		}
	}
	switch kind {
	case 2, 4:
		r.tape.LSTM(out, memory, x, u, before)
	case 5:
		r.tape.PlainCell(out, x, u, autodiff.Tanh)
	case 6:
		r.tape.PlainCell(out, x, u, autodiff.ReLU)
	case sru:
		c.Input, d.Input = stateAt, r.given(state)
		r.tape.SRUStep(out, memory, x, before, state)
	case ssru:
		r.tape.SSRUStep(out, memory, x, before)
	default:
		c.State, d.State = stateAt, r.given(state)
		r.tape.GRU(out, x, u, state)
	}
	must(r.t, r.kernels.Cell(r.stream, c))
	r.near(what+"out", c.Out, out.Value, 1e-4)
	if c.Memory != 0 {
		r.nearFloats(what+"memory", c.Memory, memory.Value, 1e-5)
	}
	d.Out = r.backward(out)
	must(r.t, r.kernels.CellBackward(r.stream, d, c))
	if x != nil {
		r.near(what+"dx", d.X, x.Grad, 1e-3)
	}
	for _, of := range []struct {
		name string
		at   cuda.Pointer
		m    *autodiff.Matrix[float64]
	}{{"du", d.U, u}, {"dstate", d.State, state}, {"dinput", d.Input, state}} {
		if of.at != 0 {
			r.near(what+of.name, of.at, of.m.Grad, 1e-3)
		}
	}
	if d.Before != 0 {
		r.nearFloats(what+"dbefore", d.Before, before.Grad, 1e-5)
	}
}

// Additive attention over two steps and more keys than a block has warps, without an alignment and guided by one, by either cost.
func TestTrainingLook(t *testing.T) {
	r := newTrainingRig(t)
	for i, c := range []struct {
		columns, width int
		guided         bool
		cost           autodiff.AlignmentCost
	}{{8, 16, false, 0}, {136, 40, true, autodiff.AlignmentCE}, {40, 264, true, autodiff.AlignmentMSE}} {
		const weight, column = 0.7, 8
		r.tape.Reset(true, dropoutSeed)
		what := fmt.Sprintf("case %d: ", i)
		words, ofWords := r.sentences(1, 2, 2)
		keys, ofKeys := r.sentences(3, 37, 1)
		context, contextAt := r.matrix(keys.Rows(), c.width, 1)
		mapped, mappedAt := r.matrix(keys.Rows(), c.columns, 1)
		score, scoreAt := r.vector(c.columns, 1)
		score.Rows, score.Cols = c.columns, 1
		query, queryAt := r.matrix(5, c.columns, 1)
		stride := c.width + 2*column
		found := r.tape.Room(5, stride)
		clear(found.Value)
		// In the order of time, the second and the third sentence go on after a word.
		sentences, times := []int32{1, 2, 0}, []int32{2, 0, 3, 1, 4}
		a := r.tape.Additive(context, mapped, score, words, keys)
		r.tape.Look(a, r.tape.Part(found, 0, 3), column, r.tape.Part(query, 0, 3), sentences, 0)
		r.tape.Look(a, r.tape.Part(found, 3, 2), column, r.tape.Part(query, 3, 2), sentences[:2], 1)

		weights := 1*3 + 2*37 + 2*1
		l := Looking{Mapped: mappedAt, Context: contextAt, Score: scoreAt, Keys: ofKeys, Columns: c.columns, Width: c.width, Words: ofWords.Starts,
			Places: in(r.rig, []int32{0, 3, 3 + 2*37}), Weights: alloc[float32](r.rig, weights)}
		foundAt := in(r.rig, make([]number, 5*stride))
		row := func(at cuda.Pointer, n int) cuda.Pointer { return cuda.Offset[number](at, n) }
		all := in(r.rig, sentences)
		first := Look{Query: queryAt, Out: row(foundAt, column), Stride: stride, Sentences: all, Rows: 3}
		second := Look{Query: row(queryAt, 3*c.columns), Out: row(foundAt, 3*stride+column), Stride: stride, Sentences: all, Rows: 2, Position: 1}
		must(t, r.kernels.Look(r.stream, l, first))
		must(t, r.kernels.Look(r.stream, l, second))
		r.near(what+"found", foundAt, found.Value, 1e-4)

		var guide *Guide
		want := 0.0
		if c.guided {
			points := []autodiff.AlignmentPoint{{Sentence: 0, Query: 0, Key: 2}, {Sentence: 1, Query: 1, Key: 0}, {Sentence: 1, Query: 1, Key: 36}}
			want = r.tape.AlignmentLoss(a.Record, points, c.cost, weight)
			targets := make([]float32, weights)
			for at, share := range map[int]float32{2: 1, 3 + 37: 0.5, 3 + 37 + 36: 0.5} {
				if targets[at] = share; c.cost == autodiff.AlignmentMSE {
					targets[at] = 1
				}
			}
			guide = &Guide{Targets: in(r.rig, targets), Squared: c.cost == autodiff.AlignmentMSE, Weight: weight, Losses: alloc[float32](r.rig, 5)}
		}
		dquery, gradients := r.given(query), alloc[float32](r.rig, weights)
		dfound := r.backward(found)
		must(t, r.kernels.LookQueries(r.stream, row(dquery, 3*c.columns), gradients, row(dfound, 3*stride+column), guide, l, second))
		must(t, r.kernels.LookQueries(r.stream, dquery, gradients, row(dfound, column), guide, l, first))
		r.near(what+"dquery", dquery, query.Grad, 1e-3)
		dcontext, dmapped, dscore := alloc[number](r.rig, len(context.Value)), alloc[number](r.rig, len(mapped.Value)), r.zeros(c.columns)
		must(t, r.kernels.LookKeys(r.stream, dcontext, dmapped, dscore, alloc[float32](r.rig, len(mapped.Value)), gradients, row(dfound, column),
			in(r.rig, times), l, first))
		r.near(what+"dcontext", dcontext, context.Grad, 1e-3)
		r.near(what+"dmapped", dmapped, mapped.Grad, 1e-3)
		r.nearFloats(what+"dscore", dscore, score.Grad, 1e-3)
		if guide == nil {
			continue
		}
		have := 0.0
		for _, loss := range out[float32](r.rig, guide.Losses, 5) {
			have += float64(loss)
		}
		if !(math.Abs(have-want) < 1e-4*want) {
			t.Errorf("%sthe loss is %v, want %v", what, have, want)
		}
	}
	if err := r.kernels.Look(r.stream, Looking{Columns: 8, Width: 16}, Look{Stride: 8, Rows: 1}); err == nil {
		t.Error("a context wider than the results was taken")
	}
}
