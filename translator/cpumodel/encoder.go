package cpumodel

import (
	"math"
	"time"

	"github.com/sluice-mt/sluice/kernels"
	"github.com/sluice-mt/sluice/translator/model"
	"github.com/sluice-mt/sluice/translator/search"
)

// groupTokens is how many source tokens go through the encoder together, about, a layer after the other, so that its weights
// are fetched for enough rows.
const groupTokens = 1024

// tileRows is how many rows go through the parts of a layer together, about: what passes from part to part stays in the
// second-level cache, beside the weights of the layer.
const tileRows = 96

// Encode runs the encoder over the sources as one batch and stores the handle of sources[i] in contexts[i].
func (s *Stepper) Encode(sources []search.Source, contexts []search.Context) {
	begin := time.Now()
	defer func() { s.stats.EncodeTime += time.Since(begin) }()
	s.endStep()
	for i := range sources {
		contexts[i] = s.newContext()
		c := &s.contexts[contexts[i]]
		c.length, c.candidates, c.broken = len(sources[i].Tokens), sources[i].Candidates, false
		c.choice.made, c.choice.complete = 0, false
		c.suppressed = place(c.suppressed, s.w.suppressed, c.candidates)
		s.stats.SourceTokens += int64(c.length)
	}
	s.encodeFurther(sources, contexts)
	switch {
	case s.w.network != nil && s.w.hasEncoder:
		s.encodeNetwork(sources, contexts)
	case s.w.hasEncoder:
		for len(sources) > 0 {
			count, tokens := group(sources, groupTokens)
			s.encodeGroup(sources[:count], contexts[:count], tokens)
			sources, contexts = sources[count:], contexts[count:]
		}
	}
}

// encodeFurther runs the encoders of further sources. A sentence that lacks one has nothing there.
func (s *Stepper) encodeFurther(sources []search.Source, contexts []search.Context) {
	for k, encoder := range s.further {
		s.furtherSources, s.furtherContexts = grow(s.furtherSources, len(sources)), grow(s.furtherContexts, len(sources))
		for i := range sources {
			s.furtherSources[i] = search.Source{}
			if k < len(sources[i].Further) {
				s.furtherSources[i].Tokens = sources[i].Further[k]
			}
		}
		encoder.Encode(s.furtherSources, s.furtherContexts)
		s.stats.takeOver(&encoder.stats)
		for i, handle := range s.furtherContexts {
			c := &s.contexts[contexts[i]]
			c.further = append(c.further[:k], handle)
		}
		clear(s.furtherSources)
	}
}

// group returns how many of the sources to encode together, up to a limit of tokens, and how many tokens they have.
func group(sources []search.Source, limit int) (count, tokens int) {
	for count < len(sources) {
		n := len(sources[count].Tokens)
		if count > 0 && tokens+n > limit {
			break
		}
		tokens += n
		count++
	}
	return count, tokens
}

func (s *Stepper) encodeGroup(sources []search.Source, contexts []search.Context, tokens int) {
	w := s.w
	s.reserve(tokens, s.largestTile(sources))
	s.embedSources(sources)
	x := s.x[:tokens*w.dim]
	s.before(w.emb[encoderSide], x, x, tokens)
	for i := range w.encoder {
		s.encoderLayer(&w.encoder[i], x, sources)
	}
	s.after(w.top[encoderSide], x, x, s.bottom, tokens)
	s.storeContexts(x, sources, contexts, tokens)
}

// largestTile is the most tokens of a tile of the sources.
func (s *Stepper) largestTile(sources []search.Source) int {
	largest := 0
	for len(sources) > 0 {
		count, tokens := group(sources, tileRows)
		largest = max(largest, tokens)
		sources = sources[count:]
	}
	return largest
}

// reserve makes the buffers of rows long enough, those of sublayers for a tile.
func (s *Stepper) reserve(rows, tile int) {
	w := s.w
	s.x, s.y = grow(s.x, rows*w.dim), grow(s.y, tile*w.dim)
	s.normed, s.attended = grow(s.normed, tile*w.dim), grow(s.attended, tile*w.dim)
	s.wide = grow(s.wide, tile*apart(3*w.dim))
	for i := range s.hidden {
		s.hidden[i] = grow(s.hidden[i], min(tile, tileRows)*(max(w.ffnWidth, w.aanWidth, w.dim)+mostApart))
	}
}

// embedSources writes the embeddings of all tokens into x, and a copy into bottom if it is needed later.
func (s *Stepper) embedSources(sources []search.Source) {
	dim, next := s.w.dim, 0
	for _, source := range sources {
		for position, token := range source.Tokens {
			s.embed(s.x[next:next+dim], s.w.source, token, position)
			next += dim
		}
	}
	s.keepBottom(encoderSide, next)
}

// keepBottom copies the first n elements of x if the stack's residual connection needs them.
func (s *Stepper) keepBottom(side, n int) {
	if s.w.top[side].adds() {
		s.bottom = append(s.bottom[:0], s.x[:n]...)
	}
}

// encoderLayer runs a layer on x, a tile of whole sentences after the other.
func (s *Stepper) encoderLayer(l *encoderLayer, x []float32, sources []search.Source) {
	for len(sources) > 0 {
		count, rows := group(sources, tileRows)
		parts, told := s.layerParts(rows)
		begin := time.Now()
		s.layerRows = rowsWork{s: s, layer: l, x: x, sources: sources[:count], rows: rows}
		s.doRows((*rowsWork).queryKeysValues, parts)
		s.doRows((*rowsWork).attend, parts)
		s.layerRows = rowsWork{}
		if told != nil {
			told.record(time.Since(begin) / time.Duration(rows))
		}
		sources, x = sources[count:], x[rows*s.w.dim:]
	}
}

// queryKeysValues computes what the attention of the encoder wants of rows from first to end of x.
func (w *rowsWork) queryKeysValues(hand *Stepper, first, end int) {
	dim, rows := hand.w.dim, end-first
	input := hand.before(w.layer.pre, hand.normed, w.x[first*dim:], rows)
	hand.operand.set(input, rows, dim)
	stride := apart(3 * dim)
	hand.mul(w.s.wide[first*stride:], stride, w.layer.qkv, kernels.None)
}

// attend runs attention, and the sublayer that follows, on rows from first to end of x.
func (w *rowsWork) attend(hand *Stepper, first, end int) {
	dim, rows := hand.w.dim, end-first
	stride := apart(3 * dim)
	attention := hand.w.attention
	attention.QStride, attention.KStride, attention.VStride = stride, stride, stride
	begin := 0
	for i := range w.sources {
		n := len(w.sources[i].Tokens)
		from, to := max(first, begin), min(end, begin+n)
		if from < to {
			hand.scratch = grow(hand.scratch, attention.ScratchLen(n))
			all := w.s.wide[begin*stride:]
			attention.Run(hand.attended[(from-first)*dim:], w.s.wide[from*stride:], all[dim:], all[2*dim:], to-from, n, hand.scratch)
		}
		begin += n
	}
	x := w.x[first*dim:]
	hand.project(w.layer.o, hand.attended, rows)
	hand.afterToOperand(w.layer.post, x, hand.y, x, rows)
	hand.feedForward(&w.layer.ffn, x, rows, false)
}

// project multiplies what attention or a recurrent unit gave with its output matrix, if there is one, into y.
func (s *Stepper) project(o *linear, from []float32, rows int) {
	dim := s.w.dim
	if o == nil {
		copy(s.y[:rows*dim], from)
		return
	}
	s.operand.set(from, rows, dim)
	s.mul(s.y, dim, o, kernels.None)
}

// feedForward runs a feed-forward sublayer on x, a tile of rows after the other. toOperand says that x is the next operand of products.
func (s *Stepper) feedForward(f *ffn, x []float32, rows int, toOperand bool) {
	toOperand = toOperand && rows <= tileRows
	dim := s.w.dim
	for rows > 0 {
		n := min(tileRows, rows)
		s.operand.set(s.before(f.pre, s.normed, x, n), n, dim)
		last := len(f.layers) - 1
		for i, layer := range f.layers[:last] {
			s.hiddenLayer(layer, f.layers[i+1], f.activation, i)
		}
		s.mul(s.y, dim, f.layers[last], kernels.None)
		if toOperand {
			s.afterToOperand(f.post, x, s.y, x, n)
		} else {
			s.after(f.post, x, s.y, x, n)
		}
		x, rows = x[n*dim:], rows-n
	}
}

// hiddenLayer makes the result of a layer of a feed-forward sublayer, the i-th, the operand of the next.
func (s *Stepper) hiddenLayer(layer, next *linear, activation model.Activation, i int) {
	rows, stride := s.operand.rows, apart(layer.n)
	out := s.hidden[i%2][:rows*stride]
	if multiplier := next.multiplierOfBytes(); multiplier != 0 && s.observe == nil && inBytes(layer, activation) && s.spread.share(layer.k*layer.n) < 2 {
		s.mulToBytes(out, layer, fused(activation), multiplier)
		return
	}
	s.mul(out, stride, layer, fused(activation))
	activate(activation, out) // of what lies between the rows, too, which is nothing
	s.operand.setApart(out, rows, layer.n, stride)
}

// storeContexts computes the keys and values of the sentences and notes those with numbers that are not finite.
func (s *Stepper) storeContexts(x []float32, sources []search.Source, contexts []search.Context, tokens int) {
	dim, stride := s.w.dim, apart(s.w.contextKV.n)
	all := s.memory.take(tokens)
	at := all.first
	for len(sources) > 0 {
		count, rows := group(sources, tileRows)
		if rows > 0 {
			s.wide = grow(s.wide, rows*stride)
			s.layerRows = rowsWork{s: s, x: x, rows: rows}
			s.doRows((*rowsWork).contextKeysValues, s.spread.lastLayer())
			s.layerRows = rowsWork{}
		}
		first := 0
		for _, handle := range contexts[:count] {
			c := &s.contexts[handle]
			c.memory = loan{all.segment, run{at + first, c.length}}
			c.broken = s.furtherBroken(c) || !finite(kernels.AbsMax(x[first*dim:(first+c.length)*dim]))
			s.keep(c, s.wide[first*stride:])
			first += c.length
		}
		at += rows
		sources, contexts, x = sources[count:], contexts[count:], x[rows*dim:]
	}
}

// contextKeysValues computes the keys and values for the decoder of rows from first to end of x.
func (w *rowsWork) contextKeysValues(hand *Stepper, first, end int) {
	dim, stride := hand.w.dim, apart(hand.w.contextKV.n)
	hand.operand.set(w.x[first*dim:], end-first, dim)
	hand.mul(w.s.wide[first*stride:], stride, hand.w.contextKV, kernels.None)
}

// keep stores the keys and values of a sentence, layer after layer, as attention wants them. from has a row for each token.
func (s *Stepper) keep(c *context, from []float32) {
	dim, width := s.w.dim, s.w.contextKV.n
	attention := s.w.attention
	stride := apart(width)
	attention.KStride, attention.VStride = stride, stride
	s.scratch = grow(s.scratch, attention.ScratchLen(c.length))
	for first := 0; first < width && c.length > 0; first += 2 * dim {
		attention.Keep(s.kept(c, first), from[first:], from[first+dim:], c.length, s.scratch)
	}
}

// kept returns the keys and values of a sentence in the layer whose keys begin at a column of contextKV.
func (s *Stepper) kept(c *context, column int) []float32 {
	layer, size := column/(2*s.w.dim), s.w.attention.KeptLen(c.length)
	return s.memory.rows(c.memory)[layer*size : (layer+1)*size]
}

// furtherBroken says whether a further source of a sentence has numbers that are not finite.
func (s *Stepper) furtherBroken(c *context) bool {
	for k, handle := range c.further {
		if s.further[k].contexts[handle].broken {
			return true
		}
	}
	return false
}

// finite says whether a magnitude is that of a number.
func finite(magnitude float32) bool { return magnitude <= math.MaxFloat32 }
