//go:build linux && (amd64 || arm64) && !nogpu

package gpukernels

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/sluice-mt/sluice/gpukernels/cuda"
	"github.com/sluice-mt/sluice/kernels"
)

// integers are rows of 8-bit integers on this machine, as the processor makes them.
type integers struct {
	rows, columns int
	bytes         []uint8 // with the processor's stride, 128 more
	scales        []float32
}

func quantised(x []float32, rows, columns int) *integers {
	q := &integers{rows, columns, make([]uint8, rows*kernels.Int8Stride(columns)), make([]float32, rows)}
	kernels.QuantizeRows(q.bytes, q.scales, x, rows, columns)
	return q
}

func floatsOf(x []number) []float32 {
	var y []float32
	for _, h := range x {
		y = append(y, h.Float32())
	}
	return y
}

// integer is one of them, and at what it stands for.
func (q *integers) integer(row, column int) int8 {
	return int8(int(q.bytes[row*kernels.Int8Stride(q.columns)+column]) - 128)
}

func (q *integers) at(row, column int) float64 {
	return float64(q.integer(row, column)) * float64(q.scales[row])
}

// padded are the rows as the device wants them.
func (q *integers) padded() []int8 {
	all := make([]int8, q.rows*ByteStride(q.columns))
	for row := range q.rows {
		for column := range q.columns {
			all[row*ByteStride(q.columns)+column] = q.integer(row, column)
		}
	}
	return all
}

func (q *integers) on(r *rig) ByteMatrix {
	return ByteMatrix{At: in(r, q.padded()), Scales: in(r, q.scales), Rows: q.rows, Columns: q.columns}
}

// An operand is rows of bytes on this machine: integers or fp8.
type operand interface {
	at(row, column int) float64 // what a byte stands for
	on(r *rig) ByteMatrix
}

// sameFloats says whether two lists have the same numbers, or both NaN.
func sameFloats(x, y []float32) bool {
	return slices.EqualFunc(x, y, func(x, y float32) bool { return x == y || x != x && y != y })
}

// quantisedFixed are rows that all have one multiplier. Those that are not finite become zeros with a scale that is not either.
func quantisedFixed(x []float32, rows, columns int, multiplier float32) *integers {
	q := quantised(x, rows, columns)
	for row := range rows {
		if !(q.scales[row] <= math.MaxFloat32) {
			continue
		}
		q.scales[row] = 1 / multiplier
		kernels.QuantizeRowsFixed(q.bytes[row*kernels.Int8Stride(columns):], x[row*columns:][:columns], 1, columns, multiplier)
	}
	return q
}

// quantiseOn quantises rows on the device, with a multiplier for all if it is not 0, and compares with the processor.
func quantiseOn(r *rig, x []number, rows, columns, stride int, multiplier float32) {
	r.t.Helper()
	var plain []float32
	for row := range rows {
		plain = append(plain, floatsOf(x[row*stride:row*stride+columns])...)
	}
	want, quantise := quantised(plain, rows, columns), r.kernels.Quantise
	if multiplier != 0 {
		want = quantisedFixed(plain, rows, columns, multiplier)
		quantise = func(s *cuda.Stream, to ByteMatrix, from Matrix) error {
			return r.kernels.QuantiseFixed(s, to, from, multiplier)
		}
	}
	n := rows * ByteStride(columns)
	to := ByteMatrix{At: in(r, make([]int8, n+16)), Scales: in(r, make([]float32, rows+1)), Rows: rows, Columns: columns}
	must(r.t, quantise(r.stream, to, Matrix{in(r, x), rows, columns, stride}))
	if have := out[int8](r, to.At, n+16); !slices.Equal(have, append(want.padded(), make([]int8, 16)...)) {
		r.t.Errorf("%d×%d, multiplier %v: integers are %v, want %v", rows, columns, multiplier, have, want.padded())
	}
	if have := out[float32](r, to.Scales, rows+1); !sameFloats(have, append(slices.Clone(want.scales), 0)) {
		r.t.Errorf("%d×%d, multiplier %v: scales are %v, want %v", rows, columns, multiplier, have, want.scales)
	}
}

// Integers and scales are those of the processor, for numbers of all sizes and for what is not finite: with a multiplier for each row, and with
// one for all, which cuts much off, little or nothing.
func TestQuantise(t *testing.T) {
	r := newRig(t)
	for _, shape := range [][2]int{{1, 8}, {3, 40}, {5, 264}, {7, 520}} {
		rows, columns := shape[0], shape[1]
		stride := columns + 8
		x := r.halves(rows*stride, 4)
		for i := range columns {
			x[i] = numberOf(x[i].Float32() / 1e6)               // the smallest
			x[(rows-1)*stride+i] = numberOf(float32(i%8) - 3.5) // ties
		}
		for _, multiplier := range []float32{0, 127. / 4, 100, 3, 1e-3} {
			quantiseOn(r, x, rows, columns, stride, multiplier)
		}
	}
	const columns = 48
	x := r.halves(5*columns, 100)
	x[3], x[columns+40], x[2*columns] = 0x7e00, 0x7c00, 0xfc00 // NaN, +∞, -∞
	for i := range columns {
		x[3*columns+i] = 0x8000 * number(i%2) // zeros of both signs
	}
	for _, multiplier := range []float32{0, 1, 1e30} {
		quantiseOn(r, x, 5, columns, columns, multiplier)
	}
}

// An int8Case is a product of integers with its operands on this machine.
type int8Case struct {
	m, n, k       int
	x, weights    *integers
	bias          []float32
	residual      []number // m×(n+2)
	rectified     bool
	resultStride  int
	residualWidth int
}

func (r *rig) int8Case(m, n, k int) *int8Case {
	return &int8Case{m: m, n: n, k: k, x: quantised(r.floats(m*k, 3), m, k), weights: quantised(r.floats(n*k, 1), n, k),
		bias: r.floats(n, 4), residual: r.halves(m*(n+2), 4), resultStride: n + 4, residualWidth: n + 2}
}

// want is what the processor computes, rounded, with the residual.
func (c *int8Case) want() []number {
	columns := make([]int8, c.k*c.n)
	for i := range columns {
		columns[i] = c.weights.integer(i%c.n, i/c.n)
	}
	act := kernels.None
	if c.rectified {
		act = kernels.Rectified
	}
	y := make([]float32, c.m*c.n)
	kernels.MulInt8(y, c.n, c.x.bytes, c.x.scales, c.m, kernels.PackInt8(c.k, c.n, columns, c.weights.scales), c.bias, act)
	if c.residual != nil {
		for i := range y {
			y[i] += c.residual[i/c.n*c.residualWidth+i%c.n].Float32()
		}
	}
	return numbersOf(y)
}

func (c *int8Case) run(r *rig, t tiling) []number {
	r.t.Helper()
	p := ByteProduct{X: c.x.on(r), Weights: c.weights.on(r), Rectified: c.rectified,
		Result: Matrix{in(r, make([]number, c.m*c.resultStride)), c.m, c.n, c.resultStride}}
	if c.bias != nil {
		p.Bias = in(r, c.bias)
	}
	if c.residual != nil {
		p.Residual = Matrix{in(r, c.residual), c.m, c.n, c.residualWidth}
	}
	must(r.t, r.kernels.byteProduct(r.stream, p, t))
	return r.withoutGaps(p.Result, r.kernels.ofBytes(t.name))
}

// check wants the bits of the processor in every tiling. So a row's are its own, whatever is around it.
func (c *int8Case) check(r *rig, what string) {
	r.t.Helper()
	want := c.want()
	for _, tiling := range tilings {
		have := c.run(r, tiling)
		for i := range want {
			if have[i] != want[i] && (want[i].Float32() == want[i].Float32() || have[i].Float32() == have[i].Float32()) {
				r.t.Errorf("%s, %s: element %d is %v, want %v", r.kernels.ofBytes(tiling.name), what, i, have[i].Float32(), want[i].Float32())
				break
			}
		}
	}
}

func TestInt8Product(t *testing.T) {
	r := newRig(t)
	shapes := [][3]int{{1, 2, 8}, {3, 10, 40}, {17, 66, 96}, {65, 130, 72}, {129, 64, 264}}
	if testing.Short() {
		shapes = [][3]int{{3, 10, 40}, {65, 66, 136}}
	}
	for _, shape := range shapes {
		r.int8Case(shape[0], shape[1], shape[2]).check(r, fmt.Sprint(shape))
	}
	for i := range 8 {
		c := r.int8Case(20, 66, 40)
		c.rectified = i&1 != 0
		if i&2 != 0 {
			c.bias = nil
		}
		if i&4 != 0 {
			c.residual = nil
		}
		want := c.want()
		for _, tiling := range tilings {
			if have := c.run(r, tiling); !slices.Equal(have, want) {
				t.Errorf("%s, epilogue %03b: other bits than the processor's, want those", r.kernels.ofBytes(tiling.name), i)
			}
		}
	}
	broken := r.int8Case(3, 8, 48)
	broken.x.scales[1] = float32(math.Inf(1))
	for i := range 48 {
		broken.x.bytes[kernels.Int8Stride(48)+i] = 128
	}
	broken.check(r, "a row that is not finite")
	if testing.Short() {
		return
	}
	extreme := r.int8Case(3, 8, 4096) // sums as large as can be
	for i := range extreme.x.bytes {
		extreme.x.bytes[i] = 255
	}
	for i := range extreme.weights.bytes {
		extreme.weights.bytes[i] = 1 + 254*uint8(i/kernels.Int8Stride(extreme.k)%2)
	}
	for i := range extreme.weights.scales {
		extreme.weights.scales[i] /= 100
	}
	extreme.check(r, "the largest sums")
}

func TestInt8ProductRefuses(t *testing.T) {
	r := newRig(t)
	good := func() ByteProduct {
		return ByteProduct{X: ByteMatrix{1, 1, 4, 20}, Weights: ByteMatrix{1, 1, 6, 20}, Result: Matrix{1, 4, 6, 0}}
	}
	for i, spoil := range []func(p *ByteProduct){
		func(p *ByteProduct) { p.X.Rows = 5 }, func(p *ByteProduct) { p.Weights.Rows = 4 }, func(p *ByteProduct) { p.Weights.Columns = 8 },
		func(p *ByteProduct) { p.X.Columns, p.Weights.Columns = 2*MaxByteColumns, 2*MaxByteColumns },
		func(p *ByteProduct) { p.Result.Stride = 7 }, func(p *ByteProduct) { p.Residual = Matrix{1, 4, 4, 0} },
	} {
		p := good()
		spoil(&p)
		if err := r.kernels.ByteProduct(r.stream, p); err == nil {
			t.Errorf("case %d was launched", i)
		}
	}
	for _, x := range []Matrix{{1, 4, 12, 0}, {1, 4, 16, 20}, {1, 5, 16, 0}} {
		if err := r.kernels.Quantise(r.stream, ByteMatrix{1, 1, 4, 16}, x); err == nil {
			t.Errorf("%v was launched", x)
		}
	}
	for _, multiplier := range []float32{0, -1, float32(math.Inf(1)), float32(math.NaN())} {
		if err := r.kernels.QuantiseFixed(r.stream, ByteMatrix{1, 1, 4, 16}, Matrix{1, 4, 16, 0}, multiplier); err == nil {
			t.Errorf("a multiplier of %v was launched", multiplier)
		}
	}
	empty := good()
	empty.X.Rows, empty.Result.Rows = 0, 0
	must(t, r.kernels.ByteProduct(r.stream, empty))
}

// inIntegers lets the case multiply integers.
func (c *outputCase) inIntegers() *outputCase {
	c.ofX, c.ofTable = quantised(floatsOf(c.x), c.rows, c.length), quantised(floatsOf(c.table), c.vocabulary, c.length)
	return c
}

// byteOutputs are shapes of output layers in 8 bits: rows, length, vocabulary and choices.
func byteOutputs() [][4]int {
	if testing.Short() {
		return [][4]int{{1, 8, 5, 1}, {17, 40, 70, 3}}
	}
	return [][4]int{{1, 8, 5, 1}, {3, 40, 130, 4}, {70, 72, 200, 2}}
}

func TestInt8Output(t *testing.T) {
	r := newRig(t)
	for _, shape := range byteOutputs() {
		c := r.outputCase(shape[0], shape[1], shape[2], shape[3])
		c.inIntegers().check(r, fmt.Sprint("integers ", shape))
		c.normalised = true
		c.check(r, fmt.Sprint("normalised integers ", shape))
	}
	c := r.outputCase(5, 48, 300, 3)
	for token := int32(1); token < 300; token += 3 {
		c.columns = append(c.columns, token)
	}
	c.inIntegers().check(r, "integers, a list of tokens")
}

func TestInt8OutputOfCountedColumns(t *testing.T) { newRig(t).compareCounted((*outputCase).inIntegers) }

func TestInt8Scores(t *testing.T) {
	r := newRig(t)
	c := r.outputCase(19, 40, 130, 1).inIntegers()
	x, table := c.ofX.(*integers), c.ofTable.(*integers)
	result := alloc[float32](r, c.rows*c.vocabulary)
	must(t, r.kernels.ByteScores(r.stream, c.ofX.on(r), c.ofTable.on(r), in(r, c.bias), result))
	columns := make([]int8, c.length*c.vocabulary)
	for i := range columns {
		columns[i] = table.integer(i%c.vocabulary, i/c.vocabulary)
	}
	want := make([]float32, c.rows*c.vocabulary)
	kernels.MulInt8(want, c.vocabulary, x.bytes, x.scales, c.rows, kernels.PackInt8(c.length, c.vocabulary, columns, table.scales),
		c.bias, kernels.None)
	if have := out[float32](r, result, len(want)); !slices.Equal(have, want) {
		t.Error("scores have other bits than the processor's, want those")
	}
}
