package cpumodel

import "github.com/sluice-mt/sluice/kernels"

// place moves the weights of all matrices together, in the order in which they were packed, which is that of their use, and tunes them.
func (p *packer) place() {
	var matrices []kernels.Matrix
	for _, l := range p.linears {
		for i := range l.parts {
			matrices = append(matrices, l.parts[i].matrix())
		}
	}
	kernels.Together(matrices...)
	if p.tune != nil {
		p.tune(matrices)
	}
}

func (p *part) matrix() kernels.Matrix {
	switch {
	case p.float != nil:
		return p.float
	case p.bfloat16 != nil:
		return p.bfloat16
	case p.int16 != nil:
		return p.int16
	}
	return p.int8
}
