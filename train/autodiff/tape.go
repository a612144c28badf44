package autodiff

import "fmt"

// Float is a type of numbers.
type Float interface{ float32 | float64 }

// A Matrix is an operand or result of operations: Rows × Cols numbers, row after row. Those of a tape are valid until its
// Reset.
type Matrix[T Float] struct {
	Rows, Cols int
	Value      []T
	Grad       []T // nil if the loss is not differentiated by it
}

// Row returns a row of the values.
func (m *Matrix[T]) Row(i int) []T { return m.Value[i*m.Cols : (i+1)*m.Cols] }

// Segments are the sentences of a ragged batch: sentence i has the rows from Segments[i] to Segments[i+1].
type Segments []int

// Sentences is their number.
func (s Segments) Sentences() int { return len(s) - 1 }

// Len is the number of rows of a sentence.
func (s Segments) Len(i int) int { return s[i+1] - s[i] }

// Rows is the number of rows of all sentences.
func (s Segments) Rows() int { return s[len(s)-1] }

// An operation is a record of the tape. It adds to the gradients of its inputs.
type operation[T Float] interface {
	backward(t *Tape[T])
}

// A Tape records operations. It belongs to one goroutine.
type Tape[T Float] struct {
	device    Device[T]
	arena     arena[T]
	recording bool
	seed      uint64
	dropouts  uint64 // operations with random numbers so far

	operations []operation[T]
	matrices   slab[Matrix[T]]

	affines     slab[affine[T]]
	additions   slab[addition[T]]
	embeddings  slab[embedding[T]]
	norms       slab[norm[T]]
	activations slab[activation[T]]
	dropped     slab[dropout[T]]
	attentions  slab[Attention[T]]
	ssrus       slab[ssru[T]]
	srus        slab[sru[T]]
	means       slab[runningMean[T]]
	gates       slab[gatedSum[T]]
	highways    slab[highway[T]]
	roundings   slab[rounding[T]]

	gatherings      slab[gathering[T]]
	besides         slab[besides[T]]
	sentenceMeans   slab[sentenceMean[T]]
	shifts          slab[shift[T]]
	maskings        slab[masking[T]]
	elementProducts slab[elementProduct[T]]
	joints          slab[Joint[T]]
	jointRows       slab[jointRows[T]]
	grus            slab[gru[T]]
	lstms           slab[lstm[T]]
	simpleSteps     slab[simpleStep[T]]
	plainCells      slab[plainCell[T]]
	additives       slab[Additive[T]]
	looks           slab[look[T]]

	integers      []int
	integersTaken int

	scores, dropping []T // weights of one head, during a call
	tile             []T // logits of some rows, during a call
	columnMean       []T // of the output matrix, during a call
}

// NewTape returns a tape whose operations run on the device.
func NewTape[T Float](device Device[T]) *Tape[T] { return &Tape[T]{device: device} }

// Reset empties the tape for the next batch. If recording is false, operations compute values only: there are no
// gradients, and dropout does nothing. Random numbers follow from the seed.
func (t *Tape[T]) Reset(recording bool, seed uint64) {
	t.recording, t.seed, t.dropouts = recording, seed, 0
	t.device.Reset()
	t.arena.reset()
	clear(t.operations)
	t.operations = t.operations[:0]
	t.matrices.reset()
	t.affines.reset()
	t.additions.reset()
	t.embeddings.reset()
	t.norms.reset()
	t.activations.reset()
	t.dropped.reset()
	t.attentions.reset()
	t.ssrus.reset()
	t.srus.reset()
	t.means.reset()
	t.gates.reset()
	t.highways.reset()
	t.roundings.reset()
	t.resetSteps()
}

// resetSteps takes back the records of operations on parts of matrices.
func (t *Tape[T]) resetSteps() {
	t.gatherings.reset()
	t.besides.reset()
	t.sentenceMeans.reset()
	t.shifts.reset()
	t.maskings.reset()
	t.elementProducts.reset()
	t.joints.reset()
	t.jointRows.reset()
	t.grus.reset()
	t.lstms.reset()
	t.simpleSteps.reset()
	t.plainCells.reset()
	t.additives.reset()
	t.looks.reset()
	t.integersTaken = 0
}

// Used returns how many numbers of the arena are in use.
func (t *Tape[T]) Used() int { return t.arena.used }

// Backward adds the gradients of the losses to those of everything they depend on.
func (t *Tape[T]) Backward() {
	for i := len(t.operations) - 1; i >= 0; i-- {
		t.operations[i].backward(t)
	}
}

// matrix returns a new matrix, whose values are whatever lies in the memory. It has a gradient, of zeros, if the tape is
// recording.
func (t *Tape[T]) matrix(rows, cols int) *Matrix[T] {
	m := t.matrices.next()
	m.Rows, m.Cols = rows, cols
	m.Value = t.arena.take(rows * cols)
	if t.recording {
		m.Grad = t.arena.take(rows * cols)
		clear(m.Grad)
	}
	return m
}

// record puts an operation on the tape.
func (t *Tape[T]) record(o operation[T]) {
	if t.recording {
		t.operations = append(t.operations, o)
	}
}

// checkShape panics if a matrix does not fit: a mistake of the program that puts the operations together.
func checkShape[T Float](m *Matrix[T], rows, cols int, what string) {
	if m.Rows != rows || m.Cols != cols {
		panic(fmt.Sprintf("autodiff: %s is %d×%d, must be %d×%d", what, m.Rows, m.Cols, rows, cols))
	}
}

func checkSegments(s Segments, rows int, what string) {
	if len(s) == 0 || s.Rows() != rows {
		panic(fmt.Sprintf("autodiff: the sentences of %s do not have its %d rows", what, rows))
	}
}
