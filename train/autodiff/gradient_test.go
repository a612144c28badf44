package autodiff

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// A gradientCase is a function of matrices: it puts operations on a tape. The loss is a fixed random projection of the
// result, plus what the operations add themselves.
type gradientCase struct {
	name   string
	inputs [][2]int // shapes
	run    func(t *Tape[float64], in []*Matrix[float64]) (result *Matrix[float64], loss float64)
}

// sentences of different lengths, one of them of a single token.
var (
	sourceSentences = Segments{0, 3, 4, 9}
	targetSentences = Segments{0, 2, 6, 7}
)

var words = []int32{3, 0, -1, 4, 4, 1, 2}

func unary(name string, run func(t *Tape[float64], x *Matrix[float64]) *Matrix[float64]) gradientCase {
	return gradientCase{name, [][2]int{{7, 6}}, func(t *Tape[float64], in []*Matrix[float64]) (*Matrix[float64], float64) {
		return run(t, in[0]), 0
	}}
}

func gradientCases() []gradientCase {
	type tape = Tape[float64]
	type matrix = Matrix[float64]
	cases := []gradientCase{
		{"affine", [][2]int{{7, 5}, {5, 6}, {1, 6}}, func(t *tape, in []*matrix) (*matrix, float64) {
			return t.Affine(in[0], in[1], in[2]), 0
		}},
		{"affine without bias", [][2]int{{7, 5}, {5, 6}}, func(t *tape, in []*matrix) (*matrix, float64) {
			return t.Affine(in[0], in[1], nil), 0
		}},
		{"an input that is used twice", [][2]int{{6, 6}}, func(t *tape, in []*matrix) (*matrix, float64) {
			return t.Add(t.Affine(in[0], in[0], nil), in[0]), 0
		}},
		{"embedding", [][2]int{{5, 6}}, func(t *tape, in []*matrix) (*matrix, float64) {
			x := t.Embed(in[0], words, 2.5)
			t.AddPositions(x, targetSentences, Sinusoids[float64](4, 6))
			return x, 0
		}},
		{"layer norm", [][2]int{{7, 6}, {1, 6}, {1, 6}}, func(t *tape, in []*matrix) (*matrix, float64) {
			return t.LayerNorm(in[0], in[1], in[2], 1e-6), 0
		}},
		{"RMS norm", [][2]int{{7, 6}, {1, 6}}, func(t *tape, in []*matrix) (*matrix, float64) {
			return t.RMSNorm(in[0], in[1], 1e-6), 0
		}},
		{"SSRU", [][2]int{{7, 6}, {7, 6}}, func(t *tape, in []*matrix) (*matrix, float64) {
			return t.SSRU(in[0], in[1], targetSentences), 0
		}},
		{"SRU", [][2]int{{7, 6}, {7, 6}, {7, 6}, {7, 6}}, func(t *tape, in []*matrix) (*matrix, float64) {
			return t.SRU(in[0], in[1], in[2], in[3], targetSentences), 0
		}},
		{"gated sum", [][2]int{{7, 6}, {7, 6}, {7, 6}, {7, 6}}, func(t *tape, in []*matrix) (*matrix, float64) {
			return t.GatedSum(in[0], in[1], in[2], in[3]), 0
		}},
		{"highway", [][2]int{{7, 6}, {7, 6}, {7, 6}}, func(t *tape, in []*matrix) (*matrix, float64) {
			return t.Highway(in[0], in[1], in[2]), 0
		}},
		unary("running mean", func(t *tape, x *matrix) *matrix { return t.RunningMean(x, targetSentences) }),
		{"affine with ReLU and dropout", [][2]int{{7, 5}, {5, 6}, {1, 6}}, func(t *tape, in []*matrix) (*matrix, float64) {
			y := t.AffineReLU(in[0], in[1], in[2])
			t.Dropout(y, 0.3)
			return y, 0
		}},
		unary("copy", func(t *tape, x *matrix) *matrix {
			y := t.Copy(x)
			t.Dropout(y, 0.4)
			return t.Add(x, y)
		}),
		unary("dropout", func(t *tape, x *matrix) *matrix {
			y := t.Apply(t.Affine(x, identityMatrix(6), nil), Swish)
			t.Dropout(y, 0.4)
			t.DropoutRows(y, 0.2)
			return y
		}),
		{"cross-entropy", [][2]int{{7, 6}, {5, 6}, {1, 5}}, func(t *tape, in []*matrix) (*matrix, float64) {
			return nil, t.CrossEntropy(in[0], in[1], in[2], Targets{Words: []int32{3, 0, 1, 4, 4, 1, 2}})
		}},
		{"smoothed, weighted cross-entropy", [][2]int{{7, 6}, {5, 6}}, func(t *tape, in []*matrix) (*matrix, float64) {
			return nil, t.CrossEntropy(in[0], in[1], nil, Targets{
				Words: []int32{3, 0, 1, 4, 4, 1, 2}, Smoothing: 0.2, Weights: []float32{1, 0.5, 0, 2, 1, 1, 3},
			})
		}},
	}
	for f := Identity; f <= Tanh; f++ {
		cases = append(cases, unary(fmt.Sprint("function ", f), func(t *tape, x *matrix) *matrix { return t.Apply(x, f) }))
	}
	return append(cases, append(attentionCases(), stepCases()...)...)
}

func attentionCases() []gradientCase {
	type tape = Tape[float64]
	type matrix = Matrix[float64]
	points := []AlignmentPoint{{0, 0, 2}, {0, 0, 0}, {0, 1, 1}, {1, 3, 0}, {2, 0, 4}, {2, 0, 0}}
	attend := func(name string, keys Segments, options AttentionOptions, extra func(t *tape, a *Attention[float64]) float64) gradientCase {
		n := keys.Rows()
		return gradientCase{name, [][2]int{{7, 6}, {n, 6}, {n, 6}}, func(t *tape, in []*matrix) (*matrix, float64) {
			out, a := t.Attend(in[0], in[1], in[2], targetSentences, keys, options)
			if extra == nil {
				return out, 0
			}
			return out, extra(t, a)
		}}
	}
	return []gradientCase{
		attend("attention", sourceSentences, AttentionOptions{Heads: 2}, nil),
		attend("attention with dropout", sourceSentences, AttentionOptions{Heads: 3, Dropout: 0.3}, nil),
		attend("causal attention", targetSentences, AttentionOptions{Heads: 2, Causal: true}, nil),
		attend("alignment cross-entropy", sourceSentences, AttentionOptions{Heads: 2}, func(t *tape, a *Attention[float64]) float64 {
			return t.AlignmentLoss(a, points, AlignmentCE, 0.7)
		}),
		attend("alignment squared error", sourceSentences, AttentionOptions{Heads: 2, Dropout: 0.3}, func(t *tape, a *Attention[float64]) float64 {
			return t.AlignmentLoss(a, points, AlignmentMSE, 0.7)
		}),
	}
}

func identityMatrix(n int) *Matrix[float64] {
	m := &Matrix[float64]{Rows: n, Cols: n, Value: make([]float64, n*n)}
	for i := range n {
		m.Value[i*n+i] = 1
	}
	return m
}

// randomMatrices returns inputs of the shapes, with gradients of zeros.
func randomMatrices(shapes [][2]int, seed uint64) []*Matrix[float64] {
	random := rand.New(rand.NewPCG(seed, 1))
	var in []*Matrix[float64]
	for _, s := range shapes {
		m := &Matrix[float64]{Rows: s[0], Cols: s[1], Value: make([]float64, s[0]*s[1]), Grad: make([]float64, s[0]*s[1])}
		for i := range m.Value {
			m.Value[i] = random.NormFloat64()
		}
		in = append(in, m)
	}
	return in
}

// projection returns the weights of the loss that a result is given.
func projection(n int) []float64 {
	random := rand.New(rand.NewPCG(uint64(n), 2))
	w := make([]float64, n)
	for i := range w {
		w[i] = random.NormFloat64()
	}
	return w
}

// value runs a case, and returns the loss. Gradients are there if recording.
func (c *gradientCase) value(t *Tape[float64], in []*Matrix[float64]) float64 {
	t.Reset(true, 99)
	result, loss := c.run(t, in)
	if result != nil {
		weights := projection(len(result.Value))
		for i, v := range result.Value {
			loss += v * weights[i]
			result.Grad[i] += weights[i]
		}
	}
	return loss
}

// TestGradients compares the gradients of every operation with central differences in float64.
func TestGradients(t *testing.T) {
	for _, c := range gradientCases() {
		t.Run(c.name, func(t *testing.T) {
			tape := NewTape[float64](Plain[float64]{})
			in := randomMatrices(c.inputs, 5)
			c.value(tape, in)
			tape.Backward()
			var gradients [][]float64
			for _, m := range in {
				gradients = append(gradients, slices.Clone(m.Grad))
			}
			for n, m := range in {
				got := gradients[n]
				for i, v := range m.Value {
					const h = 1e-5
					m.Value[i] = v + h
					above := c.value(tape, in)
					m.Value[i] = v - h
					below := c.value(tape, in)
					m.Value[i] = v
					want := (above - below) / (2 * h)
					if math.Abs(got[i]-want) > 1e-7*(1+math.Abs(want)) {
						t.Errorf("input %d, element %d: gradient %v, by differences %v", n, i, got[i], want)
					}
				}
			}
		})
	}
}

// TestProductsOfCPUs compares products on the kernels with the reference in float64: of operands that are rounded where the device rounds them.
func TestProductsOfCPUs(t *testing.T) {
	for name, c := range map[string]struct {
		device Device[float32]
		round  func(float32) float32
	}{
		"float32":  {new(CPU), func(v float32) float32 { return v }},
		"bfloat16": {new(BFloat16CPU), bfloat16},
	} {
		t.Run(name, func(t *testing.T) {
			for _, order := range []Order{Straight, TransposedB, TransposedA} {
				compareProduct(t, c.device, c.round, order, false)
				compareProduct(t, c.device, c.round, order, true)
			}
			keptOperand(t, c.device)
			affineOperands(t, c.device, c.round)
		})
	}
}

func compareProduct(t *testing.T, device Device[float32], round func(float32) float32, order Order, add bool) {
	t.Helper()
	shapes := map[Order][2][2]int{Straight: {{37, 65}, {65, 70}}, TransposedB: {{37, 65}, {70, 65}}, TransposedA: {{65, 37}, {65, 70}}}[order]
	in := randomMatrices(append(shapes[:], [2]int{37, 70}), 3)
	wide := func(m *Matrix[float64], pad int) (View[float32], View[float64]) {
		single := View[float32]{Data: make([]float32, m.Rows*(m.Cols+pad)), Rows: m.Rows, Cols: m.Cols, Stride: m.Cols + pad}
		for i := range m.Rows {
			for j, v := range m.Row(i) {
				single.Data[i*single.Stride+j] = float32(v)
			}
		}
		return single, view(m.Value, m.Rows, m.Cols)
	}
	a, a64 := wide(in[0], 3)
	b, b64 := wide(in[1], 5)
	y, y64 := wide(in[2], 7)
	for _, operand := range []View[float64]{a64, b64} {
		for i, v := range operand.Data {
			operand.Data[i] = float64(round(float32(v)))
		}
	}
	device.Multiply(y, a, b, order, add)
	Plain[float64]{}.Multiply(y64, a64, b64, order, add)
	for i := range y.Rows {
		for j, v := range y.row(i) {
			if want := y64.row(i)[j]; math.Abs(float64(v)-want) > 2e-5 {
				t.Fatalf("order %d, add %v: element %d,%d is %v, want %v", order, add, i, j, v, want)
			}
		}
		for j, v := range y.Data[i*y.Stride+y.Cols : min((i+1)*y.Stride, len(y.Data))] {
			if v != 0 {
				t.Fatalf("order %d, add %v: wrote behind row %d, at %d", order, add, i, j)
			}
		}
	}
}

// TestCPUDevice compares each operation on the kernels but products, in float32, with the reference.
func TestCPUDevice(t *testing.T) {
	dy := []float32{1, 2, 3, 4, 5}
	new(CPU).Mask(dy, []float32{-1, 0, float32(math.Copysign(0, -1)), 1e-30, 7})
	if !slices.Equal(dy, []float32{0, 0, 0, 4, 5}) {
		t.Errorf("masked: %v", dy)
	}
	x := []float32{-30, -2, -0.5, 0, 0.25, 1, 3, 20}
	for f := Identity; f <= Tanh; f++ {
		got, want := make([]float32, len(x)), make([]float32, len(x))
		new(CPU).Apply(got, x, f)
		Plain[float32]{}.Apply(want, x, f)
		for i := range got {
			if math.Abs(float64(got[i]-want[i])) > 1e-6*(1+math.Abs(float64(want[i]))) {
				t.Errorf("function %d of %v is %v, want %v", f, x[i], got[i], want[i])
			}
		}
		dy := []float32{1, 2, -1, 3, 0.5, 1, 1, -2}
		new(CPU).ApplyBackward(got, dy, x, f)
		Plain[float32]{}.ApplyBackward(want, dy, x, f)
		for i := range got {
			if math.Abs(float64(got[i]-want[i])) > 2e-6*(1+math.Abs(float64(want[i]))) {
				t.Errorf("function %d: gradient at %v is %v, want %v", f, x[i], got[i], want[i])
			}
		}
	}
}

// TestDropout looks at how much is dropped, and that the rest keeps the mean.
func TestDropout(t *testing.T) {
	tape := NewTape[float64](Plain[float64]{})
	tape.Reset(true, 1)
	x := tape.matrix(100, 101)
	for i := range x.Value {
		x.Value[i] = 1
	}
	tape.Dropout(x, 0.25)
	zeros := 0
	for _, v := range x.Value {
		switch v {
		case 0:
			zeros++
		case 1 / 0.75:
		default:
			t.Fatalf("an element is %v", v)
		}
	}
	if share := float64(zeros) / 10100; math.Abs(share-0.25) > 0.02 {
		t.Errorf("%v is dropped", share)
	}
	tape.Reset(false, 1)
	y := tape.matrix(2, 2)
	y.Value = []float64{1, 1, 1, 1}
	if tape.Dropout(y, 0.9); y.Value[0]+y.Value[1]+y.Value[2]+y.Value[3] != 4 {
		t.Error("something is dropped though nothing is recorded")
	}
}

// TestNoAllocation runs all operations again and again: nothing may be allocated once memory has grown.
func TestNoAllocation(t *testing.T) {
	tape := NewTape[float64](Plain[float64]{})
	cases := gradientCases()
	inputs := make([][]*Matrix[float64], len(cases))
	for i := range cases {
		inputs[i] = randomMatrices(cases[i].inputs, 5)
	}
	targets := []int32{3, 0, 1, 4, 4, 1, 2}
	step := func() {
		tape.Reset(true, 7)
		x := inputs[0][0]
		y := tape.Affine(x, inputs[0][1], inputs[0][2])
		y, _ = tape.Attend(y, y, y, targetSentences, targetSentences, AttentionOptions{Heads: 2, Causal: true, Dropout: 0.1})
		y = tape.SSRU(y, y, targetSentences)
		y = tape.Apply(tape.Add(y, y), Swish)
		tape.Dropout(y, 0.5)
		tape.CrossEntropy(y, inputs[3][0], nil, Targets{Words: targets})
		tape.Backward()
	}
	step()
	step()
	if n := testing.AllocsPerRun(10, step); n > 0 {
		t.Errorf("%v allocations in a step", n)
	}
}

// keptOperand changes an operand that is kept: the device must see it after Reset. Its numbers are exact in bfloat16.
func keptOperand(t *testing.T, device Device[float32]) {
	t.Helper()
	a, b, y := view(make([]float32, 40*40), 40, 40), view(make([]float32, 40*40), 40, 40), view(make([]float32, 40*40), 40, 40)
	b.Kept = true
	for i := range a.Data {
		a.Data[i], b.Data[i] = float32(i%7), float32(i%5)
	}
	for range 2 {
		for _, order := range []Order{Straight, TransposedB, TransposedA} {
			for range 2 {
				want := view(make([]float32, 40*40), 40, 40)
				device.Multiply(y, a, b, order, false)
				Plain[float32]{}.Multiply(want, a, b, order, false)
				if !slices.Equal(y.Data, want.Data) {
					t.Fatalf("order %d of a kept operand differs", order)
				}
			}
		}
		b.Data[3] = 9
		device.Reset()
	}
}

// affineOperands compares products, large and small, with bias and ReLU and without.
func affineOperands(t *testing.T, device Device[float32], round func(float32) float32) {
	t.Helper()
	for _, n := range []int{3, 40} {
		for _, order := range []Order{Straight, TransposedB} {
			in := randomMatrices([][2]int{{n, n}, {n, n}, {1, n}}, 11)
			var single [3][]float32
			for i, m := range in {
				for _, v := range m.Value {
					single[i] = append(single[i], float32(v))
				}
				if i < 2 && n*n*n >= smallProduct {
					for j, v := range single[i] {
						m.Value[j] = float64(round(v))
					}
				}
			}
			for _, bias := range []bool{true, false} {
				f := map[bool]Function{true: ReLU, false: Identity}[bias]
				got, want := view(make([]float32, n*n), n, n), view(make([]float64, n*n), n, n)
				b, b64 := single[2], in[2].Value
				if !bias {
					b, b64 = nil, nil
				}
				device.Affine(got, view(single[0], n, n), view(single[1], n, n), order, b, f)
				Plain[float64]{}.Affine(want, view(in[0].Value, n, n), view(in[1].Value, n, n), order, b64, f)
				for i, v := range got.Data {
					if math.Abs(float64(v)-want.Data[i]) > 1e-4 {
						t.Fatalf("order %d, bias %v: element %d is %v, want %v", order, bias, i, v, want.Data[i])
					}
				}
			}
		}
	}
}
