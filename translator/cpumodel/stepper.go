package cpumodel

import (
	"slices"
	"time"

	"github.com/sluice-mt/sluice/translator/search"
)

var _ search.Stepper = (*Stepper)(nil)

// A Stepper runs a model for one worker. It implements search.Stepper.
type Stepper struct {
	w       *Weights
	observe func(tensor string, largest float32)
	stats   Stats

	contexts        []context // by their handles
	freeContexts    []search.Context
	memory          pool            // keys and values of the contexts
	further         []*Stepper      // without slots, for the encoders of further sources
	furtherSources  []search.Source // buffers of a call
	furtherContexts []search.Context
	starts          pool // of recurrent models: the first states of the contexts

	slots  []slot
	states []float32 // for recurrent and average decoders: slot × layer × the state of a layer
	cache  cache     // for self-attention decoders
	moving moving

	// Buffers of rows, valid during a call.
	operand      operand
	x, y, normed []float32 // rows × dim: of a layer, of a sublayer, normalised input of a sublayer
	wide         []float32 // rows of merged products
	attended     []float32 // rows × dim
	hidden       [2][]float32
	gate         []float32
	bottom       []float32 // rows × dim: embeddings, for a residual connection around the stack
	average      []float32
	scratch      []float32 // of attention
	zeros        []float32 // dim
	positions    []float32 // those after the ones of the weights
	starting     []int32   // rows at position 0
	cells        cellBuffers
	network      networkBuffers
	sharing      sharing

	layerRows rowsWork   // what is done to a tile of the encoder
	spread    *spreading // nil as long as one core works on a sentence

	// Results of the last Step.
	rows       []row
	top        []float32 // rows × dim: what the output layer multiplies
	topBytes   []uint8
	topScales  []float32
	attentions []float32
	scores     scores
	common     common
	whole      whole
}

// A context is an encoded sentence.
type context struct {
	length     int
	memory     loan             // length rows of keys and values
	further    []search.Context // in the Steppers of further sources
	start      loan             // of the decoder's first state, for recurrent models
	candidates []search.Token
	suppressed []int32 // places of the suppressed tokens among the candidates
	choice     choice
	broken     bool // a NaN or an infinity came out of the encoder
}

// A slot is the place of a hypothesis.
type slot struct {
	context  search.Context // noContext if not in use
	position int            // of the next token
	broken   bool           // a NaN or an infinity is in the sentence or in the history
	words    []int32        // rows of the cache, one for each position
	reads    int32          // the token of the source that hard attention is at
	state    uint64         // number of the state of a recurrent decoder; slots with the same one hold the same
}

const noContext search.Context = -1

// A row is a row of the last Step.
type row struct {
	context   search.Context
	broken    bool // holds a NaN or an infinity
	ends      bool // hard attention is at the end of the source
	attention run  // in attentions
}

// moving holds slots while they are reordered.
type moving struct {
	states []float32
	slots  []slot
}

// NewStepper returns a Stepper with that many slots.
func (w *Weights) NewStepper(slots int) *Stepper {
	s := &Stepper{
		w: w, slots: lone[slot](slots),
		zeros:  lone[float32](w.dim),
		memory: pool{width: w.contextWidth()},
		cache:  cache{width: 2 * w.dim * len(w.decoder)},
		rows:   lone[row](slots)[:0],
	}
	for i := range s.slots {
		s.slots[i].context = noContext
	}
	s.moving.slots = lone[slot](slots)
	for _, encoder := range w.further {
		s.further = append(s.further, encoder.NewStepper(0))
	}
	if w.network != nil {
		s.starts.width = w.network.dim
	}
	if w.stateWidth > 0 {
		s.states = lone[float32](slots * w.stateWidth)
		s.moving.states = lone[float32](slots * w.stateWidth)
	}
	return s
}

// Slots is the number of slots.
func (s *Stepper) Slots() int { return len(s.slots) }

// Vocabulary is the number of target tokens.
func (s *Stepper) Vocabulary() int { return s.w.vocabulary }

// Observe makes f be told the largest magnitude in the input of every product with a parameter, by the parameter's name, once
// for each call of a product. Activation multipliers are derived from these numbers. For the statistics that Marian's
// own tool would give, encode and step one sentence at a time. nil ends it.
func (s *Stepper) Observe(f func(tensor string, largest float32)) {
	s.observe = f
	for _, encoder := range s.further {
		encoder.Observe(f)
	}
}

// Stats counts what a Stepper has done.
type Stats struct {
	SourceTokens int64         // encoded
	Steps        int64         // calls of Step
	TargetTokens int64         // rows of all Steps
	MACs         int64         // multiply-accumulates of matrix products and of the output layer, attention left out
	LeftOut      int64         // of these MACs, what was not done, since the activations are zeros
	EncodeTime   time.Duration // in Encode
	StepTime     time.Duration // in Step
	OutputTime   time.Duration // in Best, Top and LogProbs
}

// takeOver adds what a Stepper counted that works for another one, within whose times it does, and lets it count from 0 again.
func (s *Stats) takeOver(helping *Stats) {
	s.SourceTokens, s.MACs, s.LeftOut = s.SourceTokens+helping.SourceTokens, s.MACs+helping.MACs, s.LeftOut+helping.LeftOut
	*helping = Stats{}
}

// Stats returns the counts since the Stepper was made.
func (s *Stepper) Stats() Stats { return s.stats }

// state returns the state of a slot in a layer.
func (s *Stepper) state(slot search.Slot, layer int) []float32 {
	n := s.w.layerState
	first := int(slot)*s.w.stateWidth + layer*n
	return s.states[first : first+n : first+n]
}

// slotStates returns the states of a slot in all layers.
func (s *Stepper) slotStates(states []float32, slot int) []float32 {
	n := s.w.stateWidth
	return states[slot*n : (slot+1)*n]
}

// Begin puts the decoder's initial state for the sentence into the slot.
func (s *Stepper) Begin(slot search.Slot, c search.Context) {
	s.leave(&s.slots[slot])
	s.slots[slot].context, s.slots[slot].broken, s.slots[slot].state = c, s.contexts[c].broken, s.sharing.next()
	s.slots[slot].reads = 0
	if s.states != nil {
		s.begin(slot, &s.contexts[c])
	}
}

// leave empties a slot.
func (s *Stepper) leave(t *slot) {
	s.cache.drop(t.words)
	t.context, t.position, t.words = noContext, 0, t.words[:0]
}

// Release frees the memory of a context, and that of the slots that belong to it.
func (s *Stepper) Release(c search.Context) {
	for i := range s.slots {
		if s.slots[i].context == c {
			s.leave(&s.slots[i])
		}
	}
	freed := &s.contexts[c]
	s.memory.give(freed.memory)
	for k, handle := range freed.further {
		s.further[k].Release(handle)
	}
	freed.further = freed.further[:0]
	s.starts.give(freed.start)
	freed.memory, freed.start, freed.candidates = loan{}, loan{}, nil
	s.freeContexts = append(s.freeContexts, c)
}

// Reorder gives dst[i] the state that src[i] had before the call, for all i at once.
func (s *Stepper) Reorder(dst, src []search.Slot) {
	m := &s.moving
	for i, from := range src {
		if from == dst[i] {
			continue
		}
		taken, given := &m.slots[i], &s.slots[from]
		taken.context, taken.position, taken.broken, taken.state = given.context, given.position, given.broken, given.state
		taken.reads = given.reads
		s.sharing.copied = true
		taken.words = append(taken.words[:0], given.words...)
		s.cache.share(given.words)
		if s.states != nil {
			copy(s.slotStates(m.states, i), s.slotStates(s.states, int(from)))
		}
	}
	for i, to := range dst {
		if to == src[i] {
			continue
		}
		s.cache.drop(s.slots[to].words)
		s.slots[to], m.slots[i] = m.slots[i], s.slots[to]
		if s.states != nil {
			copy(s.slotStates(s.states, int(to)), s.slotStates(m.states, i))
		}
	}
}

// newContext returns the handle of an unused context.
func (s *Stepper) newContext() search.Context {
	if n := len(s.freeContexts); n > 0 {
		c := s.freeContexts[n-1]
		s.freeContexts = s.freeContexts[:n-1]
		return c
	}
	s.contexts = append(s.contexts, context{})
	return search.Context(len(s.contexts) - 1)
}

// place finds the places of tokens, ascending, among candidates, ascending.
func place(places []int32, tokens, candidates []search.Token) []int32 {
	places = places[:0]
	for _, token := range tokens {
		if i, ok := slices.BinarySearch(candidates, token); ok {
			places = append(places, int32(i))
		}
	}
	return places
}
