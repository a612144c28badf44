package autodiff

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/sluice-mt/sluice/kernels"
)

// TestQuantiseRows compares with the kernel that readies activations for 8-bit products, bit by bit.
func TestQuantiseRows(t *testing.T) {
	const rows, cols = 6, 50
	random := rand.New(rand.NewPCG(1, 2))
	x := &Matrix[float32]{Rows: rows, Cols: cols, Value: make([]float32, rows*cols), Grad: make([]float32, rows*cols)}
	for i := range x.Value {
		x.Value[i] = float32(random.NormFloat64() * math.Pow(10, float64(i/cols-2)))
	}
	clear(x.Row(4))
	x.Row(5)[3] = 1e-39 // too small for 8 bits to be of use: zero, like the rest
	clear(x.Row(5)[4:])
	clear(x.Row(5)[:3])
	bytes, scales := make([]uint8, rows*kernels.Int8Stride(cols)), make([]float32, rows)
	kernels.QuantizeRows(bytes, scales, x.Value, rows, cols)
	tape := NewTape(Device[float32](new(CPU)))
	tape.Reset(true, 1)
	y := tape.QuantiseRows(x)
	for i := range rows {
		for j, got := range y.Row(i) {
			if want := float32(int(bytes[i*kernels.Int8Stride(cols)+j])-128) * scales[i]; got != want {
				t.Fatalf("row %d, column %d: %v, the kernel has %v", i, j, got, want)
			}
		}
	}
	for i := range y.Grad {
		y.Grad[i] = float32(i)
	}
	tape.Backward()
	if !slices.Equal(x.Grad, y.Grad) {
		t.Error("the gradient does not go straight through")
	}
	x.Row(0)[0] = float32(math.NaN())
	if y := tape.QuantiseRows(x); y.Row(0)[0] == y.Row(0)[0] {
		t.Error("a NaN is lost")
	}
}

// TestRoundBFloat16 compares with the kernels.
func TestRoundBFloat16(t *testing.T) {
	const rows, cols = 3, 8
	x := &Matrix[float32]{Rows: rows, Cols: cols, Value: make([]float32, rows*cols), Grad: make([]float32, rows*cols)}
	for i := range x.Value {
		x.Value[i] = float32(math.Sin(float64(i))) * 3
	}
	x.Value[0], x.Value[1], x.Value[2], x.Value[3] = 1+1.0/256, 1+3.0/256, float32(math.Inf(-1)), float32(math.NaN())
	words := make([]uint16, rows*kernels.BFloat16Stride(cols))
	kernels.ToBFloat16(words, x.Value, cols, rows, cols)
	tape := NewTape(Device[float32](new(CPU)))
	tape.Reset(true, 1)
	y := tape.RoundBFloat16(x)
	for i, got := range y.Value {
		if want := math.Float32frombits(uint32(words[i]) << 16); got != want && (got == got || want == want) {
			t.Errorf("%v becomes %v, want %v", x.Value[i], got, want)
		}
	}
	copy(y.Grad, y.Value[4:])
	tape.Backward()
	if !slices.Equal(x.Grad, y.Grad) {
		t.Error("the gradient does not go straight through")
	}
}
