package gpumodel

import (
	"errors"

	"github.com/sluice-mt/sluice/gpukernels/cuda"
)

// A decoder step is some dozens of small kernels, and asking for each of them takes the processor longer than a GPU needs to run it. So
// the kernels of a step are captured as a graph, which is asked for as a whole: one for each number of rows, rounded up, as it comes up.
// Everything in a graph has a fixed address. Where a buffer has moved, the graphs are captured anew.

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

// places are what may change of the addresses and sizes in a graph.
type places struct {
	memory, signal, states, words, choices, starts, weights cuda.Pointer
	capacity, furthest                                      int
}

// A shape is what decides which kernels a step has.
type shape struct {
	turn     int
	rows     int
	starting bool // a row is at position 0, where that makes a difference
	aligned  bool // the weights of attention are kept
}

// replay runs the step of a turn, of that many rows, as a graph.
func (s *Stepper) replay(t *turn, rows int) error {
	now := places{s.memory.memory.at, s.signal.at, s.states.at, s.words.cache.at, s.turnChoices.at, s.decoderStarts.at, s.weights.at,
		s.words.capacity, s.furthest}
	if s.captured != now {
		if err := s.forgetGraphs(); err != nil {
			return err
		}
		s.captured = now
	}
	of := shape{t.number, rows, s.starting, s.aligned}
	g := s.graphs[of]
	if g == nil {
		var err error
		if g, err = s.stream.Capture(func() error { return s.run(t, rows) }); err != nil {
			return err
		}
		s.graphs[of] = g
	}
	return g.Launch(s.stream)
}

// forgetGraphs destroys the graphs, which may still be at work.
func (s *Stepper) forgetGraphs() error {
	if len(s.graphs) == 0 {
		return nil
	}
	failed := []error{s.stream.Synchronize()}
	for _, g := range s.graphs {
		failed = append(failed, g.Close())
	}
	clear(s.graphs)
	return errors.Join(failed...)
}
