//go:build linux && (amd64 || arm64) && !nogpu

package gpukernels

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/sluice-mt/sluice/gpukernels/cuda"
)

// widths are row lengths below, at and above what a warp reads at once.
var widths = []int{8, 248, 256, 264, 512}

func TestLayerNorm(t *testing.T) {
	r := newRig(t)
	const rows, epsilon = 7, 1e-6
	for i, n := range widths {
		x, residual, scale, bias := r.halves(rows*n, 3), r.halves(rows*n, 3), r.floats(n, 2), r.floats(n, 2)
		withResidual, withBias := i%2 == 0, i%3 == 0
		want := make([]float64, rows*n)
		for row := range rows {
			v := want[row*n : (row+1)*n]
			for j := range v {
				v[j] = float64(x[row*n+j].Float32())
				if withResidual {
					v[j] += float64(residual[row*n+j].Float32())
				}
			}
			referenceNorm(v, scale, epsilon)
			for j := range v {
				if withBias {
					v[j] += float64(bias[j])
				}
			}
		}
		at, from, b := in(r, x), in(r, residual), in(r, bias)
		if !withResidual {
			from = 0
		}
		if !withBias {
			b = 0
		}
		must(t, r.kernels.LayerNorm(r.stream, Matrix{At: at, Rows: rows, Columns: n}, at, from, RowNorm{Scale: in(r, scale), Bias: b, Epsilon: epsilon}))
		near(t, fmt.Sprintf("layer norm of %d", n), out[number](r, at, rows*n), want, 1e-4)
	}
}

func referenceNorm(v []float64, scale []float32, epsilon float64) {
	mean, variance := 0.0, 0.0
	for _, e := range v {
		mean += e / float64(len(v))
	}
	for _, e := range v {
		variance += (e - mean) * (e - mean) / float64(len(v))
	}
	for j := range v {
		v[j] = (v[j] - mean) / math.Sqrt(variance+epsilon) * float64(scale[j])
	}
}

// Of parts of rows, what they are filled up with counts nothing: the norm is that of the elements without, and zeros stay zeros.
func TestNormOfParts(t *testing.T) {
	r := newRig(t)
	const rows, epsilon = 5, 1e-6
	for _, c := range []struct{ parts, part, own int }{{1, 8, 3}, {1, 264, 257}, {3, 16, 10}, {2, 256, 256}, {4, 264, 260}} {
		n := c.parts * c.part
		x, residual := r.halves(rows*n, 3), r.halves(rows*n, 3)
		scale, bias := r.floats(n, 2), r.floats(n, 2)
		counts := func(column int) bool { return column%c.part < c.own }
		for i := range x {
			if !counts(i % n) {
				x[i], residual[i] = 0, 0
			}
		}
		wanted, wantedRMS := make([]float64, rows*n), make([]float64, rows*n)
		for j := range n {
			if !counts(j) {
				scale[j], bias[j] = 0, 0
			}
		}
		for row := range rows {
			var v []float64
			var ofScale []float32
			for j := range n {
				if counts(j) {
					v, ofScale = append(v, float64(x[row*n+j].Float32())+float64(residual[row*n+j].Float32())), append(ofScale, scale[j])
				}
			}
			squares := 0.0
			for _, e := range v {
				squares += e * e / float64(len(v))
			}
			rest, plain := slices.Clone(v), v
			referenceNorm(rest, ofScale, epsilon)
			for j := range n {
				if counts(j) {
					wanted[row*n+j], rest = rest[0]+float64(bias[j]), rest[1:]
					wantedRMS[row*n+j], plain = plain[0]/math.Sqrt(squares+epsilon)*float64(scale[j]), plain[1:]
				}
			}
		}
		norm := RowNorm{Scale: in(r, scale), Bias: in(r, bias), Epsilon: epsilon, Part: c.part, Own: c.own}
		m := r.matrix(x, rows)
		must(t, r.kernels.LayerNorm(r.stream, m, m.At, in(r, residual), norm))
		near(t, fmt.Sprintf("norm of %+v", c), out[number](r, m.At, rows*n), wanted, 1e-4)
		if c.parts == 1 {
			norm.Bias = 0
			m = r.matrix(x, rows)
			must(t, r.kernels.RMSNorm(r.stream, m, m.At, in(r, residual), norm))
			near(t, fmt.Sprintf("rms norm of %+v", c), out[number](r, m.At, rows*n), wantedRMS, 1e-4)
		}
	}
	m := r.matrix(r.halves(48, 1), 1)
	for _, n := range []RowNorm{{Part: 32}, {Part: 12}, {Part: 24, Own: 25}} {
		if err := r.kernels.LayerNorm(r.stream, m, m.At, 0, n); err == nil {
			t.Errorf("a norm of parts of %d, of which %d count, was launched over 48 elements", n.Part, n.Own)
		}
	}
	if err := r.kernels.RMSNorm(r.stream, m, m.At, 0, RowNorm{Part: 24}); err == nil {
		t.Error("an RMS norm of two parts was launched")
	}
}

// Rows are copied from where a list says, or in their order, between matrices with gaps that nobody touches.
func TestCopyRows(t *testing.T) {
	r := newRig(t)
	const rows = 5
	for _, n := range widths {
		from, to := n+16, n+8
		x := r.halves(6*from, 1)
		for _, places := range [][]int32{{5, -1, 0, 5, 3}, nil} {
			want, list := r.halves(rows*to, 1), cuda.Pointer(0)
			result := in(r, want)
			for i := range rows {
				place := i
				if places != nil {
					place, list = int(places[i]), in(r, places)
				}
				for j := range n {
					want[i*to+j] = 0
					if place >= 0 {
						want[i*to+j] = x[place*from+j]
					}
				}
			}
			must(t, r.kernels.CopyRows(r.stream, Matrix{At: result, Rows: rows, Columns: n, Stride: to},
				Matrix{At: in(r, x), Rows: 6, Columns: n, Stride: from}, list))
			if have := out[number](r, result, len(want)); !slices.Equal(have, want) {
				t.Errorf("rows of %d elements from %v are others", n, places)
			}
		}
	}
	if err := r.kernels.CopyRows(r.stream, Matrix{Rows: 1, Columns: 8}, Matrix{Rows: 1, Columns: 16}, 0); err == nil {
		t.Error("rows of 16 elements were copied to rows of 8")
	}
}

func TestEmbed(t *testing.T) {
	r := newRig(t)
	const vocabulary, places, factor = 11, 9, 16.0
	for _, n := range widths {
		table, signal := r.halves(vocabulary*n, 1), r.floats(places*n, 1)
		tokens, positions := []int32{0, 10, -1, 3, 3}, []int32{0, 8, 0, 5, 2}
		var want []float64
		for i, token := range tokens {
			for j := range n {
				e := float64(signal[int(positions[i])*n+j])
				if token >= 0 {
					e += float64(table[int(token)*n+j].Float32()) * factor
				}
				want = append(want, e)
			}
		}
		result := Matrix{At: alloc[number](r, len(want)), Rows: len(tokens), Columns: n}
		must(t, r.kernels.Embed(r.stream, result, in(r, tokens), in(r, positions), in(r, table), in(r, signal), factor))
		near(t, fmt.Sprintf("embeddings of %d", n), out[number](r, result.At, len(want)), want, 1e-6)
	}
}

// Three steps of some slots, of which one begins anew at the third, and one goes on elsewhere at the second; other slots keep their state.
func TestSSRU(t *testing.T) {
	r := newRig(t)
	const slots = 5
	for _, n := range widths {
		unset := float32(math.NaN())
		stride := n + 16
		cells := make([]float32, slots*stride)
		for i := range cells {
			cells[i] = unset
		}
		state := in(r, cells)
		for _, step := range []struct{ from, to, positions []int32 }{
			{[]int32{3, 0, 4}, []int32{3, 0, 4}, []int32{0, 0, 0}}, {[]int32{3, 0, 4}, []int32{3, 1, 4}, []int32{1, 1, 1}},
			{[]int32{3, 0, 4}, []int32{3, 0, 4}, []int32{2, 0, 2}},
		} {
			gates := r.halves(len(step.to)*2*n, 4)
			var want []float64
			for i, slot := range step.to {
				for j := range n {
					x, f := float64(gates[i*2*n+j].Float32()), float64(gates[i*2*n+n+j].Float32())
					keep, c := 1/(1+math.Exp(-f)), float64(cells[int(step.from[i])*stride+8+j])
					if step.positions[i] == 0 {
						c = 0
					}
					c = keep*c + (1-keep)*x
					cells[int(slot)*stride+8+j] = float32(c)
					want = append(want, max(0, c))
				}
			}
			h := Matrix{At: alloc[number](r, len(want)), Rows: len(step.to), Columns: n}
			must(t, r.kernels.SSRU(r.stream, h, in(r, gates),
				States{cuda.Offset[float32](state, 8), stride, in(r, step.from), in(r, step.to), in(r, step.positions)}))
			near(t, fmt.Sprintf("a step of %d units", n), out[number](r, h.At, len(want)), want, 1e-5)
		}
		for i, c := range out[float32](r, state, slots*stride) {
			if want := cells[i]; want != want && c == c || want == want && !(math.Abs(float64(c-want)) <= 1e-5) {
				t.Fatalf("%d units: the state of slot %d is %v, want %v", n, i/stride, c, want)
			}
		}
	}
}

// What a row gives does not depend on the rows around it.
func TestRowsAreTheirOwn(t *testing.T) {
	r := newRig(t)
	const rows, n = 9, 264
	x, scale := r.halves(rows*n, 3), in(r, r.floats(n, 2))
	norm := func(x []number) []number {
		at := in(r, x)
		must(t, r.kernels.LayerNorm(r.stream, Matrix{At: at, Rows: len(x) / n, Columns: n}, at, 0, RowNorm{Scale: scale, Epsilon: 1e-6}))
		return out[number](r, at, len(x))
	}
	all := norm(x)
	for row := range rows {
		if !slices.Equal(norm(x[row*n:(row+1)*n]), all[row*n:(row+1)*n]) {
			t.Errorf("row %d alone differs", row)
		}
	}
}

func TestRowsRefuse(t *testing.T) {
	r := newRig(t)
	for _, m := range []Matrix{{1, 1, 12, 0}, {1, 1, 16, 24}} {
		for name, err := range map[string]error{
			"embed": r.kernels.Embed(r.stream, m, 0, 0, 0, 0, 1), "norm": r.kernels.LayerNorm(r.stream, m, 0, 0, RowNorm{}),
			"ssru": r.kernels.SSRU(r.stream, m, 0, States{}),
		} {
			if err == nil {
				t.Errorf("%s of rows of %d elements, %d apart, was launched", name, m.Columns, m.Stride)
			}
		}
	}
	none := Matrix{Columns: 8}
	must(t, r.kernels.Embed(r.stream, none, 0, 0, 0, 0, 1))
	must(t, r.kernels.LayerNorm(r.stream, none, 0, 0, RowNorm{}))
	must(t, r.kernels.SSRU(r.stream, none, 0, States{}))
}
