package cpumodel

import (
	"github.com/sluice-mt/sluice/translator/model"
	"github.com/sluice-mt/sluice/translator/search"
)

// A sharing tells which rows of a step go on from the same state: hypotheses of a beam that have all tokens but the last in
// common. What depends on the state alone is computed once for them.
type sharing struct {
	states uint64 // given out so far, one for each state that there was
	copied bool   // whether slots may hold the same state

	on     bool    // whether any two rows of the step share a state
	group  []int32 // of each row; rows of a group share a state
	first  []int32 // of each group, its first row
	groups map[uint64]int32
}

// next returns the number of a new state.
func (h *sharing) next() uint64 {
	h.states++
	return h.states
}

// share finds the rows that share a state.
func (s *Stepper) share(slots []search.Slot) {
	h := &s.sharing
	h.group, h.first, h.on = h.group[:0], h.first[:0], false
	if s.w.network == nil && s.w.autoreg != model.RecurrentCell {
		return
	}
	if !h.copied || !s.w.uses(MergedStates) {
		h.group = add(h.group, s.cells.counting(len(slots))...)
		h.first = add(h.first, h.group...)
		return
	}
	if h.groups == nil {
		h.groups = make(map[uint64]int32)
	}
	clear(h.groups)
	for i, slot := range slots {
		state := s.slots[slot].state
		group, ok := h.groups[state]
		if !ok {
			group = int32(len(h.first))
			h.groups[state] = group
			h.first = add(h.first, int32(i))
		}
		h.group = add(h.group, group)
	}
	h.on = len(h.first) < len(slots)
	h.copied = h.on
}

// distinct copies the first rows of all groups, of dim elements, one after another, into dst.
func (h *sharing) distinct(dst, rows []float32, dim int) {
	for j, row := range h.first {
		copy(dst[j*dim:(j+1)*dim], rows[int(row)*dim:])
	}
}

// fromStates computes what a cell's product makes of the last states of the rows.
func (s *Stepper) fromStates(c *cell, r *cellRows) []float32 {
	b, h, width := &s.cells, &s.sharing, c.state.linear.n
	b.fromState = grow(b.fromState, r.count*width)
	if !r.shared || !h.on || c.factor != nil {
		s.product(b.fromState, c.state, r.outputs[:r.count*c.dim], r.count)
		return b.fromState
	}
	n := len(h.first)
	b.states, b.fromStates = grow(b.states, n*c.dim), grow(b.fromStates, n*width)
	h.distinct(b.states, r.outputs, c.dim)
	s.product(b.fromStates, c.state, b.states, n)
	for i, j := range h.group {
		copy(b.fromState[i*width:(i+1)*width], b.fromStates[int(j)*width:])
	}
	return b.fromState
}
