package cpumodel

import (
	"time"

	"github.com/sluice-mt/sluice/kernels"
	"github.com/sluice-mt/sluice/translator/model"
	"github.com/sluice-mt/sluice/translator/search"
)

// Step advances slots[i] by token tokens[i], for all i.
func (s *Stepper) Step(slots []search.Slot, tokens []search.Token, align bool) {
	begin := time.Now()
	s.beginStep(len(slots))
	s.common.forget()
	s.whole.forget()
	s.stats.Steps++
	s.stats.TargetTokens += int64(len(slots))
	s.rows = s.rows[:0]
	for _, slot := range slots {
		s.rows = append(s.rows, row{context: s.slots[slot].context, broken: s.slots[slot].broken})
	}
	s.scores.forget()
	s.share(slots)
	switch {
	case len(slots) == 0:
	case s.w.network != nil:
		s.decodeNetwork(slots, tokens, align)
	default:
		s.decode(slots, tokens, align)
	}
	for i, slot := range slots {
		s.slots[slot].position++
		s.slots[slot].broken, s.slots[slot].state = s.rows[i].broken, s.sharing.next()
	}
	s.stats.StepTime += time.Since(begin)
}

func (s *Stepper) decode(slots []search.Slot, tokens []search.Token, align bool) {
	w, n := s.w, len(slots)
	s.reserve(n, n)
	for i, slot := range slots {
		s.embed(s.x[i*w.dim:(i+1)*w.dim], w.target, tokens[i], s.slots[slot].position)
	}
	s.keepBottom(decoderSide, n*w.dim)
	s.before(w.emb[decoderSide], s.x, s.x, n)
	if w.autoreg == model.SelfAttention {
		for _, slot := range slots {
			s.slots[slot].words = add(s.slots[slot].words, s.cache.add())
		}
	}
	for i, l := range w.decoder {
		switch {
		case l.self != nil:
			s.selfAttention(l.self, slots, i)
		case l.average != nil:
			s.averageAttention(l.average, slots, i)
		default:
			s.recurrent(l.recurrent, slots, i)
		}
		if l.context != nil {
			s.contextAttention(l.context, 0, n, align && i == w.alignment)
		}
		for k, further := range l.further {
			s.contextAttention(further, k+1, n, false)
		}
		s.feedForward(&l.ffn, s.x, n, i+1 < len(w.decoder) && w.decoder[i+1].average == nil)
	}
	s.top = grow(s.top, n*w.dim)
	s.after(w.top[decoderSide], s.top, s.x, s.bottom, n)
	s.finish(n)
}

// finish prepares the rows for the output layer.
func (s *Stepper) finish(n int) {
	dim, o := s.w.dim, &s.w.output
	for i := range s.rows {
		if !finite(kernels.AbsMax(s.top[i*dim : (i+1)*dim])) {
			s.rows[i].broken = true
		}
	}
	if s.observe != nil {
		s.observed(o.names, s.top[:n*dim])
	}
	if s.w.precision != Int8 {
		return
	}
	s.operand.set(s.top, n, dim)
	s.operand.quantise(o.multiplier)
	s.topBytes = add(s.topBytes[:0], s.operand.bytes[:n*kernels.Int8Stride(dim)]...)
	s.topScales = add(s.topScales[:0], s.operand.scales[:n]...)
}

// contextAttention runs the attention to a source, numbered from 0, on x.
func (s *Stepper) contextAttention(l *contextAttention, source, rows int, align bool) {
	dim, encoder := s.w.dim, s
	if source > 0 {
		encoder = s.further[source-1]
	}
	input := s.before(l.pre, s.normed, s.x, rows)
	s.operand.set(input, rows, dim)
	s.mul(s.wide, dim, l.q, kernels.None)
	attention := &s.w.attention
	if align {
		s.attentions = s.attentions[:0]
	}
	for i := range s.rows {
		c := &s.contexts[s.rows[i].context]
		if source > 0 {
			c = &encoder.contexts[c.further[source-1]]
		}
		if c.length == 0 {
			clear(s.attended[i*dim : (i+1)*dim])
			continue
		}
		query, kept := s.wide[i*dim:(i+1)*dim], encoder.kept(c, l.first)
		s.scratch = grow(s.scratch, attention.ScratchLen(c.length))
		attention.RunKept(s.attended[i*dim:(i+1)*dim], query, kept, c.length, s.scratch)
		if align {
			s.align(attention, i, query, kept, c.length)
		}
	}
	s.project(l.o, s.attended, rows)
	s.afterToOperand(l.post, s.x, s.y, s.x, rows)
}

// align keeps the weights of the first head for row i.
func (s *Stepper) align(attention *kernels.Attention, i int, query, kept []float32, length int) {
	first := len(s.attentions)
	s.attentions = room(s.attentions, length)[:first+length]
	attention.KeptWeights(s.attentions[first:], query, kept, length, 0)
	s.rows[i].attention = run{first, length}
}

// Attention returns the weights of row's attention over the source tokens; nil if the last Step was not asked to align, or
// the model has no encoder.
func (s *Stepper) Attention(row int32) []float32 {
	at := s.rows[row].attention
	if at.count == 0 {
		return nil
	}
	return s.attentions[at.first : at.first+at.count]
}

// recurrent runs an SSRU or SRU sublayer on x.
func (s *Stepper) recurrent(l *recurrent, slots []search.Slot, layer int) {
	dim, n := s.w.dim, len(slots)
	input := s.before(l.pre, s.normed, s.x, n)
	if l.cell != nil {
		s.cellSublayer(l.cell, input, slots, layer)
		s.project(l.o, s.attended, n)
		s.afterToOperand(l.post, s.x, s.y, s.x, n)
		return
	}
	stride := apart(l.gates.n)
	s.operand.set(input, n, dim)
	s.mul(s.wide, stride, l.gates, kernels.None)
	for i, slot := range slots {
		cell, out, gates := s.state(slot, layer), s.attended[i*dim:(i+1)*dim], s.wide[i*stride:(i+1)*stride]
		if l.sru {
			kernels.SRU(cell, out, gates[dim:2*dim], gates[2*dim:], gates[:dim], input[i*dim:(i+1)*dim])
		} else {
			kernels.SSRU(cell, out, gates[dim:], gates[:dim])
		}
	}
	s.project(l.o, s.attended, n)
	s.afterToOperand(l.post, s.x, s.y, s.x, n)
}

// averageAttention runs an average attention sublayer on x.
func (s *Stepper) averageAttention(l *average, slots []search.Slot, layer int) {
	dim, n := s.w.dim, len(slots)
	s.average = grow(s.average, n*dim)
	for i, slot := range slots {
		mean := s.state(slot, layer)
		kernels.Average(mean, s.x[i*dim:(i+1)*dim], s.slots[slot].position)
		copy(s.average[i*dim:], mean)
	}
	mean := s.before(l.pre, s.average, s.average, n)
	for first := 0; first < n; first += tileRows {
		count := min(tileRows, n-first)
		s.averageNetwork(l, mean[first*dim:(first+count)*dim], s.x[first*dim:(first+count)*dim], s.y[first*dim:(first+count)*dim], count)
	}
	s.afterToOperand(l.post, s.x, s.y, s.x, n)
}

// averageNetwork computes what follows the mean, into y.
func (s *Stepper) averageNetwork(l *average, mean, x, y []float32, rows int) {
	dim, width := s.w.dim, s.w.dim
	for i, layer := range l.hidden {
		out := s.hidden[i%2][:rows*layer.n]
		s.operand.set(mean, rows, width)
		s.mul(out, layer.n, layer, fused(l.activation))
		activate(l.activation, out)
		mean, width = out, layer.n
	}
	if l.out != nil {
		s.operand.set(mean, rows, width)
		s.mul(y, dim, l.out, kernels.None)
	} else {
		copy(y, mean)
	}
	if l.gateX == nil {
		return
	}
	gateX, gateY := s.wide[:rows*dim], s.wide[rows*dim:2*rows*dim]
	s.operand.set(x, rows, dim)
	s.mul(gateX, dim, l.gateX, kernels.None)
	s.operand.set(y, rows, dim)
	s.mul(gateY, dim, l.gateY, kernels.None)
	kernels.GatedSum(y, gateX, x, gateY, y)
}

// selfAttention runs the attention to the target words so far on x.
//
// Keys and values are kept. Where a norm comes before the sublayer, marian-decoder, other than in training, applies it to
// the queries alone: keys and values come from the inputs as they are. Only at the first position, where there is nothing
// kept yet, they come from the normalised input, though what is kept for later steps does not.
func (s *Stepper) selfAttention(l *selfAttention, slots []search.Slot, layer int) {
	dim, n := s.w.dim, len(slots)
	query, stride := s.wide, apart(3*dim)
	if l.qkv != nil {
		s.operand.set(s.x, n, dim)
		s.mul(s.wide, stride, l.qkv, kernels.None)
		s.keepWords(slots, layer, s.wide[dim:], stride)
	} else {
		stride = dim
		s.operand.set(s.x, n, dim)
		s.mul(s.wide, 2*dim, l.kv, kernels.None)
		s.keepWords(slots, layer, s.wide, 2*dim)
		input := s.before(l.pre, s.normed, s.x, n)
		s.operand.set(input, n, dim)
		s.mul(s.wide, dim, l.q, kernels.None)
	}
	attention, first := s.w.attention, 2*dim*layer
	attention.KStride, attention.VStride = s.cache.width, s.cache.width
	for i, slot := range slots {
		words := s.slots[slot].words
		s.scratch = grow(s.scratch, attention.ScratchLen(len(words)))
		attention.RunRows(s.attended[i*dim:], query[i*stride:], s.cache.data[first:], s.cache.data[first+dim:], words, s.scratch)
	}
	if l.kv != nil {
		s.firstWords(l, slots)
	}
	s.project(l.o, s.attended, n)
	s.afterToOperand(l.post, s.x, s.y, s.x, n)
}

// keepWords stores the keys and values of the last words in the cache.
func (s *Stepper) keepWords(slots []search.Slot, layer int, keysValues []float32, stride int) {
	dim := s.w.dim
	for i, slot := range slots {
		words := s.slots[slot].words
		copy(s.cache.row(words[len(words)-1])[2*dim*layer:], keysValues[i*stride:i*stride+2*dim])
	}
}

// firstWords replaces the result of attention for the rows at the first position: attention to one word is its value, here
// from the normalised input.
func (s *Stepper) firstWords(l *selfAttention, slots []search.Slot) {
	dim := s.w.dim
	s.starting = s.starting[:0]
	for i, slot := range slots {
		if s.slots[slot].position == 0 {
			s.starting = add(s.starting, int32(i))
		}
	}
	if len(s.starting) == 0 {
		return
	}
	s.average = grow(s.average, len(s.starting)*dim)
	for i, from := range s.starting {
		copy(s.average[i*dim:(i+1)*dim], s.normed[int(from)*dim:])
	}
	s.operand.set(s.average, len(s.starting), dim)
	s.mul(s.wide, 2*dim, l.kv, kernels.None)
	for i, to := range s.starting {
		copy(s.attended[int(to)*dim:(int(to)+1)*dim], s.wide[i*2*dim+dim:(i+1)*2*dim])
	}
}
