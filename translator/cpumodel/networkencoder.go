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
	if tokens == 0 { // of a further source, which the sentences lack
		s.storeRecurrent(nil, contexts, 0)
		return
	}
	n, b := s.w.network, &s.network
	s.x = grow(s.x, tokens*s.w.dim)
	s.embedSources(sources)
	b.tokens = b.tokens[:0]
	for i := range sources {
		b.tokens = add(b.tokens, sources[i].Tokens...)
	}
	s.arrange(sources)
	dim := n.dim
	b.contexts = grow(b.contexts, tokens*2*dim)
	for side, stack := range [][]cellLayer{n.forward, n.backward} {
		s.layers(stack, b.contexts[side*dim:], 2*dim, s.x[:tokens*s.w.dim], sources, tokens)
	}
	result := b.contexts[:tokens*2*dim]
	if len(n.upper) > 0 {
		b.upper = grow(b.upper, tokens*dim)
		s.layers(n.upper, b.upper, dim, result, sources, tokens)
		result = b.upper[:tokens*dim]
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

// layers runs a stack of layers over all sentences. The rows of the result lie stride elements apart.
func (s *Stepper) layers(stack []cellLayer, result []float32, stride int, input []float32, sources []search.Source, tokens int) {
	dim, b := s.w.network.dim, &s.network
	for i := range stack[:len(stack)-1] {
		b.results[i%2] = grow(b.results[i%2], tokens*dim)
		s.layer(&stack[i], b.results[i%2], dim, input, sources, tokens)
		input = b.results[i%2][:tokens*dim]
	}
	s.layer(&stack[len(stack)-1], result, stride, input, sources, tokens)
}

// layer runs a layer over all sentences: first the products with the input of all tokens at once, then step by step what depends
// on the step before, with a row for each sentence that is long enough.
func (s *Stepper) layer(l *cellLayer, result []float32, stride int, input []float32, sources []search.Source, tokens int) {
	dim, b, c := s.w.network.dim, &s.network, &s.cells
	first := l.cells[0]
	x := s.fromEmbeddings(first, input, tokens)
	c.outputs, c.memories = grow(c.outputs, len(sources)*dim), grow(c.memories, len(sources)*dim)
	clear(c.outputs)
	clear(c.memories)
	c.places = grow(c.places, len(sources))
	rows := cellRows{count: len(sources), outputs: c.outputs, memories: c.memories, x: x, input: input, at: c.places}
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
			row := result[int(place)*stride:][:dim]
			if l.skip {
				kernels.Add(row, c.outputs[i*dim:], input[int(place)*dim:])
			} else {
				copy(row, c.outputs[i*dim:])
			}
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
