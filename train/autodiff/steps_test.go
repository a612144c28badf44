package autodiff

import (
	"math"
	"slices"
	"testing"
)

// stepCases are operations on parts of matrices, some of them put together as in a network.
func stepCases() []gradientCase {
	type tape = Tape[float64]
	type matrix = Matrix[float64]
	cell := func(name string, inputs [][2]int, run func(t *tape, out *matrix, in []*matrix)) gradientCase {
		return gradientCase{name, inputs, func(t *tape, in []*matrix) (*matrix, float64) {
			out := t.Room(3, 4)
			run(t, out, in)
			return out, 0
		}}
	}
	// remembering gives output and memory, so that both have a gradient.
	remembering := func(name string, inputs [][2]int, run func(t *tape, out, memory *matrix, in []*matrix)) gradientCase {
		return gradientCase{name, inputs, func(t *tape, in []*matrix) (*matrix, float64) {
			out, memory := t.Room(3, 4), t.Room(3, 4)
			run(t, out, memory, in)
			return t.Beside(out, memory), 0
		}}
	}
	return append([]gradientCase{
		unary("gather", func(t *tape, x *matrix) *matrix { return t.Gather(x, []int32{3, 0, 6, 3}) }),
		unary("means of sentences", func(t *tape, x *matrix) *matrix { return t.SentenceMean(x, targetSentences) }),
		unary("columns dropped", func(t *tape, x *matrix) *matrix {
			y := t.Room(7, 6)
			t.Mask(y, x, t.ColumnMask(0.4, 6))
			return y
		}),
		{"shift", [][2]int{{7, 6}, {1, 4}}, func(t *tape, in []*matrix) (*matrix, float64) {
			y := t.Copy(in[0])
			t.Shift(y, 2, in[1])
			return y, 0
		}},
		{"elements multiplied", [][2]int{{7, 6}, {7, 6}}, func(t *tape, in []*matrix) (*matrix, float64) {
			y := t.Room(7, 6)
			t.Times(y, in[0], in[1])
			return y, 0
		}},
		cell("GRU", [][2]int{{3, 12}, {3, 12}, {3, 4}}, func(t *tape, out *matrix, in []*matrix) { t.GRU(out, in[0], in[1], in[2]) }),
		cell("GRU without input", [][2]int{{3, 12}, {3, 4}}, func(t *tape, out *matrix, in []*matrix) { t.GRU(out, nil, in[0], in[1]) }),
		cell("tanh cell", [][2]int{{3, 4}, {3, 4}}, func(t *tape, out *matrix, in []*matrix) { t.PlainCell(out, in[0], in[1], Tanh) }),
		cell("ReLU cell without input", [][2]int{{3, 4}}, func(t *tape, out *matrix, in []*matrix) { t.PlainCell(out, nil, in[0], ReLU) }),
		remembering("LSTM", [][2]int{{3, 16}, {3, 16}, {3, 4}}, func(t *tape, out, memory *matrix, in []*matrix) {
			t.LSTM(out, memory, in[0], in[1], in[2])
		}),
		remembering("LSTM without input", [][2]int{{3, 16}, {3, 4}}, func(t *tape, out, memory *matrix, in []*matrix) {
			t.LSTM(out, memory, nil, in[0], in[1])
		}),
		remembering("SRU step", [][2]int{{3, 12}, {3, 4}, {3, 4}}, func(t *tape, out, memory *matrix, in []*matrix) {
			t.SRUStep(out, memory, in[0], in[1], in[2])
		}),
		remembering("SSRU step", [][2]int{{3, 8}, {3, 4}}, func(t *tape, out, memory *matrix, in []*matrix) {
			t.SSRUStep(out, memory, in[0], in[1])
		}),
	}, jointCases()...)
}

// jointCases are products part by part, and attention.
func jointCases() []gradientCase {
	type tape = Tape[float64]
	type matrix = Matrix[float64]
	joint := func(name string, inputs [][2]int, norms func(in []*matrix) []NormParameters[float64]) gradientCase {
		return gradientCase{name, append([][2]int{{7, 5}, {5, 4}, {1, 4}, {5, 2}}, inputs...), func(t *tape, in []*matrix) (*matrix, float64) {
			p := &Product[float64]{Factors: []Factor[float64]{{in[1], in[2]}, {in[3], nil}}, Norms: norms(in[4:]), Epsilon: 1e-5}
			x := t.Room(7, 5)
			j := t.Joint(p, x, false)
			t.CopyTo(t.Part(x, 0, 3), t.Part(in[0], 0, 3))
			first := t.Rows(j, 0, 3)
			t.CopyTo(t.Part(x, 3, 4), t.Part(in[0], 3, 4))
			y := t.Room(7, 6)
			t.CopyTo(t.Part(y, 0, 3), first)
			t.CopyTo(t.Part(y, 3, 4), t.Rows(j, 3, 4))
			return y, 0
		}}
	}
	points := []AlignmentPoint{{0, 0, 2}, {0, 1, 1}, {1, 3, 0}, {2, 0, 4}, {2, 0, 0}}
	return []gradientCase{
		joint("joint", nil, func([]*matrix) []NormParameters[float64] { return nil }),
		joint("joint with a norm that is too wide", [][2]int{{1, 9}}, func(in []*matrix) []NormParameters[float64] {
			return []NormParameters[float64]{{in[0], nil}}
		}),
		joint("joint with two norms", [][2]int{{1, 4}, {1, 4}, {1, 2}, {1, 2}}, func(in []*matrix) []NormParameters[float64] {
			return []NormParameters[float64]{{in[0], in[1]}, {in[2], in[3]}}
		}),
		{"additive attention", [][2]int{{9, 4}, {9, 3}, {3, 1}, {7, 3}}, func(t *tape, in []*matrix) (*matrix, float64) {
			a := t.Additive(in[0], in[1], in[2], targetSentences, sourceSentences)
			out := t.Zeros(7, 6)
			for s := range targetSentences.Sentences() {
				for i := targetSentences[s]; i < targetSentences[s+1]; i++ {
					t.Look(a, t.Part(out, i, 1), 1, t.Part(in[3], i, 1), []int32{int32(s)}, i-targetSentences[s])
				}
			}
			return out, t.AlignmentLoss(a.Record, points, AlignmentCE, 0.7)
		}},
	}
}

// TestRoundedJoint compares a product of rounded rows with the product of what they are rounded to.
func TestRoundedJoint(t *testing.T) {
	in := randomMatrices([][2]int{{7, 5}, {5, 4}}, 5)
	p := &Product[float64]{Factors: []Factor[float64]{{in[1], nil}}}
	run := func(multiply func(t *Tape[float64]) *Matrix[float64]) []float64 {
		tape := NewTape[float64](Plain[float64]{})
		tape.Reset(true, 1)
		clear(in[0].Grad)
		clear(in[1].Grad)
		y := multiply(tape)
		copy(y.Grad, projection(len(y.Grad)))
		tape.Backward()
		return slices.Concat(y.Value, in[0].Grad, in[1].Grad)
	}
	want := run(func(t *Tape[float64]) *Matrix[float64] { return t.Affine(t.QuantiseRows(in[0]), in[1], nil) })
	got := run(func(t *Tape[float64]) *Matrix[float64] { return t.Product(p, in[0], true) })
	for i, v := range got {
		if math.Abs(v-want[i]) > 1e-12 {
			t.Fatalf("number %d of values and gradients is %v, want %v", i, v, want[i])
		}
	}
}
