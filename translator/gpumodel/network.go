package gpumodel

import (
	"github.com/sluice-mt/sluice/gpukernels/cuda"
	"github.com/sluice-mt/sluice/translator/model"
)

// A network is the decoder of a recurrent model on the device: see model.RecurrentNetwork.
type network struct {
	dim    int // of states
	found  int // elements that the attentions to all sources find together, side by side
	devlin *devlin
	hard   *hard // nil without hard attention
	base   []*cell
	high   []cellLayer
	hidden []*product
}

// A reader is a recurrent encoder on the device: see model.RecurrentEncoder.
type reader struct {
	stacks
	start     *product
	width     int       // elements that it gives for a token
	attention *additive // nil if there is hard attention alone
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
	dim            int // of keys and of values, the width of the reader
	context, state *product
	score          cuda.Pointer
}

// network uploads a recurrent model, all but the target embeddings and the output layer.
func (u *uploader) network(m *model.Model) {
	from, r, w := m.Recurrent, m.Recurrence, u.w
	state := whole(r.Dim)
	n := &network{dim: state.filled, high: u.cellLayers(from.High, layout{state})}
	w.network, w.autoreg = n, model.RecurrentCell
	if m.HasEncoder() {
		first := &from.RecurrentEncoder
		w.encoders = append(w.encoders, encoder{table: u.embedding(m.SourceEmbedding), reader: u.reader(first, u.stacks(m, first), state)})
		for i := range from.Further {
			other, stacks := &from.Further[i], w.encoders[0].reader.stacks
			if !sharedStacks(other, first) {
				stacks = u.stacks(m, other)
			}
			w.encoders = append(w.encoders, encoder{table: u.embedding(other.Embedding), reader: u.reader(other, stacks, state)})
		}
	}
	for i := range w.encoders {
		if r := w.encoders[i].reader; r.attention != nil {
			n.found += r.width
		}
	}
	w.row = max(w.dim, 2*n.dim, n.found)
	if from.Devlin != nil {
		n.devlin = u.devlin(m, state, n.found)
		return
	}
	embedding := whole(m.Dim)
	inputs := []layout{{embedding}, {state}, filledBy(n.found, state)} // of the hidden layer
	if r.Hard != nil {
		n.hard = &hard{steps: r.Hard.Steps, lenient: u.options.ForScoring}
		inputs[0] = append(inputs[0], filledBy(w.encoders[0].reader.width, state)...)
		w.row = max(w.row, inputs[0].width())
	}
	for i := range from.Base {
		in := inputs[2]
		if i == 0 {
			in = inputs[0]
		}
		n.base = append(n.base, u.cell(&from.Base[i], in))
	}
	for i := range from.Hidden {
		n.hidden = append(n.hidden, u.product(inputs[i], embedding, nil, &from.Hidden[i]))
	}
	w.layerState, w.widest = n.base[0].width, max(w.widest, n.dim)
}

// filledBy is the layout of so many elements on the device that consist of units.
func filledBy(elements int, of unit) layout { return of.of(elements / of.filled * of.own) }

// sharedStacks says whether two encoders have layers with the same parameters.
func sharedStacks(x, y *model.RecurrentEncoder) bool {
	return x.Forward[0].Cells[0].Input.Matrices[0].W == y.Forward[0].Cells[0].Input.Matrices[0].W
}

func (u *uploader) stacks(m *model.Model, from *model.RecurrentEncoder) stacks {
	embedding, both := rowOf(m.Dim), whole(m.Recurrence.Dim).of(2*m.Recurrence.Dim)
	return stacks{u.cellLayers(from.Forward, embedding), u.cellLayers(from.Backward, embedding), u.cellLayers(from.Upper, both)}
}

func (u *uploader) reader(from *model.RecurrentEncoder, stacks stacks, state unit) *reader {
	results := state.of(from.Start.Matrices[0].In)
	r := &reader{stacks: stacks, start: u.product(results, state, nil, from.Start), width: results.width()}
	if a := from.Attention; a != nil {
		r.attention = &additive{dim: results.width(), context: u.product(results, state, nil, &a.Context),
			state: u.product(layout{state}, state, nil, &a.State), score: u.vector(a.Score, results)}
	}
	return r
}

// cellLayers uploads layers of which the first reads rows of a layout, and each of the others what the one before it gives.
func (u *uploader) cellLayers(from []model.RecurrentLayer, in layout) []cellLayer {
	var to []cellLayer
	for i := range from {
		layer := cellLayer{backward: from[i].Backward, skip: from[i].Skip}
		for j := range from[i].Cells {
			layer.cells = append(layer.cells, u.cell(&from[i].Cells[j], in))
		}
		to, in = append(to, layer), rowOf(from[i].Cells[0].Dim)
	}
	return to
}
