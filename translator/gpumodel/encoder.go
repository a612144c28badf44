package gpumodel

import (
	"cmp"
	"slices"

	"github.com/sluice-mt/sluice/gpukernels"
	"github.com/sluice-mt/sluice/gpukernels/cuda"
	"github.com/sluice-mt/sluice/translator/search"
)

// groupTokens is how many source tokens go through the encoder together, about. It bounds the memory of a call.
const groupTokens = 8192

// Encode runs the encoder over the sources and stores the handle of sources[i] in contexts[i].
func (s *Stepper) Encode(sources []search.Source, contexts []search.Context) {
	for i := range sources {
		contexts[i] = s.newContext()
		s.contexts[contexts[i]].candidates = sources[i].Candidates
	}
	s.do(func() error { return s.putCandidates(contexts) })
	if s.w.network != nil {
		s.do(s.reserveStarts)
	}
	for number := range s.w.encoders {
		s.encodeSource(number, sources, contexts)
	}
}

// encodeSource runs the encoder of a source of all sentences.
func (s *Stepper) encodeSource(number int, sources []search.Source, contexts []search.Context) {
	for len(sources) > 0 {
		count, tokens := group(sources, number, groupTokens)
		for _, handle := range contexts[:count] {
			s.contexts[handle].memory = append(s.contexts[handle].memory, run{})
		}
		s.do(func() error {
			return s.encodeTime.Around(s.encoding.stream, func() error { return s.encode(number, sources[:count], contexts[:count], tokens) })
		})
		sources, contexts = sources[count:], contexts[count:]
	}
}

// tokensOf are those of a source of a sentence, numbered from 0; a source that the sentence lacks has none.
func tokensOf(s *search.Source, number int) []search.Token {
	switch {
	case number == 0:
		return s.Tokens
	case number <= len(s.Further):
		return s.Further[number-1]
	}
	return nil
}

// group returns how many of the sentences to encode together, up to a limit of tokens of a source, and how many tokens they have.
func group(sources []search.Source, number, limit int) (count, tokens int) {
	for count < len(sources) {
		n := len(tokensOf(&sources[count], number))
		if count > 0 && tokens+n > limit {
			break
		}
		tokens += n
		count++
	}
	return count, tokens
}

func (s *Stepper) encode(number int, sources []search.Source, contexts []search.Context, tokens int) error {
	longest := s.listTokens(number, sources)
	if s.w.network != nil {
		return s.read(number, contexts, longest)
	}
	if tokens == 0 {
		return nil
	}
	a, e := &s.encoding, &s.w.encoders[number]
	if err := a.reserve(s.w, tokens); err != nil {
		return err
	}
	if err := s.reserveSignal(longest); err != nil {
		return err
	}
	places, err := s.sourceFeed.put(s.w.device.context, a.stream, s.tokens, s.positions, s.starts)
	if err != nil {
		return err
	}
	if err := s.embed(a, e.emb, e.top, e.table, places[0], places[1]); err != nil {
		return err
	}
	for i := range e.layers {
		if err := s.encoderLayer(a, &e.layers[i], places[2], len(sources), longest); err != nil {
			return err
		}
	}
	if err := s.end(a, e.top, a.x, a.x, a.bottom); err != nil {
		return err
	}
	return s.keepContexts(a, number, contexts)
}

// listTokens lists the tokens of a source of the sentences, their positions, and where sentences begin, and returns the length of the longest.
func (s *Stepper) listTokens(number int, sources []search.Source) int {
	s.tokens, s.positions, s.starts = s.tokens[:0], s.positions[:0], append(s.starts[:0], 0)
	longest := 0
	for i := range sources {
		list := tokensOf(&sources[i], number)
		for position, token := range list {
			s.tokens, s.positions = append(s.tokens, token), append(s.positions, int32(position))
		}
		s.starts = append(s.starts, int32(len(s.tokens)))
		longest = max(longest, len(list))
	}
	return longest
}

func (s *Stepper) encoderLayer(a *activations, l *encoderLayer, starts cuda.Pointer, sentences, longest int) error {
	input, err := s.before(a, l.pre, a.normed, a.x)
	if err != nil {
		return err
	}
	if err := s.product(a, a.wide, input, &l.qkv, false); err != nil {
		return err
	}
	if err := s.w.device.kernels.Attention(a.stream, a.attended, a.wide, starts, sentences, longest, s.w.heads, s.w.head.filled,
		gpukernels.Scale(s.w.head.own)); err != nil {
		return err
	}
	if err := s.after(a, l.post, a.attended, l.o); err != nil {
		return err
	}
	return s.feedForward(a, &l.ffn)
}

// keepContexts computes the keys and values of a source of the sentences, whose tokens begin at s.starts.
func (s *Stepper) keepContexts(a *activations, number int, contexts []search.Context) error {
	to, err := s.takeMemory(a, number, contexts)
	if err != nil {
		return err
	}
	if err := s.product(a, to, a.x, &s.w.encoders[number].contextKV, false); err != nil {
		return err
	}
	return s.recordEncode(contexts)
}

// takeMemory takes rows of the memory for the tokens of a source of the sentences, and returns where they begin.
func (s *Stepper) takeMemory(a *activations, number int, contexts []search.Context) (cuda.Pointer, error) {
	first, err := s.memory.take(s.w.device.context, len(s.tokens), s.stream, a.stream)
	if err != nil {
		return 0, err
	}
	for i, handle := range contexts {
		s.contexts[handle].memory[number] = run{first + int(s.starts[i]), int(s.starts[i+1] - s.starts[i])}
	}
	if s.last != nil { // whose step, which nobody may wait for, may be reading what another sentence had there: it has when its lists are let go
		if err := a.stream.Wait(s.last.feed.read); err != nil {
			return 0, err
		}
	}
	return cuda.Offset[gpukernels.Half](s.memory.memory.at, first*s.w.contextWidth()), nil
}

// words is how many words of 32 bits a set of tokens has.
func (w *Weights) words() int { return (w.vocabulary + 31) / 32 }

// putCandidates puts the sets of candidates where the output layer looks for them.
func (s *Stepper) putCandidates(contexts []search.Context) error {
	s.asked = s.asked[:0]
	for _, handle := range contexts {
		if len(s.contexts[handle].candidates) > 0 {
			s.asked = append(s.asked, handle)
		}
	}
	if len(s.asked) == 0 {
		return nil
	}
	slices.Sort(s.asked)
	c, words := s.w.device.context, s.w.words()
	if err := s.candidates.extend(c, 4*words*len(s.contexts), s.stream); err != nil {
		return err
	}
	if err := s.sets.reserve(c, words*len(s.asked)); err != nil {
		return err
	}
	if err := s.wait(s.sets.read.Synchronize); err != nil { // sets of other contexts
		return err
	}
	sets := s.sets.host[:words*len(s.asked)]
	clear(sets)
	for i, handle := range s.asked {
		for _, token := range s.contexts[handle].candidates {
			sets[i*words+int(token/32)] |= 1 << (token % 32)
		}
	}
	return cmp.Or(s.copySets(sets, s.asked), s.stream.Record(s.sets.read))
}

// copySets copies the sets of contexts, which are ascending, to the device: those of contexts with numbers one behind the other at once.
func (s *Stepper) copySets(sets []int32, contexts []search.Context) error {
	words := s.w.words()
	for first := 0; first < len(contexts); {
		end := first + 1
		for end < len(contexts) && contexts[end] == contexts[end-1]+1 {
			end++
		}
		to := cuda.Offset[int32](s.candidates.at, int(contexts[first])*words)
		if err := cuda.CopyIn(s.stream, to, sets[first*words:end*words]); err != nil {
			return err
		}
		first = end
	}
	return nil
}
