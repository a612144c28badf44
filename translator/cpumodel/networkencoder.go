package cpumodel

import (
	"slices"

	"github.com/sluice-mt/sluice/kernels"
	"github.com/sluice-mt/sluice/translator/search"
)

// recurrentGroup is how many source tokens go through the layers of a recurrent encoder together, about: what the input gave for all
// of them stays in the cache, and a step in time, which has a row for each sentence, has some 20 rows. More of them were slower.
const recurrentGroup = 512

// encodeNetwork runs a recurrent encoder over the sources.
func (s *Stepper) encodeNetwork(sources []search.Source, contexts []search.Context) {
	for len(sources) > 0 {
		count, tokens := group(sources, recurrentGroup)
		s.encodeRecurrent(sources[:count], contexts[:count], tokens)
		sources, contexts = sources[count:], contexts[count:]
	}
}

func (s *Stepper) encodeRecurrent(sources []search.Source, contexts []search.Context, tokens int) {
	n, b := s.w.network, &s.network
	s.x = grow(s.x, tokens*s.w.dim)
	s.embedSources(sources)
	b.tokens = b.tokens[:0]
	for i := range sources {
		b.tokens = append(b.tokens, sources[i].Tokens...)
	}
	s.arrange(sources)
	dim := n.dim
	b.contexts = grow(b.contexts, tokens*2*dim)
	for side, stack := range [][]cellLayer{n.forward, n.backward} {
		result := s.layers(stack, s.x[:tokens*s.w.dim], sources, tokens)
		for t := range tokens {
			copy(b.contexts[(2*t+side)*dim:(2*t+side+1)*dim], result[t*dim:(t+1)*dim])
		}
	}
	result := b.contexts[:tokens*2*dim]
	if len(n.upper) > 0 {
		result = s.layers(n.upper, result, sources, tokens)
	}
	s.storeRecurrent(result, contexts, tokens)
}

// arrange finds the order of the sentences, the longest first, and where each begins.
func (s *Stepper) arrange(sources []search.Source) {
	b := &s.network
	b.order, b.firsts = b.order[:0], b.firsts[:0]
	first := 0
	for i := range sources {
		b.order, b.firsts = append(b.order, i), append(b.firsts, first)
		first += len(sources[i].Tokens)
	}
	slices.SortStableFunc(b.order, func(i, j int) int { return len(sources[j].Tokens) - len(sources[i].Tokens) })
}

// layers runs a stack of layers over all sentences. The result is valid until the next call.
func (s *Stepper) layers(stack []cellLayer, input []float32, sources []search.Source, tokens int) []float32 {
	dim, b := s.w.network.dim, &s.network
	for i := range stack {
		layer := &stack[i]
		b.results[i%2] = grow(b.results[i%2], tokens*dim)
		result := b.results[i%2][:tokens*dim]
		s.layer(layer, result, input, sources, tokens)
		if layer.skip {
			kernels.Add(result, result, input)
		}
		input = result
	}
	return input
}

// layer runs a layer over all sentences: first the products with the input of all tokens at once, then step by step what depends
// on the step before, with a row for each sentence that is long enough.
func (s *Stepper) layer(l *cellLayer, result, input []float32, sources []search.Source, tokens int) {
	dim, b, c := s.w.network.dim, &s.network, &s.cells
	first := l.cells[0]
	c.fromInput = grow(c.fromInput, tokens*first.input.linear.n)
	s.fromEmbeddings(c.fromInput, first, input, tokens)
	c.outputs, c.memories = grow(c.outputs, len(sources)*dim), grow(c.memories, len(sources)*dim)
	clear(c.outputs)
	clear(c.memories)
	c.places = grow(c.places, len(sources))
	rows := cellRows{count: len(sources), outputs: c.outputs, memories: c.memories, x: c.fromInput, input: input, at: c.places}
	for step := 0; ; step++ {
		for rows.count > 0 && len(sources[b.order[rows.count-1]].Tokens) <= step {
			rows.count--
		}
		if rows.count == 0 {
			return
		}
		for i, sentence := range b.order[:rows.count] {
			place := b.firsts[sentence] + step
			if l.backward {
				place = b.firsts[sentence] + len(sources[sentence].Tokens) - 1 - step
			}
			c.places[i] = int32(place)
		}
		for _, cell := range l.cells {
			s.run(cell, &rows)
		}
		for i, place := range c.places[:rows.count] {
			copy(result[int(place)*dim:(int(place)+1)*dim], c.outputs[i*dim:(i+1)*dim])
		}
	}
}

// storeRecurrent keeps for each sentence what the encoder gave, what attention makes of that, and the decoder's first state.
func (s *Stepper) storeRecurrent(result []float32, contexts []search.Context, tokens int) {
	n, b := s.w.network, &s.network
	dim, all := n.contextDim, s.memory.take(tokens)
	b.mapped = grow(b.mapped, tokens*dim)
	if n.attention != nil {
		s.product(b.mapped, n.attention.context, result, tokens)
	}
	b.means, b.starts = grow(b.means, len(contexts)*dim), grow(b.starts, len(contexts)*n.dim)
	clear(b.means)
	first := 0
	for i, handle := range contexts {
		c := &s.contexts[handle]
		rows := result[first*dim : (first+c.length)*dim]
		c.memory = loan{all.segment, run{all.first + first, c.length}}
		c.broken = !finite(kernels.AbsMax(rows))
		s.keepResults(c, b.mapped[first*dim:], rows)
		mean := b.means[i*dim : (i+1)*dim]
		for t := range c.length {
			kernels.Add(mean, mean, rows[t*dim:(t+1)*dim])
		}
		kernels.Scale(mean, mean, 1/float32(max(c.length, 1)))
		first += c.length
	}
	s.product(b.starts, n.start, b.means, len(contexts))
	for i, handle := range contexts {
		c := &s.contexts[handle]
		c.start = s.starts.take(1)
		copy(s.starts.rows(c.start), b.starts[i*n.dim:(i+1)*n.dim])
		s.finishStart(c)
	}
}

// keepResults keeps what the decoder reads of a sentence: what attention makes of the encoder's results, and these, or what becomes of
// them; and the results as they are for hard attention.
func (s *Stepper) keepResults(c *context, mapped, results []float32) {
	n, kept := s.w.network, s.memory.rows(c.memory)
	if a := n.attention; a != nil {
		values := results
		if n.premixed != nil {
			values = s.mixed(results, c.length)
		}
		s.scratch = grow(s.scratch, a.kernel.ScratchLen(c.length))
		a.kernel.Keep(kept, mapped, values, c.length, s.scratch)
		kept = kept[a.kernel.KeptLen(c.length):]
	}
	if n.hard != nil {
		copy(kept, results)
	}
}

// finishStart makes the decoder's first state of what the encoders of all sources have for it. Those of further sources, which
// have no decoder, leave that to the first.
func (s *Stepper) finishStart(c *context) {
	if len(s.w.network.base) == 0 && s.w.network.devlin == nil {
		return
	}
	start := s.starts.rows(c.start)
	for k, handle := range c.further {
		encoder := s.further[k]
		other := &encoder.contexts[handle]
		kernels.Add(start, start, encoder.starts.rows(other.start))
		c.broken = c.broken || other.broken
	}
	s.w.tanh(start)
}
