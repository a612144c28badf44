package cpumodel

import (
	"math/rand/v2"
	"testing"

	"github.com/sluice-mt/sluice/translator/search"
)

// TestPool takes and gives runs of rows at random. What is lent must not overlap.
func TestPool(t *testing.T) {
	random := rand.New(rand.NewPCG(11, 11))
	p := pool{width: 2}
	type used struct {
		loan
		mark float32
	}
	var lent []used
	for step := range 20000 {
		if len(lent) > 0 && random.IntN(100) < 50+len(lent)/4 {
			i := random.IntN(len(lent))
			for _, x := range p.rows(lent[i].loan) {
				if x != lent[i].mark {
					t.Fatalf("step %d: the loan %+v was overwritten", step, lent[i])
				}
			}
			if l := lent[i].loan; l.count > 1 && random.IntN(2) == 0 { // in two parts
				p.give(loan{l.segment, run{l.first, 1}})
				p.give(loan{l.segment, run{l.first + 1, l.count - 1}})
			} else {
				p.give(l)
			}
			lent[i] = lent[len(lent)-1]
			lent = lent[:len(lent)-1]
			continue
		}
		l := p.take(random.IntN(200))
		for i := range p.rows(l) {
			p.rows(l)[i] = float32(step)
		}
		lent = append(lent, used{l, float32(step)})
	}
	for _, l := range lent {
		p.give(l.loan)
	}
	for i, s := range p.segments {
		if len(s.free) != 1 || s.free[0].count*p.width != len(s.data) {
			t.Errorf("segment %d has the free runs %v", i, s.free)
		}
	}
}

// TestAllocations runs sentences through all kinds of models again and again. Once buffers have grown, nothing is allocated.
func TestAllocations(t *testing.T) {
	for _, c := range subjects(t, 12) {
		s := c.weights.NewStepper(12)
		contexts := make([]search.Context, len(c.sources))
		slots, tokens, rows := make([]search.Slot, 12), make([]search.Token, 12), make([]int32, 12)
		best, top := make([]search.Scored, 12), make([]search.Scored, 12*20)
		reversed := make([]search.Slot, 12)
		for i := range slots {
			slots[i], rows[i], reversed[i] = search.Slot(i), int32(i), search.Slot(i^1)
			c.sources[i^1] = c.sources[i] // two slots of each sentence
		}
		work := func() {
			s.Encode(c.sources, contexts)
			for i, slot := range slots {
				s.Begin(slot, contexts[i&^1])
				tokens[i] = search.NoToken
			}
			for step := range 6 {
				s.Step(slots, tokens, true)
				s.Best(rows, nil, best)
				s.Top(rows, 20, nil, top)
				s.Top(rows, 2, nil, top)
				for i := range rows {
					s.LogProbs(int32(i))
					s.Attention(int32(i))
					tokens[i] = search.Token(step + i)
				}
				s.Reorder(slots, reversed)
			}
			for _, context := range contexts {
				s.Release(context)
			}
		}
		work()
		work()
		if n := testing.AllocsPerRun(5, work); n > 0 {
			t.Errorf("%s: %v allocations", c.name, n)
		}
	}
}
