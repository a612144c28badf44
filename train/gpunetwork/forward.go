package gpunetwork

import (
	"github.com/sluice-mt/sluice/gpukernels"
	"github.com/sluice-mt/sluice/gpukernels/cuda"
	"github.com/sluice-mt/sluice/train/network"
	"github.com/sluice-mt/sluice/translator/model"
)

// A forward runs a network over one batch: operation by operation what network.Replica does, so that the random numbers are the same.
type forward struct {
	tape     *tape
	worker   *worker
	model    *model.Model
	options  network.Options
	sides    []*side // the sources
	target   *side
	contexts []*matrix         // what the encoders of a transformer give
	guide    *gpukernels.Guide // of the alignment layer; nil without guided alignment

	// Of recurrent cells:
	schedule network.Schedule // of the target
	order    cuda.Pointer     // its order of sentences on the device; 0 as long as nobody has needed it
	sources  []*readSource
}

// train asks for the losses of a batch, its cross-entropy and that of its alignment, and for its gradient, which is added if there is a way back.
func (f *forward) train(b *network.Batch) error {
	t := f.tape
	for i := range f.model.Sources() {
		f.sides = append(f.sides, t.side(b.SourceSide(i).Sentences))
	}
	f.target = t.side(b.Target.Sentences)
	if f.options.AlignmentWeight > 0 && len(b.Alignment) > 0 {
		f.guide = t.guide(b, &f.options)
	}
	top := f.top(b)
	at := t.loss(top, &f.model.Output, b.Target.Tokens, b.Weights, f.options.LabelSmoothing)
	t.backward()
	words := len(b.Target.Tokens)
	r := &result{loss: network.Loss{Words: words, Sentences: b.Sentences()}, weights: b.Weights, smoothing: f.options.LabelSmoothing,
		vocabulary: f.worker.network.Parameter(f.model.Output.W).Rows}
	r.statistics = t.feed().statistics.take(words)
	t.do(func() error { return cuda.CopyOut(t.stream, r.statistics, at) })
	if f.guide != nil {
		r.alignment = t.feed().numbers.take(words)
		t.do(func() error { return cuda.CopyOut(t.stream, r.alignment, f.guide.Losses) })
	}
	t.do(func() error { return t.stream.Record(t.feed().end) })
	if t.err == nil {
		t.feed().result = r
	}
	return t.err
}

// top returns what the output layer multiplies.
func (f *forward) top(b *network.Batch) *matrix {
	m := f.model
	if m.Recurrent != nil {
		return f.recurrentNetwork(b)
	}
	if m.HasEncoder() {
		first := model.FurtherEncoder{Embedding: m.SourceEmbedding, Emb: m.EncoderEmb, Layers: m.Encoder, Top: m.EncoderTop}
		f.contexts = append(f.contexts, f.encode(&first, b.Source.Tokens, f.sides[0]))
	}
	for i := range m.Further {
		f.contexts = append(f.contexts, f.encode(&m.Further[i], b.Further[i].Tokens, f.sides[i+1]))
	}
	return f.decode(b)
}

func (f *forward) encode(e *model.FurtherEncoder, tokens []int32, s *side) *matrix {
	m := f.model
	bottom := f.tape.embed(e.Embedding, tokens, s, f.options.DropoutSource)
	x := f.before(m.PostprocessEmb, e.Emb, bottom)
	for i := range e.Layers {
		l := &e.Layers[i]
		x = f.selfAttention(&l.Self, x, s, false)
		x = f.feedForward(&l.FFN, m.EncoderStack.Activation, x)
	}
	return f.after(m.PostprocessTop, e.Top, x, bottom)
}

func (f *forward) decode(b *network.Batch) *matrix {
	m := f.model
	bottom := f.tape.embed(m.TargetEmbedding, b.Shifted(), f.target, f.options.DropoutTarget)
	x := f.before(m.PostprocessEmb, m.DecoderEmb, bottom)
	if m.Autoregression == model.RecurrentCell {
		f.schedule.Set(b.Target.Sentences)
	}
	for i, l := range m.Decoder {
		switch {
		case l.Self != nil:
			x = f.selfAttention(l.Self, x, f.target, true)
		case l.Average != nil:
			x = f.averageAttention(l.Average, x)
		default:
			x = f.recurrent(l.Recurrent, x)
		}
		if l.Context != nil {
			var guide *gpukernels.Guide
			if i == m.AlignmentLayer {
				guide = f.guide
			}
			x = f.contextAttention(l.Context, 0, x, guide)
		}
		for j := range l.Further {
			x = f.contextAttention(&l.Further[j], j+1, x, nil)
		}
		x = f.feedForward(&l.FFN, m.DecoderStack.Activation, x)
	}
	return f.after(m.PostprocessTop, m.DecoderTop, x, bottom)
}

// contextAttention runs a sublayer that attends to a source, numbered from 0.
func (f *forward) contextAttention(a *model.Attention, source int, x *matrix, guide *gpukernels.Guide) *matrix {
	query := f.before(f.model.Preprocess, a.Pre, x)
	return f.attention(a, x, query, f.contexts[source], f.target, f.sides[source], false, guide)
}

// before runs the operations in front of a sublayer: operations names them, dropout among them, and steps holds the parameters of all but
// dropout. x stays as it is.
func (f *forward) before(operations string, steps model.Process, x *matrix) *matrix {
	y := x
	for _, operation := range operations {
		if operation == 'd' {
			y = f.dropped(y, x)
			continue
		}
		y = f.tape.norm(y, &steps[0].Norm)
		steps = steps[1:]
	}
	return y
}

// dropped drops elements of y, which may be changed unless it is x.
func (f *forward) dropped(y, x *matrix) *matrix {
	if y == x && f.options.Dropout > 0 {
		y = f.tape.copyOf(y)
	}
	f.tape.dropout(y, f.worker.layout.spacing(f.model.TargetEmbedding), f.options.Dropout)
	return y
}

// after runs the operations behind a sublayer on its result y, which it may change; x is the input of the sublayer.
func (f *forward) after(operations string, steps model.Process, y, x *matrix) *matrix {
	for _, operation := range operations {
		if operation == 'd' {
			y = f.dropped(y, x)
			continue
		}
		switch step := &steps[0]; step.Operation {
		case model.Add:
			y = f.tape.add(y, x)
		case model.Highway:
			y = f.tape.gatedSum(f.tape.affine(x, &step.Gate, false), y, nil, x)
		default:
			y = f.tape.norm(y, &step.Norm)
		}
		steps = steps[1:]
	}
	return y
}

// post runs what follows every sublayer, its output matrix first, if it has one.
func (f *forward) post(o *model.Affine, steps model.Process, y, x *matrix) *matrix {
	if o != nil {
		y = f.tape.affine(y, o, false)
	}
	return f.after(f.model.Postprocess, steps, y, x)
}

func (f *forward) selfAttention(a *model.Attention, x *matrix, s *side, causal bool) *matrix {
	input := f.before(f.model.Preprocess, a.Pre, x)
	return f.attention(a, x, input, input, s, s, causal, nil)
}

// attention runs an attention sublayer: x is its input, query the same after what stands in front, memory the same for self-attention.
func (f *forward) attention(a *model.Attention, x, query, memory *matrix, queries, keys *side, causal bool,
	guide *gpukernels.Guide) *matrix {
	q, k, v := f.tape.affine(query, &a.Q, false), f.tape.affine(memory, &a.K, false), f.tape.affine(memory, &a.V, false)
	return f.post(a.O, a.Post, f.tape.attend(q, k, v, queries, keys, causal, f.options.DropoutAttention, guide), x)
}

func (f *forward) feedForward(l *model.FFN, activation model.Activation, x *matrix) *matrix {
	y := f.before(f.model.Preprocess, l.Pre, x)
	last := len(l.Layers) - 1
	for i := range l.Layers[:last] {
		y = f.hidden(&l.Layers[i], y, activation)
	}
	return f.post(nil, l.Post, f.tape.affine(y, &l.Layers[last], false), x)
}

// hidden runs a hidden layer of a feed-forward network.
func (f *forward) hidden(a *model.Affine, x *matrix, activation model.Activation) *matrix {
	of := f.worker.layout.spacing(a.W)
	var y *matrix
	if activation == model.ReLU {
		y = f.tape.affine(x, a, true)
	} else {
		y = f.tape.activate(f.tape.affine(x, a, false), of, activation)
	}
	f.tape.dropout(y, of, f.options.DropoutFFN)
	return y
}

func (f *forward) averageAttention(a *model.Average, x *matrix) *matrix {
	y := f.before(f.model.Preprocess, a.Pre, f.tape.runningMean(x, f.target))
	for i := range a.Hidden {
		y = f.hidden(&a.Hidden[i], y, f.model.AverageNetwork.Activation)
	}
	if a.Out != nil {
		y = f.tape.affine(y, a.Out, false)
	}
	if a.GateX != nil {
		gateX, gateY := f.tape.affine(x, a.GateX, false), f.tape.affine(y, a.GateY, false)
		y = f.tape.gatedSum(gateX, x, gateY, y)
	}
	return f.post(nil, a.Post, y, x)
}

func (f *forward) recurrent(l *model.Recurrent, x *matrix) *matrix {
	input := f.before(f.model.Preprocess, l.Pre, x)
	if l.Cell != nil {
		return f.post(l.O, l.Post, f.cellSublayer(l.Cell, input), x)
	}
	dropped := f.masked(input, l.Input.W)
	projected, forget := f.tape.affine(dropped, &l.Input, false), f.tape.affine(dropped, &l.Forget, false)
	var y *matrix
	if l.Reset == nil {
		y = f.tape.ssru(forget, projected, f.target)
	} else {
		y = f.tape.sru(forget, f.tape.affine(dropped, l.Reset, false), projected, input, f.target)
	}
	return f.post(l.O, l.Post, y, x)
}
