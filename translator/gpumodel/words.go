package gpumodel

import (
	"github.com/sluice-mt/sluice/gpukernels/cuda"
	"github.com/sluice-mt/sluice/translator/model"
)

// words are the keys and values that a decoder with self-attention keeps of the target words of all hypotheses. Hypotheses that begin
// alike share them: a row is free when no slot has it any more.
type words struct {
	lot
	cache    buffer
	rows     int // of the cache; the first mostPadding belong to the rows that pad a step
	capacity int // words of a state, for which Stepper.states has numbers
}

// wordWidth is the elements of a row: keys and values of all layers.
func (w *Weights) wordWidth() int { return 2 * w.attention() * len(w.decoder) }

// stateWidth is the elements, of 4 bytes, that Stepper.states has for each state.
func (s *Stepper) stateWidth() int {
	if s.keepsWords() {
		return s.words.capacity
	}
	return s.w.layerState * s.w.decoderLayers()
}

// decoderLayers is how many layers have a state.
func (w *Weights) decoderLayers() int {
	if w.network != nil {
		if d := w.network.devlin; d != nil && d.topCell != nil {
			return 2
		}
		return 1 + len(w.network.high)
	}
	return len(w.decoder)
}

// keepsWords says whether the decoder has self-attention.
func (s *Stepper) keepsWords() bool { return s.w.autoreg == model.SelfAttention }

// normedWords says whether attention to the first word is not that to a word which is kept: see selfAttention.
func (w *Weights) normedWords() bool {
	return w.autoreg == model.SelfAttention && w.decoder[0].self.kv != nil
}

// reserveWords makes room for one more word of so many hypotheses, none of which has more than so many words with it.
func (s *Stepper) reserveWords(hypotheses, positions int) error {
	if err := s.reservePositions(positions); err != nil {
		return err
	}
	if len(s.words.free) < hypotheses {
		return s.extendWords(hypotheses)
	}
	return nil
}

// newWord takes a row for a word; without self-attention there is none to take.
func (s *Stepper) newWord() int32 {
	if !s.keepsWords() {
		return 0
	}
	return s.words.take()
}

// fewestPositions is how many words of a state there is room for at first.
const fewestPositions = 64

// reservePositions makes room for the numbers of more words.
func (s *Stepper) reservePositions(positions int) error {
	if positions <= s.words.capacity {
		return nil
	}
	capacity := max(positions, 2*s.words.capacity, fewestPositions)
	numbers := make([]int32, (s.statePlaces()+mostPadding)*capacity)
	for i := range s.slots {
		if at := &s.slots[i]; at.state != noState {
			copy(numbers[int(at.state)*capacity:], at.words)
		}
	}
	c := s.w.device.context
	if err := s.stream.Synchronize(); err != nil {
		return err
	}
	if err := s.states.reserve(c, 4*len(numbers)); err != nil {
		return err
	}
	s.words.capacity = capacity
	return cuda.CopyIn(s.stream, s.states.at, numbers)
}

// extendWords makes at least so many rows of the cache free.
func (s *Stepper) extendWords(least int) error {
	w := &s.words
	rows, width := max(w.rows+least, 2*w.rows, mostPadding+8*len(s.slots)), 2*s.w.wordWidth()
	if err := w.cache.extend(s.w.device.context, rows*width, s.stream); err != nil {
		return err
	}
	for row := rows - 1; row >= max(w.rows, mostPadding); row-- {
		w.free = append(w.free, int32(row))
	}
	w.users = append(w.users, make([]int32, rows-w.rows)...)
	w.rows = rows
	return nil
}

// A lot is places that may have several users each. One that has none is free.
type lot struct{ users, free []int32 }

// newLot returns that many free places.
func newLot(places int) lot {
	l := lot{users: make([]int32, places)}
	for place := places - 1; place >= 0; place-- {
		l.free = append(l.free, int32(place))
	}
	return l
}

// take returns a place that was free, for one user.
func (l *lot) take() int32 {
	last := len(l.free) - 1
	place := l.free[last]
	l.free = l.free[:last]
	l.users[place] = 1
	return place
}

// share notes one more user of places.
func (l *lot) share(places ...int32) {
	for _, place := range places {
		l.users[place]++
	}
}

// give notes one user less.
func (l *lot) give(places ...int32) {
	for _, place := range places {
		if l.users[place]--; l.users[place] == 0 {
			l.free = append(l.free, place)
		}
	}
}
