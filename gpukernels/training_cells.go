package gpukernels

import (
	"cmp"

	"github.com/sluice-mt/sluice/gpukernels/cuda"
)

// overRows launches a kernel whose warps have a row each, of n elements.
func (t *Training) overRows(s *cuda.Stream, name string, rows, n int, arguments ...cuda.Argument) error {
	if err := need(n%8 == 0, name, "rows of %d elements are no multiple of 8", n); err != nil || rows == 0 {
		return err
	}
	return t.launch(s, name, rowGrid(rows), rowBlock.X, arguments...)
}

// Gather sets y, without gaps, to rows of x, which are as wide: int32 numbers.
func (t *Training) Gather(s *cuda.Stream, y Matrix, x, rows cuda.Pointer) error {
	return t.overRows(s, "training_gather", y.Rows, y.Columns, cuda.Address(x), cuda.Address(rows), cuda.Address(y.At), cuda.Int(y.Rows), cuda.Int(y.Columns))
}

// GatherBackward adds the gradient of what was gathered, `columns` wide, to dx. readers say which rows of dy are each row of x.
func (t *Training) GatherBackward(s *cuda.Stream, dx, dy, rows cuda.Pointer, columns int, readers TokenRows) error {
	if readers.Count == 0 {
		return nil
	}
	return t.launch(s, "training_gather_backward", cuda.Shape{X: readers.Count}, elementThreads, cuda.Address(dy), cuda.Address(rows),
		cuda.Address(readers.Order), cuda.Address(readers.Starts), cuda.Address(dx), cuda.Int(columns))
}

// CopyColumns copies a matrix to one of the same shape, or adds it to that.
func (t *Training) CopyColumns(s *cuda.Stream, to, from Matrix, add bool) error {
	if err := need(to.stride()%8 == 0 && from.stride()%8 == 0 && to.Columns == from.Columns, "training copy", "rows of %d and %d elements, %d and %d apart",
		to.Columns, from.Columns, to.stride(), from.stride()); err != nil {
		return err
	}
	return t.overRows(s, "training_copy_columns", from.Rows, from.Columns, cuda.Address(from.At), cuda.Address(to.At), cuda.Int(from.Rows),
		cuda.Int(from.Columns), cuda.Int(from.stride()), cuda.Int(to.stride()), flag(add))
}

// SentenceMean sets each row of y to the mean of the rows of a sentence of x.
func (t *Training) SentenceMean(s *cuda.Stream, y Matrix, x cuda.Pointer, sentences Sentences) error {
	return t.overRows(s, "training_sentence_mean", y.Rows, y.Columns, cuda.Address(x), cuda.Address(sentences.Starts), cuda.Address(y.At), cuda.Int(y.Rows),
		cuda.Int(y.Columns))
}

// SentenceMeanBackward sets dx, `columns` wide, to the gradient, given that of the means.
func (t *Training) SentenceMeanBackward(s *cuda.Stream, dx, dy cuda.Pointer, columns int, sentences Sentences) error {
	return t.overRows(s, "training_sentence_mean_backward", sentences.Rows, columns, cuda.Address(dy), cuda.Address(sentences.Of),
		cuda.Address(sentences.Starts), cuda.Address(dx), cuda.Int(sentences.Rows), cuda.Int(columns))
}

// DropColumns sets y, whose rows are as far apart, to x without the columns that are dropped, the same in all rows, or adds that. The columns are those
// from number first on.
func (t *Training) DropColumns(s *cuda.Stream, y cuda.Pointer, x Matrix, first int, of Spacing, d Dropout, add bool) error {
	arguments := []cuda.Argument{cuda.Address(x.At), cuda.Address(y), cuda.Int(x.Rows), cuda.Int(x.Columns), cuda.Int(x.stride()), cuda.Int(first)}
	arguments = append(append(arguments, of.arguments()...), flag(add))
	return t.overRows(s, "training_drop_columns", x.Rows, x.Columns, append(arguments, d.arguments()...)...)
}

// Shift adds a bias, float32, to each row of y.
func (t *Training) Shift(s *cuda.Stream, y Matrix, bias cuda.Pointer) error {
	return t.overRows(s, "training_shift", y.Rows, y.Columns, cuda.Address(y.At), cuda.Address(bias), cuda.Int(y.Rows), cuda.Int(y.Columns),
		cuda.Int(y.stride()))
}

// Times sets y to a·b, n elements each, or adds that.
func (t *Training) Times(s *cuda.Stream, y, a, b cuda.Pointer, n int, add bool) error {
	return t.over(s, "training_times", n, cuda.Address(a), cuda.Address(b), cuda.Address(y), cuda.Int(n), flag(add))
}

// Widen makes float32 of n elements.
func (t *Training) Widen(s *cuda.Stream, to, from cuda.Pointer, n int) error {
	return t.over(s, "training_widen", n, cuda.Address(to), cuda.Address(from), cuda.Int(n))
}

// A TrainingCell is a step of recurrent cells: see model.Cell. As the receiver of gradients it has the places of those, to which they are
// added.
type TrainingCell struct {
	Kind          CellKind
	X, U          cuda.Pointer // what comes from the input and from the state: rows of all parts; either may be 0
	State         cuda.Pointer // what GRUs gave last
	Input         cuda.Pointer // that SRUs read
	Before        cuda.Pointer // float32: what was remembered; 0 for zeros
	Out           cuda.Pointer // what the cells give
	Memory        cuda.Pointer // float32: what they remember; 0 for none
	Rows, Columns int          // of Out
}

func (c *TrainingCell) grid(rows int) cuda.Shape {
	return cuda.Shape{X: blocks(c.Columns, elementThreads), Y: rows}
}

// behind returns the places of what is behind the first rows of a kind with so many columns.
func (c TrainingCell) behind(rows, columns int, kind CellKind) TrainingCell {
	for _, place := range []*cuda.Pointer{&c.X, &c.U} {
		skip[uint16](place, rows*columns*kind.parts())
	}
	for _, place := range []*cuda.Pointer{&c.State, &c.Input, &c.Out} {
		skip[uint16](place, rows*columns)
	}
	for _, place := range []*cuda.Pointer{&c.Before, &c.Memory} {
		skip[float32](place, rows*columns)
	}
	return c
}

// skip moves a place behind n elements; that of nothing stays.
func skip[T any](place *cuda.Pointer, n int) {
	if *place != 0 {
		*place = cuda.Offset[T](*place, n)
	}
}

func (c *TrainingCell) check() error {
	return need(c.Kind >= 0 && c.Kind <= mostCellKind, "training cells", "there is no kind %d", c.Kind)
}

func (c *TrainingCell) inputs() []cuda.Argument {
	return []cuda.Argument{cuda.Address(c.X), cuda.Address(c.U), cuda.Address(c.State), cuda.Address(c.Input), cuda.Address(c.Before)}
}

// Cell puts the step into the stream.
func (t *Training) Cell(s *cuda.Stream, c TrainingCell) error {
	if err := c.check(); err != nil {
		return err
	}
	return t.inLaunches(c.Rows, func(first, rows int) error {
		part := c.behind(first, c.Columns, c.Kind)
		return t.launch(s, "training_cell", c.grid(rows), elementThreads, append(part.inputs(), cuda.Address(part.Out), cuda.Address(part.Memory),
			cuda.Int(c.Columns), cuda.Int(int(c.Kind)))...)
	})
}

// CellBackward adds the gradients of what the step has read, given those of what it gave.
func (t *Training) CellBackward(s *cuda.Stream, gradients, c TrainingCell) error {
	if err := c.check(); err != nil {
		return err
	}
	return t.inLaunches(c.Rows, func(first, rows int) error {
		part, to := c.behind(first, c.Columns, c.Kind), gradients.behind(first, c.Columns, c.Kind)
		return t.launch(s, "training_cell_backward", c.grid(rows), elementThreads, append(part.inputs(), cuda.Address(part.Memory), cuda.Address(to.Out),
			cuda.Address(to.Memory), cuda.Address(to.X), cuda.Address(to.U), cuda.Address(to.State), cuda.Address(to.Input), cuda.Address(to.Before),
			cuda.Int(c.Columns), cuda.Int(int(c.Kind)))...)
	})
}

// A Looking is additive attention between the steps of recurrent cells: the softmax of the sums of Score·tanh(mapped key + query) weighs the
// context.
type Looking struct {
	Mapped, Context cuda.Pointer // a row for each key
	Score           cuda.Pointer // float32, for each column of Mapped
	Keys            Sentences
	Columns, Width  int          // of Mapped and queries, and of Context
	Places          cuda.Pointer // int32: where the weights of each sentence begin, a row of keys for each of its words
	Weights         cuda.Pointer // float32
	Words           cuda.Pointer // int32: where the words of each sentence begin, and the end
}

// A Look is a step of it: row r is the word at Position of sentence Sentences[r].
type Look struct {
	Query     cuda.Pointer
	Out       cuda.Pointer // Stride elements apart
	Stride    int
	Sentences cuda.Pointer // int32
	Rows      int
	Position  int
}

func (l *Looking) check(stride int) error {
	return need(l.Columns%8 == 0 && l.Width%8 == 0 && stride >= l.Width, "training look", "keys of %d elements, context of %d for results %d apart", l.Columns,
		l.Width, stride)
}

// Look sets the rows of Out to what the words find.
func (t *Training) Look(s *cuda.Stream, l Looking, step Look) error {
	if err := l.check(step.Stride); err != nil || step.Rows == 0 {
		return err
	}
	return t.launch(s, "training_look", cuda.Shape{X: step.Rows}, rowBlock.X, cuda.Address(step.Query), cuda.Address(l.Mapped), cuda.Address(l.Context),
		cuda.Address(l.Score), cuda.Address(step.Sentences), cuda.Address(l.Keys.Starts), cuda.Address(l.Places), cuda.Address(l.Weights),
		cuda.Address(step.Out), cuda.Int(step.Position), cuda.Int(l.Columns), cuda.Int(l.Width), cuda.Int(step.Stride))
}

// LookQueries adds to dquery the gradient of a step's queries, given that of Out, and leaves those of the scores in gradients, float32, in the places
// of the weights. guide, whose places are those of the weights, is an alignment that the attention is to have; nil for none.
func (t *Training) LookQueries(s *cuda.Stream, dquery, gradients, dout cuda.Pointer, guide *Guide, l Looking, step Look) error {
	if err := l.check(step.Stride); err != nil || step.Rows == 0 {
		return err
	}
	if guide == nil {
		guide = new(Guide)
	}
	return t.launch(s, "training_look_queries", cuda.Shape{X: step.Rows}, rowBlock.X, cuda.Address(step.Query), cuda.Address(l.Mapped),
		cuda.Address(l.Context), cuda.Address(l.Score), cuda.Address(step.Sentences), cuda.Address(l.Keys.Starts), cuda.Address(l.Places),
		cuda.Address(l.Weights), cuda.Address(dout), cuda.Address(gradients), cuda.Address(dquery), cuda.Address(guide.Targets), cuda.Address(l.Words),
		cuda.Address(guide.Losses), cuda.Int(step.Position), cuda.Int(l.Columns), cuda.Int(l.Width), cuda.Int(step.Stride), flag(guide.Squared),
		cuda.Float(guide.Weight))
}

// LookKeys goes back to the keys after all steps: queries and dout have the rows of all of them, Stride elements of dout apart, of which times,
// int32, are those of the words. It sets dcontext and dmapped, and adds the gradient of the scores to dscore, float32, with room for Columns float32
// of each key.
func (t *Training) LookKeys(s *cuda.Stream, dcontext, dmapped, dscore, room, gradients, dout, times cuda.Pointer, l Looking, steps Look) error {
	if err := l.check(steps.Stride); err != nil || l.Keys.Rows == 0 {
		return err
	}
	return cmp.Or(
		t.launch(s, "training_look_keys", cuda.Shape{X: l.Keys.Rows}, rowBlock.X, cuda.Address(steps.Query), cuda.Address(l.Mapped), cuda.Address(l.Score),
			cuda.Address(l.Keys.Of), cuda.Address(l.Keys.Starts), cuda.Address(l.Words), cuda.Address(times), cuda.Address(l.Places),
			cuda.Address(l.Weights), cuda.Address(gradients), cuda.Address(dout), cuda.Address(dcontext), cuda.Address(dmapped), cuda.Address(room),
			cuda.Int(l.Columns), cuda.Int(l.Width), cuda.Int(steps.Stride)),
		t.addGroups(s, dscore, room, l.Keys.Rows, l.Columns),
	)
}
