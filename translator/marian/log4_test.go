package marian

import (
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/sluice-mt/sluice/internal/sharedtest"
)

// nearest returns the number of a grid that is nearest to v, found by trying all of them; the larger one of two.
func nearest(g LogGrid, v float32) float32 {
	best, least, base := float32(0), math.Inf(1), 2.0
	if g.Halves {
		base = math.Sqrt2
	}
	for k := range 1 << (g.Bits - 1) {
		level := float64(g.Scale) * math.Pow(base, float64(-k))
		if d := math.Abs(math.Abs(float64(v)) - level); d < least {
			best, least = float32(level), d
		}
	}
	return float32(math.Copysign(float64(best), float64(v)))
}

func TestLogGridRoundsToTheNearest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := LogGrid{Scale: float32(rapid.Float64Range(1e-6, 1e6).Draw(t, "scale")), Bits: rapid.IntRange(2, 8).Draw(t, "bits"), Halves: rapid.Bool().Draw(t, "halves")}
		v := g.Scale * float32(rapid.Float64Range(-1.5, 1.5).Draw(t, "ratio"))
		got := make([]float32, 1)
		g.Round(got, []float32{v})
		want := nearest(g, v)
		if math.Abs(float64(got[0]-want)) <= 1e-6*math.Abs(float64(want)) {
			return
		}
		// At a border, a rounding error may decide.
		if a, b := math.Abs(float64(got[0]-v)), math.Abs(float64(want-v)); a > b*(1+1e-5) {
			t.Fatalf("%v on %+v gives %v, nearest is %v", v, g, got[0], want)
		}
	})
}

func gaussian(n int, deviation float64) []float32 {
	random := rand.New(rand.NewPCG(3, 4))
	values := make([]float32, n)
	for i := range values {
		values[i] = float32(random.NormFloat64() * deviation)
	}
	return values
}

// TestLogGridFit wants each step to reduce the squared error, and the values of a grid to be found again exactly.
func TestLogGridFit(t *testing.T) {
	values, rounded := gaussian(5000, 0.07), make([]float32, 5000)
	before := math.Inf(1)
	for steps := range 6 {
		g := FitLogGrid(values, 4, steps)
		g.Round(rounded, values)
		squared := 0.0
		for i, v := range values {
			squared += math.Pow(float64(v-rounded[i]), 2)
		}
		if squared > before {
			t.Errorf("%d steps have an error of %v, one step less %v", steps, squared, before)
		}
		before = squared
		for again := range 4 {
			same := make([]float32, len(rounded))
			if FitLogGrid(rounded, 4, again).Round(same, rounded); !slices.Equal(same, rounded) {
				t.Errorf("values that were rounded after %d steps change when they are rounded after %d", steps, again)
			}
		}
	}
	for _, zeros := range [][]float32{nil, {0, 0}} {
		if g := FitLogGrid(zeros, 4, 3); g.Scale != 0 {
			t.Errorf("%v fits %+v", zeros, g)
		}
	}
}

// TestLogBlocks wants values that lie on the grids of their blocks to stay there, whatever steps are, and every block to have few
// different numbers.
func TestLogBlocks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 3*LogBlock).Draw(t, "numbers")
		size := math.Pow(10, rapid.Float64Range(-4, 4).Draw(t, "magnitude"))
		values := rapid.SliceOfN(rapid.Float32Range(-1, 1), n, n).Draw(t, "values")
		for i := range values {
			values[i] *= float32(size)
		}
		once, again := make([]float32, n), make([]float32, n)
		RoundLogBlocks(once, values, 4, rapid.IntRange(0, 5).Draw(t, "steps"))
		RoundLogBlocks(again, once, 4, rapid.IntRange(0, 5).Draw(t, "steps"))
		if !slices.Equal(once, again) {
			t.Fatalf("%v becomes %v when it is rounded again", once, again)
		}
		for block := range slices.Chunk(once, LogBlock) {
			if d := distinct(block); d > 16 {
				t.Fatalf("a block has %d different numbers", d)
			}
		}
	})
}

func distinct(values []float32) int {
	return len(slices.Compact(slices.Sorted(slices.Values(values))))
}

// TestLogBlocksAtTheEdges rounds blocks whose scales a float16 holds badly or not at all. The scale must be at most off by what
// a float16 cannot help, and finite.
func TestLogBlocksAtTheEdges(t *testing.T) {
	for _, v := range []float32{0, 1e-45, 2e-8, 4e-8, 5e-8, 1e-7, 6e-5, 65504, 1e6, math.MaxFloat32} {
		values, rounded := []float32{v, -v / 2}, make([]float32, 2)
		RoundLogBlocks(rounded, values, 4, 3)
		off := math.Abs(float64(rounded[0] - v))
		if v <= maxFloat16 && off > 0.2*float64(v)+0x1p-24 || v > maxFloat16 && rounded[0] != maxFloat16 {
			t.Errorf("%v becomes %v", values, rounded)
		}
	}
}

// TestLogBlocksAreCloser compares the squared errors of the two forms on what weights are like.
func TestLogBlocksAreCloser(t *testing.T) {
	values, rounded := gaussian(64*200, 0.1), make([]float32, 64*200)
	FitLogGrid(values, 4, 10).Round(rounded, values)
	whole := squaredDistance(rounded, values)
	RoundLogBlocks(rounded, values, 4, 10)
	if blocks := squaredDistance(rounded, values); blocks > whole/3 {
		t.Errorf("blocks with half powers have an error of %v, whole powers one of %v", blocks, whole)
	}
}

// log4Model has matrices of even and odd sizes, and what is not rounded.
func log4Model(t testing.TB) *File {
	t.Helper()
	f := small()
	powers := gaussian(15, 1)
	FitLogGrid(powers, 4, 3).Round(powers, powers)
	f.Tensors = append(f.Tensors, floats("odd_W", []int{3, 5}, powers), floats("zero_W", []int{2, 3}, make([]float32, 6)),
		floats("blocks_W", []int{13, 11}, gaussian(143, 1)))
	stored, err := f.Log4(3, nil)
	if err != nil {
		t.Fatal(err)
	}
	return stored
}

func floats(name string, shape []int, values []float32) *Tensor {
	t := &Tensor{Name: name, Shape: shape, Type: Float32, Offset: nowhere}
	for _, v := range values {
		bits := math.Float32bits(v)
		t.Data = append(t.Data, byte(bits), byte(bits>>8), byte(bits>>16), byte(bits>>24))
	}
	return t
}

func TestLog4FilesKeepTheValues(t *testing.T) {
	f := log4Model(t)
	path := filepath.Join(t.TempDir(), "model.bin")
	for _, family := range []Family{Browsermt, Mainline} {
		if err := WriteBin(path, f, family); err != nil {
			t.Fatal(err)
		}
		read := open(t, path)
		if read.Fingerprint() != f.Fingerprint() {
			t.Errorf("%v: another model comes back", family)
		}
		for _, tensor := range f.Tensors {
			rows, _ := tensor.Matrix()
			want := tensor.Type
			switch {
			case rows == 1:
				want = Float32
			case tensor.Name == "odd_W":
				want = Log4
			case tensor.Name == "blocks_W" || !want.In4Bits():
				want = Log4Blocks
			}
			if tensor.Type != want {
				t.Errorf("%s is stored as %v, want %v", tensor.Name, tensor.Type, want)
			}
		}
		again, err := read.Log4(0, nil)
		if err != nil {
			t.Fatal(err)
		}
		float, err := read.Float(Float32)
		if err != nil {
			t.Fatal(err)
		}
		back, err := float.Log4(7, nil)
		if err != nil {
			t.Fatal(err)
		}
		if again.Fingerprint() != f.Fingerprint() || back.Fingerprint() != f.Fingerprint() {
			t.Errorf("%v: converting it again changes it", family)
		}
	}
	if err := WriteNPZ(path, f); err == nil || !strings.Contains(err.Error(), "log4") {
		t.Errorf("an .npz takes log4: %v", err)
	}
}

func TestLog4RefusesWhatHasNoNumbers(t *testing.T) {
	f := &File{Tensors: []*Tensor{floats("x_W", []int{2, 2}, []float32{1, 2, float32(math.NaN()), 3})}}
	if _, err := f.Log4(1, nil); err == nil || !strings.Contains(err.Error(), `"x_W"`) {
		t.Errorf("NaN: %v", err)
	}
	for name, infinite := range map[string]func(data []byte){
		"odd_W":    func(data []byte) { copy(data[len(data)-4:], []byte{0, 0, 0x80, 0x7f}) },
		"blocks_W": func(data []byte) { copy(data[2*logBlockBytes:], []byte{0, 0x7c}) },
	} {
		damaged := log4Model(t).Tensor(name)
		damaged.Data = slices.Clone(damaged.Data)
		infinite(damaged.Data)
		if _, err := damaged.Float32(); err == nil || !strings.Contains(err.Error(), "scale") {
			t.Errorf("a scale of +Inf in %s: %v", name, err)
		}
	}
}

// TestLog4DemoModel wants a file of at most a seventh of the size in float32, with as many rows in 8 bits as there is room for.
func TestLog4DemoModel(t *testing.T) {
	model := open(t, sharedtest.Path(t, "models/ende-tiny/model.npz"))
	single, err := model.Float(Float32)
	if err != nil {
		t.Fatal(err)
	}
	eight, err := RowsIn8Bits(EightBitsAuto, model.Tensors)
	if err != nil {
		t.Fatal(err)
	}
	f, err := model.Log4(3, eight)
	if err != nil {
		t.Fatal(err)
	}
	size, allowed := len(binOf(t, f, Browsermt)), len(binOf(t, single, Browsermt))/7
	if size > allowed || size < allowed-4096 || len(eight) != 1 || f.Tensor("Wemb").RowsIn8Bits() != eight["Wemb"] {
		t.Errorf("%d bytes with %v in 8 bits, a seventh of the size in float32 is %d", size, eight, allowed)
	}
}
