//go:build linux && (amd64 || arm64) && !nogpu

package gpukernels

import (
	"fmt"
	"slices"
	"testing"
)

// A productCase is a product with its operands on this machine.
type productCase struct {
	m, n, k                 int
	x, weights, residual    []number
	bias                    []float32
	xStride, residualStride int
	resultStride            int
	rectified               bool
}

func (r *rig) productCase(m, n, k int) *productCase {
	return &productCase{m: m, n: n, k: k, x: r.halves(m*(k+8), 1), weights: r.halves(n*k, 1), residual: r.halves(m*(n+2), 4),
		bias: r.floats(n, 4), xStride: k + 8, residualStride: n + 2, resultStride: n + 4}
}

func (c *productCase) want() []float64 {
	want := make([]float64, 0, c.m*c.n)
	for i := range c.m {
		for j := range c.n {
			sum := 0.0
			for l := range c.k {
				sum += float64(c.x[i*c.xStride+l].Float32()) * float64(c.weights[j*c.k+l].Float32())
			}
			if c.bias != nil {
				sum += float64(c.bias[j])
			}
			if c.rectified {
				sum = max(sum, 0)
			}
			if c.residual != nil {
				sum += float64(c.residual[i*c.residualStride+j].Float32())
			}
			want = append(want, sum)
		}
	}
	return want
}

// run returns the product in a tiling, and fails if anything between the rows of the result was written.
func (c *productCase) run(r *rig, t tiling) []number {
	r.t.Helper()
	p := Product{X: Matrix{in(r, c.x), c.m, c.k, c.xStride}, Weights: Matrix{in(r, c.weights), c.n, c.k, 0}, Rectified: c.rectified,
		Result: Matrix{in(r, make([]number, c.m*c.resultStride)), c.m, c.n, c.resultStride}}
	if c.bias != nil {
		p.Bias = in(r, c.bias)
	}
	if c.residual != nil {
		p.Residual = Matrix{in(r, c.residual), c.m, c.n, c.residualStride}
	}
	must(r.t, r.kernels.product(r.stream, p, t))
	return r.withoutGaps(p.Result, t.name)
}

// withoutGaps returns the rows of a result, and fails if what lies between them, zeros before, was written.
func (r *rig) withoutGaps(result Matrix, kernel string) (rows []number) {
	r.t.Helper()
	for row := range slices.Chunk(out[number](r, result.At, result.Rows*result.Stride), result.Stride) {
		rows = append(rows, row[:result.Columns]...)
		for _, gap := range row[result.Columns:] {
			if gap != 0 {
				r.t.Fatalf("%s wrote behind a row", kernel)
			}
		}
	}
	return rows
}

var tilings = []tiling{large, middle, small, narrow}

func TestProduct(t *testing.T) {
	r := newRig(t)
	shapes := [][3]int{{1, 2, 8}, {3, 10, 40}, {17, 66, 96}, {65, 130, 72}, {129, 64, 256}}
	if testing.Short() {
		shapes = [][3]int{{3, 10, 40}, {65, 66, 96}}
	}
	for _, shape := range shapes {
		c := r.productCase(shape[0], shape[1], shape[2])
		want := c.want()
		for _, tiling := range tilings {
			near(t, fmt.Sprint(tiling.name, shape), c.run(r, tiling), want, 1e-5*float64(c.k))
		}
	}
}

func TestProductEpilogues(t *testing.T) {
	r := newRig(t)
	for i := range 8 {
		c := r.productCase(20, 66, 40)
		c.rectified = i&1 != 0
		if i&2 != 0 {
			c.bias = nil
		}
		if i&4 != 0 {
			c.residual = nil
		}
		for _, tiling := range tilings {
			near(t, fmt.Sprintf("epilogue %03b of %s", i, tiling.name), c.run(r, tiling), c.want(), 1e-3)
		}
	}
}

// A row has the same bits in every tiling, with any rows around it, and in place of the residual.
func TestProductOfARowIsItsOwn(t *testing.T) {
	r := newRig(t)
	const m, n, k = 70, 72, 264
	c := r.productCase(m, n, k)
	want := c.run(r, large)
	for _, tiling := range tilings[1:] {
		if !slices.Equal(c.run(r, tiling), want) {
			t.Errorf("%s and %s differ", tiling.name, large.name)
		}
	}
	for _, rows := range []int{1, 5, 33, 64} {
		part := *c
		first := m - rows
		part.m, part.x, part.residual = rows, c.x[first*c.xStride:], c.residual[first*c.residualStride:]
		for _, tiling := range tilings {
			if !slices.Equal(part.run(r, tiling), want[first*n:]) {
				t.Errorf("%s: the last %d rows alone differ", tiling.name, rows)
			}
		}
	}
}

func TestProductInPlace(t *testing.T) {
	r := newRig(t)
	c := r.productCase(30, 32, 64)
	c.residualStride = 32
	c.residual = c.residual[:30*32]
	at := in(r, c.residual)
	must(t, r.kernels.Product(r.stream, Product{X: Matrix{in(r, c.x), c.m, c.k, c.xStride}, Weights: Matrix{At: in(r, c.weights), Rows: c.n, Columns: c.k},
		Bias: in(r, c.bias), Residual: Matrix{At: at, Rows: c.m, Columns: c.n}, Result: Matrix{At: at, Rows: c.m, Columns: c.n}}))
	near(t, "product in place", out[number](r, at, c.m*c.n), c.want(), 1e-3)
}

func TestProductRefuses(t *testing.T) {
	r := newRig(t)
	good := func() Product {
		return Product{X: Matrix{1, 4, 16, 0}, Weights: Matrix{1, 6, 16, 0}, Result: Matrix{1, 4, 6, 0}}
	}
	for i, spoil := range []func(p *Product){
		func(p *Product) { p.X.Rows = 5 }, func(p *Product) { p.Weights.Rows = 4 }, func(p *Product) { p.Weights.Columns = 8 },
		func(p *Product) { p.Weights.Stride = 24 }, func(p *Product) { p.X.Stride = 20 },
		func(p *Product) { p.X.Columns, p.Weights.Columns = 12, 12 }, func(p *Product) { p.Result.Stride = 7 },
		func(p *Product) { p.Residual = Matrix{1, 4, 4, 0} },
	} {
		p := good()
		spoil(&p)
		if err := r.kernels.Product(r.stream, p); err == nil {
			t.Errorf("case %d was launched", i)
		}
	}
	empty := good()
	empty.X.Rows, empty.Result.Rows = 0, 0
	must(t, r.kernels.Product(r.stream, empty))
}

func TestTilings(t *testing.T) {
	k := &Kernels{multiprocessors: 100}
	for _, c := range []struct {
		m, n int
		want tiling
	}{{1, 512, narrow}, {32, 512, narrow}, {16, 6336, narrow}, {16, 6337, small}, {32, 3200, small}, {64, 512, middle}, {512, 512, middle},
		{4096, 512, large}, {1, 1 << 20, small}} {
		if have := k.choose(c.m, c.n); have != c.want {
			t.Errorf("%d×%d: %s, want %s", c.m, c.n, have.name, c.want.name)
		}
	}
}
