package gpumodel

import (
	"errors"
	"slices"

	"github.com/sluice-mt/sluice/gpukernels/cuda"
)

// A decoder step is some dozens of small kernels, and asking for each of them takes the processor longer than a GPU needs to run it. So
// the kernels of a step, and of what the output layer chooses behind it, are captured as a graph, which is asked for as a whole. So are choices by
// themselves, and the guesses with which the step of a beam begins (guess.go).
//
// A graph has fixed grids, copies and addresses. There is one for each shape that comes up: numbers of rows, columns and tokens are rounded up, so
// that they are few, and what is behind the real ones has nothing to do. Where a buffer has moved, the graphs are captured anew.

// padded is the number of rows that a step of rows is run with. The others cost next to nothing, since tensor cores work on 16 rows at a
// time, and there are fewer graphs.
func padded(rows int) int {
	step := 8
	if rows > 64 {
		step = 32
	}
	return (rows + step - 1) / step * step
}

// mostPadding is how many rows padded adds at most.
const mostPadding = 31

// roomFor is how much room a graph has for n columns, or forbidden tokens: for least or twice, four times … as many, and for none if there are none.
func roomFor(n, least int) int {
	if n == 0 {
		return 0
	}
	room := least
	for room < n {
		room *= 2
	}
	return room
}

// places are what may change of the addresses and sizes in a graph.
type places struct {
	memory, signal, states, words, choices, starts, weights, scratch, candidates, columns cuda.Pointer
	capacity, furthest, mostChoices                                                       int
	lists                                                                                 [turns]int // that there is room for in each turn
}

// placesNow are where everything is.
func (s *Stepper) placesNow() places {
	now := places{memory: s.memory.memory.at, signal: s.signal.at, states: s.states.at, words: s.words.cache.at, choices: s.turnChoices.at,
		starts: s.decoderStarts.at, weights: s.weights.at, scratch: s.scratch.at, candidates: s.candidates.at, columns: s.columnFeed.device.at,
		capacity: s.words.capacity, furthest: s.furthest, mostChoices: s.mostChoices}
	for i := range s.turns {
		now.lists[i] = len(s.turns[i].feed.host)
	}
	return now
}

// A shape is what decides what a graph asks for.
type shape struct {
	turn     int
	rows     int
	guessing guessing // nothing else if it is not empty
	step     bool
	starting bool     // a row is at position 0, where that makes a difference to the step
	aligned  bool     // the weights of attention are kept
	choosing choosing // behind the step
}

// A program is a graph that has been captured.
type program struct {
	graph *cuda.Graph
	used  int // when, counted in launches of graphs
}

// mostGraphs is how many graphs a Stepper keeps. Those of a translation are some dozens for each turn.
const mostGraphs = 512

// replay does something of a turn as a graph.
func (s *Stepper) replay(t *turn, of shape) error {
	of.turn = t.number
	if now := s.placesNow(); s.captured != now {
		if err := s.forgetGraphs(); err != nil {
			return err
		}
		s.captured = now
	}
	g := s.graphs[of]
	if g == nil {
		if err := s.makeRoomForGraph(); err != nil {
			return err
		}
		captured, err := s.stream.Capture(func() error { return s.perform(t, of) })
		if err != nil {
			return err
		}
		s.captures++
		g = &program{graph: captured}
		s.graphs[of] = g
	}
	s.replays++
	g.used = s.replays
	return g.graph.Launch(s.stream)
}

// perform puts what has a shape into the stream.
func (s *Stepper) perform(t *turn, of shape) error {
	if of.guessing.rows > 0 {
		return s.guessBeams(t, of.guessing)
	}
	first, end := 0, s.w.numbersOfRow()*of.rows
	if !of.step {
		first = end
	}
	if of.choosing.count > 0 {
		end += choiceLists(of.rows, of.choosing.forbidden)
	}
	if err := cuda.CopyIn(s.stream, cuda.Offset[int32](t.feed.device.at, first), t.feed.host[first:end]); err != nil {
		return err
	}
	if of.step {
		if err := s.run(t, of.rows); err != nil {
			return err
		}
	}
	if of.choosing.count == 0 {
		return nil
	}
	return s.chooseForTurn(t, of.rows, of.choosing)
}

// makeRoomForGraph forgets half of the graphs if there are as many as may be, those that have not been used for longest.
func (s *Stepper) makeRoomForGraph() error {
	if len(s.graphs) < s.mostGraphs {
		return nil
	}
	var uses []int
	for _, g := range s.graphs {
		uses = append(uses, g.used)
	}
	slices.Sort(uses)
	return s.forgetGraphsUntil(uses[(len(uses)-1)/2])
}

// forgetGraphs destroys the graphs.
func (s *Stepper) forgetGraphs() error { return s.forgetGraphsUntil(s.replays) }

// forgetGraphsUntil destroys the graphs that were used last then or before. They may still be at work.
func (s *Stepper) forgetGraphsUntil(used int) error {
	if len(s.graphs) == 0 {
		return nil
	}
	failed := []error{s.stream.Synchronize()}
	for of, g := range s.graphs {
		if g.used <= used {
			failed = append(failed, g.graph.Close())
			delete(s.graphs, of)
		}
	}
	return errors.Join(failed...)
}
