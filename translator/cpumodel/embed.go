package cpumodel

import (
	"math"
	"sync"

	"github.com/sluice-mt/sluice/internal/hugepage"
	"github.com/sluice-mt/sluice/kernels"
	"github.com/sluice-mt/sluice/translator/marian"
	"github.com/sluice-mt/sluice/translator/model"
	"github.com/sluice-mt/sluice/translator/search"
)

// An embedding is a table of vectors of dim elements, one for each token, in float32 or quantised as in the file.
type embedding struct {
	dim    int
	float  []float32
	int8   []int8
	factor float32 // element = int8·factor
}

func (w *Weights) embeddings(p *packer, m *model.Model) {
	w.target = p.embedding(m.TargetEmbedding, m.Dim)
	switch {
	case m.SourceEmbedding == nil:
	case m.SourceEmbedding == m.TargetEmbedding:
		w.source = w.target
	default:
		w.source = p.embedding(m.SourceEmbedding, m.Dim)
	}
}

// embedding keeps a quantised table quantised if the arithmetic is int8: looking a vector up costs little.
func (p *packer) embedding(t *marian.Tensor, dim int) *embedding {
	e := &embedding{dim: dim}
	p.jobs = append(p.jobs, func() error {
		if p.precision == Int8 && t.Type == marian.Intgemm8 {
			table := p.table(t)
			e.int8, e.factor = table.values, 1/table.multiplier
			return table.err
		}
		values, err := t.Float32()
		if err != nil {
			return err
		}
		e.float = ownedFloat32(t, values)
		return nil
	})
	return e
}

// A table is a matrix of integers in memory for what is read all the time: weight = value/multiplier.
type table struct {
	values     []int8
	multiplier float32
	err        error
}

// table returns a matrix that is quantised in the file. The embeddings and the output layer of a model that ties them share it.
func (p *packer) table(t *marian.Tensor) table {
	load, _ := p.tables.LoadOrStore(t, sync.OnceValue(func() table {
		values, multiplier, err := t.Int8()
		return table{copied(values), multiplier, err}
	}))
	return load.(func() table)()
}

// ownedFloat32 returns the values of a tensor in memory that outlives the file.
func ownedFloat32(t *marian.Tensor, values []float32) []float32 {
	if t.Type == marian.Float32 {
		return copied(values)
	}
	return values
}

// copied returns a copy in memory for what is read all the time.
func copied[T int8 | float32](values []T) []T {
	own := hugepage.Make[T](len(values))
	copy(own, values)
	return own
}

// positions are the sinusoids added to embeddings, and the factor that goes with them.
type positions struct {
	dim         int
	on          bool
	factor      float32   // of the embeddings: √dim
	frequencies []float32 // dim/2
	table       []float32 // the first ones
}

// readyPositions is how many positions are computed at load. Few sentences are longer.
const readyPositions = 512

func newPositions(dim int, on bool) positions {
	p := positions{dim: dim, on: on, factor: 1}
	if !on {
		p.table = make([]float32, dim) // zeros, for all positions
		return p
	}
	p.factor = float32(math.Sqrt(float64(dim)))
	half := dim / 2
	increment := float32(math.Log(10000)) / (float32(half) - 1)
	for i := range half {
		p.frequencies = append(p.frequencies, float32(math.Exp(float64(float32(i)*-increment))))
	}
	p.table = make([]float32, readyPositions*dim)
	for position := range readyPositions {
		p.compute(p.table[position*dim:(position+1)*dim], position)
	}
	return p
}

// compute writes the vector of a position: sines, then cosines, of the position times each frequency, rounded as Marian does.
func (p *positions) compute(dst []float32, position int) {
	half := p.dim / 2
	for i, frequency := range p.frequencies {
		sin, cos := math.Sincos(float64(float32(position) * frequency))
		dst[i], dst[half+i] = float32(sin), float32(cos)
	}
}

// position returns the vector of a position.
func (s *Stepper) position(position int) []float32 {
	p := &s.w.positions
	switch {
	case !p.on:
		return p.table
	case position < readyPositions:
		return p.table[position*p.dim : (position+1)*p.dim]
	}
	for have := readyPositions + len(s.positions)/p.dim; have <= position; have++ {
		s.positions = append(s.positions, s.zeros...)
		p.compute(s.positions[len(s.positions)-p.dim:], have)
	}
	first := (position - readyPositions) * p.dim
	return s.positions[first : first+p.dim]
}

// embed writes the input of a position into dst. NoToken has a vector of zeros.
func (s *Stepper) embed(dst []float32, e *embedding, token search.Token, position int) {
	factor, at := s.w.positions.factor, s.position(position)
	first := int(token) * e.dim
	switch {
	case token == search.NoToken:
		kernels.Embed(dst, s.zeros, factor, at)
	case e.int8 != nil:
		kernels.EmbedInt8(dst, e.int8[first:first+e.dim], e.factor, factor, at)
	default:
		kernels.Embed(dst, e.float[first:first+e.dim], factor, at)
	}
}

// attentionScale returns the factor of attention scores.
func attentionScale(headDim int) float32 { return 1 / float32(math.Sqrt(float64(headDim))) }
