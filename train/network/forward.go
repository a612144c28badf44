package network

import (
	"github.com/sluice-mt/sluice/train/autodiff"
	"github.com/sluice-mt/sluice/translator/model"
)

// forward returns what the output layer multiplies, and the attention that serves as alignment, if the model has one.
func (r *Replica[T]) forward(b *Batch) (*autodiff.Matrix[T], *autodiff.Attention[T]) {
	if r.network.Model.Recurrent != nil {
		return r.forwardRecurrent(b)
	}
	m := r.network.Model
	r.contexts = r.contexts[:0]
	if m.HasEncoder() {
		first := model.FurtherEncoder{Embedding: m.SourceEmbedding, Emb: m.EncoderEmb, Layers: m.Encoder, Top: m.EncoderTop}
		r.contexts = append(r.contexts, r.encode(&first, &b.Source))
	}
	for i := range m.Further {
		r.contexts = append(r.contexts, r.encode(&m.Further[i], b.SourceSide(i+1)))
	}
	return r.decode(b)
}

func (r *Replica[T]) encode(e *model.FurtherEncoder, s *Side) *autodiff.Matrix[T] {
	m := r.network.Model
	bottom := r.embed(e.Embedding, s.Tokens, s.Sentences, s.longest(), r.options.DropoutSource)
	x := r.before(m.PostprocessEmb, e.Emb, bottom)
	for i := range e.Layers {
		l := &e.Layers[i]
		x = r.selfAttention(&l.Self, x, s.Sentences, false)
		x = r.feedForward(&l.FFN, m.EncoderStack.Activation, x)
	}
	return r.after(m.PostprocessTop, e.Top, x, bottom)
}

func (r *Replica[T]) decode(b *Batch) (*autodiff.Matrix[T], *autodiff.Attention[T]) {
	m, sentences := r.network.Model, b.Target.Sentences
	bottom := r.embed(m.TargetEmbedding, b.Shifted(), sentences, b.Target.longest(), r.options.DropoutTarget)
	x := r.before(m.PostprocessEmb, m.DecoderEmb, bottom)
	if m.Autoregression == model.RecurrentCell {
		r.targetSchedule.Set(sentences)
	}
	var alignment *autodiff.Attention[T]
	for i, l := range m.Decoder {
		switch {
		case l.Self != nil:
			x = r.selfAttention(l.Self, x, sentences, true)
		case l.Average != nil:
			x = r.averageAttention(l.Average, x, sentences)
		default:
			x = r.recurrent(l.Recurrent, x, sentences)
		}
		if l.Context != nil {
			var attention *autodiff.Attention[T]
			x, attention = r.contextAttention(l.Context, b, 0, x)
			if i == m.AlignmentLayer {
				alignment = attention
			}
		}
		for j := range l.Further {
			x, _ = r.contextAttention(&l.Further[j], b, j+1, x)
		}
		x = r.feedForward(&l.FFN, m.DecoderStack.Activation, x)
	}
	return r.after(m.PostprocessTop, m.DecoderTop, x, bottom), alignment
}

// contextAttention runs a sublayer that attends to a source, numbered from 0.
func (r *Replica[T]) contextAttention(a *model.Attention, b *Batch, source int, x *autodiff.Matrix[T]) (*autodiff.Matrix[T], *autodiff.Attention[T]) {
	query := r.before(r.network.Model.Preprocess, a.Pre, x)
	return r.attention(a, x, query, r.contexts[source], b.Target.Sentences, b.SourceSide(source).Sentences, false)
}

func (r *Replica[T]) affine(a *model.Affine, x *autodiff.Matrix[T]) *autodiff.Matrix[T] {
	w, b := r.matrix(a.W), r.matrix(a.B)
	return r.tape.Affine(r.operand(x, w, b), w, b)
}

// before runs the operations in front of a sublayer: operations names them, dropout among them, and steps holds the
// parameters of all but dropout. x stays as it is.
func (r *Replica[T]) before(operations string, steps model.Process, x *autodiff.Matrix[T]) *autodiff.Matrix[T] {
	y := x
	for _, operation := range operations {
		if operation == 'd' {
			if y == x && r.options.Dropout > 0 {
				y = r.tape.Copy(y)
			}
			r.tape.Dropout(y, r.options.Dropout)
			continue
		}
		y = r.normalise(&steps[0].Norm, y)
		steps = steps[1:]
	}
	return y
}

// after runs the operations behind a sublayer on its result y, which it may change; x is the input of the sublayer.
func (r *Replica[T]) after(operations string, steps model.Process, y, x *autodiff.Matrix[T]) *autodiff.Matrix[T] {
	for _, operation := range operations {
		if operation == 'd' {
			if y == x { // a stack without layers
				y = r.tape.Copy(y)
			}
			r.tape.Dropout(y, r.options.Dropout)
			continue
		}
		step := &steps[0]
		steps = steps[1:]
		switch step.Operation {
		case model.Add:
			y = r.tape.Add(y, x)
		case model.Normalize:
			y = r.normalise(&step.Norm, y)
		case model.Highway:
			y = r.tape.Highway(r.affine(&step.Gate, x), y, x)
		}
	}
	return y
}

func (r *Replica[T]) normalise(n *model.Norm, x *autodiff.Matrix[T]) *autodiff.Matrix[T] {
	if n.RMS {
		return r.tape.RMSNorm(x, r.matrix(n.Scale), model.RMSNormEpsilon)
	}
	return r.tape.LayerNorm(x, r.matrix(n.Scale), r.matrix(n.Bias), model.LayerNormEpsilon)
}

// post runs what follows every sublayer, its output matrix first, if it has one.
func (r *Replica[T]) post(o *model.Affine, steps model.Process, y, x *autodiff.Matrix[T]) *autodiff.Matrix[T] {
	if o != nil {
		y = r.affine(o, y)
	}
	return r.after(r.network.Model.Postprocess, steps, y, x)
}

func (r *Replica[T]) selfAttention(a *model.Attention, x *autodiff.Matrix[T], sentences autodiff.Segments, causal bool) *autodiff.Matrix[T] {
	input := r.before(r.network.Model.Preprocess, a.Pre, x)
	y, _ := r.attention(a, x, input, input, sentences, sentences, causal)
	return y
}

// attention runs an attention sublayer: x is its input, query the same after what stands in front, memory the same for self-attention.
func (r *Replica[T]) attention(a *model.Attention, x, query, memory *autodiff.Matrix[T], queries, keys autodiff.Segments,
	causal bool) (*autodiff.Matrix[T], *autodiff.Attention[T]) {
	options := autodiff.AttentionOptions{Heads: r.network.Model.Heads, Causal: causal, Dropout: r.options.DropoutAttention}
	q, k, v := r.affine(&a.Q, query), r.affine(&a.K, memory), r.affine(&a.V, memory)
	if r.Quantised && memory != query { // the engine keeps those of the source as bfloat16
		k, v = r.tape.RoundBFloat16(k), r.tape.RoundBFloat16(v)
	}
	y, record := r.tape.Attend(q, k, v, queries, keys, options)
	return r.post(a.O, a.Post, y, x), record
}

func (r *Replica[T]) feedForward(f *model.FFN, activation model.Activation, x *autodiff.Matrix[T]) *autodiff.Matrix[T] {
	y := r.before(r.network.Model.Preprocess, f.Pre, x)
	last := len(f.Layers) - 1
	for i := range f.Layers[:last] {
		y = r.hidden(&f.Layers[i], y, activation)
	}
	return r.post(nil, f.Post, r.affine(&f.Layers[last], y), x)
}

// hidden runs a hidden layer of a feed-forward network.
func (r *Replica[T]) hidden(a *model.Affine, x *autodiff.Matrix[T], activation model.Activation) *autodiff.Matrix[T] {
	var y *autodiff.Matrix[T]
	if activation == model.ReLU {
		w, b := r.matrix(a.W), r.matrix(a.B)
		y = r.tape.AffineReLU(r.operand(x, w, b), w, b)
	} else {
		y = r.tape.Apply(r.affine(a, x), function(activation))
	}
	r.tape.Dropout(y, r.options.DropoutFFN)
	return y
}

func (r *Replica[T]) averageAttention(a *model.Average, x *autodiff.Matrix[T], sentences autodiff.Segments) *autodiff.Matrix[T] {
	y := r.before(r.network.Model.Preprocess, a.Pre, r.tape.RunningMean(x, sentences))
	for i := range a.Hidden {
		y = r.hidden(&a.Hidden[i], y, r.network.Model.AverageNetwork.Activation)
	}
	if a.Out != nil {
		y = r.affine(a.Out, y)
	}
	if a.GateX != nil {
		y = r.tape.GatedSum(r.affine(a.GateX, x), x, r.affine(a.GateY, y), y)
	}
	return r.post(nil, a.Post, y, x)
}

func (r *Replica[T]) recurrent(l *model.Recurrent, x *autodiff.Matrix[T], sentences autodiff.Segments) *autodiff.Matrix[T] {
	input := r.before(r.network.Model.Preprocess, l.Pre, x)
	if l.Cell != nil {
		return r.post(l.O, l.Post, r.cellSublayer(l.Cell, input), x)
	}
	dropped := r.masked(input)
	projected, forget := r.affine(&l.Input, dropped), r.affine(&l.Forget, dropped)
	var y *autodiff.Matrix[T]
	if l.Reset == nil {
		y = r.tape.SSRU(forget, projected, sentences)
	} else {
		y = r.tape.SRU(forget, r.affine(l.Reset, dropped), projected, input, sentences)
	}
	return r.post(l.O, l.Post, y, x)
}

func function(a model.Activation) autodiff.Function {
	switch a {
	case model.ReLU:
		return autodiff.ReLU
	case model.Swish:
		return autodiff.Swish
	case model.GELU:
		return autodiff.GELU
	case model.GELUSigmoid:
		return autodiff.GELUSigmoid
	case model.Sigmoid:
		return autodiff.Sigmoid
	}
	return autodiff.Identity
}
