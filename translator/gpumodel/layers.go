package gpumodel

import (
	"github.com/sluice-mt/sluice/gpukernels"
	"github.com/sluice-mt/sluice/gpukernels/cuda"
	"github.com/sluice-mt/sluice/translator/model"
)

// activations are the buffers of rows of a stack, of fp16.
type activations struct {
	stream                         *cuda.Stream // that works on them
	memory                         buffer
	rows                           int
	x, y, normed, attended, bottom cuda.Pointer // rows × Weights.row
	wide, other                    cuda.Pointer // rows × the widest product

	bytes, scales cuda.Pointer // of the operand of a product in 8 bits
}

// rowBytes is what a row takes.
func (w *Weights) rowBytes() int {
	elements := 2 * (5*w.row + 2*w.widest)
	if w.bytes.At == 0 {
		return elements
	}
	return elements + w.operandBytes() + 4
}

// operandBytes is what a row takes as an operand of a product in 8 bits.
func (w *Weights) operandBytes() int { return gpukernels.ByteStride(max(w.row, w.widest)) }

// reserve makes room for rows.
func (a *activations) reserve(w *Weights, rows int) error {
	a.rows = rows
	if err := a.memory.reserve(w.device.context, rows*w.rowBytes()); err != nil {
		return err
	}
	at := a.memory.at
	for _, p := range []*cuda.Pointer{&a.x, &a.y, &a.normed, &a.attended, &a.bottom} {
		*p, at = at, cuda.Offset[gpukernels.Half](at, rows*w.row)
	}
	a.wide, a.other = at, cuda.Offset[gpukernels.Half](at, rows*w.widest)
	a.bytes = cuda.Offset[gpukernels.Half](at, 2*rows*w.widest)
	a.scales = cuda.Offset[int8](a.bytes, rows*w.operandBytes())
	return nil
}

// matrix is rows of n elements that lie one after another.
func (a *activations) matrix(at cuda.Pointer, n int) gpukernels.Matrix {
	return gpukernels.Matrix{At: at, Rows: a.rows, Columns: n}
}

// product multiplies rows.
func (s *Stepper) product(a *activations, to, from cuda.Pointer, l *linear, rectified bool) error {
	return s.runProduct(a, l, gpukernels.Product{X: a.matrix(from, l.in), Result: a.matrix(to, l.out), Rectified: rectified})
}

func (l *linear) matrix() gpukernels.Matrix {
	return gpukernels.Matrix{At: l.weights, Rows: l.out, Columns: l.in}
}

// hidden runs matrices one after another, each followed by the activation, and returns where the result is.
func (s *Stepper) hidden(a *activations, from cuda.Pointer, layers []linear, activation model.Activation) (cuda.Pointer, error) {
	for i := range layers {
		to := a.wide
		if from == to {
			to = a.other
		}
		if err := s.product(a, to, from, &layers[i], activation == model.ReLU); err != nil {
			return 0, err
		}
		if activation != model.ReLU && activation != model.Identity {
			if err := s.w.device.kernels.Activate(a.stream, a.matrix(to, layers[i].out), gpukernels.Activation(activation)); err != nil {
				return 0, err
			}
		}
		from = to
	}
	return from, nil
}

func (s *Stepper) feedForward(a *activations, f *feedForward) error {
	input, err := s.before(a, f.pre, a.normed, a.x)
	if err != nil {
		return err
	}
	if input, err = s.hidden(a, input, f.layers, f.activation); err != nil {
		return err
	}
	return s.after(a, f.post, input, &f.last)
}

// embed begins a stack, which ends with top.
func (s *Stepper) embed(a *activations, emb, top process, table, tokens, positions cuda.Pointer) error {
	if err := s.w.device.kernels.Embed(a.stream, a.matrix(a.x, s.w.dim), tokens, positions, table, s.signal.at, s.w.embeddingFactor()); err != nil {
		return err
	}
	if err := s.keepBottom(a, top); err != nil {
		return err
	}
	_, err := s.before(a, emb, a.x, a.x)
	return err
}
