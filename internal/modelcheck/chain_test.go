package modelcheck

import (
	"fmt"
	"testing"
)

// The protocol from a topic to objects or files, for one partition: a chain of objects that are named by the position at which
// they begin, that tell where they end, and that are created only where there is none. Two workers both believe to have the
// partition. Where an object ends is up to its writer.
//
//	open    goes along the chain to its end
//	gather  reads one record more
//	create  creates the object of what was gathered, unless there is one of that name
const chainRecords = 4

type chain struct {
	ends     [chainRecords]int8 // of the object that begins at each position, 0 for none
	written  [chainRecords]int8 // by whom, 1 or 2
	workers  [2]chainer
	troubles int8
}

type chainer struct {
	phase    byte // 'o' to be opened, 'g' gathering, 'u' it is not known whether the object was created
	position int8
	count    int8
}

type chainVariant struct {
	overwrite bool // objects are created whether there is one or not
	listed    bool // open goes behind the object that ends last, instead of along the chain
	adopt     bool // whoever finds an object in the place of its own goes on behind what itself has gathered
}

func (v chainVariant) next(s chain) []Step[chain] {
	var steps []Step[chain]
	for i := range s.workers {
		w := s.workers[i]
		step := func(name string, change func(*chain, *chainer)) {
			to := s
			change(&to, &to.workers[i])
			steps = append(steps, Step[chain]{fmt.Sprintf("worker %d: %s", i+1, name), to})
		}
		if s.troubles > 0 {
			step("crashes", func(to *chain, w *chainer) { *w = chainer{phase: 'o'}; to.troubles-- })
		}
		switch {
		case w.phase == 'o':
			step("open", func(to *chain, w *chainer) { *w = chainer{phase: 'g', position: v.end(to)} })
		case w.phase == 'u':
			step("asks who has written", func(to *chain, w *chainer) { v.settle(to, w, int8(i+1)) })
		case w.position+w.count < chainRecords:
			step("gather", func(_ *chain, w *chainer) { w.count++ })
		}
		if w.phase == 'g' && w.count > 0 {
			step("create", func(to *chain, w *chainer) { v.create(to, w, int8(i+1)); v.settle(to, w, int8(i+1)) })
			if s.troubles > 0 {
				step("create, and no answer comes", func(to *chain, w *chainer) {
					v.create(to, w, int8(i+1))
					w.phase = 'u'
					to.troubles--
				})
			}
		}
	}
	return steps
}

// end is where the chain ends.
func (v chainVariant) end(s *chain) (position int8) {
	if v.listed {
		for _, end := range s.ends {
			position = max(position, end)
		}
		return position
	}
	for position < chainRecords && s.ends[position] > 0 {
		position = s.ends[position]
	}
	return position
}

func (v chainVariant) create(s *chain, w *chainer, name int8) {
	if s.ends[w.position] == 0 || v.overwrite {
		s.ends[w.position], s.written[w.position] = w.position+w.count, name
	}
}

// settle goes on behind an object of one's own. Behind another's the lane is opened again.
func (v chainVariant) settle(s *chain, w *chainer, name int8) {
	if s.written[w.position] == name && s.ends[w.position] == w.position+w.count || v.adopt {
		*w = chainer{phase: 'g', position: w.position + w.count}
		return
	}
	*w = chainer{phase: 'o'}
}

// check looks at all objects as a reader does who lists them.
func checkChain(s chain) error {
	at := int8(0)
	for begin, end := range s.ends {
		if end == 0 {
			continue
		}
		if int8(begin) != at {
			return fmt.Errorf("an object begins at %d where the one before ends at %d", begin, at)
		}
		at = end
	}
	return nil
}

func doneChain(s chain) bool {
	v := chainVariant{}
	return v.end(&s) == chainRecords
}

func beginChain() chain {
	return chain{workers: [2]chainer{{phase: 'o'}, {phase: 'o'}}, troubles: 3}
}

func TestChains(t *testing.T) {
	states, err := Model[chain]{Initial: beginChain(), Next: chainVariant{}.next, Check: checkChain, Goal: doneChain}.Explore(5_000_000)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d states", states)
	if states < 1000 {
		t.Error("that is too few to mean anything")
	}
}

func TestRulesOfChainsAreNeeded(t *testing.T) {
	for name, v := range map[string]chainVariant{
		"objects are overwritten":                        {overwrite: true},
		"whoever lost goes on behind what it had itself": {adopt: true},
	} {
		_, err := Model[chain]{Initial: beginChain(), Next: v.next, Check: checkChain}.Explore(5_000_000)
		if err == nil {
			t.Errorf("%s: no violation was found", name)
			continue
		}
		t.Logf("%s: %v", name, err)
	}
	// To list instead of going along the chain is no fault as long as nothing is ever missing from the chain.
	if _, err := (Model[chain]{Initial: beginChain(), Next: chainVariant{listed: true}.next, Check: checkChain}).Explore(5_000_000); err != nil {
		t.Error(err)
	}
}
