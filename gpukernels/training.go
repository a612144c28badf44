package gpukernels

import (
	"errors"

	"github.com/sluice-mt/sluice/gpukernels/cuda"
)

// trainingSources are the files of src/ for training. See sources.
var trainingSources = map[string]map[string]int{
	"training_product": {
		"training_product_128x128": large.shared(), "training_product_64x64": middle.shared(),
		"training_product_transposed_b_128x128": large.shared(), "training_product_transposed_b_64x64": middle.shared(),
		"training_product_transposed_a_128x128": large.shared(), "training_product_transposed_a_64x64": middle.shared(),
	},
	"training_rows": {
		"training_add": 0, "training_mask": 0, "training_dropout": 0, "training_store": 0, "training_round_rows": 0, "training_norm": 0, "training_norm_backward": 0,
		"training_norm_sums": 0, "training_column_sums": 0, "training_add_groups": 0, "training_embed": 0, "training_embed_backward": 0,
		"training_ssru": 0, "training_ssru_backward": 0,
	},
	"training_gates": {
		"training_activate": 0, "training_activate_backward": 0, "training_gated_sum": 0, "training_gated_sum_backward": 0, "training_mean": 0,
		"training_mean_backward": 0, "training_sru": 0, "training_sru_backward": 0,
	},
	"training_cells": {
		"training_gather": 0, "training_gather_backward": 0, "training_copy_columns": 0, "training_sentence_mean": 0, "training_sentence_mean_backward": 0,
		"training_drop_columns": 0, "training_shift": 0, "training_times": 0, "training_widen": 0, "training_cell": 0, "training_cell_backward": 0,
		"training_look": 0, "training_look_queries": 0, "training_look_keys": 0,
	},
	"training_attention": { // with heads of one part; wider ones want more
		"training_attention": stagedRows(1, wideHead), "training_attention_queries": stagedRows(2, wideHead),
		"training_attention_keys": stagedRows(2, wideHead), "training_guide_queries": stagedRows(1, wideHead), "training_guide_keys": 0,
	},
	"training_loss":   {"training_loss_statistics": 0, "training_loss_gradient": 0},
	"training_update": {"training_add_numbers": 0, "training_squares": 0, "training_adam": 0},
}

// Training is the kernels for training on one device. Activations, their gradients and what products read of the parameters are stored
// as one type, such as bfloat16; the parameters themselves, their gradients and all that the optimiser keeps are float32. Every sum has
// an order that the shapes alone decide: the same batch gives the same bits.
type Training struct {
	kernels *Kernels
	library *trainingLibrary // nil: the kernels here compute all products
	most    int              // rows of a launch's grid
}

// LoadTraining compiles the kernels for the device of a context, which must be bound. See Load.
func LoadTraining(d *cuda.Driver, device int, c *cuda.Context, stored Storage) (*Training, error) {
	k, err := load(d, device, c, stored, trainingSources)
	if err != nil {
		return nil, err
	}
	return &Training{kernels: k, most: mostGridRows}, nil
}

// Close unloads the kernels when their work is done.
func (t *Training) Close() error { return errors.Join(t.library.close(), t.kernels.Close()) }

func (t *Training) launch(s *cuda.Stream, name string, grid cuda.Shape, threads int, arguments ...cuda.Argument) error {
	return t.kernels.byName[name].Launch(s, grid, cuda.Shape{X: threads}, 0, arguments...)
}

// inLaunches is inLaunches with as many rows as a grid can have in its second dimension.
func (t *Training) inLaunches(rows int, launch func(first, rows int) error) error {
	return inLaunches(rows, t.most, launch)
}

// Dropout says which elements, or which rows, are multiplied by zero, and what the others are multiplied by: the numbers are those of
// autodiff.DropoutOf. The zero Dropout leaves everything as it is.
type Dropout struct {
	Seed      uint64
	Threshold uint32
	Keep      float32
}

func (d Dropout) arguments() []cuda.Argument {
	return []cuda.Argument{cuda.Word(d.Seed), cuda.Bits(d.Threshold), cuda.Float(d.Keep)}
}

// A Spacing is how columns are stored of which there is no multiple of 8: in groups of Width, each in the place of Stored, a multiple of 8. What is
// left of that place is zero; all operations leave it so. The zero Spacing has none left.
type Spacing struct{ Width, Stored int }

func (s Spacing) arguments() []cuda.Argument {
	if s == (Spacing{}) {
		s = Spacing{8, 8}
	}
	return []cuda.Argument{cuda.Int(s.Width), cuda.Int(s.Stored)}
}

const (
	elementThreads = 128 // of the kernels whose threads have eight elements, or a column, each
	groupRows      = 64  // rows whose sums are one group's
	updateThreads  = 256
	squaresChunk   = 16384
)

// elements is the grid of the kernels that go over n elements, and the check that they come eight at a time.
func elements(kernel string, n int) (cuda.Shape, error) {
	return cuda.Shape{X: blocks(n/8, elementThreads)}, need(n%8 == 0, kernel, "%d elements are no multiple of 8", n)
}

// over launches a kernel over n elements.
func (t *Training) over(s *cuda.Stream, name string, n int, arguments ...cuda.Argument) error {
	grid, err := elements(name, n)
	if err != nil || n == 0 {
		return err
	}
	return t.launch(s, name, grid, elementThreads, arguments...)
}

// Add sets y to a + b, n elements each. y may be either.
func (t *Training) Add(s *cuda.Stream, y, a, b cuda.Pointer, n int) error {
	return t.over(s, "training_add", n, cuda.Address(y), cuda.Address(a), cuda.Address(b), cuda.Int(n))
}

// Mask sets dy to zero where y is not positive.
func (t *Training) Mask(s *cuda.Stream, dy, y cuda.Pointer, n int) error {
	return t.over(s, "training_mask", n, cuda.Address(dy), cuda.Address(y), cuda.Int(n))
}

// Dropout drops elements of x, n of them with what is left of groups' places.
func (t *Training) Dropout(s *cuda.Stream, x cuda.Pointer, n int, of Spacing, d Dropout) error {
	arguments := append([]cuda.Argument{cuda.Address(x), cuda.Int(n)}, of.arguments()...)
	return t.over(s, "training_dropout", n, append(arguments, d.arguments()...)...)
}

// Store rounds n float32 to elements.
func (t *Training) Store(s *cuda.Stream, to, from cuda.Pointer, n int) error {
	return t.over(s, "training_store", n, cuda.Address(to), cuda.Address(from), cuda.Int(n))
}

// AddNumbers adds n float32 to those in `to`.
func (t *Training) AddNumbers(s *cuda.Stream, to, from cuda.Pointer, n int) error {
	return t.launch(s, "training_add_numbers", cuda.Shape{X: blocks(n, updateThreads)}, updateThreads, cuda.Address(to), cuda.Address(from), cuda.Int(n))
}

// Squares sets sums to the sum of squares of each chunk of n float32, times scale each: SquareSums(n) numbers of float64.
func (t *Training) Squares(s *cuda.Stream, sums, gradient cuda.Pointer, n int, scale float32) error {
	return t.launch(s, "training_squares", cuda.Shape{X: SquareSums(n)}, updateThreads, cuda.Address(gradient), cuda.Address(sums), cuda.Int(n),
		cuda.Float(scale))
}

// SquareSums is how many numbers Squares gives for n.
func SquareSums(n int) int { return blocks(n, squaresChunk) }

// An Adam is a step of all parameters, and of their moving average, of which there need be none. All but Stored are N float32.
type Adam struct {
	Values, Gradient, Means, Squares, Averages cuda.Pointer
	Stored                                     cuda.Pointer // receives the parameters as elements
	N                                          int

	Scale                 float32 // of the gradient
	Beta1, Beta2, Epsilon float32
	Rate, Root            float32 // with the corrections of the means: rate/(1-β₁ᵗ) and 1/(1-β₂ᵗ)
	Weight                float32 // of the new parameters in the average
}

// Adam moves the parameters and sets the gradient to zero.
func (t *Training) Adam(s *cuda.Stream, a Adam) error {
	return t.launch(s, "training_adam", cuda.Shape{X: blocks(a.N, updateThreads)}, updateThreads, cuda.Address(a.Values), cuda.Address(a.Gradient),
		cuda.Address(a.Means), cuda.Address(a.Squares), cuda.Address(a.Averages), cuda.Address(a.Stored), cuda.Int(a.N), cuda.Float(a.Scale),
		cuda.Float(a.Beta1), cuda.Float(a.Beta2), cuda.Float(a.Epsilon), cuda.Float(a.Rate), cuda.Float(a.Root), cuda.Float(a.Weight))
}
