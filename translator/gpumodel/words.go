package gpumodel

import (
	"github.com/sluice-mt/sluice/gpukernels/cuda"
	"github.com/sluice-mt/sluice/translator/model"
)

// words are the keys and values that a decoder with self-attention keeps of the target words of all hypotheses. Hypotheses that begin
// alike share them: a row is free when no slot has it any more.
type words struct {
	cache    buffer
	rows     int     // of the cache; the first mostPadding belong to the rows that pad a step
	users    []int32 // slots that have each row
	free     []int32
	capacity int // words of a slot, for which Stepper.states has numbers
}

// wordWidth is the elements of a row: keys and values of all layers.
func (w *Weights) wordWidth() int { return 2 * w.dim * len(w.decoder) }

// stateWidth is the elements, of 4 bytes, that Stepper.states has for each slot.
func (s *Stepper) stateWidth() int {
	if s.keepsWords() {
		return s.words.capacity
	}
	return s.w.dim * len(s.w.decoder)
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
	last := len(s.words.free) - 1
	row := s.words.free[last]
	s.words.free = s.words.free[:last]
	s.words.users[row] = 1
	return row
}

// fewestPositions is how many words of a slot there is room for at first.
const fewestPositions = 64

// reservePositions makes room for the numbers of more words.
func (s *Stepper) reservePositions(positions int) error {
	if positions <= s.words.capacity {
		return nil
	}
	capacity := max(positions, 2*s.words.capacity, fewestPositions)
	numbers := make([]int32, (len(s.slots)+mostPadding)*capacity)
	for i := range s.slots {
		copy(numbers[i*capacity:], s.slots[i].words)
	}
	c := s.w.device.context
	if err := s.stream.Synchronize(); err != nil {
		return err
	}
	if err := s.states.reserve(c, 4*len(numbers)); err != nil {
		return err
	}
	if err := s.moving.reserve(c, 4*len(s.slots)*capacity); err != nil {
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

// share notes one more user of rows.
func (w *words) share(rows []int32) {
	for _, row := range rows {
		w.users[row]++
	}
}

// release notes one user less.
func (w *words) release(rows []int32) {
	for _, row := range rows {
		w.give(row)
	}
}

func (w *words) give(row int32) {
	if w.users[row]--; w.users[row] == 0 {
		w.free = append(w.free, row)
	}
}
