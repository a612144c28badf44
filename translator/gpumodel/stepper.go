package gpumodel

import (
	"errors"
	"math"
	"slices"
	"time"

	"github.com/sluice-mt/sluice/gpukernels"
	"github.com/sluice-mt/sluice/gpukernels/cuda"
	"github.com/sluice-mt/sluice/translator/search"
)

var (
	_ search.Stepper  = (*Stepper)(nil)
	_ search.Foreseer = (*Stepper)(nil)
	_ search.Joiner   = (*Stepper)(nil)
)

// A Stepper runs a model for one worker, on a stream of its own. It implements search.Stepper, and may be used from any goroutine, one at
// a time.
type Stepper struct {
	w      *Weights
	stream *cuda.Stream // of the decoder; the encoder has one of its own
	err    error

	encodes encodes

	graphs            map[shape]*program // decoder steps, choices and guesses
	captured          places             // where what is in them was
	captures, replays int                // of graphs
	mostGraphs        int

	contexts     []context // by their handles
	freeContexts []search.Context
	memory       pool   // keys and values of the contexts
	candidates   buffer // a set of bits for each context that has candidates
	sets         shelf  // what is copied there

	slots  []slot
	states buffer // float32: place × layer × dim; with self-attention int32: place × words.capacity
	places lot    // of states
	words  words

	signal          buffer // float32, a row for each position
	signalPositions int

	decoderStarts buffer // of recurrent models, float32: what the decoder begins with, behind a row for nobody one for each context
	readerStates  buffer // float32: of the encoder's cells
	weights       buffer // float32, twice furthest places for each row: of attention that nobody asked about, and of that for alignments
	furthest      int    // tokens of a source
	hard          hardStates
	reading       reading

	lists, sourceFeed feed        // of decoder and encoder
	encoding, rowsOf  activations // of encoder and decoder
	workspaces        [2]buffer   // of the decoder's and the encoder's stream, for products

	turns                              [turns]turn
	turnRows, turnChoices, turnGuesses buffer           // of all turns
	turnSize, mostChoices              int              // rows of a turn that there is room for, and choices of each
	newest                             *turn            // that was run ahead last
	last                               *turn            // whose step was asked for last
	ahead                              *turn            // the same, while slots may still follow
	firstAhead                         []int32          // for each state the first row ahead that goes on from it, or -1
	foresight                          search.Foresight // of the last Step
	guessLists                         guessLists
	answered                           []int32 // where the first choice of each row of the last Step is
	guessFeed                          feed
	waits                              bool   // for tests: nothing is run ahead
	joint                              *joint // of this Stepper and others behind it, if there is one

	// Results of the last Step.
	rows     []row
	demanded []int // rows that were not run ahead
	aligned  bool
	starting bool // a row was at position 0

	encodeTime, stepTime, outputTime gpukernels.Stopwatch
	measures                         bool
	waited                           time.Duration // of the processor, for the device

	choices, scratch, scores buffer
	questions                [openQuestions]question
	firstQuestion            int // that is open
	questionsOpen            int
	chosen                   []gpukernels.Choice
	scored                   scoredBlock
	logProbs                 []float32
	union                    union    // of the candidates of contexts that were asked about
	few                      []uint64 // a set of tokens
	columnList               []int32  // the same as a list
	columnFeed               feed     // the columns that are multiplied, behind their number
	fedColumns               []int32  // those that are there

	// Lists of a call.
	asked                     []search.Context
	banned                    [][]search.Token // by places in a turn
	setOfRow, forbidden       []int32
	numbers                   []int32
	tokens, positions, starts []int32
}

// A context is an encoded sentence.
type context struct {
	memory     []run // of each source
	encode     int   // that it came from: the number of the last one, if there are several sources; 0 of a model without encoders
	candidates []search.Token
	counted    bool // in the union of candidates
}

const noContext search.Context = -1

// A slot is the place of a hypothesis.
type slot struct {
	context  search.Context
	position int     // of the next token
	reads    int     // token of the source that hard attention is at
	state    int32   // place of its state, which is never overwritten while anybody has it
	words    []int32 // rows of the words so far, with self-attention
}

// noState is that of a slot at position 0.
const noState = -1

// NewStepper returns a Stepper with that many slots.
func (w *Weights) NewStepper(slots int) (*Stepper, error) {
	s := &Stepper{w: w, slots: make([]slot, slots), memory: pool{width: 2 * w.contextWidth()}, graphs: map[shape]*program{}, mostGraphs: mostGraphs}
	s.places = newLot(s.statePlaces())
	s.firstAhead = slices.Repeat([]int32{-1}, s.statePlaces()+1)
	for i := range s.slots {
		s.slots[i].state = noState
	}
	if err := w.device.bound(s.open); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// open makes what has a fixed size.
func (s *Stepper) open() (err error) {
	c := s.w.device.context
	if s.stream, err = c.UrgentStream(); err != nil { // its small kernels would wait behind whole mini-batches of the encoder's
		return err
	}
	if s.encoding.stream, err = c.Stream(); err != nil {
		return err
	}
	if err := s.encodes.open(c); err != nil {
		return err
	}
	s.rowsOf.stream = s.stream
	rows, width := padded(len(s.slots)), 4*s.stateWidth() // of self-attention 0: it grows
	return errors.Join(s.states.reserve(c, (s.statePlaces()+mostPadding)*width), s.rowsOf.reserve(s.w, rows), s.openTurns(rows), s.openWorkspaces(),
		s.openHard(rows))
}

// Close frees what the Stepper has on the device.
func (s *Stepper) Close() error {
	c := s.w.device.context
	return s.w.device.bound(func() error {
		var failed []error
		for _, stream := range []*cuda.Stream{s.stream, s.encoding.stream} {
			if stream != nil { // a step ahead may be under way, in vain
				failed = append(failed, stream.Synchronize())
			}
		}
		if s.joint != nil {
			failed = append(failed, s.joint.close())
			s.joint = nil
		}
		failed = append(failed, s.forgetGraphs(), s.lists.close(c), s.sourceFeed.close(c), s.guessFeed.close(c), s.columnFeed.close(c),
			s.sets.close(c))
		for i := range s.turns {
			failed = append(failed, s.turns[i].close(c)...)
		}
		for i := range s.questions {
			failed = append(failed, s.questions[i].close(c))
		}
		for _, b := range []*buffer{&s.memory.memory, &s.decoderStarts, &s.readerStates, &s.weights, &s.candidates, &s.states,
			&s.words.cache, &s.signal, &s.lists.device, &s.sourceFeed.device, &s.guessFeed.device, &s.columnFeed.device, &s.encoding.memory,
			&s.rowsOf.memory, &s.turnRows, &s.turnChoices, &s.turnGuesses, &s.choices, &s.scratch, &s.scores,
			&s.workspaces[0], &s.workspaces[1], &s.hard.reads, &s.hard.places, &s.hard.steps} {
			failed = append(failed, c.Free(b.at))
			*b = buffer{}
		}
		for _, stream := range []*cuda.Stream{s.stream, s.encoding.stream} {
			if stream != nil {
				failed = append(failed, stream.Close())
			}
		}
		for _, w := range s.watches() {
			failed = append(failed, w.Close())
		}
		failed = append(failed, s.encodes.close())
		s.stream, s.encoding.stream = nil, nil
		return errors.Join(failed...)
	})
}

// Err returns the first failure of the device. After it, all scores are NaN.
func (s *Stepper) Err() error { return s.err }

// do runs work on a thread that has the device's context, unless something has failed before.
func (s *Stepper) do(work func() error) {
	if s.err == nil {
		s.err = s.w.device.bound(work)
	}
}

// Slots is the number of slots.
func (s *Stepper) Slots() int { return len(s.slots) }

// Vocabulary is the number of target tokens.
func (s *Stepper) Vocabulary() int { return s.w.vocabulary }

// Begin puts the decoder's initial state for the sentence into the slot: at position 0 the kernels begin with it by themselves.
func (s *Stepper) Begin(to search.Slot, c search.Context) {
	at := &s.slots[to]
	s.giveState(at)
	s.words.give(at.words...)
	*at = slot{context: c, state: noState, words: at.words[:0]}
}

// giveState notes that a slot does not have its state any more.
func (s *Stepper) giveState(at *slot) {
	if at.state != noState {
		s.places.give(at.state)
		at.state = noState
	}
}

// Release frees the memory of a context.
func (s *Stepper) Release(c search.Context) {
	for _, r := range s.contexts[c].memory {
		s.memory.give(r)
	}
	if s.contexts[c].counted {
		s.union.remove(s.contexts[c].candidates)
	}
	s.contexts[c] = context{memory: s.contexts[c].memory[:0]}
	s.freeContexts = append(s.freeContexts, c)
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

// Reorder gives dst[i] the state that src[i] had before the call, for all i at once. They share it: a step writes what follows to another
// place.
func (s *Stepper) Reorder(dst, src []search.Slot) {
	taken := make([]slot, len(src))
	for i, from := range src {
		taken[i] = s.slots[from]
		taken[i].words = slices.Clone(taken[i].words)
		s.words.share(taken[i].words...)
		if taken[i].state != noState {
			s.places.share(taken[i].state)
		}
	}
	for i, to := range dst {
		s.words.give(s.slots[to].words...)
		s.giveState(&s.slots[to])
		s.slots[to] = taken[i]
	}
}

// statePlaces is how many states there may be: one of each slot, and one after its next step.
func (s *Stepper) statePlaces() int { return 2 * len(s.slots) }

// reserveSignal computes the vectors of positions up to one, rounded as Marian does: sines, then cosines, of the position times each
// frequency. All workers have their own, since they grow.
func (s *Stepper) reserveSignal(positions int) error {
	if positions <= s.signalPositions {
		return nil
	}
	n, dim := max(positions, 2*s.signalPositions, 512), s.w.dim
	vectors := make([]float32, n*dim)
	half := s.w.ownDim / 2
	increment := float32(math.Log(10000)) / (float32(half) - 1)
	for i := range half {
		frequency := float32(math.Exp(float64(float32(i) * -increment)))
		for position := range n {
			if s.w.positions {
				sin, cos := math.Sincos(float64(float32(position) * frequency))
				vectors[position*dim+i], vectors[position*dim+half+i] = float32(sin), float32(cos)
			}
		}
	}
	for _, stream := range []*cuda.Stream{s.stream, s.encoding.stream} { // that may be reading the old ones
		if err := stream.Synchronize(); err != nil {
			return err
		}
	}
	if err := s.signal.reserve(s.w.device.context, 4*len(vectors)); err != nil {
		return err
	}
	s.signalPositions = n
	if err := cuda.CopyIn(s.stream, s.signal.at, vectors); err != nil {
		return err
	}
	return s.stream.Synchronize()
}

// embeddingFactor is what embeddings are multiplied with.
func (w *Weights) embeddingFactor() float32 {
	if !w.positions {
		return 1
	}
	return float32(math.Sqrt(float64(w.ownDim)))
}
