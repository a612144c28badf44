package gpukernels

import (
	"errors"
	"fmt"

	"github.com/sluice-mt/sluice/gpukernels/cuda"
)

// ErrNoRoomToChoose is wrapped by the errors of products of training for which there is no memory to find out which algorithm computes them. Those that
// are measured need none: own kernels compute them then.
var ErrNoRoomToChoose = errors.New("no memory to try what the library offers for a product")

// A trainingLibrary computes products of training by cuBLASLt, where a Chooser says so. Nil computes none.
type trainingLibrary struct {
	chooser   *Chooser
	kinds     map[ProductKind]*libraryProduct
	workspace cuda.Pointer
}

// A libraryProduct is a kind of product with what was chosen for each class of rows so far.
type libraryProduct struct {
	product    *cuda.BLASProduct
	algorithms Algorithms
	chosen     [len(rowClasses)]bool
	refused    int // products that the kernels here have computed in place of an algorithm
}

// ChooseBy lets products be computed as a Chooser says, which is asked at the first product of a kind and a class of rows, and is closed with
// the kernels. All work of these kernels goes to one stream from then on: its products share a workspace.
func (t *Training) ChooseBy(c *Chooser) error {
	workspace, err := cuda.Alloc[byte](c.context, mostWorkspace)
	if err != nil {
		return errors.Join(err, c.Close())
	}
	t.library = &trainingLibrary{chooser: c, kinds: map[ProductKind]*libraryProduct{}, workspace: workspace}
	return nil
}

// Choices say how many kinds of products have come, one for each class of rows, how many of them cuBLASLt computes, and how many products it
// has refused though it offered to compute their kind: the kernels here did.
type Choices struct{ Kinds, ByLibrary, Refused int }

// Choices returns those of the products so far.
func (t *Training) Choices() (c Choices) {
	if t.library == nil {
		return c
	}
	for _, p := range t.library.kinds {
		c.Refused += p.refused
		for class, chosen := range p.chosen {
			if chosen {
				c.Kinds++
			}
			if p.algorithms[class] != nil {
				c.ByLibrary++
			}
		}
	}
	return c
}

func (l *trainingLibrary) close() error {
	if l == nil {
		return nil
	}
	failed := []error{l.chooser.Close(), l.chooser.context.Free(l.workspace)}
	for _, p := range l.kinds {
		failed = append(failed, p.product.Close())
	}
	return errors.Join(failed...)
}

// multiply puts a product into the stream, if the library is to compute it, and says whether it does.
func (l *trainingLibrary) multiply(s *cuda.Stream, p TrainingProduct) (bool, error) {
	if l == nil || !p.forLibrary() {
		return false, nil
	}
	if _, err := p.check(); err != nil {
		return false, err
	}
	of, err := l.choose(s, p.Kind(), p.A.Rows)
	if err != nil {
		return false, err
	}
	algorithm := of.algorithms[classOf(p.A.Rows)]
	if algorithm == nil {
		return false, nil
	}
	err = of.product.Run(s, algorithm, p.operands(l.workspace))
	if errors.Is(err, cuda.ErrRefused) { // it takes the numbers of rows that were tried, but not this one
		of.refused++
		return false, nil
	}
	return err == nil, err
}

// forLibrary says whether the library can take the operands.
func (p TrainingProduct) forLibrary() bool {
	addresses := p.A.At | p.B.At | p.Bias | p.Residual | p.Result.At | p.Sums
	widths := p.A.Columns | p.Result.Columns | p.A.stride() | p.B.stride() | p.Result.stride()
	return p.A.Rows > 0 && addresses%cuda.BLASAlignment == 0 && widths%8 == 0
}

// Kind is that of the product, for which a Chooser chooses; the number of rows is that of A.
func (p TrainingProduct) Kind() ProductKind {
	return ProductKind{N: p.Result.Columns, K: p.A.Columns, Rectified: p.Rectified, Residual: p.Residual != 0 || p.Sums != 0 && p.Add, Training: true,
		Order: p.Order, Unbiased: p.Bias == 0, Sums: p.Sums != 0}
}

// operands are those of the product as cuBLASLt wants them.
func (p TrainingProduct) operands(workspace cuda.Pointer) cuda.BLASOperands {
	o := cuda.BLASOperands{X: p.A.At, Weights: p.B.At, Residual: p.Residual, Result: p.Result.At, Bias: p.Bias, Rows: p.A.Rows, XStride: p.A.stride(),
		WeightsStride: p.B.stride(), ResultStride: p.Result.stride(), Workspace: workspace}
	if p.Sums != 0 {
		o.Result = p.Sums
		if p.Add {
			o.Residual = p.Sums
		}
	}
	if o.Residual != 0 {
		o.ResidualStride = o.ResultStride
	}
	return o
}

// choose returns a kind of product with what is chosen for a number of rows. Where there is no memory left for measuring, that are the kernels here,
// until the program is started again.
func (l *trainingLibrary) choose(s *cuda.Stream, kind ProductKind, rows int) (*libraryProduct, error) {
	of, class := l.kinds[kind], classOf(rows)
	if of == nil {
		product, err := l.chooser.blas.Product(kind.shape(l.chooser.stored), 0)
		if err != nil {
			return nil, err
		}
		of = &libraryProduct{product: product}
		l.kinds[kind] = of
	}
	if !of.chosen[class] {
		if err := s.Synchronize(); err != nil { // what is under way would be measured, too
			return nil, err
		}
		algorithm, err := l.chooser.ChooseFor(kind, rows)
		if errors.Is(err, cuda.ErrOutOfMemory) && l.chooser.way == LibraryProducts {
			return nil, fmt.Errorf("%w: %w", ErrNoRoomToChoose, err)
		}
		if err != nil && !errors.Is(err, cuda.ErrOutOfMemory) {
			return nil, err
		}
		of.algorithms[class], of.chosen[class] = algorithm, true
	}
	return of, nil
}
