//go:build linux && (amd64 || arm64) && !nogpu

package gpukernels

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/sluice-mt/sluice/gpukernels/cuda"
)

// advance is the reference of a cell: of the element i of n, with what it gave last and its memory, from those of the input and of the state.
func advance(kind CellKind, s, m, input float64, i, n int, x, u func(i int) float64) (float64, float64) {
	sum := func(gate int) float64 { return x(gate*n+i) + u(gate*n+i) }
	switch kind {
	case 0, 1, 3: // GRUs
		z := sigmoid(sum(1))
		return z*s + (1-z)*math.Tanh(x(2*n+i)+sigmoid(sum(0))*u(2*n+i)), m
	case 2, 4: // LSTMs
		m = sigmoid(sum(0))*m + sigmoid(sum(1))*math.Tanh(sum(2))
		return sigmoid(sum(3)) * math.Tanh(m), m
	case 5:
		return math.Tanh(sum(0)), m
	case 6:
		return max(0, sum(0)), m
	}
	f := sigmoid(x(n + i))
	m = f*m + (1-f)*x(i)
	if kind == ssru {
		return max(0, m), m
	}
	r := sigmoid(x(2*n + i))
	return r*math.Tanh(m) + (1-r)*input, m
}

// Every kind of cell, with an input, with a bias in its place and with neither; rows with places and states of their own and without;
// results with what is added.
func TestCells(t *testing.T) {
	r := newRig(t)
	gates := []int{3, 3, 4, 3, 4, 1, 1, 3, 2}
	for kind := range CellKind(mostCellKind + 1) {
		for variant, n := range []int{8, 264, 72} {
			if kind >= sru && variant > 0 {
				continue // they always have an input
			}
			const rows, places, states = 5, 7, 9
			width, stride, resultStride := gates[kind]*n, 2*n+16, n+24
			x, u, input, bias := r.halves(places*width, 2), r.halves(rows*width, 2), r.halves(places*n, 2), r.floats(width, 1)
			state, to, place := r.floats(states*stride, 1), []int32{3, 0, 8, 5, 1}, []int32{6, 2, 0, 5, 1}
			step := CellStep{Kind: kind, States: CellStates{At: in(r, state), Stride: stride, To: in(r, to)}, Places: in(r, place),
				U: r.matrix(u, rows), Input: in(r, input), Added: variant == 0, H: Matrix{At: alloc[number](r, rows*n), Rows: rows, Columns: n}}
			if variant < 2 {
				step.Result = Matrix{At: in(r, make([]number, places*resultStride)), Rows: rows, Columns: n, Stride: resultStride}
			}
			switch variant {
			case 0:
				step.X = r.matrix(x, places)
			case 1:
				step.Bias = in(r, bias)
			default:
				step.Places, step.States.To = 0, 0
			}
			must(t, r.kernels.AdvanceCells(r.stream, step))
			wantStates, results, h := make([]float64, len(state)), make([]float64, places*resultStride), []float64(nil)
			for i, v := range state {
				wantStates[i] = float64(v)
			}
			for row := range rows {
				at, from := row, row
				if variant < 2 {
					at, from = int(to[row]), int(place[row])
				}
				for i := range n {
					fromInput := func(j int) float64 {
						switch variant {
						case 0:
							return float64(x[from*width+j].Float32())
						case 1:
							return float64(bias[j])
						}
						return 0
					}
					fromState := func(j int) float64 { return float64(u[row*width+j].Float32()) }
					own := float64(input[from*n+i].Float32())
					s, m := &wantStates[at*stride+i], &wantStates[at*stride+n+i]
					*s, *m = advance(kind, *s, *m, own, i, n, fromInput, fromState)
					h = append(h, *s)
					if variant < 2 {
						results[from*resultStride+i] = *s
						if variant == 0 {
							results[from*resultStride+i] += own
						}
					}
				}
			}
			what := fmt.Sprintf("kind %d, variant %d", kind, variant)
			nearFloats(t, what+": state", out[float32](r, step.States.At, len(state)), wantStates, 1e-5)
			near(t, what, out[number](r, step.H.At, rows*n), h, 1e-4)
			if variant < 2 {
				near(t, what+": result", out[number](r, step.Result.At, len(results)), results, 1e-4)
			}
		}
	}
	if err := r.kernels.AdvanceCells(r.stream, CellStep{Kind: mostCellKind + 1}); err == nil {
		t.Error("a kind that there is not")
	}
}

// States are copied, or begin with rows of starts or zeros; what else there is stays as it is.
func TestBeginCells(t *testing.T) {
	r := newRig(t)
	const rows, states = 4, 9
	for variant, n := range []int{8, 264, 40} {
		width, stride := 2*n, 2*n+8
		state, starts := r.floats(states*stride, 3), r.floats(3*n, 3)
		from, to, positions, numbers := []int32{0, 2, 2, 1}, []int32{4, 8, 5, 3}, []int32{7, 0, 1, 0}, []int32{0, 2, 1, 0}
		b := BeginCells{States: CellStates{At: in(r, state), Stride: stride, To: in(r, to)}, Width: width, From: in(r, from),
			Positions: in(r, positions), Starts: in(r, starts), Numbers: in(r, numbers), H: Matrix{At: alloc[number](r, rows*n), Rows: rows, Columns: n}}
		if variant > 0 {
			b.Starts, b.Numbers = 0, 0
		}
		if variant == 2 {
			b.Positions, b.States.To = 0, 0
		}
		must(t, r.kernels.BeginCells(r.stream, b))
		var h []float64
		old := slices.Clone(state)
		for row := range rows {
			target := state[int(to[row])*stride:]
			if variant == 2 {
				target = state[row*stride:]
			}
			for i := range width {
				switch {
				case variant < 2 && positions[row] > 0:
					target[i] = old[int(from[row])*stride+i]
				case variant == 0:
					target[i] = starts[int(numbers[row])*n+i%n]
				default:
					target[i] = 0
				}
			}
			for i := range n {
				h = append(h, float64(target[i]))
			}
		}
		if have := out[float32](r, b.States.At, len(state)); !slices.Equal(have, state) {
			t.Fatalf("variant %d: the states are others, want what was copied", variant)
		}
		near(t, "begin", out[number](r, b.H.At, rows*n), h, 1e-4)
	}
}

func TestMultiplyCells(t *testing.T) {
	r := newRig(t)
	const rows, n, width, stride = 3, 72, 160, 80
	x, factors, state := r.halves(5*width, 2), r.halves(rows*n, 2), r.floats(6*stride, 1)
	to, places := []int32{5, 0, 2}, []int32{4, 1, 0}
	states, h := CellStates{At: in(r, state), Stride: stride, To: in(r, to)}, Matrix{At: alloc[number](r, rows*n), Rows: rows, Columns: n}
	must(t, r.kernels.MultiplyCells(r.stream, states, h, r.matrix(x, 5), in(r, places), in(r, factors)))
	var want []float64
	for row := range rows {
		for i := range n {
			v := x[int(places[row])*width+width-n+i].Float32() * factors[row*n+i].Float32()
			state[int(to[row])*stride+i] = v
			want = append(want, float64(v))
		}
	}
	near(t, "product", out[number](r, h.At, rows*n), want, 1e-4)
	if have := out[float32](r, states.At, len(state)); !slices.Equal(have, state) {
		t.Error("the states are others, want the products")
	}
}

// Some columns are normalised, and the others stay.
func TestNormColumns(t *testing.T) {
	r := newRig(t)
	const rows, epsilon = 6, 1e-5
	for i, n := range widths {
		stride, first := n+24, 8
		x, scale, bias := r.halves(rows*stride, 3), r.floats(n, 2), r.floats(n, 1)
		want := make([]float64, len(x))
		for j := range x {
			want[j] = float64(x[j].Float32())
		}
		for row := range rows {
			v := want[row*stride+first:][:n]
			mean, squares := 0.0, 0.0
			for _, e := range v {
				mean += e / float64(n)
			}
			for _, e := range v {
				squares += (e - mean) * (e - mean) / float64(n)
			}
			for j := range v {
				v[j] = (v[j] - mean) / math.Sqrt(squares+epsilon) * float64(scale[j])
				if i%2 == 0 {
					v[j] += float64(bias[j])
				}
			}
		}
		at, ofBias := in(r, x), in(r, bias)
		if i%2 != 0 {
			ofBias = 0
		}
		columns := Matrix{At: cuda.Offset[number](at, first), Rows: rows, Columns: n, Stride: stride}
		must(t, r.kernels.NormColumns(r.stream, columns, RowNorm{Scale: in(r, scale), Bias: ofBias, Epsilon: epsilon}))
		near(t, fmt.Sprintf("norm of %d", n), out[number](r, at, len(x)), want, 1e-3)
	}
}

func TestMeanRows(t *testing.T) {
	r := newRig(t)
	const n, stride = 264, 280
	starts := []int32{0, 3, 3, 4, 9}
	x := r.halves(9*stride, 3)
	want := make([]float64, 4*n)
	for s := range 4 {
		for row := starts[s]; row < starts[s+1]; row++ {
			for i := range n {
				want[s*n+i] += float64(x[int(row)*stride+i].Float32()) / float64(starts[s+1]-starts[s])
			}
		}
	}
	result := Matrix{At: alloc[number](r, 4*n), Rows: 4, Columns: n}
	must(t, r.kernels.MeanRows(r.stream, result, Matrix{At: in(r, x), Rows: 9, Columns: n, Stride: stride}, in(r, starts)))
	near(t, "mean", out[number](r, result.At, 4*n), want, 1e-4)
}

func TestAddStarts(t *testing.T) {
	r := newRig(t)
	const rows, n = 3, 72
	first, second := r.halves(rows*n, 2), r.halves(rows*n, 2)
	numbers := []int32{4, 0, 2}
	starts := in(r, make([]float32, 5*n))
	must(t, r.kernels.AddStarts(r.stream, starts, r.matrix(first, rows), in(r, numbers), true, false))
	must(t, r.kernels.AddStarts(r.stream, starts, r.matrix(second, rows), in(r, numbers), false, true))
	want := make([]float64, 5*n)
	for row, place := range numbers {
		for i := range n {
			want[int(place)*n+i] = math.Tanh(float64(first[row*n+i].Float32()) + float64(second[row*n+i].Float32()))
		}
	}
	nearFloats(t, "starts", out[float32](r, starts, 5*n), want, 1e-5)
}

// Sentences of all lengths, none included, and results with gaps.
func TestAdditiveAttention(t *testing.T) {
	r := newRig(t)
	starts, lengths := []int32{5, 0, 1, 40, 3}, []int32{1, 0, 133, 64, 7}
	const rows, positions, most = 5, 140, 150
	for _, n := range []int{8, 264, 96} {
		stride, resultStride := 2*n+8, n+16
		memory, queries, score := r.halves(positions*stride, 2), r.halves(rows*n, 2), r.floats(n, 1)
		want, weights := make([]float64, rows*resultStride), make([]float64, rows*most)
		for row := range rows {
			of, sum := weights[row*most:][:lengths[row]], 0.0
			for j := range of {
				key := memory[(int(starts[row])+j)*stride:]
				dot := 0.0
				for i := range n {
					dot += float64(score[i]) * math.Tanh(float64(key[i].Float32())+float64(queries[row*n+i].Float32()))
				}
				of[j] = math.Exp(dot)
				sum += of[j]
			}
			for j := range of {
				of[j] /= sum
				value := memory[(int(starts[row])+j)*stride+n:]
				for i := range n {
					want[row*resultStride+i] += of[j] * float64(value[i].Float32())
				}
			}
		}
		a := AdditiveAttention{Queries: r.matrix(queries, rows), Memory: in(r, memory), Stride: stride, Score: in(r, score), Starts: in(r, starts),
			Lengths: in(r, lengths), Weights: alloc[float32](r, rows*most), Most: most,
			Result: Matrix{At: in(r, make([]number, rows*resultStride)), Rows: rows, Columns: n, Stride: resultStride}}
		must(t, r.kernels.AttendAdditively(r.stream, a))
		near(t, fmt.Sprintf("attention of %d", n), out[number](r, a.Result.At, len(want)), want, 1e-3)
		have := out[float32](r, a.Weights, len(weights))
		for row, length := range lengths {
			nearFloats(t, "weights", have[row*most:][:length], weights[row*most:][:length], 1e-4)
		}
	}
}

// What overflowed is never a number again.
func TestInfinities(t *testing.T) {
	r := newRig(t)
	const n = 8
	infinity := numberOf(float32(math.Inf(1)))
	memory := r.halves(3*2*n, 1)
	memory[2*n+n+3] = infinity
	a := AdditiveAttention{Queries: r.matrix(r.halves(n, 1), 1), Memory: in(r, memory), Stride: 2 * n, Score: in(r, r.floats(n, 1)),
		Starts: in(r, []int32{0}), Lengths: in(r, []int32{3}), Weights: alloc[float32](r, 3), Most: 3,
		Result: Matrix{At: alloc[number](r, n), Rows: 1, Columns: n}}
	must(t, r.kernels.AttendAdditively(r.stream, a))
	x := r.halves(n, 1)
	x[5] = infinity
	m := r.matrix(x, 1)
	must(t, r.kernels.Activate(r.stream, m, Tanh))
	for place, result := range map[int][]number{3: out[number](r, a.Result.At, n), 5: out[number](r, m.At, n)} {
		for i, v := range result {
			if v := v.Float32(); (v != v) != (i == place) {
				t.Errorf("element %d is %v, want NaN in number %d alone", i, v, place)
			}
		}
	}
}
