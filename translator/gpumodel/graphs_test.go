//go:build linux && (amd64 || arm64) && !nogpu

package gpumodel

import (
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"github.com/sluice-mt/sluice/gpukernels/emulated"
	"github.com/sluice-mt/sluice/translator/search"
)

// A watched Stepper notes how often the device is asked for something from one step to the next, where both were run ahead as a whole.
type watched struct {
	*Stepper
	asked func() int
	last  int
	ahead bool // the last step was
	steps []int
}

func (w *watched) Step(slots []search.Slot, tokens []search.Token, align bool) {
	w.Stepper.Step(slots, tokens, align)
	now, ahead := w.asked(), len(w.demanded) == 0
	if ahead && w.ahead {
		w.steps = append(w.steps, now-w.last)
	}
	w.last, w.ahead = now, ahead
}

// endless are sentences that end where they are too long, since they may not choose the end. Each searches in one of some ways.
func endless(ways ...search.Options) (sentences []*search.Sentence) {
	all := make([]search.Token, smallVocabulary-1)
	for i := range all {
		all[i] = search.Token(i + 1)
	}
	for _, way := range ways {
		for _, source := range randomSources(6, 11, 3) {
			source.Candidates = all
			way.MaxLengthFactor = 3
			sentences = append(sentences, &search.Sentence{Source: source, Options: way})
		}
	}
	return sentences
}

// shortened lets sentences have a few candidates, which are the columns that are multiplied.
func shortened(sentences []*search.Sentence) []*search.Sentence {
	for _, s := range sentences {
		s.Source.Candidates = []search.Token{2, 3, 4, 9, 17, 20, 21, 33, 40, 56, 69}
	}
	return sentences
}

var (
	greedy = search.Options{Beam: 1}
	beam   = search.Options{Beam: 4, NBest: 4, Normalize: 0.6, WordScores: true}
)

func mixed() []*search.Sentence { return endless(greedy, beam, greedy) }

// checkFound compares what is found with what should be, to the last bit.
func checkFound(t *testing.T, have, want []search.Result) {
	t.Helper()
	for i := range want {
		if have[i].Flags != want[i].Flags || !reflect.DeepEqual(have[i].Hypotheses, want[i].Hypotheses) {
			t.Errorf("sentence %d: it is %+v, want %+v", i, have[i].Hypotheses, want[i].Hypotheses)
		}
	}
}

// A step asks the device for two things, a graph and to say when it is done; that of a beam for the guesses, too. Draws are not in graphs.
func TestAskedInAStep(t *testing.T) {
	d, asked := openDevice(t), emulated.Asked(t, library(t, emulated.Unwatched))
	samples := search.Options{Beam: 1, NBest: 3, Sampling: search.Sampling{Method: search.TopK, K: 5}, Seed: 7}
	for _, c := range []struct {
		name      string
		sentences func() []*search.Sentence
		want      int
	}{
		{"greedy", func() []*search.Sentence { return endless(greedy) }, 2},
		{"greedy with a shortlist", func() []*search.Sentence { return shortened(endless(greedy)) }, 2},
		{"beam", func() []*search.Sentence { return endless(beam) }, 4},
		{"beam with a shortlist", func() []*search.Sentence { return shortened(endless(beam)) }, 4},
		{"samples", func() []*search.Sentence { return endless(samples) }, 7},
	} {
		w := &watched{Stepper: newStepper(t, d, randomModel(t, small("")), 16), asked: asked}
		for range 2 { // from other turns
			searchAll(t, []search.Stepper{w}, c.sentences())
		}
		captures := w.captures
		w.steps = nil
		searchAll(t, []search.Stepper{w}, c.sentences())
		if len(w.steps) < 10 {
			t.Errorf("%s: %d steps were run ahead, want more", c.name, len(w.steps))
		}
		for i, n := range w.steps {
			if n != c.want {
				t.Errorf("%s: step %d asked the device for %d things, want %d", c.name, i, n, c.want)
			}
		}
		if w.captures != captures {
			t.Errorf("%s: %d graphs were captured when the same was searched for once more, want none", c.name, w.captures-captures)
		}
	}
}

// Where tokens are forbidden that are known when the last step has been read, the choices are a graph of their own: a step asks for four things.
func TestAskedWhereTokensAreForbidden(t *testing.T) {
	s, asked := newStepper(t, openDevice(t), randomModel(t, small("")), 2), emulated.Asked(t, library(t, emulated.Unwatched))
	begin(s, randomSources(5)[0], 1)
	tokens, best := []search.Token{search.NoToken}, make([]search.Scored, 1)
	before := 0
	for i := range 20 {
		now := asked()
		if i >= 8 && now-before != 4 { // when all graphs have been captured
			t.Errorf("step %d asked the device for %d things, want 4", i, now-before)
		}
		before = now
		s.Step([]search.Slot{1}, tokens, false)
		s.Foresee(greedily(1))
		s.Best([]int32{0}, [][]search.Token{{0, tokens[0]}}, best)
		tokens[0] = best[0].Token
	}
}

// Columns that change with each sentence that comes or goes make no other graphs.
func TestGraphsOfChangingColumns(t *testing.T) {
	s := newStepper(t, openDevice(t), randomModel(t, small("")), 6)
	var sentences []*search.Sentence
	random := rand.New(rand.NewPCG(8, 9))
	for _, source := range randomSources(3, 9, 4, 7, 2, 5, 8, 3, 6, 1, 9, 4, 4, 12, 3, 5) {
		source.Candidates = someCandidates(random, 30)[1:] // but for the end
		sentences = append(sentences, &search.Sentence{Source: source, Options: search.Options{Beam: 1, MaxLengthFactor: 3}})
	}
	searchAll(t, []search.Stepper{s}, sentences)
	if s.union.listings < 8 {
		t.Errorf("%d lists of columns were made, want more", s.union.listings)
	}
	if most := 3 * turns; s.captures > most { // steps, with and without choices, and choices
		t.Errorf("%d graphs were captured, want %d at most", s.captures, most)
	}
	if s.replays < 50 {
		t.Errorf("graphs were launched %d times, want more", s.replays)
	}
}

// Lists of columns that need more room get graphs with more, and the same bits as without graphs.
func TestGraphsOfManyColumns(t *testing.T) {
	d, m := openDevice(t), randomModel(t, []byte(strings.Replace(string(small("")), "[70, 70]", "[3000, 3000]", 1)))
	graphs, plain := newStepper(t, d, m, 3), newStepper(t, d, m, 3)
	plain.waits = true
	sentences := func() (all []*search.Sentence) {
		random := rand.New(rand.NewPCG(2, 3))
		for i, source := range randomSources(5, 2, 4, 3, 6, 2) {
			for token := search.Token(1 + random.IntN(5)); int(token) < 3000; token += 1 + random.Int32N([]int32{50, 10}[i/3]) {
				source.Candidates = append(source.Candidates, token)
			}
			all = append(all, &search.Sentence{Source: source, Options: search.Options{Beam: 1, MaxLengthFactor: 3}})
		}
		return all
	}
	checkFound(t, searchAll(t, []search.Stepper{graphs}, sentences()), searchAll(t, []search.Stepper{plain}, sentences()))
	rooms := map[int]bool{}
	for of := range graphs.graphs {
		rooms[of.choosing.columns] = true
	}
	if !rooms[fewestColumns] || !rooms[2*fewestColumns] {
		t.Errorf("graphs have room for %v columns, want %d and %d among them", rooms, fewestColumns, 2*fewestColumns)
	}
}

// Lists are in graphs with room for twice as much at most, but for short ones, so that there are few sizes.
func TestRoomInGraphs(t *testing.T) {
	for _, c := range [][2]int{{0, 0}, {1, 8}, {8, 8}, {9, 16}, {16, 16}, {33, 64}} {
		if room := roomFor(c[0], 8); room != c[1] {
			t.Errorf("for %d there is room for %d, want %d", c[0], room, c[1])
		}
	}
}

// Who may keep few graphs finds the same, and keeps no more.
func TestFewGraphs(t *testing.T) {
	d, m := openDevice(t), randomModel(t, small(""))
	many, few := newStepper(t, d, m, 16), newStepper(t, d, m, 16)
	few.mostGraphs = 4
	checkFound(t, searchAll(t, []search.Stepper{few}, mixed()), searchAll(t, []search.Stepper{many}, mixed()))
	if len(few.graphs) > few.mostGraphs {
		t.Errorf("%d graphs are kept, want %d at most", len(few.graphs), few.mostGraphs)
	}
	if few.captures <= many.captures {
		t.Errorf("%d graphs were captured, want more than the %d of who keeps all", few.captures, many.captures)
	}
}

// Of many graphs those are forgotten that have not been used for longest.
func TestOldGraphsAreForgotten(t *testing.T) {
	s := newStepper(t, openDevice(t), randomModel(t, small("")), 4)
	must(t, s.w.device.bound(func() error {
		s.mostGraphs = 4
		guess := func(turn, rows int) error { // nothing, for there are no sentences
			return s.replay(&s.turns[turn], shape{guessing: guessing{rows: rows, count: 1}})
		}
		for _, err := range []error{guess(0, 8), guess(1, 8), guess(2, 8), guess(0, 4), guess(0, 8), guess(1, 4)} {
			must(t, err)
		}
		if s.captures != 5 {
			t.Errorf("%d graphs were captured, want 5", s.captures)
		}
		for _, err := range []error{guess(0, 8), guess(0, 4), guess(1, 4)} {
			must(t, err)
		}
		if s.captures != 5 || len(s.graphs) != 3 {
			t.Errorf("%d graphs were captured and %d are kept, want 5 and 3", s.captures, len(s.graphs))
		}
		return s.stream.Synchronize()
	}))
}

// While times are measured, the step and the output layer have graphs of their own, and what is found is the same.
func TestMeasuredSearches(t *testing.T) {
	d, m := openDevice(t), randomModel(t, small(""))
	measured, plain := newStepper(t, d, m, 16), newStepper(t, d, m, 16)
	clock, err := d.StartClock()
	must(t, err)
	t.Cleanup(func() { must(t, clock.Close()) })
	measured.Measure(clock)
	checkFound(t, searchAll(t, []search.Stepper{measured}, mixed()), searchAll(t, []search.Stepper{plain}, mixed()))
	times := measured.Times()
	if times.Step <= 0 || times.Output <= 0 {
		t.Errorf("steps took %v and the output layer %v, want both to take some time", times.Step, times.Output)
	}
	for of := range measured.graphs {
		if of.step && of.choosing.count > 0 {
			t.Errorf("a graph has a step and its choices: %+v, want two", of)
		}
	}
}
