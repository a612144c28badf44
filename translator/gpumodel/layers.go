package gpumodel

import (
	"github.com/sluice-mt/sluice/gpukernels"
	"github.com/sluice-mt/sluice/gpukernels/cuda"
	"github.com/sluice-mt/sluice/translator/model"
)

// activations are the buffers of rows of a stack, of fp16.
type activations struct {
	stream                 *cuda.Stream // that works on them
	memory                 buffer
	rows                   int
	x, y, normed, attended cuda.Pointer // rows × dim
	wide                   cuda.Pointer // rows × the widest product
}

// reserve makes room for rows.
func (a *activations) reserve(w *Weights, rows int) error {
	a.rows = rows
	if err := a.memory.reserve(w.device.context, 2*rows*(4*w.dim+w.widest)); err != nil {
		return err
	}
	at := a.memory.at
	for _, p := range []*cuda.Pointer{&a.x, &a.y, &a.normed, &a.attended} {
		*p, at = at, cuda.Offset[gpukernels.Half](at, rows*w.dim)
	}
	a.wide = at
	return nil
}

// matrix is rows of n elements that lie one after another.
func (a *activations) matrix(at cuda.Pointer, n int) gpukernels.Matrix {
	return gpukernels.Matrix{At: at, Rows: a.rows, Columns: n}
}

// product multiplies rows.
func (s *Stepper) product(a *activations, to, from cuda.Pointer, l *linear, rectified bool) error {
	return s.w.device.kernels.Product(a.stream, gpukernels.Product{X: a.matrix(from, l.in), Weights: l.matrix(), Bias: l.bias,
		Result: a.matrix(to, l.out), Rectified: rectified})
}

func (l *linear) matrix() gpukernels.Matrix {
	return gpukernels.Matrix{At: l.weights, Rows: l.out, Columns: l.in}
}

// normalise sets rows to the norm of x + residual; residual may be 0, and there may be no norm.
func (s *Stepper) normalise(a *activations, n *norm, to, x, residual cuda.Pointer) error {
	if n == nil {
		return nil
	}
	return s.w.device.kernels.LayerNorm(a.stream, a.matrix(to, s.w.dim), x, residual, n.scale, n.bias, model.LayerNormEpsilon)
}

// before returns the input of a sublayer.
func (s *Stepper) before(a *activations, f *frame) (cuda.Pointer, error) {
	if f.pre == nil {
		return a.x, nil
	}
	return a.normed, s.normalise(a, f.pre, a.normed, a.x, 0)
}

// after ends a sublayer with a product: x = post(from·l + x).
func (s *Stepper) after(a *activations, f *frame, from cuda.Pointer, l *linear) error {
	if f.post != nil {
		if err := s.product(a, a.y, from, l, false); err != nil {
			return err
		}
		return s.end(a, f, a.y)
	}
	p := gpukernels.Product{X: a.matrix(from, l.in), Weights: l.matrix(), Bias: l.bias, Result: a.matrix(a.x, l.out)}
	if f.add {
		p.Residual = p.Result
	}
	return s.w.device.kernels.Product(a.stream, p)
}

// end ends a sublayer that has a norm behind it: x = post(y + x).
func (s *Stepper) end(a *activations, f *frame, y cuda.Pointer) error {
	residual := a.x
	if !f.add {
		residual = 0
	}
	return s.normalise(a, f.post, a.x, y, residual)
}

func (s *Stepper) feedForward(a *activations, f *feedForward) error {
	input, err := s.before(a, &f.frame)
	if err != nil {
		return err
	}
	if err := s.product(a, a.wide, input, &f.up, true); err != nil {
		return err
	}
	return s.after(a, &f.frame, a.wide, &f.down)
}

// embed begins a stack.
func (s *Stepper) embed(a *activations, side int, table, tokens, positions cuda.Pointer) error {
	if err := s.w.device.kernels.Embed(a.stream, a.matrix(a.x, s.w.dim), tokens, positions, table, s.signal.at, s.w.embeddingFactor()); err != nil {
		return err
	}
	return s.normalise(a, s.w.emb[side], a.x, a.x, 0)
}
