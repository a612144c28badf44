package cpumodel

import (
	"github.com/sluice-mt/sluice/kernels"
	"github.com/sluice-mt/sluice/translator/model"
)

// A process is a packed model.Process.
type process []processStep

type processStep struct {
	operation   model.Operation
	rms         bool
	scale, bias []float32
	gate        *linear
}

func (p *packer) process(from model.Process) process {
	var to process
	for _, step := range from {
		packed := processStep{operation: step.Operation}
		switch step.Operation {
		case model.Normalize:
			packed.rms, packed.scale, packed.bias = step.Norm.RMS, p.vector(step.Norm.Scale), p.vector(step.Norm.Bias)
		case model.Highway:
			packed.gate = p.linear(step.Gate)
		}
		to = append(to, packed)
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

// normalise sets dst to the norm of x, or of x + residual if that is not nil. dst may be either.
func (p *processStep) normalise(dst, x, residual []float32, rows, dim int) {
	if p.rms {
		kernels.RMSNorm(dst, x, residual, p.scale, rows, dim, model.RMSNormEpsilon)
	} else {
		kernels.LayerNorm(dst, x, residual, p.scale, p.bias, rows, dim, model.LayerNormEpsilon)
	}
}

// normaliseOperand is normalise, and makes the quantised form of the result, which has to be the next operand.
func (s *Stepper) normaliseOperand(p *processStep, dst, x, residual []float32, rows, dim int) {
	bytes, scales := s.operand.make(dst, rows, dim)
	if p.rms {
		kernels.RMSNormQuantised(bytes, scales, dst, x, residual, p.scale, rows, dim, model.RMSNormEpsilon)
	} else {
		kernels.LayerNormQuantised(bytes, scales, dst, x, residual, p.scale, p.bias, rows, dim, model.LayerNormEpsilon)
	}
}

// before runs a process that only normalises: the result is in buffer, or is x itself if there is nothing to do.
func (s *Stepper) before(p process, buffer, x []float32, rows int) []float32 {
	for i := range p {
		p[i].normalise(buffer, x, nil, rows, s.w.dim)
		x = buffer
	}
	return x
}

// after runs a process on y, with x, the input of the block, and stores the result in dst, which may be y or x. y is
// overwritten. It may set the operand of products.
func (s *Stepper) after(p process, dst, y, x []float32, rows int) {
	s.afterwards(p, dst, y, x, rows, false)
}

// afterToOperand is after for a result that is set as the operand of products before it changes, and before any other operand is set.
func (s *Stepper) afterToOperand(p process, dst, y, x []float32, rows int) {
	s.afterwards(p, dst, y, x, rows, s.w.rowScales && s.observe == nil)
}

func (s *Stepper) afterwards(p process, dst, y, x []float32, rows int, quantised bool) {
	dim := s.w.dim
	dst, y = dst[:rows*dim], y[:rows*dim]
	if len(p) == 0 {
		copy(dst, y)
	}
	for i := 0; i < len(p); i++ {
		operation, residual := p[i].operation, x
		if operation == model.Normalize {
			residual = nil
		}
		if operation == model.Add && i+1 < len(p) && p[i+1].operation == model.Normalize {
			i++
			operation = model.Normalize
		}
		to := y
		if i == len(p)-1 {
			to = dst
		}
		switch operation {
		case model.Add:
			kernels.Add(to, y, x)
		case model.Normalize:
			if quantised && i == len(p)-1 {
				s.normaliseOperand(&p[i], to, y, residual, rows, dim)
			} else {
				p[i].normalise(to, y, residual, rows, dim)
			}
		case model.Highway:
			s.gate = grow(s.gate, rows*dim)
			s.operand.set(x, rows, dim)
			s.mul(s.gate, dim, p[i].gate, kernels.None)
			kernels.Highway(to, s.gate, y, x[:rows*dim])
		}
	}
}

// activate applies the activation to x. ReLU is left to the products.
func activate(a model.Activation, x []float32) {
	switch a {
	case model.Swish:
		kernels.Swish(x)
	case model.GELU:
		kernels.GELU(x)
	case model.GELUSigmoid:
		kernels.GELUSigmoid(x)
	case model.Sigmoid:
		kernels.Sigmoid(x)
	}
}

// fused returns the activation as far as a product can apply it itself.
func fused(a model.Activation) kernels.Activation {
	if a == model.ReLU {
		return kernels.Rectified
	}
	return kernels.None
}
