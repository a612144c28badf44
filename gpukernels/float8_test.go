//go:build linux && (amd64 || arm64) && !nogpu

package gpukernels

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-mt/sluice/gpukernels/cuda"
)

// newFloat8Rig is newRig for products of fp8: an emulated device plays one that has them, and another one that has none skips the test.
func newFloat8Rig(t testing.TB) *rig {
	t.Helper()
	as := Arithmetic{Float16, FP8}
	if emulate(t, "capability", "89") {
		emulate(t, "version", "12040")
		t.Cleanup(func() { emulate(t, "capability", "80"); emulate(t, "version", "12020") })
	}
	if err := checkDevice(t, as); err != nil {
		t.Skip(err)
	}
	return openRig(t, library(t), as)
}

func checkDevice(t testing.TB, as Arithmetic) error {
	t.Helper()
	d, err := cuda.Open(library(t))
	must(t, err)
	properties, err := d.Properties(0)
	must(t, err)
	return as.Check(d, properties)
}

// Every number becomes the nearest of all that there are, of two the one with an even fraction.
func TestFloat8(t *testing.T) {
	var all []float64 // from 0 on, where the place is the number's bits
	for bits := range 127 {
		all = append(all, float64(Float8(bits).Float32()))
		if negative := Float8(bits | 0x80).Float32(); float64(negative) != -all[bits] || math.Signbit(float64(negative)) != true {
			t.Errorf("%#x is %v, and %#x is %v", bits, all[bits], bits|0x80, negative)
		}
	}
	if !slices.IsSorted(all) || all[1] != 1.0/512 || all[8] != 1.0/64 || all[126] != LargestFloat8 || Float8(0x7f).Float32() == Float8(0x7f).Float32() {
		t.Fatalf("the numbers are %v", all)
	}
	nearest := func(x float64) (best int) {
		for bits := range all {
			apart, least := math.Abs(all[bits]-x), math.Abs(all[best]-x)
			if apart < least || apart == least && bits%2 == 0 {
				best = bits
			}
		}
		return best
	}
	check := func(x float32) {
		if have, want := ToFloat8(x), nearest(float64(x)); have != Float8(want) || ToFloat8(-x) != Float8(want|0x80) {
			t.Errorf("%v becomes %#x, want %#x", x, have, want)
		}
	}
	for bits := range 126 {
		middle := float32(all[bits]+all[bits+1]) / 2
		for _, x := range []float32{float32(all[bits]), middle, math.Nextafter32(middle, 0), math.Nextafter32(middle, 1000)} {
			check(x)
		}
	}
	check(1e9)
	check(float32(math.Inf(1)))
	if have := ToFloat8(float32(math.NaN())); have != 0x7f {
		t.Errorf("NaN becomes %#x", have)
	}
}

// float8s are rows of fp8 on this machine.
type float8s struct {
	rows, columns int
	bits          []int8
	scales        []float32
}

func toFloat8s(x []float32, rows, columns int) *float8s {
	f := &float8s{rows, columns, make([]int8, rows*columns), make([]float32, rows)}
	RowsToFloat8(f.bits, f.scales, x, columns)
	return f
}

func (f *float8s) at(row, column int) float64 {
	return float64(Float8(f.bits[row*f.columns+column]).Float32()) * float64(f.scales[row])
}

// padded are the rows as the device wants them.
func (f *float8s) padded() []int8 {
	var all []int8
	for row := range slices.Chunk(f.bits, f.columns) {
		all = append(append(all, row...), make([]int8, ByteStride(f.columns)-f.columns)...)
	}
	return all
}

func (f *float8s) on(r *rig) ByteMatrix {
	return ByteMatrix{At: in(r, f.padded()), Scales: in(r, f.scales), Rows: f.rows, Columns: f.columns}
}

// The device rounds rows as RowsToFloat8 does: numbers of all sizes, ties, and what is not finite.
func TestQuantiseFloat8(t *testing.T) {
	r := newFloat8Rig(t)
	for _, shape := range [][2]int{{1, 8}, {5, 40}, {7, 520}} {
		rows, columns := shape[0], shape[1]
		stride := columns + 8
		x := r.halves(rows*stride, 4)
		for i := range columns {
			x[i] = numberOf(x[i].Float32() / 1e6)                      // the smallest
			x[(rows-1)*stride+i] = numberOf(448 - float32(i*7%64)*4.5) // ties
		}
		r.toFloat8(x, rows, columns, stride)
	}
	const columns = 48
	x := r.halves(5*columns, 100)
	x[3], x[columns+40], x[2*columns] = 0x7e00, 0x7c00, 0xfc00 // NaN, +∞, -∞
	for i := range columns {
		x[3*columns+i] = 0x8000 * number(i%2) // zeros of both signs
	}
	r.toFloat8(x, 5, columns, columns)
}

func (r *rig) toFloat8(x []number, rows, columns, stride int) {
	r.t.Helper()
	var plain []float32
	for row := range rows {
		plain = append(plain, floatsOf(x[row*stride:row*stride+columns])...)
	}
	want, n := toFloat8s(plain, rows, columns), rows*ByteStride(columns)
	to := ByteMatrix{At: in(r, make([]int8, n+16)), Scales: in(r, make([]float32, rows+1)), Rows: rows, Columns: columns}
	must(r.t, r.kernels.Quantise(r.stream, to, Matrix{in(r, x), rows, columns, stride}))
	if have := out[int8](r, to.At, n+16); !slices.Equal(have, append(want.padded(), make([]int8, 16)...)) {
		r.t.Errorf("%d×%d: rows are %v, want %v", rows, columns, have, want.padded())
	}
	if have := out[float32](r, to.Scales, rows+1); !sameFloats(have, append(slices.Clone(want.scales), 0)) {
		r.t.Errorf("%d×%d: scales are %v, want %v", rows, columns, have, want.scales)
	}
}

// A float8Case is a product with its operands on this machine.
type float8Case struct {
	x, weights *float8s
	bias       []float32
	residual   []number
	rectified  bool
}

func (r *rig) float8Case(m, n, k int) *float8Case {
	return &float8Case{x: toFloat8s(r.floats(m*k, 3), m, k), weights: toFloat8s(r.floats(n*k, 1), n, k), bias: r.floats(n, 4),
		residual: r.halves(m*n, 4)}
}

func (c *float8Case) run(r *rig, t tiling) []number {
	r.t.Helper()
	m, n := c.x.rows, c.weights.rows
	p := ByteProduct{X: c.x.on(r), Weights: c.weights.on(r), Rectified: c.rectified, Result: Matrix{At: alloc[number](r, m*n), Rows: m, Columns: n}}
	if c.bias != nil {
		p.Bias = in(r, c.bias)
	}
	if c.residual != nil {
		p.Residual = Matrix{At: in(r, c.residual), Rows: m, Columns: n}
	}
	must(r.t, r.kernels.byteProduct(r.stream, p, t))
	return out[number](r, p.Result.At, m*n)
}

// want is an element in float64, and the sum of the magnitudes that were added.
func (c *float8Case) want(row, column int) (sum, magnitude float64) {
	for i := range c.x.columns {
		product := c.x.at(row, i) * c.weights.at(column, i)
		sum, magnitude = sum+product, magnitude+math.Abs(product)
	}
	if c.bias != nil {
		sum += float64(c.bias[column])
	}
	if c.rectified {
		sum = max(0, sum)
	}
	if c.residual != nil {
		sum += float64(c.residual[row*c.weights.rows+column].Float32())
	}
	return sum, magnitude
}

// check compares with the exact sums, and wants the same bits in every tiling: a row's are its own, whatever is around it.
func (c *float8Case) check(r *rig, what string) {
	r.t.Helper()
	first := c.run(r, tilings[0])
	for i, have := range first {
		sum, magnitude := c.want(i/c.weights.rows, i%c.weights.rows)
		if apart := math.Abs(float64(have.Float32()) - sum); !(apart <= 1e-6*magnitude+math.Abs(sum)/2000+1e-6) {
			r.t.Fatalf("%s: element %d is %v, want %v", what, i, have.Float32(), sum)
		}
	}
	for _, tiling := range tilings[1:] {
		if have := c.run(r, tiling); !slices.Equal(have, first) {
			r.t.Errorf("%s: other bits in %s than in %s, want the same", what, tiling.name, tilings[0].name)
		}
	}
	alone := *c
	row := c.x.rows - 1
	alone.x = &float8s{1, c.x.columns, c.x.bits[row*c.x.columns:], c.x.scales[row:]}
	if c.residual != nil {
		alone.residual = c.residual[row*c.weights.rows:]
	}
	if have := alone.run(r, small); !slices.Equal(have, first[row*c.weights.rows:]) {
		r.t.Errorf("%s: the last row has other bits alone, want the same", what)
	}
}

func TestFloat8Product(t *testing.T) {
	r := newFloat8Rig(t)
	shapes := [][3]int{{1, 2, 8}, {3, 10, 40}, {65, 130, 72}, {129, 64, 264}}
	if testing.Short() {
		shapes = [][3]int{{3, 10, 40}, {65, 66, 136}}
	}
	for _, shape := range shapes {
		r.float8Case(shape[0], shape[1], shape[2]).check(r, fmt.Sprint(shape))
	}
	for i := range 4 {
		c := r.float8Case(20, 66, 40)
		c.rectified = i&1 != 0
		if i&2 != 0 {
			c.bias, c.residual = nil, nil
		}
		c.check(r, fmt.Sprintf("epilogue %02b", i))
	}
	broken := r.float8Case(3, 8, 48)
	broken.x.scales[1] = float32(math.Inf(1))
	clear(broken.x.bits[48:96])
	for i, have := range broken.run(r, middle) {
		if isNaN := have.Float32() != have.Float32(); isNaN != (i/8 == 1) {
			t.Errorf("with a row that is not finite, element %d is %v", i, have.Float32())
		}
	}
}

func TestFloat8Output(t *testing.T) {
	r := newFloat8Rig(t)
	for _, shape := range byteOutputs() {
		c := r.outputCase(shape[0], shape[1], shape[2], shape[3])
		c.inFloat8().check(r, fmt.Sprint("fp8 ", shape))
	}
	c := r.outputCase(5, 48, 300, 3)
	c.normalised = true
	for token := int32(1); token < 300; token += 3 {
		c.columns = append(c.columns, token)
	}
	c.inFloat8().check(r, "fp8, a list of tokens, normalised")
}

func TestFloat8OutputOfCountedColumns(t *testing.T) {
	newFloat8Rig(t).compareCounted((*outputCase).inFloat8)
}

// inFloat8 lets the case multiply fp8.
func (c *outputCase) inFloat8() *outputCase {
	c.ofX, c.ofTable = toFloat8s(floatsOf(c.x), c.rows, c.length), toFloat8s(floatsOf(c.table), c.vocabulary, c.length)
	return c
}

func TestFloat8Scores(t *testing.T) {
	r := newFloat8Rig(t)
	c := r.outputCase(19, 40, 130, 1).inFloat8()
	result := alloc[float32](r, c.rows*c.vocabulary)
	must(t, r.kernels.ByteScores(r.stream, c.ofX.on(r), c.ofTable.on(r), in(r, c.bias), result))
	for i, have := range out[float32](r, result, c.rows*c.vocabulary) {
		want := float64(c.bias[i%c.vocabulary])
		for j := range c.length {
			want += c.ofX.at(i/c.vocabulary, j) * c.ofTable.at(i%c.vocabulary, j)
		}
		if !(math.Abs(float64(have)-want) < 1e-4) {
			t.Fatalf("score %d is %v, want %v", i, have, want)
		}
	}
}

// A device, or a driver, that has no fp8 is told before anything is compiled.
func TestFloat8Refused(t *testing.T) {
	for _, c := range []struct{ name, value, want string }{
		{"capability", "86", "too old for fp8 on float16: compute capability 8.9 (Ada, of 2022) or later is needed"},
		{"version", "12030", "the NVIDIA driver is for CUDA 12.3, and fp8 on float16 needs one for 12.4 (550) or later"},
	} {
		t.Run(c.name, func(t *testing.T) {
			newFloat8Rig(t)
			if !emulate(t, c.name, c.value) {
				t.Skip("for an emulated device only")
			}
			if err := checkDevice(t, Arithmetic{Float16, FP8}); !errors.Is(err, cuda.ErrUnavailable) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("with %s %s: %v, want %q", c.name, c.value, err, c.want)
			}
			if err := checkDevice(t, Arithmetic{}); err != nil {
				t.Errorf("with %s %s: %v", c.name, c.value, err)
			}
		})
	}
}
