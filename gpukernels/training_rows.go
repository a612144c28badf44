package gpukernels

import (
	"cmp"

	"github.com/sluice-mt/sluice/gpukernels/cuda"
)

// GroupNumbers is how many float32 sums over the rows of an n columns wide matrix want as room.
func GroupNumbers(rows, n int) int { return blocks(rows, groupRows) * n }

// AddColumns adds the sums of x's columns to the float32 in `to`. groups is room for GroupNumbers(rows, columns) float32.
func (t *Training) AddColumns(s *cuda.Stream, to cuda.Pointer, x Matrix, groups cuda.Pointer) error {
	if x.Rows == 0 {
		return nil
	}
	n := x.Columns
	grid := cuda.Shape{X: blocks(n, elementThreads), Y: blocks(x.Rows, groupRows)}
	if err := t.launch(s, "training_column_sums", grid, elementThreads, cuda.Address(x.At), cuda.Address(groups), cuda.Int(x.Rows), cuda.Int(n),
		cuda.Int(x.stride())); err != nil {
		return err
	}
	return t.addGroups(s, to, groups, blocks(x.Rows, groupRows), n)
}

// addGroups adds the sums of each column of so many rows of float32.
func (t *Training) addGroups(s *cuda.Stream, to, groups cuda.Pointer, count, n int) error {
	return t.launch(s, "training_add_groups", cuda.Shape{X: blocks(n, elementThreads)}, elementThreads, cuda.Address(to), cuda.Address(groups),
		cuda.Int(count), cuda.Int(n))
}

// RoundRows sets y to the rows of x, without gaps, rounded to 8 bits: see autodiff.Tape.QuantiseRows.
func (t *Training) RoundRows(s *cuda.Stream, y cuda.Pointer, x Matrix) error {
	return t.overRows(s, "training_round_rows", x.Rows, x.Columns, cuda.Address(x.At), cuda.Address(y), cuda.Int(x.Rows), cuda.Int(x.Columns))
}

// A Norm is a layer norm of rows, or an RMS norm.
type Norm struct {
	X           Matrix       // a multiple of 8 elements wide, and as many apart
	Scale, Bias cuda.Pointer // float32; the bias may be 0
	RMS         bool
	Statistics  cuda.Pointer // room for two float32 for each row
	Spacing     Spacing      // of the columns, and of scale and bias
}

func (n *Norm) check() error {
	return need(n.X.Columns%8 == 0 && n.X.stride()%8 == 0, "training norm", "rows of %d elements, %d apart, must be multiples of 8", n.X.Columns, n.X.stride())
}

// Norm sets y, of X's shape, to (x - mean)/sqrt(variance + epsilon)·scale + bias.
func (t *Training) Norm(s *cuda.Stream, y cuda.Pointer, n Norm, epsilon float32) error {
	if err := n.check(); err != nil || n.X.Rows == 0 {
		return err
	}
	arguments := []cuda.Argument{cuda.Address(n.X.At), cuda.Address(n.Scale), cuda.Address(n.Bias), cuda.Address(y), cuda.Address(n.Statistics),
		cuda.Int(n.X.Rows), cuda.Int(n.X.Columns), cuda.Int(n.X.stride()), cuda.Float(epsilon), flag(n.RMS)}
	return t.launch(s, "training_norm", rowGrid(n.X.Rows), rowBlock.X, append(arguments, n.Spacing.arguments()...)...)
}

// NormBackward goes back through a norm whose result has the gradient dy: it sets dx, or adds to it. dx and dy have X's shape.
func (t *Training) NormBackward(s *cuda.Stream, dx cuda.Pointer, add bool, dy cuda.Pointer, n Norm) error {
	if err := n.check(); err != nil || n.X.Rows == 0 {
		return err
	}
	arguments := []cuda.Argument{cuda.Address(n.X.At), cuda.Address(n.Scale), cuda.Address(n.Statistics), cuda.Address(dy), cuda.Address(dx),
		cuda.Int(n.X.Rows), cuda.Int(n.X.Columns), cuda.Int(n.X.stride()), flag(add), flag(n.RMS)}
	return t.launch(s, "training_norm_backward", rowGrid(n.X.Rows), rowBlock.X, append(arguments, n.Spacing.arguments()...)...)
}

// NormParameters adds the gradients of scale and bias to the float32 there. groups is room for 2·GroupNumbers(rows, columns) float32.
func (t *Training) NormParameters(s *cuda.Stream, scale, bias, dy cuda.Pointer, n Norm, groups cuda.Pointer) error {
	if err := n.check(); err != nil || n.X.Rows == 0 {
		return err
	}
	rows, columns := n.X.Rows, n.X.Columns
	biases := cuda.Offset[float32](groups, GroupNumbers(rows, columns))
	grid := cuda.Shape{X: blocks(columns, elementThreads), Y: blocks(rows, groupRows)}
	err := cmp.Or(
		t.launch(s, "training_norm_sums", grid, elementThreads, cuda.Address(n.X.At), cuda.Address(n.Statistics), cuda.Address(dy),
			cuda.Address(groups), cuda.Address(biases), cuda.Int(rows), cuda.Int(columns), cuda.Int(n.X.stride())),
		t.addGroups(s, scale, groups, blocks(rows, groupRows), columns),
	)
	if err != nil || n.Bias == 0 {
		return err
	}
	return t.addGroups(s, bias, biases, blocks(rows, groupRows), columns)
}

// An Embedding makes vectors of tokens: rows of a table, whose width is a multiple of 8, times Factor. Whole rows are dropped.
type Embedding struct {
	Tokens  cuda.Pointer // int32, one for each row; a negative one has a vector of zeros
	Factor  float32
	Dropout Dropout
}

// Embed sets y to the vectors, with signal[positions[r]] added. signal: float32, a row for each position, or 0 for none; positions: int32.
func (t *Training) Embed(s *cuda.Stream, y Matrix, e Embedding, table, signal, positions cuda.Pointer) error {
	if err := needPlain("training embed", y); err != nil || y.Rows == 0 {
		return err
	}
	arguments := []cuda.Argument{cuda.Address(e.Tokens), cuda.Address(positions), cuda.Address(table), cuda.Address(signal), cuda.Address(y.At),
		cuda.Int(y.Rows), cuda.Int(y.Columns), cuda.Float(e.Factor)}
	return t.launch(s, "training_embed", rowGrid(y.Rows), rowBlock.X, append(arguments, e.Dropout.arguments()...)...)
}

// TokenRows say which rows have which token: those of the i-th one are Order[Starts[i]] to Order[Starts[i+1]-1], in this order. Both are
// int32, Starts has Count + 1. Rows with a negative token are left out.
type TokenRows struct {
	Order, Starts cuda.Pointer
	Count         int
}

// EmbedBackward adds the gradients dy of the vectors, `columns` wide, to that of the table.
func (t *Training) EmbedBackward(s *cuda.Stream, table, dy cuda.Pointer, columns int, e Embedding, w TokenRows) error {
	if w.Count == 0 {
		return nil
	}
	arguments := []cuda.Argument{cuda.Address(e.Tokens), cuda.Address(w.Order), cuda.Address(w.Starts), cuda.Address(dy), cuda.Address(table),
		cuda.Int(columns), cuda.Float(e.Factor)}
	return t.launch(s, "training_embed_backward", cuda.Shape{X: w.Count}, elementThreads, append(arguments, e.Dropout.arguments()...)...)
}

// Recurrence is simpler simple recurrent units over the rows of sentences.
type Recurrence struct {
	X, F      cuda.Pointer // inputs: rows without gaps
	States    cuda.Pointer // room for as many float32
	Starts    cuda.Pointer // int32: the first row of each sentence, and the end
	Sentences int
	Columns   int
}

// SSRU sets h to what the units give.
func (t *Training) SSRU(s *cuda.Stream, h cuda.Pointer, r Recurrence) error {
	return t.ofSentences(s, "training_ssru", r.columns(), func(starts cuda.Argument) []cuda.Argument {
		return []cuda.Argument{cuda.Address(r.X), cuda.Address(r.F), starts, cuda.Address(r.States), cuda.Address(h)}
	})
}

// SSRUBackward sets dx and df to the gradients of the inputs, given that of h.
func (t *Training) SSRUBackward(s *cuda.Stream, dx, df, dh cuda.Pointer, r Recurrence) error {
	return t.ofSentences(s, "training_ssru_backward", r.columns(), func(starts cuda.Argument) []cuda.Argument {
		return []cuda.Argument{cuda.Address(r.X), cuda.Address(r.F), starts, cuda.Address(r.States), cuda.Address(dh), cuda.Address(dx), cuda.Address(df)}
	})
}

func (r *Recurrence) columns() Columns {
	return Columns{Starts: r.Starts, Sentences: r.Sentences, Columns: r.Columns}
}
