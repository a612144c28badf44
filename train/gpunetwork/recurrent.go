package gpunetwork

import (
	"github.com/sluice-mt/sluice/gpukernels"
	"github.com/sluice-mt/sluice/gpukernels/cuda"
	"github.com/sluice-mt/sluice/train/network"
	"github.com/sluice-mt/sluice/translator/marian"
	"github.com/sluice-mt/sluice/translator/model"
)

// tanh is the activation that only recurrent models have.
const tanh = model.Activation(gpukernels.Tanh)

// A readSource is what a recurrent encoder made of a source, ready for attention.
type readSource struct {
	side     *side
	context  *matrix
	looking  gpukernels.Looking
	gradient cuda.Pointer      // of what the softmax of the attention is taken of
	guide    *gpukernels.Guide // of the attention; nil for none
	query    steppedProduct
	position int // of its columns in what all attentions find
}

// recurrentNetwork runs a recurrent model and returns what the output layer multiplies.
func (f *forward) recurrentNetwork(b *network.Batch) *matrix {
	n, t := f.model.Recurrent, f.tape
	f.schedule.Set(b.Target.Sentences)
	var start *matrix
	for i := range f.sides {
		e, table := f.recurrentEncoder(i)
		source := &readSource{side: f.sides[i]}
		source.context = f.readRecurrent(e, table, b.SourceSide(i), source.side)
		f.sources = append(f.sources, source)
		sum := t.multiply(e.Start, nil, t.sentenceMean(source.context, source.side))
		if start != nil {
			sum = t.add(start, sum)
		}
		start = sum
	}
	if start != nil {
		start = t.gather(t.activate(start, gpukernels.Spacing{}, tanh), f.schedule.Sentences)
	}
	embedded := t.embed(f.model.TargetEmbedding, b.Shifted(), f.target, f.options.DropoutTarget)
	embedded = t.gather(embedded, f.schedule.Order(false).Words)
	if hard := f.model.Recurrence.Hard; hard != nil {
		embedded = t.beside(embedded, t.gather(f.sources[0].context, network.Reading(hard, b, f.schedule.Order(false), nil)))
	}
	var hidden *matrix
	if n.Devlin != nil {
		hidden = f.devlin(b, start, embedded)
	} else {
		hidden = f.stackedDecoder(b, start, embedded)
	}
	return t.gather(hidden, f.schedule.Order(false).Times)
}

// stackedDecoder runs a decoder that is a stack of recurrent layers, on embeddings in the order of time.
func (f *forward) stackedDecoder(b *network.Batch, start, embedded *matrix) *matrix {
	n := f.model.Recurrent
	top, found := f.baseLayer(b, start, embedded)
	for i := range n.High {
		top = f.skipping(&n.High[i], top, f.layer(n.High[i].Cells, &f.schedule, start, top))
	}
	return f.deepOutput(n.Hidden, embedded, top, found)
}

// recurrentEncoder returns an encoder, numbered from 0, and its embeddings.
func (f *forward) recurrentEncoder(i int) (*model.RecurrentEncoder, *marian.Tensor) {
	n := f.model.Recurrent
	if i == 0 {
		return &n.RecurrentEncoder, f.model.SourceEmbedding
	}
	return &n.Further[i-1], n.Further[i-1].Embedding
}

// readRecurrent runs an encoder. Its result is in the order of words.
func (f *forward) readRecurrent(e *model.RecurrentEncoder, table *marian.Tensor, of *network.Side, s *side) *matrix {
	schedule := new(network.Schedule)
	schedule.Set(of.Sentences)
	x := f.tape.embed(table, of.Tokens, s, f.options.DropoutSource)
	x = f.tape.beside(f.stack(e.Forward, schedule, x), f.stack(e.Backward, schedule, x))
	return f.stack(e.Upper, schedule, x)
}

// stack runs layers over x, in the order of words.
func (f *forward) stack(layers []model.RecurrentLayer, s *network.Schedule, x *matrix) *matrix {
	for i := range layers {
		order := s.Order(layers[i].Backward)
		y := f.layer(layers[i].Cells, s, nil, f.tape.gather(x, order.Words))
		x = f.skipping(&layers[i], x, f.tape.gather(y, order.Times))
	}
	return x
}

// skipping adds its input to what a layer gives, if it is so described.
func (f *forward) skipping(l *model.RecurrentLayer, x, y *matrix) *matrix {
	if l.Skip {
		return f.tape.add(y, x)
	}
	return y
}

// baseLayer runs the decoder's first layer, with attention after its first cell. It returns what the last cell gives and what the attentions
// found; nil without any.
func (f *forward) baseLayer(b *network.Batch, start, embedded *matrix) (out, found *matrix) {
	cells, s := f.model.Recurrent.Base, &f.schedule
	found = f.roomForFound()
	chain := f.newChain(cells, s, start, embedded, found)
	for i := range f.sources {
		if found != nil {
			f.prepareAttention(b, i, chain.cells[0].out, found)
		}
	}
	for step := range s.Count() {
		chain.begin(f.tape, step)
		for i := range cells {
			chain.run(f, i, step)
			if i == 0 && found != nil {
				f.look(found, step)
			}
		}
	}
	return chain.cells[len(cells)-1].out, found
}

// roomForFound returns the matrix for what all attentions find, nil without any.
func (f *forward) roomForFound() *matrix {
	width := 0
	if f.model.Recurrent.Attention == nil {
		return nil
	}
	for _, source := range f.sources {
		source.position = width
		width += source.context.cols
	}
	if width == 0 {
		return nil
	}
	return f.tape.room(f.schedule.Rows(), width)
}

// prepareAttention maps what an encoder gave. queries are the states that will look at it, and found is for what they find.
func (f *forward) prepareAttention(b *network.Batch, i int, queries, found *matrix) {
	t, source := f.tape, f.sources[i]
	e, _ := f.recurrentEncoder(i)
	mapped := t.multiply(&e.Attention.Context, nil, f.masked(source.context, e.Attention.Context.Matrices[0].W))
	places, weights := weightPlaces(&b.Target, b.SourceSide(i))
	source.looking = gpukernels.Looking{Mapped: mapped.at, Context: source.context.at, Score: t.value(e.Attention.Score), Keys: source.side.sentences,
		Columns: mapped.cols, Width: source.context.cols, Places: t.put(places), Weights: t.floats(weights), Words: f.target.sentences.Starts}
	source.gradient = t.floats(weights)
	if i == 0 {
		source.guide = f.guide
	}
	times := t.put(f.schedule.Order(false).Times)
	t.record(func() error { return nil }, func() error {
		room := t.floats(mapped.numbers())
		if t.err != nil {
			return t.err
		}
		_, dfound := found.columns(source.position, source.context.cols)
		steps := gpukernels.Look{Query: source.query.joint.y.at, Stride: found.cols}
		return t.contributeAll([]*matrix{source.context, mapped}, func(to []cuda.Pointer) error {
			return t.kernels.LookKeys(t.stream, to[0], to[1], t.slope(e.Attention.Score), room, source.gradient, dfound.At, times, source.looking, steps)
		})
	})
	source.query = f.stepped(&e.Attention.State, nil, queries, f.recurrentMask())
}

// look lets the states of a step look at all sources.
func (f *forward) look(found *matrix, step int) {
	t := f.tape
	first, rows := f.schedule.Of(step)
	for _, s := range f.sources {
		query := s.query.rows(t, first, rows)
		values, gradient := t.part(found, first, rows).columns(s.position, s.context.cols)
		l := gpukernels.Look{Query: query.at, Out: values.At, Stride: found.cols, Sentences: f.sentences(), Rows: rows, Position: step}
		t.record(func() error { return t.kernels.Look(t.stream, s.looking, l) }, func() error {
			return t.kernels.LookQueries(t.stream, query.grad, s.gradient, gradient.At, s.guide, s.looking, l)
		})
	}
}

// sentences is where the order of the target's sentences is on the device.
func (f *forward) sentences() cuda.Pointer {
	if f.order == 0 {
		f.order = f.tape.put(f.schedule.Sentences)
	}
	return f.order
}

// deepOutput returns what the output layer multiplies. found is nil without attention.
func (f *forward) deepOutput(hidden []model.Product, embedded, top, found *matrix) *matrix {
	t := f.tape
	sum := t.add(t.multiply(&hidden[0], nil, embedded), t.multiply(&hidden[1], nil, top))
	if found != nil {
		sum = t.add(sum, t.multiply(&hidden[2], nil, found))
	}
	return t.activate(sum, gpukernels.Spacing{}, tanh)
}

// devlin runs a decoder of type devlin, on embeddings in the order of time. See model.DevlinDecoder.
func (f *forward) devlin(b *network.Batch, start, embedded *matrix) *matrix {
	d, s, t := f.model.Recurrent.Devlin, &f.schedule, f.tape
	found := f.roomForFound()
	chain := f.newChain([]model.Cell{d.Bottom}, s, start, embedded, nil)
	f.prepareAttention(b, 0, chain.state, found)
	context := f.stepped(&d.Context, nil, found, f.recurrentMask())
	for step := range s.Count() {
		chain.begin(t, step)
		f.look(found, step)
		first, rows := s.Of(step)
		x := f.fromInput(&chain.cells[0], first, rows)
		chain.runWith(f, 0, step, t.add(x, context.rows(t, first, rows)))
	}
	h := f.connected(chain.cells[0].out)
	if d.TopCell != nil {
		return f.layer([]model.Cell{*d.TopCell}, s, nil, h)
	}
	return t.activate(t.affine(h, d.Top, false), gpukernels.Spacing{}, tanh)
}

// connected runs the fully connected layers: every second one, from the third on, adds what the one two below it gave.
func (f *forward) connected(h *matrix) *matrix {
	layers, t := f.model.Recurrent.Devlin.Layers, f.tape
	var below *matrix // the layer before h
	for i := range layers {
		var y *matrix
		if i >= 2 && i%2 == 0 {
			y = t.activate(t.add(t.affine(h, &layers[i], false), below), gpukernels.Spacing{}, model.ReLU)
		} else {
			y = t.affine(h, &layers[i], true)
		}
		below, h = h, y
	}
	return h
}
