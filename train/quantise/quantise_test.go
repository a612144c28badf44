package quantise

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/sluice-mt/sluice/translator/marian"
)

func gaussian(n int) []float32 {
	random := rand.New(rand.NewPCG(5, 6))
	values := make([]float32, n)
	for i := range values {
		values[i] = float32(random.NormFloat64() * 0.1)
	}
	return values
}

func rounded(c Config, values []float32, m Matrix) []float32 {
	dst := make([]float32, len(values))
	c.Round(dst, values, m)
	return dst
}

func distinct(values []float32) int {
	sorted := slices.Clone(values)
	slices.Sort(sorted)
	return len(slices.Compact(sorted))
}

func column(values []float32, m Matrix, j int) []float32 {
	var out []float32
	for i := range m.Rows {
		out = append(out, values[i*m.Cols+j])
	}
	return out
}

// TestGroups wants no more different numbers in a group than its bits allow, and more than that in the matrix.
func TestGroups(t *testing.T) {
	values := gaussian(400 * 30)
	columns, rows := Matrix{Rows: 400, Cols: 30}, Matrix{Rows: 30, Cols: 400, Outputs: Rows}
	for bits := 2; bits <= 8; bits++ {
		most := 1<<bits - 1
		c := Config{Bits: bits}
		byColumn, byRow := rounded(c, values, columns), rounded(c, values, rows)
		for j := range 30 {
			if n := distinct(column(byColumn, columns, j)); n > most || bits < 7 && n < most/2 {
				t.Errorf("%d bits: a column has %d different numbers", bits, n)
			}
			if n := distinct(byRow[j*400 : (j+1)*400]); n > most || bits < 7 && n < most/2 {
				t.Errorf("%d bits: a row has %d different numbers", bits, n)
			}
		}
		if n := distinct(byColumn); n <= most {
			t.Errorf("%d bits: all columns together have %d different numbers", bits, n)
		}
		c.PerMatrix = true
		if n := distinct(rounded(c, values, columns)); n > most {
			t.Errorf("%d bits: the matrix has %d different numbers", bits, n)
		}
		c.Log = true
		if n := distinct(rounded(c, values, columns)); n > 1<<bits {
			t.Errorf("%d logarithmic bits: the matrix has %d different numbers", bits, n)
		}
	}
}

// TestRoundedStaysRounded wants numbers that are on a grid to stay on it, but for rounding errors.
func TestRoundedStaysRounded(t *testing.T) {
	values := gaussian(60 * 20)
	for _, c := range []Config{{Bits: 8}, {Bits: 8, PerMatrix: true}, {Bits: 4, Steps: 3}, {Bits: 4, Log: true, Steps: 3}, {Bits: 8, Cut: 7}} {
		m := Matrix{Rows: 60, Cols: 20, Outputs: Columns}
		once := rounded(c, values, m)
		for i, v := range rounded(c, once, m) {
			if math.Abs(float64(v-once[i])) > 1e-6*math.Abs(float64(v)) {
				t.Errorf("%+v: %v becomes %v when it is rounded again", c, once[i], v)
			}
		}
	}
}

// TestPerMatrix compares with what a stored 8-bit model holds.
func TestPerMatrix(t *testing.T) {
	values := gaussian(500)
	whole, multiplier := marian.QuantizeInt8(values)
	for i, v := range rounded(Config{Bits: 8, PerMatrix: true}, values, Matrix{Rows: 50, Cols: 10, Outputs: Columns}) {
		if want := float32(whole[i]) / multiplier; math.Abs(float64(v-want)) > 1e-6 {
			t.Fatalf("element %d is %v, stored as %v", i, v, want)
		}
	}
}

// TestSteps wants every step to reduce the squared error of fixed-point numbers of few bits.
func TestSteps(t *testing.T) {
	values, before := gaussian(4000), math.Inf(1)
	for steps := range 5 {
		squared := 0.0
		for i, v := range rounded(Config{Bits: 4, Steps: steps, PerMatrix: true}, values, Matrix{Rows: 40, Cols: 100, Outputs: Columns}) {
			squared += math.Pow(float64(v-values[i]), 2)
		}
		if squared > before {
			t.Errorf("after %d steps the error is %v, before %v", steps, squared, before)
		}
		before = squared
	}
}

// TestCut wants an outlier to be cut off at seven deviations.
func TestCut(t *testing.T) {
	values := gaussian(1000)
	values[17] = 50
	got := rounded(Config{Bits: 8, Cut: 7}, values, Matrix{Rows: 1000, Cols: 1, Outputs: Columns})
	var sum, square float64
	for _, v := range values {
		sum += float64(v)
		square += float64(v) * float64(v)
	}
	mean := sum / 1000
	if want := mean + 7*math.Sqrt(square/1000-mean*mean); math.Abs(float64(got[17])-want) > 1e-3*want {
		t.Errorf("50 becomes %v, want %v", got[17], want)
	}
}

func TestBiases(t *testing.T) {
	values := gaussian(100)
	bias := Matrix{Rows: 1, Cols: 100, Outputs: Columns}
	if !slices.Equal(rounded(Config{Bits: 4, Log: true}, values, bias), values) {
		t.Error("a bias is rounded")
	}
	if n := distinct(rounded(Config{Bits: 4, Log: true, Biases: true}, values, bias)); n > 16 {
		t.Errorf("a rounded bias has %d different numbers", n)
	}
	if n := distinct(rounded(Config{Bits: 4, Biases: true}, values, bias)); n > 15 {
		t.Errorf("a rounded bias has %d different numbers", n)
	}
}

func TestZeros(t *testing.T) {
	for _, c := range []Config{{Bits: 8}, {Bits: 4, Log: true, Steps: 2}, {Bits: 3, Steps: 2, PerMatrix: true}} {
		for _, v := range rounded(c, make([]float32, 12), Matrix{Rows: 4, Cols: 3, Outputs: Columns}) {
			if v != 0 {
				t.Errorf("%+v: zero becomes %v", c, v)
			}
		}
	}
}

func TestValidate(t *testing.T) {
	for _, c := range []Config{{Bits: 1}, {Bits: 9}, {Bits: 8, Steps: -1}} {
		if err := c.Validate(); !errors.Is(err, ErrConfig) {
			t.Errorf("%+v: %v", c, err)
		}
	}
	if err := (&Config{Bits: 4, Log: true, Steps: 3}).Validate(); err != nil {
		t.Error(err)
	}
}

// TestCompensate rounds matrices that meet inputs which hang together, and wants the products to be closer than those of plain
// rounding, and the numbers to lie on grids of their blocks.
func TestCompensate(t *testing.T) {
	const inputs, outputs, samples = 64, 128, 500
	random := rand.New(rand.NewPCG(1, 2))
	moments := make([]float32, inputs*inputs)
	x := make([][]float32, samples)
	for s := range x {
		x[s] = make([]float32, inputs)
		common := random.NormFloat64()
		for i := range x[s] {
			x[s][i] = float32(common + 0.5*random.NormFloat64())
		}
		for i, a := range x[s] {
			for j, b := range x[s] {
				moments[i*inputs+j] += a * b
			}
		}
	}
	c := Config{Bits: 4, Log: true, Blocks: true, Steps: 3}
	values := gaussian(inputs * outputs)
	for _, m := range []Matrix{{Rows: inputs, Cols: outputs}, {Rows: outputs, Cols: inputs, Outputs: Rows}} {
		plain, compensated := rounded(c, values, m), make([]float32, len(values))
		c.Compensate(compensated, values, m, moments, 0.01)
		for first := 0; first < len(values); first += marian.LogBlock {
			if n := distinct(compensated[first : first+marian.LogBlock]); n > 16 {
				t.Fatalf("%+v: a block has %d different numbers", m, n)
			}
		}
		before, after := productError(x, values, plain, m), productError(x, values, compensated, m)
		t.Logf("%+v: a squared error of %.4g instead of %.4g", m, after, before)
		if after > before/3 {
			t.Errorf("%+v: a squared error of %v, by plain rounding %v", m, after, before)
		}
		c.Compensate(compensated, values, m, moments, 1e9)
		if !slices.Equal(compensated, plain) {
			t.Errorf("%+v: with all damping it is not plain rounding", m)
		}
	}
}

// productError returns the squared error of products with a rounded matrix.
func productError(x [][]float32, values, rounded []float32, m Matrix) float64 {
	sum := 0.0
	for _, row := range x {
		for o := range len(values) / len(row) {
			apart := 0.0
			for i, v := range row {
				at := i*m.Cols + o
				if m.Outputs == Rows {
					at = o*m.Cols + i
				}
				apart += float64(v) * float64(values[at]-rounded[at])
			}
			sum += apart * apart
		}
	}
	return sum
}

// TestRowsIn8Bits wants the first rows to have 8 bits, compensated for or not, and the others to be rounded as if they were alone.
func TestRowsIn8Bits(t *testing.T) {
	c := Config{Bits: 4, Log: true, Blocks: true, Steps: 3}
	values, moments := gaussian(8*64), make([]float32, 64*64)
	for i := range 8 {
		moments[i*8+i] = 1 // of eight inputs that have nothing to do with each other: nothing can make up for an error
	}
	want := make([]float32, len(values))
	for i := range 3 {
		marian.RoundRow8(want[i*64:(i+1)*64], values[i*64:])
	}
	copy(want[3*64:], rounded(c, values[3*64:], Matrix{Rows: 5, Cols: 64}))
	m := Matrix{Rows: 8, Cols: 64, Eight: 3}
	if !slices.Equal(rounded(c, values, m), want) {
		t.Error("plain rounding gives something else")
	}
	got := make([]float32, len(values))
	if c.Compensate(got, values, m, moments[:8*8], 0.01); !slices.Equal(got, want) {
		t.Error("by rows, compensation gives something else")
	}
	clear(moments)
	for i := range 64 {
		moments[i*64+i] = 1
	}
	m.Outputs = Rows
	if c.Compensate(got, values, m, moments, 0.01); !slices.Equal(got, want) {
		t.Error("of a table, compensation gives something else")
	}
}

// TestCompensateWithoutMoments wants plain rounding where nothing is known, or where blocks are not parts of rows.
func TestCompensateWithoutMoments(t *testing.T) {
	c := Config{Bits: 4, Log: true, Blocks: true}
	for _, m := range []Matrix{{Rows: 4, Cols: 64}, {Rows: 64, Cols: 4}} {
		values, got, moments := gaussian(4*64), make([]float32, 4*64), make([]float32, m.Rows*m.Rows)
		if m.Cols == 4 {
			for i := range m.Rows {
				moments[i*m.Rows+i] = 1
			}
		}
		if c.Compensate(got, values, m, moments, 0.1); !slices.Equal(got, rounded(c, values, m)) {
			t.Errorf("%+v is not rounded plainly", m)
		}
	}
}
