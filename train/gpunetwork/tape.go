package gpunetwork

import (
	"cmp"
	"errors"
	"fmt"
	"math"

	"github.com/sluice-mt/sluice/gpukernels"
	"github.com/sluice-mt/sluice/gpukernels/cuda"
	"github.com/sluice-mt/sluice/train/autodiff"
	"github.com/sluice-mt/sluice/train/network"
	"github.com/sluice-mt/sluice/translator/marian"
	"github.com/sluice-mt/sluice/translator/model"
)

// A matrix is an activation: rows of bfloat16 on the device, and as many of its gradient.
type matrix struct {
	rows, cols int
	at, grad   cuda.Pointer
	given      bool // there is something in grad
}

func (m *matrix) numbers() int { return m.rows * m.cols }

func (m *matrix) view() gpukernels.Matrix {
	return gpukernels.Matrix{At: m.at, Rows: m.rows, Columns: m.cols}
}

func (m *matrix) gradient() gpukernels.Matrix {
	return gpukernels.Matrix{At: m.grad, Rows: m.rows, Columns: m.cols}
}

// A tape records operations, whose gradients are added in the opposite order. After the first error it does nothing any more.
type tape struct {
	context *cuda.Context
	stream  *cuda.Stream
	kernels *gpukernels.Training
	worker  *worker
	err     error

	block       cuda.Pointer
	size, taken int // bytes
	used        int // bytes of block and extra
	wanted      int // the same without rounding up
	pieces      int // in which it was taken
	logits      int // of what was wanted, for logits
	targets     int // rows of logits
	vocabulary  int
	extra       []cuda.Pointer // what did not fit

	seed     uint64
	dropouts uint64 // operations with random numbers so far
	rounded  roundedInput
	judging  bool // there is no way back
	steps    []func() error

	feeds  [2]feed
	turn   int            // of the feeds
	losses []network.Loss // of mini-batches that are done, which nobody has taken
}

// reset empties the tape for the next batch. If the block was too small, the next one holds all that was in use, and some more.
func (t *tape) reset(seed uint64) {
	t.seed, t.dropouts, t.err = seed, 0, nil
	clear(t.steps)
	t.steps = t.steps[:0]
	t.do(t.turnFeed)
	if len(t.extra) > 0 {
		t.do(t.grow)
	}
	t.taken, t.used, t.wanted, t.pieces, t.rounded = 0, 0, 0, 0, roundedInput{}
}

func (t *tape) grow() error {
	if err := t.release(); err != nil {
		return err
	}
	for _, size := range []int{t.used + t.used/16, t.used} {
		block, err := cuda.Alloc[byte](t.context, size)
		if err == nil {
			t.block, t.size = block, size
			return nil
		}
		if !errors.Is(err, cuda.ErrOutOfMemory) {
			return err
		}
	}
	return nil // others have taken the memory, or it is in pieces: the batch takes what it needs of it
}

// reserve takes a block of so many bytes.
func (t *tape) reserve(bytes int) error {
	if err := t.release(); err != nil {
		return err
	}
	block, err := cuda.Alloc[byte](t.context, bytes)
	if err == nil {
		t.block, t.size = block, bytes
	}
	return err
}

// release frees all memory, which nothing uses any more.
func (t *tape) release() error {
	if err := t.stream.Synchronize(); err != nil {
		return err
	}
	for _, memory := range t.memory() {
		if err := t.context.Free(memory); err != nil {
			return err
		}
	}
	t.block, t.extra, t.size, t.taken = 0, t.extra[:0], 0, 0
	return nil
}

// spare frees what did not fit into the block, after a batch that has failed.
func (t *tape) spare() error {
	failures := []error{t.stream.Synchronize()}
	for _, memory := range t.extra {
		failures = append(failures, t.context.Free(memory))
	}
	t.extra = t.extra[:0]
	return errors.Join(failures...)
}

// uses says what the last batch took. See Trainer.Memory.
func (t *tape) uses(room int) (growing, fixed int) {
	fixed, ofRow := gpukernels.LossMemory(room, t.vocabulary)
	return t.wanted - t.logits + t.targets*ofRow, fixed + t.pieces*granule
}

// memory is all that the tape has allocated.
func (t *tape) memory() []cuda.Pointer { return append(t.extra[:len(t.extra):len(t.extra)], t.block) }

// do calls work, which may ask something of the device, unless something failed before.
func (t *tape) do(work func() error) {
	if t.err == nil {
		t.err = t.worker.watch.Around(t.stream, work)
	}
}

// record calls work, and later, on the way back, if there is one, backward.
func (t *tape) record(work, backward func() error) {
	t.do(work)
	if !t.judging {
		t.steps = append(t.steps, backward)
	}
}

// backward goes back through all operations.
func (t *tape) backward() {
	for i := len(t.steps) - 1; i >= 0; i-- {
		t.do(t.steps[i])
	}
}

// granule is what places in the block are a multiple of.
const granule = 256

// take returns memory, with whatever lies there.
func (t *tape) take(bytes int) cuda.Pointer {
	t.wanted, t.pieces = t.wanted+bytes, t.pieces+1
	bytes = (bytes + granule - 1) / granule * granule
	t.used += bytes
	if t.taken+bytes <= t.size {
		at := cuda.Offset[byte](t.block, t.taken)
		t.taken += bytes
		return at
	}
	var at cuda.Pointer
	t.do(func() (err error) {
		if at, err = cuda.Alloc[byte](t.context, bytes); err == nil {
			t.extra = append(t.extra, at)
		}
		return err
	})
	return at
}

func (t *tape) floats(n int) cuda.Pointer { return t.take(4 * n) }

// matrix returns a new matrix.
func (t *tape) matrix(rows, cols int) *matrix {
	if rows > math.MaxInt32/cols {
		t.do(func() error { return fmt.Errorf("a mini-batch of %d pieces is too large for the GPU", rows) })
		return &matrix{rows: rows, cols: cols}
	}
	return &matrix{rows: rows, cols: cols, at: t.take(2 * rows * cols), grad: t.take(2 * rows * cols)}
}

// Where a parameter, its rounded copy and its gradient are; 0 for no parameter.
func (t *tape) value(p *marian.Tensor) cuda.Pointer {
	return parameter[float32](t, t.worker.parameters(), p)
}
func (t *tape) stored(p *marian.Tensor) cuda.Pointer {
	return parameter[uint16](t, t.worker.stored, p)
}
func (t *tape) slope(p *marian.Tensor) cuda.Pointer {
	return parameter[float32](t, t.worker.gradient, p)
}

func parameter[T any](t *tape, vector cuda.Pointer, p *marian.Tensor) cuda.Pointer {
	if p == nil {
		return 0
	}
	return cuda.Offset[T](vector, t.worker.network.Parameter(p).Offset)
}

// contribute adds to the gradient of a matrix what write puts to a place: its own place, if it is the first.
func (t *tape) contribute(m *matrix, write func(at cuda.Pointer) error) error {
	if !m.given {
		m.given = true
		return write(m.grad)
	}
	more := t.take(2 * m.numbers())
	if t.err != nil {
		return t.err
	}
	if err := write(more); err != nil {
		return err
	}
	return t.kernels.Add(t.stream, m.grad, m.grad, more, m.numbers())
}

// contributeAll is contribute to several matrices, whose places write receives in their order. nil stands for none.
func (t *tape) contributeAll(matrices []*matrix, write func(at []cuda.Pointer) error) error {
	return t.contributeFrom(matrices, nil, write)
}

func (t *tape) contributeFrom(matrices []*matrix, places []cuda.Pointer, write func(at []cuda.Pointer) error) error {
	if len(places) == len(matrices) {
		return write(places)
	}
	m := matrices[len(places)]
	if m == nil {
		return t.contributeFrom(matrices, append(places, 0), write)
	}
	return t.contribute(m, func(at cuda.Pointer) error { return t.contributeFrom(matrices, append(places, at), write) })
}

// pass adds a gradient to that of a matrix of the same shape.
func (t *tape) pass(m *matrix, grad cuda.Pointer) error {
	if !m.given {
		m.given = true
		return t.stream.Copy(m.grad, grad, 2*m.numbers())
	}
	return t.kernels.Add(t.stream, m.grad, m.grad, grad, m.numbers())
}

// A roundedInput is the last matrix that was rounded: queries, keys and values often have the same one.
type roundedInput struct{ from, to *matrix }

// input returns what a product takes for its input: x, or in quantised training what 8 bits leave of it. The gradient goes through rounding as
// if nothing had happened.
func (t *tape) input(x *matrix) *matrix {
	if !t.worker.quantised {
		return x
	}
	if t.rounded.from != x {
		y := t.matrix(x.rows, x.cols)
		t.record(func() error { return t.kernels.RoundRows(t.stream, y.at, x.view()) }, func() error { return t.pass(x, y.grad) })
		t.rounded = roundedInput{x, y}
	}
	return t.rounded.to
}

// affine returns f(x·w + b), where f is max(0, ·) if rectified.
func (t *tape) affine(x *matrix, a *model.Affine, rectified bool) *matrix {
	x = t.input(x)
	y := t.matrix(x.rows, a.Out)
	w := gpukernels.Matrix{At: t.stored(a.W), Rows: a.In, Columns: a.Out}
	t.record(func() error {
		return t.kernels.Product(t.stream, gpukernels.TrainingProduct{A: x.view(), B: w, Bias: t.stored(a.B), Rectified: rectified, Result: y.view()})
	}, func() error { return t.affineBackward(x, y, w, a, rectified) })
	return y
}

// affineBackward is dx = dy·wᵀ, dw = xᵀ·dy, db = Σ dy over the rows, where max(0, ·) lets dy through.
func (t *tape) affineBackward(x, y *matrix, w gpukernels.Matrix, a *model.Affine, rectified bool) error {
	if rectified {
		if err := t.kernels.Mask(t.stream, y.grad, y.at, y.numbers()); err != nil {
			return err
		}
	}
	dx := gpukernels.TrainingProduct{A: y.gradient(), B: w, Order: gpukernels.TransposedB, Result: x.gradient()}
	if x.given {
		dx.Residual = x.grad
	}
	x.given = true
	if err := t.kernels.Product(t.stream, dx); err != nil {
		return err
	}
	dw := gpukernels.TrainingProduct{A: x.view(), B: y.gradient(), Order: gpukernels.TransposedA, Sums: t.slope(a.W), Add: true,
		Result: gpukernels.Matrix{Rows: a.In, Columns: a.Out}}
	if err := t.kernels.Product(t.stream, dw); err != nil || a.B == nil {
		return err
	}
	return t.addColumns(a.B, y.gradient())
}

// add returns a + b.
func (t *tape) add(a, b *matrix) *matrix {
	y := t.matrix(a.rows, a.cols)
	t.record(func() error { return t.kernels.Add(t.stream, y.at, a.at, b.at, y.numbers()) }, func() error {
		if err := t.pass(a, y.grad); err != nil {
			return err
		}
		return t.pass(b, y.grad)
	})
	return y
}

// copyOf returns a matrix of the same values, which may be changed in place.
func (t *tape) copyOf(x *matrix) *matrix {
	y := t.matrix(x.rows, x.cols)
	t.record(func() error { return t.stream.Copy(y.at, x.at, 2*x.numbers()) }, func() error { return t.pass(x, y.grad) })
	return y
}

// draw returns what the next operation with random numbers drops, with probability p.
func (t *tape) draw(p float64) gpukernels.Dropout {
	if p <= 0 {
		return gpukernels.Dropout{}
	}
	t.dropouts++
	seed, threshold, keep := autodiff.DropoutOf(t.seed, t.dropouts, p)
	return gpukernels.Dropout{Seed: seed, Threshold: threshold, Keep: float32(keep)}
}

// dropout drops elements of x, in place. Those of gaps do not count.
func (t *tape) dropout(x *matrix, of gpukernels.Spacing, p float64) {
	if p <= 0 {
		return
	}
	d := t.draw(p)
	t.record(func() error { return t.kernels.Dropout(t.stream, x.at, x.numbers(), of, d) },
		func() error { return t.kernels.Dropout(t.stream, x.grad, x.numbers(), of, d) })
}

// norm returns the normalised rows of x. An RMS norm is one without bias.
func (t *tape) norm(x *matrix, n *model.Norm) *matrix {
	epsilon := float32(model.LayerNormEpsilon)
	if n.RMS {
		epsilon = model.RMSNormEpsilon
	}
	y := t.matrix(x.rows, x.cols)
	norm := gpukernels.Norm{X: x.view(), Scale: t.value(n.Scale), Bias: t.value(n.Bias), RMS: n.RMS, Statistics: t.floats(2 * x.rows),
		Spacing: t.worker.layout.spacing(n.Scale)}
	t.record(func() error { return t.kernels.Norm(t.stream, y.at, norm, epsilon) }, func() error {
		groups := t.floats(2 * gpukernels.GroupNumbers(x.rows, x.cols))
		if t.err != nil {
			return t.err
		}
		add := x.given
		x.given = true
		return cmp.Or(
			t.kernels.NormBackward(t.stream, x.grad, add, y.grad, norm),
			t.kernels.NormParameters(t.stream, t.slope(n.Scale), t.slope(n.Bias), y.grad, norm, groups),
		)
	})
	return y
}
