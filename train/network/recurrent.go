package network

import (
	"github.com/sluice-mt/sluice/train/autodiff"
	"github.com/sluice-mt/sluice/translator/marian"
	"github.com/sluice-mt/sluice/translator/model"
)

// A readSource is what a recurrent encoder made of a source, ready for attention.
type readSource[T autodiff.Float] struct {
	context  *autodiff.Matrix[T]
	looking  *autodiff.Additive[T]
	query    steppedProduct[T]
	position int // of its columns in what all attentions find
}

// forwardRecurrent is forward for a recurrent model.
func (r *Replica[T]) forwardRecurrent(b *Batch) (*autodiff.Matrix[T], *autodiff.Attention[T]) {
	n, schedule := r.network.Model.Recurrent, &r.targetSchedule
	schedule.Set(b.Target.Sentences)
	r.sources = r.sources[:0]
	var start *autodiff.Matrix[T]
	for i := range r.network.Model.Sources() {
		e, table := r.recurrentEncoder(i)
		side := b.SourceSide(i)
		context := r.readRecurrent(e, table, side, &r.sourceSchedules[i])
		r.sources = append(r.sources, readSource[T]{context: context})
		sum := r.multiply(e.Start, r.tape.SentenceMean(context, side.Sentences))
		if start != nil {
			sum = r.tape.Add(start, sum)
		}
		start = sum
	}
	if start != nil {
		start = r.tape.Gather(r.tape.Apply(start, autodiff.Tanh), schedule.Sentences)
	}
	embedded := r.embed(r.network.Model.TargetEmbedding, b.Shifted(), b.Target.Sentences, 0, r.options.DropoutTarget)
	embedded = r.tape.Gather(embedded, schedule.Order(false).Words)
	if hard := r.network.Model.Recurrence.Hard; hard != nil {
		r.read = Reading(hard, b, schedule.Order(false), r.read)
		embedded = r.tape.Beside(embedded, r.tape.Gather(r.sources[0].context, r.read))
	}
	var hidden *autodiff.Matrix[T]
	if n.Devlin != nil {
		hidden = r.devlin(b, start, embedded)
	} else {
		hidden = r.stackedDecoder(b, start, embedded)
	}
	var alignment *autodiff.Attention[T]
	if n.Attention != nil {
		alignment = r.sources[0].looking.Record
	}
	return r.tape.Gather(hidden, schedule.Order(false).Times), alignment
}

// stackedDecoder runs a decoder that is a stack of recurrent layers, on embeddings in the order of time.
func (r *Replica[T]) stackedDecoder(b *Batch, start, embedded *autodiff.Matrix[T]) *autodiff.Matrix[T] {
	n := r.network.Model.Recurrent
	top, found := r.baseLayer(b, start, embedded)
	for i := range n.High {
		top = r.skipping(&n.High[i], top, r.layer(n.High[i].Cells, &r.targetSchedule, start, top))
	}
	return r.deepOutput(n.Hidden, embedded, top, found)
}

// recurrentEncoder returns an encoder, numbered from 0, and its embeddings.
func (r *Replica[T]) recurrentEncoder(i int) (*model.RecurrentEncoder, *marian.Tensor) {
	n := r.network.Model.Recurrent
	if i == 0 {
		return &n.RecurrentEncoder, r.network.Model.SourceEmbedding
	}
	return &n.Further[i-1], n.Further[i-1].Embedding
}

// readRecurrent runs an encoder. Its result is in the order of words.
func (r *Replica[T]) readRecurrent(e *model.RecurrentEncoder, table *marian.Tensor, side *Side, s *Schedule) *autodiff.Matrix[T] {
	s.Set(side.Sentences)
	x := r.embed(table, side.Tokens, side.Sentences, 0, r.options.DropoutSource)
	x = r.tape.Beside(r.stack(e.Forward, s, x), r.stack(e.Backward, s, x))
	return r.stack(e.Upper, s, x)
}

// stack runs layers over x, in the order of words.
func (r *Replica[T]) stack(layers []model.RecurrentLayer, s *Schedule, x *autodiff.Matrix[T]) *autodiff.Matrix[T] {
	for i := range layers {
		order := s.Order(layers[i].Backward)
		y := r.layer(layers[i].Cells, s, nil, r.tape.Gather(x, order.Words))
		x = r.skipping(&layers[i], x, r.tape.Gather(y, order.Times))
	}
	return x
}

// skipping adds its input to what a layer gives, if it is so described.
func (r *Replica[T]) skipping(l *model.RecurrentLayer, x, y *autodiff.Matrix[T]) *autodiff.Matrix[T] {
	if l.Skip {
		return r.tape.Add(y, x)
	}
	return y
}

// baseLayer runs the decoder's first layer, with attention after its first cell. It returns what the last cell gives and what the
// attentions found; nil without any.
func (r *Replica[T]) baseLayer(b *Batch, start, embedded *autodiff.Matrix[T]) (out, found *autodiff.Matrix[T]) {
	cells, s := r.network.Model.Recurrent.Base, &r.targetSchedule
	found = r.roomForFound()
	chain := r.newChain(cells, s, start, embedded, found)
	for i := range r.sources {
		if found != nil {
			r.prepareAttention(b, i, chain.cells[0].out)
		}
	}
	for step := range s.Count() {
		chain.begin(r.tape, step)
		for i := range cells {
			chain.run(r, i, step)
			if i == 0 && found != nil {
				r.look(found, step)
			}
		}
	}
	return chain.cells[len(cells)-1].out, found
}

// roomForFound returns the matrix for what all attentions find, nil without any.
func (r *Replica[T]) roomForFound() *autodiff.Matrix[T] {
	width := 0
	if r.network.Model.Recurrent.Attention == nil {
		return nil
	}
	for i := range r.sources {
		r.sources[i].position = width
		width += r.sources[i].context.Cols
	}
	if width == 0 {
		return nil
	}
	return r.tape.Room(r.targetSchedule.Rows(), width)
}

// prepareAttention maps what an encoder gave. queries are the states that will look at it.
func (r *Replica[T]) prepareAttention(b *Batch, i int, queries *autodiff.Matrix[T]) {
	e, _ := r.recurrentEncoder(i)
	source := &r.sources[i]
	mapped := r.multiply(&e.Attention.Context, r.masked(source.context))
	source.looking = r.tape.Additive(source.context, mapped, r.matrix(e.Attention.Score), b.Target.Sentences, b.SourceSide(i).Sentences)
	source.query = r.stepped(&e.Attention.State, queries, r.recurrentMask(queries.Cols))
}

// look lets the states of a step look at all sources.
func (r *Replica[T]) look(found *autodiff.Matrix[T], step int) {
	first, rows := r.targetSchedule.Of(step)
	for i := range r.sources {
		s := &r.sources[i]
		query := s.query.rows(r.tape, first, rows)
		r.tape.Look(s.looking, r.tape.Part(found, first, rows), s.position, query, r.targetSchedule.Sentences[:rows], step)
	}
}

// deepOutput returns what the output layer multiplies. found is nil without attention.
func (r *Replica[T]) deepOutput(hidden []model.Product, embedded, top, found *autodiff.Matrix[T]) *autodiff.Matrix[T] {
	sum := r.tape.Add(r.multiply(&hidden[0], embedded), r.multiply(&hidden[1], top))
	if found != nil {
		sum = r.tape.Add(sum, r.multiply(&hidden[2], found))
	}
	return r.tape.Apply(sum, autodiff.Tanh)
}

// cellSublayer runs the cell of a layer of a transformer's decoder over x, in the order of words.
func (r *Replica[T]) cellSublayer(cell *model.Cell, x *autodiff.Matrix[T]) *autodiff.Matrix[T] {
	s := &r.targetSchedule
	r.single[0] = *cell
	y := r.layer(r.single[:], s, nil, r.tape.Gather(x, s.Order(false).Words))
	return r.tape.Gather(y, s.Order(false).Times)
}
