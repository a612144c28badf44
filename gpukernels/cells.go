package gpukernels

import (
	"cmp"

	"github.com/sluice-mt/sluice/gpukernels/cuda"
)

// A CellKind is a kind of recurrent cell, by the numbers that model.CellKind has.
type CellKind int

const (
	lstm, multiplicativeLSTM = 2, 4
	tanh, relu               = 5, 6
	sru, ssru                = 7, 8
	mostCellKind             = ssru
)

// parts is how many there are in a row of what comes from the input and from the state.
func (k CellKind) parts() int {
	switch k {
	case lstm, multiplicativeLSTM:
		return 4
	case tanh, relu:
		return 1
	case ssru:
		return 2
	}
	return 3
}

// CellStates are the states of recurrent cells, float32: Width elements for each, what the cell gave last and then its memory, Stride elements
// apart. To, int32, says which state each row advances; without it row r has state r.
type CellStates struct {
	At     cuda.Pointer
	Stride int
	To     cuda.Pointer
}

// A BeginCells lets rows begin a step: their states are copied from the place where they are to that where they will be.
type BeginCells struct {
	States          CellStates
	Width           int          // elements of a state that are copied
	From, Positions cuda.Pointer // int32, for each row; without positions all rows begin
	Starts, Numbers cuda.Pointer // at position 0: float32 rows of the columns of H, and which of them a row begins with; zeros without
	H               Matrix       // fp16: what the cells gave last
}

// BeginCells puts it into the stream.
func (k *Kernels) BeginCells(s *cuda.Stream, b BeginCells) error {
	if err := need(b.Width%8 == 0 && b.States.Stride%8 == 0, "begin cells", "states of %d elements, %d apart, must be multiples of 8", b.Width,
		b.States.Stride); err != nil {
		return err
	}
	return k.overRows(s, "begin_cells", b.H, cuda.Address(b.States.At), cuda.Address(b.From), cuda.Address(b.States.To), cuda.Address(b.Positions),
		cuda.Address(b.Starts), cuda.Address(b.Numbers), cuda.Address(b.H.At), cuda.Int(b.H.Rows), cuda.Int(b.H.Columns), cuda.Int(b.Width),
		cuda.Int(b.States.Stride))
}

// A CellStep advances recurrent cells by what came from their inputs and from what they gave last: see model.Cell. Rows of X, Input and Result
// are those of a place: Places, int32, says which belongs to a row; without it place r.
type CellStep struct {
	Kind   CellKind
	States CellStates
	Places cuda.Pointer
	X      Matrix       // fp16, of the places; without an address there is no input
	Bias   cuda.Pointer // float32: stands for X where there is none; 0 for none
	U      Matrix       // fp16, of the rows; SRUs and SSRUs have none
	Input  cuda.Pointer // fp16, of the places: SRUs read it
	Added  bool         // Input is added to Result
	H      Matrix       // fp16, of the rows: what the cells give
	Result Matrix       // fp16, of the places: the same; may be without an address
}

// AdvanceCells puts a step into the stream.
func (k *Kernels) AdvanceCells(s *cuda.Stream, c CellStep) error {
	simple := c.Kind == sru || c.Kind == ssru
	if err := cmp.Or(
		need(c.Kind >= 0 && c.Kind <= mostCellKind, "cells", "there is no kind %d", c.Kind),
		need(simple || c.U.At != 0, "cells", "kind %d needs what comes from the states", c.Kind),
		need(!simple || c.X.At != 0, "cells", "kind %d needs an input", c.Kind),
		need(c.Input != 0 || c.Kind != sru && !c.Added, "cells", "no input to be read or added"),
		need(c.X.Columns%8 == 0 && c.U.Columns%8 == 0 && c.Result.stride()%8 == 0 && c.States.Stride%8 == 0, "cells",
			"rows of %d, %d, %d and %d elements must be multiples of 8", c.X.Columns, c.U.Columns, c.Result.stride(), c.States.Stride),
	); err != nil {
		return err
	}
	return k.overRows(s, "advance_cells", c.H, cuda.Address(c.States.At), cuda.Address(c.States.To), cuda.Address(c.X.At), cuda.Address(c.Places),
		cuda.Address(c.Bias), cuda.Address(c.U.At), cuda.Address(c.Input), cuda.Address(c.H.At), cuda.Address(c.Result.At), cuda.Int(c.H.Rows),
		cuda.Int(c.H.Columns), cuda.Int(int(c.Kind)), cuda.Int(c.X.Columns), cuda.Int(c.U.Columns), cuda.Int(c.States.Stride),
		cuda.Int(c.Result.stride()), flag(c.Added))
}

// MultiplyCells replaces what multiplicative cells gave last, in the states and in h, by its products with factors, a row for each row of
// h, and with the last columns of x, which has a row for each place.
func (k *Kernels) MultiplyCells(s *cuda.Stream, states CellStates, h, x Matrix, places, factors cuda.Pointer) error {
	if err := need(x.Columns%8 == 0 && states.Stride%8 == 0, "factors", "rows of %d elements and states of %d must be multiples of 8", x.Columns,
		states.Stride); err != nil {
		return err
	}
	return k.overRows(s, "multiply_cells", h, cuda.Address(states.At), cuda.Address(states.To), cuda.Address(x.At), cuda.Address(places),
		cuda.Address(factors), cuda.Address(h.At), cuda.Int(h.Rows), cuda.Int(h.Columns), cuda.Int(x.Columns), cuda.Int(states.Stride))
}

// MeanRows sets the rows of result to the means of the rows of sentences, fp16 both: number s has rows starts[s] up to starts[s+1] of x, int32.
// The mean of none is zeros.
func (k *Kernels) MeanRows(s *cuda.Stream, result, x Matrix, starts cuda.Pointer) error {
	if err := need(x.Columns == result.Columns && x.stride()%8 == 0, "means", "rows of %d elements, %d apart, for means of %d", x.Columns, x.stride(),
		result.Columns); err != nil {
		return err
	}
	return k.overRows(s, "mean_rows", result, cuda.Address(x.At), cuda.Address(starts), cuda.Address(result.At), cuda.Int(result.Rows),
		cuda.Int(result.Columns), cuda.Int(x.stride()))
}

// AddStarts adds rows of fp16 to rows of float32, starts[numbers[r]] += x[r], or puts them there if it begins, and takes the hyperbolic
// tangent of the sums if it ends.
func (k *Kernels) AddStarts(s *cuda.Stream, starts cuda.Pointer, x Matrix, numbers cuda.Pointer, begins, ends bool) error {
	return k.overRows(s, "add_starts", x, cuda.Address(x.At), cuda.Address(numbers), cuda.Address(starts), cuda.Int(x.Rows), cuda.Int(x.Columns),
		flag(begins), flag(ends))
}

// An AdditiveAttention looks at encoded sentences: the softmax of Score·tanh(key + query) weighs the values. An infinite value gives NaN.
type AdditiveAttention struct {
	Queries Matrix       // fp16, a row for each row of the result
	Memory  cuda.Pointer // fp16: for each position the key, as wide as a query, and then the value, which is as wide
	Stride  int          // elements from position to position
	Score   cuda.Pointer // float32, for each column
	// Starts and Lengths, int32, say where the positions of each row begin, and how many there are. Without any, a row finds zeros.
	Starts, Lengths cuda.Pointer
	Weights         cuda.Pointer // float32, Most places for each row: what the positions weigh
	Most            int
	Result          Matrix // fp16
}

// AttendAdditively puts it into the stream.
func (k *Kernels) AttendAdditively(s *cuda.Stream, a AdditiveAttention) error {
	if a.Queries.Rows == 0 {
		return nil
	}
	if err := cmp.Or(
		needPlain("additive attention", a.Queries),
		need(a.Stride%8 == 0 && a.Stride >= 2*a.Queries.Columns, "additive attention", "keys and values of %d elements, %d apart", a.Queries.Columns, a.Stride),
		need(a.Result.stride()%2 == 0 && a.Result.Columns == a.Queries.Columns, "additive attention", "results of %d elements, %d apart, for %d",
			a.Result.Columns, a.Result.stride(), a.Queries.Columns),
	); err != nil {
		return err
	}
	return k.byName["attend_additively"].Launch(s, cuda.Shape{X: a.Queries.Rows}, rowBlock, 0, cuda.Address(a.Queries.At), cuda.Address(a.Memory),
		cuda.Address(a.Score), cuda.Address(a.Starts), cuda.Address(a.Lengths), cuda.Address(a.Weights), cuda.Address(a.Result.At),
		cuda.Int(a.Queries.Columns), cuda.Int(a.Stride), cuda.Int(a.Most), cuda.Int(a.Result.stride()))
}
