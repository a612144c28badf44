//go:build linux && (amd64 || arm64) && !nogpu

package gpukernels

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/sluice-mt/sluice/gpukernels/cuda"
)

func sigmoid(x float64) float64 { return 1 / (1 + math.Exp(-x)) }

// matrix puts rows on the device.
func (r *rig) matrix(x []number, rows int) Matrix {
	r.t.Helper()
	return Matrix{At: in(r, x), Rows: rows, Columns: len(x) / rows}
}

func TestActivate(t *testing.T) {
	r := newRig(t)
	functions := []func(x float64) float64{
		func(x float64) float64 { return x },
		func(x float64) float64 { return max(0, x) },
		func(x float64) float64 { return x * sigmoid(x) },
		func(x float64) float64 { return x * (1 + math.Erf(x/math.Sqrt2)) / 2 },
		func(x float64) float64 { return x * sigmoid(1.702*x) },
		sigmoid,
		math.Tanh,
	}
	for kind, f := range functions {
		const rows = 5
		x := r.halves(rows*widths[kind%len(widths)], 6)
		want := make([]float64, len(x))
		for i := range x {
			want[i] = f(float64(x[i].Float32()))
		}
		m := r.matrix(x, rows)
		must(t, r.kernels.Activate(r.stream, m, Activation(kind)))
		near(t, fmt.Sprintf("activation %d", kind), out[number](r, m.At, len(x)), want, 1e-4)
	}
	if err := r.kernels.Activate(r.stream, Matrix{Rows: 1, Columns: 8}, Tanh+1); err == nil {
		t.Error("an activation that there is not")
	}
}

// Sums, highways and gated sums, also into one of their operands.
func TestCombine(t *testing.T) {
	r := newRig(t)
	for _, n := range widths {
		const rows = 6
		var operands [4][]number
		for i := range operands {
			operands[i] = r.halves(rows*n, 4)
		}
		value := func(operand, i int) float64 { return float64(operands[operand][i].Float32()) }
		for name, c := range map[string]struct {
			run  func(to Matrix, at []cuda.Pointer) error
			want func(i int) float64
		}{
			"sum": {func(to Matrix, at []cuda.Pointer) error { return r.kernels.Add(r.stream, to, at[1], at[3]) },
				func(i int) float64 { return value(1, i) + value(3, i) }},
			"highway": {func(to Matrix, at []cuda.Pointer) error { return r.kernels.Highway(r.stream, to, at[0], at[1], at[3]) },
				func(i int) float64 { return sigmoid(value(0, i))*value(1, i) + (1-sigmoid(value(0, i)))*value(3, i) }},
			"gated sum": {func(to Matrix, at []cuda.Pointer) error {
				return r.kernels.GatedSum(r.stream, to, at[0], at[1], at[2], at[3])
			}, func(i int) float64 { return sigmoid(value(0, i))*value(1, i) + sigmoid(value(2, i))*value(3, i) }},
		} {
			want := make([]float64, rows*n)
			for i := range want {
				want[i] = c.want(i)
			}
			for into := range 2 { // a place of its own, and that of an operand
				at := []cuda.Pointer{in(r, operands[0]), in(r, operands[1]), in(r, operands[2]), in(r, operands[3])}
				to := Matrix{At: alloc[number](r, rows*n), Rows: rows, Columns: n}
				if into == 1 {
					to.At = at[1]
				}
				must(t, c.run(to, at))
				near(t, fmt.Sprintf("%s of %d", name, n), out[number](r, to.At, rows*n), want, 1e-4)
			}
		}
	}
}

func TestRMSNorm(t *testing.T) {
	r := newRig(t)
	const rows, epsilon = 7, 1e-6
	for i, n := range widths {
		x, residual, scale := r.halves(rows*n, 3), r.halves(rows*n, 3), r.floats(n, 2)
		want := make([]float64, rows*n)
		for row := range rows {
			v, squares := want[row*n:(row+1)*n], 0.0
			for j := range v {
				v[j] = float64(x[row*n+j].Float32())
				if i%2 == 0 {
					v[j] += float64(residual[row*n+j].Float32())
				}
				squares += v[j] * v[j] / float64(n)
			}
			for j := range v {
				v[j] *= float64(scale[j]) / math.Sqrt(squares+epsilon)
			}
		}
		m, from := r.matrix(x, rows), in(r, residual)
		if i%2 != 0 {
			from = 0
		}
		must(t, r.kernels.RMSNorm(r.stream, m, m.At, from, RowNorm{Scale: in(r, scale), Epsilon: epsilon}))
		near(t, fmt.Sprintf("norm of %d", n), out[number](r, m.At, rows*n), want, 1e-4)
	}
}

// Running means of slots that are used in any order, and again.
func TestAverage(t *testing.T) {
	r := newRig(t)
	const n, slots, stride = 264, 6, 300
	state := alloc[float32](r, 2*slots*stride) // NaNs: what was in a slot before must not be read
	sums, counts := make([][]float64, slots), make([]int32, slots)
	places := make([]int32, slots)                                                // each slot has two places, of which each step reads the one and writes the other
	for _, rows := range [][]int32{{2, 0, 5}, {0, 5}, {5, 2, 0, 1}, {-3, 5, 1}} { // a negative slot begins anew
		var numbers, positions, from, to []int32
		for _, slot := range rows {
			if slot < 0 {
				slot, counts[-slot], sums[-slot] = -slot, 0, nil
			}
			numbers, positions = append(numbers, slot), append(positions, counts[slot])
			from, to = append(from, places[slot]*slots+slot), append(to, (1-places[slot])*slots+slot)
			places[slot] = 1 - places[slot]
		}
		x := r.halves(len(rows)*n, 3)
		var want []float64
		for i, slot := range numbers {
			if counts[slot] == 0 {
				sums[slot] = make([]float64, n)
			}
			counts[slot]++
			for j := range sums[slot] {
				sums[slot][j] += float64(x[i*n+j].Float32())
				want = append(want, sums[slot][j]/float64(counts[slot]))
			}
		}
		result := Matrix{At: alloc[number](r, len(x)), Rows: len(rows), Columns: n}
		must(t, r.kernels.Average(r.stream, result, in(r, x), States{state, stride, in(r, from), in(r, to), in(r, positions)}))
		near(t, "mean", out[number](r, result.At, len(x)), want, 1e-4)
	}
}

func TestSRU(t *testing.T) {
	r := newRig(t)
	const n, stride = 264, 272
	slots := []int32{3, 0, 1}
	from, to := []int32{3, 0, 1}, []int32{5, 6, 7}
	state := in(r, r.floats(8*stride, 1))
	cells := make([][]float64, 4)
	for position := range int32(3) {
		gates, x := r.halves(len(slots)*3*n, 3), r.halves(len(slots)*n, 3)
		var want []float64
		for i, slot := range slots {
			if position == 0 {
				cells[slot] = make([]float64, n)
			}
			for j := range n {
				gate := func(g int) float64 { return float64(gates[(i*3+g)*n+j].Float32()) }
				keep, reset := sigmoid(gate(1)), sigmoid(gate(2))
				c := keep*cells[slot][j] + (1-keep)*gate(0)
				cells[slot][j] = c
				want = append(want, reset*math.Tanh(c)+(1-reset)*float64(x[i*n+j].Float32()))
			}
		}
		h := Matrix{At: alloc[number](r, len(x)), Rows: len(slots), Columns: n}
		positions := in(r, slices.Repeat([]int32{position}, len(slots)))
		must(t, r.kernels.SRU(r.stream, h, in(r, gates), in(r, x), States{state, stride, in(r, from), in(r, to), positions}))
		from, to = to, from
		near(t, "SRU", out[number](r, h.At, len(x)), want, 1e-4)
	}
}

// Keys and values are kept where the numbers say, and nothing else is written.
func TestWords(t *testing.T) {
	r := newRig(t)
	const capacity, slots, cacheRows = 4, 5, 9
	for _, n := range []int{64, 264} {
		stride, fromStride := 2*n, n+16
		old := r.halves(cacheRows*stride, 1)
		table := make([]int32, slots*capacity)
		for i := range table {
			table[i] = -7
		}
		x := r.halves(3*fromStride-16, 3)
		to, of, positions := []int32{8, 0, 5}, []int32{4, 0, 2}, []int32{3, 0, 1}
		w := Words{Cache: in(r, old), Stride: stride, Numbers: in(r, table), Capacity: capacity, Slots: in(r, of), Positions: in(r, positions)}
		must(t, r.kernels.KeepWords(r.stream, w, in(r, x), fromStride, 3, n, in(r, to)))
		for i := range to {
			copy(old[int(to[i])*stride:], x[i*fromStride:i*fromStride+n])
			table[of[i]*capacity+positions[i]] = to[i]
		}
		if have := out[number](r, w.Cache, len(old)); !slices.Equal(have, old) {
			t.Fatal("the cache holds something else, want what was kept")
		}
		if have := out[int32](r, w.Numbers, len(table)); !slices.Equal(have, table) {
			t.Fatalf("the numbers are %v, want %v", have, table)
		}
		first, result := r.halves(3*n, 1), r.halves(3*n, 1)
		m := r.matrix(slices.Clone(result), 3)
		must(t, r.kernels.FirstWords(r.stream, m, in(r, first), w.Positions))
		copy(result[n:2*n], first[n:2*n])
		if have := out[number](r, m.At, 3*n); !slices.Equal(have, result) {
			t.Fatal("other rows than the first word's were written, want one")
		}
	}
}

func TestRecall(t *testing.T) {
	r := newRig(t)
	const heads, slots, capacity, cacheRows = 2, 4, 70, 90
	for _, dim := range headDims {
		width, stride := heads*dim, 6*heads*dim
		cache, queries := r.halves(cacheRows*stride, 3), r.halves(3*3*width, 3)
		numbers := make([]int32, slots*capacity)
		for i := range numbers {
			numbers[i] = r.random.Int32N(cacheRows)
		}
		of, positions := []int32{3, 0, 1}, []int32{69, 0, 32}
		const layer = 1
		w := Words{Cache: cuda.Offset[number](in(r, cache), 2*layer*width), Stride: stride, Numbers: in(r, numbers), Capacity: capacity,
			Slots: in(r, of), Positions: in(r, positions)}
		var want []float64
		for row, slot := range of {
			for h := range heads {
				var words []number // one behind the other, keys and then values
				for position := range positions[row] + 1 {
					at := int(numbers[int(slot)*capacity+int(position)])*stride + 2*layer*width + h*dim
					words = append(append(words, cache[at:at+dim]...), cache[at+width:at+width+dim]...)
				}
				want = append(want, attend(queries[row*3*width+h*dim:], words, words[dim:], int(positions[row])+1, 2*dim, dim)...)
			}
		}
		result := alloc[number](r, 3*width)
		must(t, r.kernels.Recall(r.stream, w, result, in(r, queries), 3*width, 3, heads, dim, Scale(dim)))
		near(t, fmt.Sprintf("attention of %d to words", dim), out[number](r, result, 3*width), want, 1e-3)
	}
	if err := r.kernels.Recall(r.stream, Words{Stride: 64}, 0, 0, 96, 1, 1, 48, 1); err == nil {
		t.Error("attention with heads of 48 elements was launched")
	}
}
