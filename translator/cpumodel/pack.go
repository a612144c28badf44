package cpumodel

import (
	"fmt"
	"runtime"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/sluice-mt/sluice/kernels"
	"github.com/sluice-mt/sluice/translator/marian"
	"github.com/sluice-mt/sluice/translator/model"
)

// A packer turns parameters into packed weights. Packing is deferred to run, which uses all cores.
type packer struct {
	precision  Precision
	saturation float64
	plain      bool         // without VectorGates
	beam       int          // expected
	scoring    bool         // see Options.ForScoring
	alphas     model.Alphas // nil if activations are not to use them
	jobs       []func() error
	linears    []*linear // that the jobs pack
	tables     sync.Map  // *marian.Tensor to func() table
	tune       func([]kernels.Matrix)
	err        error
}

// run does the work that was deferred, and returns the first error.
func (p *packer) run() error {
	if p.err != nil {
		return p.err
	}
	var group errgroup.Group
	group.SetLimit(runtime.GOMAXPROCS(0))
	for _, job := range p.jobs {
		group.Go(job)
	}
	if err := group.Wait(); err != nil {
		return err
	}
	p.place()
	return nil
}

func (p *packer) fail(err error) {
	if p.err == nil {
		p.err = err
	}
}

// vector returns a copy of a parameter's elements; nil for nil.
func (p *packer) vector(t *marian.Tensor) []float32 {
	if t == nil {
		return nil
	}
	values, err := t.Float32()
	if err != nil {
		p.fail(err)
		return nil
	}
	return slices.Clone(values)
}

// multiplier returns the activation multiplier that the model has for a parameter, 0 if it has none.
func (p *packer) multiplier(name string) float32 {
	return p.ofInt8(func() (float32, error) { return p.alphas.Multiplier(name) })
}

// ofInt8 returns a multiplier that only products in 8 bits have.
func (p *packer) ofInt8(multiplier func() (float32, error)) float32 {
	if p.precision != Int8 {
		return 0
	}
	m, err := multiplier()
	if err != nil {
		p.fail(err)
		return 0
	}
	return m
}

// linear packs matrices that read the same input, side by side.
func (p *packer) linear(pieces ...model.Affine) *linear {
	l := &linear{k: pieces[0].In}
	p.linears = append(p.linears, l)
	for len(pieces) > 0 {
		multiplier := p.multiplier(pieces[0].W.Name)
		count := 1
		for count < len(pieces) && p.multiplier(pieces[count].W.Name) == multiplier {
			count++
		}
		part := part{first: l.n, multiplier: multiplier, bias: p.bias(pieces[:count])}
		for _, piece := range pieces[:count] {
			part.names = append(part.names, piece.W.Name)
			l.n += piece.Out
		}
		l.parts = append(l.parts, part)
		p.packPart(l, len(l.parts)-1, pieces[:count])
		pieces = pieces[count:]
	}
	return l
}

// bias joins the biases of matrices, zeros where one has none, nil if none has.
func (p *packer) bias(pieces []model.Affine) []float32 {
	var joined []float32
	any := false
	for _, piece := range pieces {
		if piece.B == nil {
			joined = append(joined, make([]float32, piece.Out)...)
			continue
		}
		any = true
		joined = append(joined, p.vector(piece.B)...)
	}
	if !any {
		return nil
	}
	return joined
}

// packPart defers the packing of part i of l.
func (p *packer) packPart(l *linear, i int, pieces []model.Affine) {
	p.jobs = append(p.jobs, func() error {
		var err error
		part := &l.parts[i]
		switch p.precision {
		case Float32:
			part.float, err = packFloat32(l.k, pieces)
		case BFloat16:
			part.bfloat16, err = packBFloat16(l.k, pieces)
		case Int16:
			part.int16, err = packInt16(l.k, pieces)
		default:
			part.int8, err = p.packInt8(l.k, pieces, l.rectified)
		}
		return err
	})
}

func width(pieces []model.Affine) int {
	n := 0
	for _, piece := range pieces {
		n += piece.Out
	}
	return n
}

func packFloat32(k int, pieces []model.Affine) (*kernels.Float32Matrix, error) {
	joined, n, err := join(k, pieces)
	if err != nil {
		return nil, err
	}
	return kernels.PackFloat32(k, n, joined), nil
}

// packBFloat16 packs matrices rounded to bfloat16, however they are stored.
func packBFloat16(k int, pieces []model.Affine) (*kernels.BFloat16Matrix, error) {
	joined, n, err := join(k, pieces)
	if err != nil {
		return nil, err
	}
	w := new(kernels.BFloat16Matrix)
	w.Pack(k, n, joined, n)
	return w, nil
}

// join returns matrices of k rows side by side, in float32, and how many columns they have.
func join(k int, pieces []model.Affine) (joined []float32, n int, err error) {
	n, first := width(pieces), 0
	joined = make([]float32, k*n)
	for _, piece := range pieces {
		w, err := piece.W.Float32()
		if err != nil {
			return nil, 0, err
		}
		for i := range k {
			copy(joined[i*n+first:], w[i*piece.Out:(i+1)*piece.Out])
		}
		first += piece.Out
	}
	return joined, n, nil
}

// packInt8 packs matrices as they are quantised in the file, or quantises them by column.
func (p *packer) packInt8(k int, pieces []model.Affine, rectified bool) (*kernels.Int8Matrix, error) {
	if k > kernels.MaxInt8K {
		return nil, fmt.Errorf("parameter %s: %d rows are too many for int8", pieces[0].W.Name, k)
	}
	n, first := width(pieces), 0
	joined, scales := make([]int8, k*n), make([]float32, n)
	for _, piece := range pieces {
		if piece.W.Type == marian.Intgemm8 {
			q, multiplier, err := piece.W.Int8()
			if err != nil {
				return nil, err
			}
			for i := range k {
				copy(joined[i*n+first:], q[i*piece.Out:(i+1)*piece.Out])
			}
			for j := range piece.Out {
				scales[first+j] = 1 / multiplier
			}
		} else {
			w, err := piece.W.Float32()
			if err != nil {
				return nil, err
			}
			kernels.QuantizeColumns(joined[first:], n, scales[first:], w, k, piece.Out, p.saturation)
		}
		first += piece.Out
	}
	if rectified {
		return kernels.PackInt8Rectified(k, n, joined, scales), nil
	}
	return kernels.PackInt8(k, n, joined, scales), nil
}
