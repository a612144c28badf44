package gpumodel

import (
	"github.com/sluice-mt/sluice/gpukernels/cuda"
	"github.com/sluice-mt/sluice/translator/model"
)

// A network is the decoder of a recurrent model on the device: see model.RecurrentNetwork.
type network struct {
	dim    int // of states
	found  int // elements that the attentions to all sources find together, side by side
	base   []*cell
	high   []cellLayer
	hidden []*product
}

// A reader is a recurrent encoder on the device: see model.RecurrentEncoder.
type reader struct {
	stacks
	start     *product
	attention additive
}

// stacks are the layers of an encoder.
type stacks struct{ forward, backward, upper []cellLayer }

// A cellLayer is a model.RecurrentLayer on the device.
type cellLayer struct {
	cells          []*cell
	backward, skip bool
}

// An additive is a model.AdditiveAttention on the device.
type additive struct {
	dim            int // of keys and of values
	context, state *product
	score          cuda.Pointer
}

// network uploads a recurrent model, all but the target embeddings and the output layer.
func (u *uploader) network(m *model.Model) {
	from, r, w := m.Recurrent, m.Recurrence, u.w
	n := &network{dim: r.Dim, high: u.cellLayers(from.High)}
	w.network, w.autoreg = n, model.RecurrentCell
	if m.HasEncoder() {
		first := &from.RecurrentEncoder
		w.encoders = append(w.encoders, encoder{table: u.embedding(m.SourceEmbedding), reader: u.reader(first, u.stacks(first))})
		for i := range from.Further {
			other, stacks := &from.Further[i], w.encoders[0].reader.stacks
			if !sharedStacks(other, first) {
				stacks = u.stacks(other)
			}
			w.encoders = append(w.encoders, encoder{table: u.embedding(other.Embedding), reader: u.reader(other, stacks)})
		}
	}
	for i := range w.encoders {
		n.found += w.encoders[i].reader.attention.dim
	}
	for i := range from.Base {
		n.base = append(n.base, u.cell(&from.Base[i]))
	}
	for i := range from.Hidden {
		n.hidden = append(n.hidden, u.product(nil, &from.Hidden[i]))
	}
	w.layerState, w.row, w.widest = n.base[0].width, max(m.Dim, 2*r.Dim, n.found), max(w.widest, r.Dim)
}

// sharedStacks says whether two encoders have layers with the same parameters.
func sharedStacks(x, y *model.RecurrentEncoder) bool {
	return x.Forward[0].Cells[0].Input.Matrices[0].W == y.Forward[0].Cells[0].Input.Matrices[0].W
}

func (u *uploader) stacks(from *model.RecurrentEncoder) stacks {
	return stacks{u.cellLayers(from.Forward), u.cellLayers(from.Backward), u.cellLayers(from.Upper)}
}

func (u *uploader) reader(from *model.RecurrentEncoder, stacks stacks) *reader {
	a := from.Attention
	return &reader{stacks: stacks, start: u.product(nil, from.Start), attention: additive{
		dim: a.Dim, context: u.product(nil, &a.Context), state: u.product(nil, &a.State), score: u.vector(a.Score, a.Dim)}}
}

func (u *uploader) cellLayers(from []model.RecurrentLayer) []cellLayer {
	var to []cellLayer
	for i := range from {
		layer := cellLayer{backward: from[i].Backward, skip: from[i].Skip}
		for j := range from[i].Cells {
			layer.cells = append(layer.cells, u.cell(&from[i].Cells[j]))
		}
		to = append(to, layer)
	}
	return to
}
