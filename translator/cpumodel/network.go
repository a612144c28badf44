package cpumodel

import (
	"github.com/sluice-mt/sluice/kernels"
	"github.com/sluice-mt/sluice/translator/model"
	"github.com/sluice-mt/sluice/translator/search"
)

// A network is a packed recurrent model, all but embeddings and output layer, or the encoder of a further source.
type network struct {
	dim               int // of states
	forward, backward []cellLayer
	upper             []cellLayer
	start             *product // nil without an encoder
	base              []*cell
	attention         *additive // nil without an encoder, and for hard attention alone
	contextDim        int       // of the encoder's results
	hard              *hard     // nil without hard attention
	high              []cellLayer
	hidden            []*product
	devlin            *devlin // in the place of base, high and hidden

	premixed []*product // products of what attention found that are computed of what it weighs; see Weights.premix
	mixWidth int        // of all of them, side by side
}

// A cellLayer is a packed model.RecurrentLayer.
type cellLayer struct {
	cells          []*cell
	backward, skip bool
}

// An additive is a packed model.AdditiveAttention.
type additive struct {
	dim            int
	context, state *product
	score          []float32 // padded as the kernel wants it
	kernel         kernels.AdditiveAttention
}

func (p *packer) additive(a *model.AdditiveAttention) *additive {
	kernel := kernels.AdditiveAttention{
		Dim: a.Dim, ValueDim: a.Dim, OneByOne: p.plain,
		KeepBFloat16: p.precision == Int8, // as for transformers: see Weights.transformer
	}
	score := make([]float32, kernel.Width())
	copy(score, p.vector(a.Score))
	return &additive{dim: a.Dim, context: p.product(&a.Context), state: p.product(&a.State), score: score, kernel: kernel}
}

// network packs a recurrent model.
func (w *Weights) recurrentModel(p *packer, m *model.Model) {
	from, r := m.Recurrent, m.Recurrence
	n := p.recurrentEncoder(&from.RecurrentEncoder, m)
	if from.Devlin != nil {
		n.devlin = p.devlin(from.Devlin)
	}
	if r.Hard != nil {
		n.hard = &hard{steps: r.Hard.Steps, lenient: p.scoring}
	}
	n.high = p.cellLayers(from.High)
	for i := range from.Base {
		n.base = append(n.base, p.cell(&from.Base[i]))
	}
	for i := range from.Hidden {
		n.hidden = append(n.hidden, p.product(&from.Hidden[i]))
	}
	w.network, w.layerState = n, stateWidth(r.DecoderCell, r.Dim)
	w.stateWidth = (1 + len(n.high)) * w.layerState
	if n.devlin != nil && n.devlin.topCell != nil {
		w.stateWidth += n.devlin.topCell.dim
	}
	w.positions = newPositions(m.Dim, false)
	w.premix(m, p.beam)
	for i := range from.Further {
		w.further = append(w.further, w.furtherReader(p, m, &from.Further[i]))
	}
}

// furtherReader packs the encoder of a source from the second on.
func (w *Weights) furtherReader(p *packer, m *model.Model, from *model.RecurrentEncoder) *Weights {
	return &Weights{
		precision: w.precision, without: w.without, dim: w.dim, hasEncoder: true, positions: w.positions,
		source: w.furtherEmbedding(p, m, from.Embedding), network: p.recurrentEncoder(from, m),
	}
}

// recurrentEncoder packs what belongs to a source.
func (p *packer) recurrentEncoder(from *model.RecurrentEncoder, m *model.Model) *network {
	n := &network{
		dim: m.Recurrence.Dim, contextDim: m.Recurrence.ContextDim(m.EncoderStack.Depth),
		forward: p.cellLayers(from.Forward), backward: p.cellLayers(from.Backward), upper: p.cellLayers(from.Upper),
	}
	if from.Start != nil {
		n.start = p.product(from.Start)
	}
	if a := from.Attention; a != nil {
		n.attention = p.additive(a)
	}
	return n
}

// stateWidth is the number of elements of the state of a cell.
func stateWidth(kind model.CellKind, dim int) int {
	if kind.Memory() {
		return 2 * dim
	}
	return dim
}

func (p *packer) cellLayers(from []model.RecurrentLayer) []cellLayer {
	var to []cellLayer
	for i := range from {
		layer := cellLayer{backward: from[i].Backward, skip: from[i].Skip}
		for j := range from[i].Cells {
			layer.cells = append(layer.cells, p.cell(&from[i].Cells[j]))
		}
		to = append(to, layer)
	}
	return to
}

// networkBuffers are buffers of recurrent models, valid during a call.
type networkBuffers struct {
	results       [2][]float32 // tokens × dim: of a layer and of the one before
	contexts      []float32    // tokens × 2·dim: what both directions gave
	upper         []float32    // tokens × dim: what the layers above gave
	mapped        []float32    // what attention makes of contexts, or of states
	means, starts []float32
	order, firsts []int     // sentences, the longest first; the first token of each
	projected     []float32 // rows × dim: queries
	queries       []float32 // the same as the kernel wants them
	embedded      []float32 // rows × what the first cell reads: embeddings, and beside them what hard attention sees
	found         []float32 // rows × dim of a context: what attention found
	summand       []float32
	layerInput    []float32

	tokens         []search.Token // whose embeddings are the rows of a product
	unknown        []int32        // rows of those that are not known
	rare, fromRare []float32      // their embeddings, and what becomes of them
	states         []float32      // different ones × dim
	gates          []float32      // rows of gates, or of all that is premixed
}
