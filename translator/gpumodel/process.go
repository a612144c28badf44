package gpumodel

import (
	"github.com/sluice-mt/sluice/gpukernels"
	"github.com/sluice-mt/sluice/gpukernels/cuda"
	"github.com/sluice-mt/sluice/translator/model"
)

// A process is what happens before or behind a sublayer, on the device.
type process []processStep

type processStep struct {
	operation   model.Operation
	rms         bool
	scale, bias cuda.Pointer
	gate        *linear
}

func (u *uploader) process(from model.Process) process {
	var to process
	for _, step := range from {
		uploaded := processStep{operation: step.Operation, rms: step.Norm.RMS}
		switch step.Operation {
		case model.Normalize:
			uploaded.scale = u.vector(step.Norm.Scale, rowOf(u.w.ownDim))
			if step.Norm.Bias != nil {
				uploaded.bias = u.vector(step.Norm.Bias, rowOf(u.w.ownDim))
			}
		case model.Highway:
			gate := u.linear(step.Gate)
			uploaded.gate = &gate
		}
		to = append(to, uploaded)
	}
	return to
}

// adds says whether the process uses the input of its block.
func (p process) adds() bool {
	for _, step := range p {
		if step.operation != model.Normalize {
			return true
		}
	}
	return false
}

// onlyAdds says whether all that the process does is to add the input of its block, which a product does by itself.
func (p process) onlyAdds() bool { return len(p) == 1 && p[0].operation == model.Add }

// normalise sets rows to the norm of x + residual; residual may be 0.
func (s *Stepper) normalise(a *activations, n *processStep, to, x, residual cuda.Pointer) error {
	k, result := s.w.device.kernels, a.matrix(to, s.w.dim)
	norm := gpukernels.RowNorm{Scale: n.scale, Bias: n.bias, Epsilon: model.LayerNormEpsilon, Own: s.w.ownDim}
	if n.rms {
		norm.Epsilon = model.RMSNormEpsilon
		return k.RMSNorm(a.stream, result, x, residual, norm)
	}
	return k.LayerNorm(a.stream, result, x, residual, norm)
}

// before runs a process that only normalises, and returns where the result is: in buffer, or x itself if there is nothing to do.
func (s *Stepper) before(a *activations, p process, buffer, x cuda.Pointer) (cuda.Pointer, error) {
	for i := range p {
		if err := s.normalise(a, &p[i], buffer, x, 0); err != nil {
			return 0, err
		}
		x = buffer
	}
	return x, nil
}

// after ends a sublayer with a product, if there is one: x = post(from·l, x). It may overwrite a.y and a.wide.
func (s *Stepper) after(a *activations, p process, from cuda.Pointer, l *linear) error {
	if l == nil {
		return s.end(a, p, a.x, from, a.x)
	}
	added := p.onlyAdds()
	if len(p) > 0 && !added {
		if err := s.product(a, a.y, from, l, false); err != nil {
			return err
		}
		return s.end(a, p, a.x, a.y, a.x)
	}
	product := gpukernels.Product{X: a.matrix(from, l.in), Result: a.matrix(a.x, l.out)}
	if added {
		product.Residual = product.Result
	}
	return s.runProduct(a, l, product)
}

// end runs a process on y, with x, the input of the block, and stores the result in to, which may be y or x. y is overwritten, and
// so is what it is not in of a.wide and a.other.
func (s *Stepper) end(a *activations, p process, to, y, x cuda.Pointer) error {
	if len(p) == 0 && to != y {
		return a.stream.Copy(to, y, 2*a.rows*s.w.dim)
	}
	for i := 0; i < len(p); i++ {
		step, residual := &p[i], cuda.Pointer(0)
		if step.operation == model.Add && i+1 < len(p) && p[i+1].operation == model.Normalize {
			i++
			step, residual = &p[i], x
		}
		result := y
		if i == len(p)-1 {
			result = to
		}
		if err := s.endStep(a, step, result, y, x, residual); err != nil {
			return err
		}
	}
	return nil
}

func (s *Stepper) endStep(a *activations, step *processStep, result, y, x, residual cuda.Pointer) error {
	k := s.w.device.kernels
	switch step.operation {
	case model.Add:
		return k.Add(a.stream, a.matrix(result, s.w.dim), y, x)
	case model.Highway:
		gate := a.wide
		if y == gate {
			gate = a.other
		}
		if err := s.product(a, gate, x, step.gate, false); err != nil {
			return err
		}
		return k.Highway(a.stream, a.matrix(result, s.w.dim), gate, y, x)
	}
	return s.normalise(a, step, result, y, residual)
}

// keepBottom copies what the stack begins with, if the end of the stack adds it.
func (s *Stepper) keepBottom(a *activations, top process) error {
	if !top.adds() {
		return nil
	}
	return a.stream.Copy(a.bottom, a.x, 2*a.rows*s.w.dim)
}
