package gpumodel

import (
	"slices"

	"github.com/sluice-mt/sluice/gpukernels"
	"github.com/sluice-mt/sluice/gpukernels/cuda"
	"github.com/sluice-mt/sluice/translator/search"
)

// A reading is how a recurrent encoder goes through sentences: step by step, with a row for each sentence that is long enough, the longest
// first, so that the rows that go on are always the first ones.
type reading struct {
	order               []int
	rows                []int   // of each step
	forwards, backwards []int32 // the token that each row reads, step by step
}

// arrange fills it in for sentences of which number s has the tokens starts[s] up to starts[s+1].
func (r *reading) arrange(starts []int32) {
	*r = reading{r.order[:0], r.rows[:0], r.forwards[:0], r.backwards[:0]}
	length := func(s int) int { return int(starts[s+1] - starts[s]) }
	for s := range len(starts) - 1 {
		r.order = append(r.order, s)
	}
	slices.SortStableFunc(r.order, func(x, y int) int { return length(y) - length(x) })
	going := r.order
	for step := 0; ; step++ {
		for len(going) > 0 && length(going[len(going)-1]) <= step {
			going = going[:len(going)-1]
		}
		if len(going) == 0 {
			return
		}
		for _, s := range going {
			r.forwards, r.backwards = append(r.forwards, starts[s]+int32(step)), append(r.backwards, starts[s+1]-1-int32(step))
		}
		r.rows = append(r.rows, len(going))
	}
}

// firstOfValues is where what a recurrent encoder gave for a token begins in the token's row of the memory: behind the key, if there is one.
func (w *Weights) firstOfValues() int { return w.contextWidth() - w.encoders[0].reader.width }

// read runs a recurrent encoder over a source of the sentences, whose tokens and starts are listed. What it gives for a token, and before
// that the key that attention compares, are the token's row in the memory.
func (s *Stepper) read(number int, contexts []search.Context, longest int) error {
	a, e, tokens := &s.encoding, &s.w.encoders[number], len(s.tokens)
	if err := a.reserve(s.w, max(tokens, len(contexts))); err != nil {
		return err
	}
	if err := s.reserveSignal(max(longest, 1)); err != nil {
		return err
	}
	if err := s.readerStates.reserve(s.w.device.context, 8*s.w.network.dim*len(contexts)); err != nil {
		return err
	}
	s.reading.arrange(s.starts)
	s.numbers = s.numbers[:0]
	for _, handle := range contexts {
		s.numbers = append(s.numbers, startOf(handle))
	}
	places, err := s.sourceFeed.put(s.w.device.context, a.stream, s.tokens, s.positions, s.starts, s.numbers, s.reading.forwards,
		s.reading.backwards)
	if err != nil {
		return err
	}
	values := gpukernels.Matrix{Rows: tokens, Columns: e.reader.width, Stride: s.w.contextWidth()}
	if tokens > 0 {
		keys := values
		if keys.At, err = s.takeMemory(a, number, contexts); err != nil {
			return err
		}
		values.At = cuda.Offset[gpukernels.Half](keys.At, s.w.firstOfValues())
		if err := s.readTokens(e, values, places); err != nil {
			return err
		}
		if attention := e.reader.attention; attention != nil {
			if err := s.multiply(a, keys, values, attention.context); err != nil {
				return err
			}
		}
	}
	if err := s.keepStarts(number, values, places[2], places[3], len(contexts)); err != nil {
		return err
	}
	return s.recordEncode(contexts)
}

// readTokens runs the layers. places are those of the lists of read.
func (s *Stepper) readTokens(e *encoder, values gpukernels.Matrix, places []cuda.Pointer) error {
	a, dim := &s.encoding, s.w.network.dim
	embedded := gpukernels.Matrix{At: a.x, Rows: values.Rows, Columns: s.w.dim}
	if err := s.w.device.kernels.Embed(a.stream, embedded, places[0], places[1], e.table, s.signal.at, s.w.embeddingFactor()); err != nil {
		return err
	}
	both := values
	if len(e.reader.upper) > 0 {
		both = gpukernels.Matrix{At: a.bottom, Rows: values.Rows, Columns: 2 * dim, Stride: 2 * dim}
	}
	for side, stack := range [][]cellLayer{e.reader.forward, e.reader.backward} {
		half := both
		half.At, half.Columns = cuda.Offset[gpukernels.Half](both.At, side*dim), dim
		if err := s.readStack(stack, embedded, half, places); err != nil {
			return err
		}
	}
	if len(e.reader.upper) == 0 {
		return nil
	}
	return s.readStack(e.reader.upper, both, values, places)
}

// readStack runs layers one after another.
func (s *Stepper) readStack(stack []cellLayer, input, result gpukernels.Matrix, places []cuda.Pointer) error {
	a, last := &s.encoding, len(stack)-1
	for i := range stack[:last] {
		to := gpukernels.Matrix{At: []cuda.Pointer{a.y, a.normed}[i%2], Rows: result.Rows, Columns: s.w.network.dim}
		if err := s.readLayer(&stack[i], input, to, places); err != nil {
			return err
		}
		input = to
	}
	return s.readLayer(&stack[last], input, result, places)
}

// readLayer runs a layer over all sentences: first the products with the input of all tokens at once, then step by step what depends on the
// step before. input and result have a row for each token.
func (s *Stepper) readLayer(l *cellLayer, input, result gpukernels.Matrix, places []cuda.Pointer) error {
	a, first, sentences := &s.encoding, l.cells[0], s.reading.rows[0]
	r := cellRows{a: a, states: gpukernels.CellStates{At: s.readerStates.at, Stride: first.width}, u: a.other, places: places[4],
		h: gpukernels.Matrix{At: a.attended, Rows: sentences, Columns: first.dim}, input: input.At, added: l.skip,
		x: gpukernels.Matrix{At: a.wide, Rows: input.Rows, Columns: first.input.out}}
	if l.backward {
		r.places = places[5]
	}
	if err := s.multiply(a, r.x, input, first.input); err != nil {
		return err
	}
	if err := s.w.device.kernels.BeginCells(a.stream, gpukernels.BeginCells{States: r.states, Width: first.width, H: r.h}); err != nil {
		return err
	}
	for _, r.h.Rows = range s.reading.rows {
		if err := s.advanceAll(l.cells, &r, result); err != nil {
			return err
		}
		r.places = cuda.Offset[int32](r.places, r.h.Rows)
	}
	return nil
}

// advanceAll runs the cells of a layer one after another. The last one gives the result.
func (s *Stepper) advanceAll(cells []*cell, r *cellRows, result gpukernels.Matrix) error {
	r.result = gpukernels.Matrix{}
	for i, c := range cells {
		if i == len(cells)-1 {
			r.result = result
		}
		if err := s.advance(c, r); err != nil {
			return err
		}
	}
	return nil
}

// keepStarts adds what a source has for the state that the decoder begins with: of the mean of its values.
func (s *Stepper) keepStarts(number int, values gpukernels.Matrix, starts, numbers cuda.Pointer, sentences int) error {
	a, k, e := &s.encoding, s.w.device.kernels, s.w.encoders[number].reader
	means := gpukernels.Matrix{At: a.normed, Rows: sentences, Columns: values.Columns}
	if err := k.MeanRows(a.stream, means, values, starts); err != nil {
		return err
	}
	start := gpukernels.Matrix{At: a.y, Rows: sentences, Columns: s.w.network.dim}
	if err := s.multiply(a, start, means, e.start); err != nil {
		return err
	}
	return k.AddStarts(a.stream, s.decoderStarts.at, start, numbers, number == 0, number == len(s.w.encoders)-1)
}

// startOf is the row of a context in decoderStarts.
func startOf(c search.Context) int32 { return int32(c) + 1 }

// reserveStarts makes room for what the decoder begins each context with.
func (s *Stepper) reserveStarts() error {
	if len(s.w.encoders) == 0 {
		return nil
	}
	return s.decoderStarts.extend(s.w.device.context, 4*s.w.network.dim*(len(s.contexts)+1), s.stream, s.encoding.stream)
}
