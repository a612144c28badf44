package search

import (
	"errors"
	"fmt"
	"slices"
)

// A Decoder searches for the translations of many sentences at once, one token of each at a time, in the slots of one
// Stepper, or of several for an ensemble. A sentence that is done leaves at once, and its slots can be taken by another.
//
// The order of use is: Encode sentences, in mini-batches; Start them, whenever Free says that there is room; Step until all
// are done. What comes out for a sentence depends on the sentence alone.
//
// A Decoder belongs to one goroutine. Apart from scores and alignments, which are the caller's, it allocates nothing once its
// buffers have grown.
type Decoder struct {
	steppers []Stepper
	weights  []float32
	end      Token // end of sentence
	slots    int   // usable slots
	free     []Slot
	active   []*beam // in the order of Start
	idle     []*beam // kept for their memory
	results  []Result
	found    found // what results hold

	// The rows of the current step, and what is asked about them.
	rowSlots  []Slot
	rowTokens []Token
	best      question
	top       question
	topK      int
	joined    question
	joinedK   int
	lots      []Lot     // of the rows of joined
	parts     []float32 // each model's, of the answers of joined

	given         []Token   // of prefixes, whose scores are asked for,
	givenStarts   []int32   // where those of each row begin and those of the last end,
	givenLogProbs []float32 // and what each model says

	joint     Joint    // of all steppers; nil if there is none
	foreseer  Foreseer // steppers[0], if it is one
	pickers   []Picker // the steppers, if all of them are
	foresight Foresight

	chosen    []expansion // of one sentence
	logProbs  []float32   // each model's, for the expansions in chosen
	picked    []int32     // candidates of one row
	odds      []float64   // what picked ones are drawn with
	scores    scores      // of one row
	bans      []Token
	dst, src  []Slot
	history   []Token
	sources   []Source
	contexts  []Context
	encodable []*Sentence
}

// ErrEnsemble is wrapped by the errors of NewDecoder.
var ErrEnsemble = errors.New("ensemble of models")

// NewDecoder returns a Decoder over the steppers. A translation's log-probability is the sum of those of all models, each
// multiplied by its weight; no weights at all mean 1 for each. All models must have the same target vocabulary, in which end
// is the end of sentence. The steppers are the Decoder's own from now on.
func NewDecoder(steppers []Stepper, weights []float32, end Token) (*Decoder, error) {
	if len(steppers) == 0 {
		return nil, fmt.Errorf("%w: there is none", ErrEnsemble)
	}
	if len(weights) == 0 {
		weights = slices.Repeat([]float32{1}, len(steppers))
	}
	if len(weights) != len(steppers) {
		return nil, fmt.Errorf("%w: %d weights for %d models", ErrEnsemble, len(weights), len(steppers))
	}
	d := &Decoder{steppers: slices.Clone(steppers), weights: slices.Clone(weights), end: end, slots: steppers[0].Slots()}
	vocabulary := steppers[0].Vocabulary()
	for i, stepper := range steppers {
		if !finite(weights[i]) {
			return nil, fmt.Errorf("%w: the weight of model %d is %v, but must be a number", ErrEnsemble, i, weights[i])
		}
		if stepper.Vocabulary() != vocabulary {
			return nil, fmt.Errorf("%w: model %d has %d target pieces, but model 0 has %d; all must share one vocabulary",
				ErrEnsemble, i, stepper.Vocabulary(), vocabulary)
		}
		d.slots = min(d.slots, stepper.Slots())
		if picker, ok := stepper.(Picker); ok {
			d.pickers = append(d.pickers, picker)
		}
	}
	if len(d.pickers) < len(d.steppers) {
		d.pickers = nil
	}
	d.foreseer, _ = steppers[0].(Foreseer)
	if joiner, ok := steppers[0].(Joiner); ok {
		d.joint = joiner.Join(d.steppers[1:], d.weights)
	}
	for slot := d.slots - 1; slot >= 0; slot-- {
		d.free = append(d.free, Slot(slot))
	}
	return d, nil
}

// Slots is the number of slots.
func (d *Decoder) Slots() int { return d.slots }

// Free is the number of slots that are free.
func (d *Decoder) Free() int { return len(d.free) }

// Active is the number of sentences that were started and are not done.
func (d *Decoder) Active() int { return len(d.active) }

// Spread says how many cores may work on the passes that follow, where the steppers can use them.
func (d *Decoder) Spread(cores int) {
	for _, stepper := range d.steppers {
		if s, ok := stepper.(Spreader); ok {
			s.Spread(cores)
		}
	}
}

// Encode runs the encoders over the sentences as one mini-batch. Each sentence then holds memory of the steppers until it
// is done or released.
func (d *Decoder) Encode(sentences []*Sentence) {
	d.sources, d.encodable = d.sources[:0], d.encodable[:0]
	for _, s := range sentences {
		if s.contexts = s.contexts[:0]; cap(s.contexts) == 0 {
			s.contexts = s.single[:0]
		}
		if !s.empty() {
			d.sources = append(d.sources, s.Source)
			d.encodable = append(d.encodable, s)
		}
	}
	if len(d.sources) == 0 {
		return
	}
	d.contexts = slices.Grow(d.contexts[:0], len(d.sources))[:len(d.sources)]
	for _, stepper := range d.steppers {
		stepper.Encode(d.sources, d.contexts)
		for i, s := range d.encodable {
			s.contexts = append(s.contexts, d.contexts[i])
		}
	}
	clear(d.sources)
	clear(d.encodable)
}

// Release gives back the memory of an encoded sentence that will not be started.
func (d *Decoder) Release(s *Sentence) {
	for i, context := range s.contexts {
		d.steppers[i].Release(context)
	}
	s.contexts = s.contexts[:0]
}

// Start puts an encoded sentence into s.Slots() free slots. It reports whether that many were free; if not, nothing happens.
// The sentence's options must be valid, and s.Slots() no more than d.Slots(), or it never fits.
func (d *Decoder) Start(s *Sentence) bool {
	need := s.Slots()
	if need > len(d.free) {
		return false
	}
	b := d.newBeam()
	b.start(s, len(d.steppers))
	for range need {
		slot := d.free[len(d.free)-1]
		d.free = d.free[:len(d.free)-1]
		b.spare = append(b.spare, slot)
		for i, stepper := range d.steppers {
			stepper.Begin(slot, s.contexts[i])
		}
	}
	if need > 0 {
		b.seed()
	}
	d.active = append(d.active, b)
	return true
}

func (d *Decoder) newBeam() *beam {
	if n := len(d.idle); n > 0 {
		b := d.idle[n-1]
		d.idle = d.idle[:n-1]
		return b
	}
	return new(beam)
}

// Abandon drops all started sentences without results, frees their slots, and returns the sentences.
func (d *Decoder) Abandon() []*Sentence {
	var abandoned []*Sentence
	for _, b := range d.active {
		abandoned = append(abandoned, b.sentence)
		d.vacate(b)
	}
	d.active = d.active[:0]
	return abandoned
}

// Step advances every started sentence by one token and returns those that are done now. They are valid until the next Step.
func (d *Decoder) Step() []Result {
	clear(d.results)
	d.results = d.results[:0]
	d.found.reset()
	if len(d.active) == 0 {
		return nil
	}
	align := d.advance()
	d.ask()
	if align {
		d.keepAttention()
	}
	d.dst, d.src = d.dst[:0], d.src[:0]
	for _, b := range d.active {
		if len(b.live) > 0 {
			d.extend(b)
		}
	}
	if len(d.dst) > 0 {
		for _, stepper := range d.steppers {
			stepper.Reorder(d.dst, d.src)
		}
	}
	d.retire()
	return d.results
}

// advance runs one decoder step of every model over the last tokens of all live hypotheses. It says whether some want the attention.
func (d *Decoder) advance() (align bool) {
	d.rowSlots, d.rowTokens = d.rowSlots[:0], d.rowTokens[:0]
	for _, b := range d.active {
		b.firstRow = len(d.rowSlots)
		align = align || b.options.Align && len(b.live) > 0
		for _, hypothesis := range b.live {
			d.rowSlots = append(d.rowSlots, hypothesis.slot)
			d.rowTokens = append(d.rowTokens, b.trellis.token(hypothesis.node))
		}
	}
	if len(d.rowSlots) == 0 {
		return false
	}
	for i, stepper := range d.steppers {
		stepper.Step(d.rowSlots, d.rowTokens, align && i == 0)
	}
	return align
}

// keepAttention keeps that of the step, once its rows have been asked for their tokens: a device that goes ahead has the next step to
// do while it is read.
func (d *Decoder) keepAttention() {
	for _, b := range d.active {
		if !b.options.Align {
			continue
		}
		for i := range b.live {
			b.live[i].attention = b.trellis.addAttention(d.steppers[0].Attention(int32(b.firstRow + i)))
		}
	}
}

// retire turns the sentences without live hypotheses into results and frees their slots.
func (d *Decoder) retire() {
	remaining := d.active[:0]
	for _, b := range d.active {
		if len(b.live) > 0 {
			remaining = append(remaining, b)
			continue
		}
		d.results = append(d.results, b.result(&d.found, d.end))
		d.vacate(b)
	}
	clear(d.active[len(remaining):])
	d.active = remaining
}

// vacate frees a sentence's slots and memory.
func (d *Decoder) vacate(b *beam) {
	for _, hypothesis := range b.live {
		d.free = append(d.free, hypothesis.slot)
	}
	d.free = append(d.free, b.spare...)
	d.Release(b.sentence)
	b.sentence, b.live, b.spare = nil, b.live[:0], b.spare[:0]
	d.idle = append(d.idle, b)
}
