package kernels

import (
	"unsafe"

	"github.com/sluice-mt/sluice/internal/hugepage"
)

// A Matrix is a packed matrix of weights: *Int8Matrix, *Int16Matrix, *BFloat16Matrix or *Float32Matrix.
type Matrix interface {
	// bytes is what the weights take that a product without lists reads. total is what all of them take, and move puts them into memory of
	// that length.
	bytes() int
	total() int
	move(memory []uint8)

	// For a Tuning: what the matrix is, whether two panels at a time are possible, and from how many rows on that is done; nil if it never is.
	size() (k, n int)
	shape() string
	hasDouble() bool
	from() *int
	// leaves is whether few rows are multiplied with weights that the processor fetches by itself; nil if that is not for a Tuning to say.
	leaves() *bool
	// listed is for which share of activations products go by lists; nil if they never do.
	listed() *nonzeroShare
	// low is whether blocks of two panels are low; nil likewise.
	low() *bool
	// part is the columns from first to end, as Columns has them, without lists; multiply stores rows of results so far apart.
	part(first, end int) Matrix
	multiply(in *tuningInput, rows, yStride int)
}

// Together moves the weights of matrices into one block of memory, side by side in the order given, where large pages hold them if
// the system has any. Nobody may use the matrices meanwhile.
func Together(matrices ...Matrix) {
	total := 0
	for _, m := range matrices {
		total += roundUp(m.total(), cacheLine)
	}
	block := hugepage.Make[uint8](total)
	for _, m := range matrices {
		n := m.total()
		m.move(block[:n:n])
		block = block[roundUp(n, cacheLine):]
	}
}

const cacheLine = 64

func (w *Int8Matrix) bytes() int     { return len(*w.weights()) }
func (w *Int16Matrix) bytes() int    { return 2 * len(w.panels) }
func (w *BFloat16Matrix) bytes() int { return 2 * len(w.panels) }
func (w *Float32Matrix) bytes() int  { return 4 * len(w.panels) }

func (w *Int16Matrix) total() int    { return w.bytes() }
func (w *BFloat16Matrix) total() int { return w.bytes() }
func (w *Float32Matrix) total() int  { return w.bytes() }

func (w *Int8Matrix) total() int {
	if w.sparse == nil {
		return w.bytes()
	}
	return roundUp(w.bytes(), cacheLine) + len(w.sparse.weights)
}

func (w *Int8Matrix) move(memory []uint8) {
	at := w.weights()
	*at = moved(*at, memory)
	if w.sparse != nil {
		w.sparse.weights = moved(w.sparse.weights, memory[roundUp(len(*at), cacheLine):])
	}
}

func (w *Int16Matrix) move(memory []uint8)    { w.panels = moved(w.panels, memory) }
func (w *BFloat16Matrix) move(memory []uint8) { w.panels = moved(w.panels, memory) }
func (w *Float32Matrix) move(memory []uint8)  { w.panels = moved(w.panels, memory) }

// moved returns a copy of weights in the given memory.
func moved[T int8 | int16 | uint16 | float32](weights []T, memory []uint8) []T {
	if len(weights) == 0 {
		return nil
	}
	to := unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(memory))), len(weights))
	copy(to, weights)
	return to
}
