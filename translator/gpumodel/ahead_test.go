//go:build linux && (amd64 || arm64) && !nogpu

package gpumodel

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-mt/sluice/gpukernels/emulated"
	"github.com/sluice-mt/sluice/internal/plantedtest"
	"github.com/sluice-mt/sluice/translator/search"
)

// A walk asks two Steppers for the same, in any order that search.Stepper allows. One runs ahead, the other one never does. All that they
// answer must be the same, to the last bit.
type walk struct {
	t             *testing.T
	random        *rand.Rand
	ahead, behind *Stepper
	live          []walker
	waiting       [][2]search.Context // encoded, but in no slot yet
	free          []search.Slot
	followed      int   // rows of steps that had been run ahead
	align         bool  // alignments are asked for
	draws         []int // of rows that draw: 0 for the first choice, 1 for the last one
}

// A walker is a slot that is in use.
type walker struct {
	slot    search.Slot
	context [2]search.Context
	token   search.Token // the next
	partner bool         // of the walker before it: both have one context
}

func (w *walk) both(f func(i int, s *Stepper)) {
	f(0, w.ahead)
	f(1, w.behind)
}

// encode encodes some sentences, which wait for slots.
func (w *walk) encode() {
	sources := randomSources([]int{1 + w.random.IntN(9), 1 + w.random.IntN(9)}[:1+w.random.IntN(2)]...)
	for i := range sources {
		if w.random.IntN(2) == 0 {
			sources[i].Candidates = []search.Token{0, 2, 3, 9, 20, 33, 40, 69}
		}
	}
	var contexts [2][2]search.Context
	w.both(func(i int, s *Stepper) { s.Encode(sources, contexts[i][:len(sources)]) })
	for i := range sources {
		w.waiting = append(w.waiting, [2]search.Context{contexts[0][i], contexts[1][i]})
	}
}

// begin puts the sentence that has waited for longest into one or two free slots. There may be others behind it.
func (w *walk) begin() {
	if len(w.waiting) == 0 || w.random.IntN(2) == 0 {
		w.encode()
	}
	contexts := w.waiting[0]
	w.waiting = w.waiting[1:]
	for n := range min(len(w.free), 1+w.random.IntN(2)) {
		slot := w.free[len(w.free)-1]
		w.free = w.free[:len(w.free)-1]
		w.both(func(i int, s *Stepper) { s.Begin(slot, contexts[i]) })
		w.live = append(w.live, walker{slot, contexts, search.NoToken, n > 0})
	}
}

// end gives back the last sentence.
func (w *walk) end() {
	last := len(w.live) - 1
	contexts := w.live[last].context
	for last >= 0 && w.live[last].context == contexts {
		w.free = append(w.free, w.live[last].slot)
		last--
	}
	w.live = w.live[:last+1]
	w.both(func(i int, s *Stepper) { s.Release(contexts[i]) })
}

// step advances some of the slots, and asks something or nothing.
func (w *walk) step() {
	rows := w.random.Perm(len(w.live))
	if w.random.IntN(4) == 0 {
		rows = rows[:1+w.random.IntN(len(rows))]
	}
	var slots []search.Slot
	var tokens []search.Token
	for _, i := range rows {
		if w.random.IntN(16) == 0 { // another one than was chosen
			w.live[i].token = 1 + w.random.Int32N(smallVocabulary-1)
		}
		slots, tokens = append(slots, w.live[i].slot), append(tokens, w.live[i].token)
	}
	if w.random.IntN(4) == 0 {
		w.align = !w.align
	}
	align := w.align
	w.both(func(_ int, s *Stepper) { s.Step(slots, tokens, align) })
	w.followed += len(slots) - len(w.ahead.demanded)
	if align && w.random.IntN(2) == 0 { // before anything else has waited for the step
		w.compareAttention(w.random.IntN(len(rows)))
	}
	if w.random.IntN(6) == 0 {
		for _, i := range rows {
			w.live[i].token = 1 + w.random.Int32N(smallVocabulary-1) // as prefixes give them
		}
		return
	}
	w.ask(rows)
	if w.random.IntN(8) == 0 { // once more, in another way
		w.ask(rows)
	}
	w.compare(w.random.IntN(len(rows)), align)
}

// ask lets the rows choose their next tokens, but for some to which they are given.
func (w *walk) ask(rows []int) {
	k := 1 + w.random.IntN(3)
	f := w.foresee(len(rows), k)
	var numbers []int32
	for _, number := range w.random.Perm(len(rows)) {
		if p := f.Prospects[number]; p.Given == search.NoToken {
			numbers = append(numbers, int32(number))
		} else {
			w.live[rows[number]].token = p.Given
		}
	}
	var banned [][]search.Token
	if w.random.IntN(4) == 0 {
		banned = make([][]search.Token, len(numbers))
		for i := range banned {
			banned[i] = [][]search.Token{nil, {3, 20}, {2, 33, 40}}[w.random.IntN(3)]
		}
	}
	var answers [2][]search.Scored
	w.both(func(i int, s *Stepper) {
		answers[i] = make([]search.Scored, len(numbers)*k)
		s.Foresee(f)
		if k == 1 {
			s.Best(numbers, banned, answers[i])
			return
		}
		s.Top(numbers, k, banned, answers[i])
	})
	if !slices.Equal(answers[0], answers[1]) {
		w.t.Fatalf("rows %d choose %v, want %v", numbers, answers[0], answers[1])
	}
	for i, number := range numbers {
		choice := 0
		if p := f.Prospects[number]; p.Kept > 0 {
			choice = w.draws[number] * (k - 1)
		} else if w.random.IntN(4) == 0 {
			choice = k - 1
		}
		w.live[rows[number]].token = answers[0][i*k+choice].Token
	}
}

// foresee makes up how rows are going to go on, if so many choices are wanted of each. Those that draw take the first or the last of them.
func (w *walk) foresee(rows, k int) search.Foresight {
	f := search.Foresight{Weight: 1, Ranks: make([]float32, rows)}
	w.draws = make([]int, rows)
	for i := range rows {
		p := search.Prospect{Rows: 1, Width: 1, Given: search.NoToken}
		switch w.random.IntN(8) {
		case 0:
			p.Given = 1 + w.random.Int32N(smallVocabulary-1)
		case 1:
			p.Ends = true
		case 2, 3:
			w.draws[i] = w.random.IntN(2)
			p.Kept, p.InverseTemperature = k, 1
			f.Chances = append(f.Chances, []float64{1e-9, 1 - 1e-9}[w.draws[i]])
		}
		f.Prospects = append(f.Prospects, p)
	}
	return f
}

// compare looks at all that a row has to say.
func (w *walk) compare(row int, align bool) {
	have, want := w.ahead.LogProbs(int32(row)), w.behind.LogProbs(int32(row))
	if !slices.Equal(have, want) {
		w.t.Fatalf("row %d: log-probabilities %v, want %v", row, have, want)
	}
	if align {
		w.compareAttention(row)
	}
}

func (w *walk) compareAttention(row int) {
	if have, want := w.ahead.Attention(int32(row)), w.behind.Attention(int32(row)); !slices.Equal(have, want) {
		w.t.Fatalf("row %d: attention %v, want %v", row, have, want)
	}
}

// reorder lets a hypothesis take the place of its partner, or both change places.
func (w *walk) reorder() {
	i := slices.IndexFunc(w.live, func(walker walker) bool { return walker.partner })
	if i < 0 {
		return
	}
	one, other := &w.live[i-1], &w.live[i]
	dst, src := []search.Slot{one.slot}, []search.Slot{other.slot}
	if w.random.IntN(2) == 0 {
		dst, src = []search.Slot{one.slot, other.slot}, []search.Slot{other.slot, one.slot}
		one.token, other.token = other.token, one.token
	} else {
		one.token = other.token
	}
	w.both(func(_ int, s *Stepper) { s.Reorder(dst, src) })
}

// Running ahead changes nothing, whatever comes between.
func TestAhead(t *testing.T) {
	d := openDevice(t)
	kinds, steps := autoregressions, 120
	if testing.Short() {
		kinds, steps = autoregressions[:2], 60
	}
	for i, kind := range append(slices.Clone(kinds), hardModels...) {
		m := randomModel(t, describe(descriptions[kind]))
		w := &walk{t: t, random: rand.New(rand.NewPCG(1, uint64(i))), ahead: newStepper(t, d, m, 5, 5), behind: newStepper(t, d, m, 5, 5),
			free: []search.Slot{4, 3, 2, 1, 0}}
		w.behind.waits = true
		for range steps {
			switch n := w.random.IntN(10); {
			case len(w.live) == 0 || n == 0 && len(w.free) > 0:
				w.begin()
			case n == 1:
				w.end()
			case n == 2:
				w.reorder()
			default:
				w.step()
			}
		}
		must(t, w.ahead.Err())
		for slot := range search.Slot(5) {
			w.ahead.Begin(slot, 0)
		}
		w.ahead.forgetAhead()
		if free := len(w.ahead.places.free); free != w.ahead.statePlaces() {
			t.Errorf("%s: when nobody has states, %d places are free, want %d", kind, free, w.ahead.statePlaces())
		}
		if words := &w.ahead.words; len(words.free) != max(0, words.rows-mostPadding) {
			t.Errorf("%s: when nobody has words, %d rows are free, want %d", kind, len(words.free), words.rows-mostPadding)
		}
		if w.followed < steps/3 {
			t.Errorf("%s: only %d rows of steps had been run ahead, want %d", kind, w.followed, steps/3)
		}
	}
}

// Whole searches give the same, to the last bit, whether steps are run ahead or not; and all rows that could have been run ahead are.
func TestSearchesAhead(t *testing.T) {
	d := openDevice(t)
	for _, kind := range []string{"post-norm", "lstm", "self-attention", "s2s", "hard attention"} { // with states, with wider ones, with words, and with places in the source
		m := randomModel(t, describe(descriptions[kind]))
		if slices.Contains(hardModels, kind) {
			m = hardModel(t, kind)
		}
		ahead, behind := newStepper(t, d, m, 24), newStepper(t, d, m, 24)
		behind.waits = true
		all := append(searches(), beams()...)
		single := slices.DeleteFunc(slices.Clone(all), searchCase.joint)
		jointly := slices.DeleteFunc(slices.Clone(all), func(c searchCase) bool { return !c.joint() })
		groups := [][]searchCase{all, single, jointly, jointly} // side by side, with and without alignments
		for _, c := range slices.Concat(single, jointly) {
			if kind == "post-norm" {
				groups = append(groups, []searchCase{c})
			}
		}
		for number, group := range groups {
			counted := count(ahead)
			align := number%2 == 1
			have := searchAll(t, []search.Stepper{counted}, sentencesOf(group, align))
			want := searchAll(t, []search.Stepper{behind}, sentencesOf(group, align))
			for i := range want {
				if have[i].Flags != want[i].Flags || !reflect.DeepEqual(have[i].Hypotheses, want[i].Hypotheses) {
					t.Errorf("%s, %v: it is %+v, want %+v", kind, want[i].Sentence.Tag, have[i].Hypotheses, want[i].Hypotheses)
				}
			}
			ways := fmt.Sprintf("%s, %d ways to search, the first %q", kind, len(group), group[0].name)
			t.Logf("%s: %d rows of %d were run ahead", ways, counted.followed, counted.rows)
			if counted.missed > 0 {
				t.Errorf("%s: %d rows that could have been run ahead were not, want none", ways, counted.missed)
			}
			if behind.newest != nil {
				t.Errorf("%s: who should wait runs ahead", ways)
			}
		}
	}
}

// beams are more searches in which steps can be run ahead.
func beams() []searchCase {
	var cases []searchCase
	for _, size := range []int{2, 4, 6} {
		o := search.Options{Beam: size, NBest: size, Normalize: 1, MaxLengthFactor: 2, WordScores: true}
		cases = append(cases, searchCase{name: fmt.Sprintf("beam of %d", size), options: o},
			searchCase{name: fmt.Sprintf("beam of %d with candidates", size), options: o, candidates: true})
	}
	return append(cases, searchCase{name: "greedy with scores", options: search.Options{Beam: 1, MaxLengthFactor: 2, Scores: true}},
		searchCase{name: "hot samples of few", options: search.Options{Beam: 1, NBest: 4, MaxLengthFactor: 2,
			Sampling: search.Sampling{Method: search.TopK, K: 3, Temperature: 2}}, prefix: []search.Token{9}})
}

// joint says whether the scores of all tokens are looked at even if there is one model.
func (c searchCase) joint() bool {
	return c.options.Sampling.LooksAtAll()
}

// A counter counts the rows of all steps, those that had been run ahead, and those that had not although something was asked or foreseen in the
// step before: not at the beginning of a sentence.
type counter struct {
	*Stepper
	rows, followed, missed int
	fresh                  map[search.Slot]bool // that have not made a step
	asked                  bool                 // something, or foreseen, in the last step
}

func count(s *Stepper) *counter { return &counter{Stepper: s, fresh: map[search.Slot]bool{}} }

// Join lets a Joint of what is counted be counted, too.
func (c *counter) Join(others []search.Stepper, weights []float32) search.Joint {
	all := []*counter{c}
	var steppers []search.Stepper
	for _, other := range others {
		all = append(all, other.(*counter))
		steppers = append(steppers, other.(*counter).Stepper)
	}
	return &countedJoint{c.Stepper.Join(steppers, weights).(*joint), all}
}

// A countedJoint is one of counters.
type countedJoint struct {
	*joint
	counters []*counter
}

func (j *countedJoint) Choose(rows []int32, k int, banned [][]search.Token, lots []search.Lot, out []search.Scored, parts []float32) {
	for _, c := range j.counters {
		c.asked = true
	}
	j.joint.Choose(rows, k, banned, lots, out, parts)
}

// Foresee lets each of them be told.
func (j *countedJoint) Foresee(f search.Foresight) {
	for _, c := range j.counters {
		c.Foresee(f)
	}
}

// Foresee notes that something was foreseen.
func (c *counter) Foresee(f search.Foresight) {
	c.asked = true
	c.Stepper.Foresee(f)
}

func (c *counter) Begin(slot search.Slot, context search.Context) {
	c.Stepper.Begin(slot, context)
	c.fresh[slot] = true
}

func (c *counter) Reorder(dst, src []search.Slot) {
	c.Stepper.Reorder(dst, src)
	for _, slot := range dst {
		c.fresh[slot] = false
	}
}

func (c *counter) Step(slots []search.Slot, tokens []search.Token, align bool) {
	c.Stepper.Step(slots, tokens, align)
	c.rows, c.followed = c.rows+len(slots), c.followed+len(slots)-len(c.demanded)
	for _, i := range c.demanded {
		if c.asked && !c.fresh[slots[i]] {
			c.missed++
		}
	}
	for _, slot := range slots {
		c.fresh[slot] = false
	}
	c.asked = false
}

func (c *counter) Best(rows []int32, banned [][]search.Token, out []search.Scored) {
	c.asked = true
	c.Stepper.Best(rows, banned, out)
}

func (c *counter) Top(rows []int32, k int, banned [][]search.Token, out []search.Scored) {
	c.asked = true
	c.Stepper.Top(rows, k, banned, out)
}

// A wait that is missing in the code that asks for the work, and what else could go wrong when steps run ahead.
var plantedBugs = []plantedtest.Bug{
	{Name: "choices are read before they are there", File: "ahead.go",
		From: "s.wait(r.turn.done.Synchronize)",
		To:   "unless(NAME, r.turn.done.Synchronize)"},
	{Name: "lists are overwritten before they are read", File: "decoder.go",
		From: "s.wait(t.feed.read.Synchronize)",
		To:   "unless(NAME, t.feed.read.Synchronize)"},
	{Name: "sets are overwritten before they are read", File: "encoder.go",
		From: "s.wait(s.sets.read.Synchronize)",
		To:   "unless(NAME, s.sets.read.Synchronize)"},
	{Name: "columns are overwritten before they are read", File: "choosing.go", Test: "ColumnsOfTwoTurns",
		From: "s.wait(f.read.Synchronize)",
		To:   "unless(NAME, f.read.Synchronize)"},
	{Name: "as many columns are taken for the same", File: "choosing.go", Test: "Candidates|ColumnsChangeNothing",
		From: "slices.Equal(columns, s.fedColumns)",
		To:   "(slices.Equal(columns, s.fedColumns) || planted(NAME) == 1 && len(columns) == len(s.fedColumns))"},
	{Name: "a graph with too few columns is taken", File: "choosing.go", Test: "GraphsOfManyColumns",
		From: "roomFor(len(columns), fewestColumns)",
		To:   "roomFor(min(len(columns), 1+len(columns)*int(1-planted(NAME))), fewestColumns)"},
	{Name: "the lists of forbidden tokens are those of the step before", File: "choosing.go",
		From: "copy(starts, s.starts)",
		To:   "copy(starts, s.starts[:len(s.starts)*int(1-planted(NAME))])"},
	{Name: "choices of rows that need not ask again are forgotten", File: "ahead.go",
		From: "t.count < want.count ||",
		To:   "t.count < want.count-int(planted(NAME)) ||"},
	{Name: "a beam's sentences have the rows of the one before", File: "guess.go",
		From: "copy(to[i*rows:], list)",
		To:   "copy(to[i*rows:], list[int(planted(NAME)):])"},
	{Name: "the decoder does not wait for the encoder", File: "encodes.go",
		From: "s.stream.Wait(e.end(needed))",
		To:   "unless(NAME, func() error { return s.stream.Wait(e.end(needed)) })"},
	{Name: "the encode behind the last one that was waited for is taken for done", File: "encodes.go",
		From: "needed <= e.awaited",
		To:   "needed <= e.awaited+int(planted(NAME))"},
	{Name: "the decoder waits for all encodes", File: "encodes.go", Test: "Encodes",
		From: "needed := 0",
		To:   "needed := int(planted(NAME)) * s.encodes.newest"},
	{Name: "the last row of a step decides alone for what it waits", File: "encodes.go",
		From: "needed = max(needed,",
		To:   "needed = max(needed*int(1-planted(NAME)),"},
	{Name: "a sentence is as old as the one before it", File: "encodes.go",
		From: "\te.newest++\n",
		To:   "\tif planted(NAME) == 0 || e.newest == 0 {\n\t\te.newest++\n\t}\n"},
	{Name: "guesses are read before they are there", File: "ahead.go",
		From: "s.wait(t.told.Synchronize)",
		To:   "unless(NAME, t.told.Synchronize)"},
	{Name: "attention is read before it is there", File: "alignments.go",
		From: "s.do(func() error { return s.wait(r.turn.looked.Synchronize) })",
		To:   "s.do(func() error { return unless(NAME, r.turn.looked.Synchronize) })"},
	{Name: "a step ahead without attention is followed", File: "ahead.go",
		From: "s.aligned && !s.ahead.aligned",
		To:   "s.aligned && !s.ahead.aligned && planted(NAME) == 0"},
	{Name: "choices are kept though their tokens are forbidden", File: "ahead.go", Test: "Jointly",
		From: "len(list) > 0 {\n",
		To:   "len(list) > 0 && planted(NAME) == 0 {\n"},
	{Name: "choices without tokens that were forbidden are kept", File: "ahead.go", Test: "Ahead",
		From: "\t\ts.forgetChoices()\n",
		To:   "\t\tif planted(NAME) == 0 {\n\t\t\ts.forgetChoices()\n\t\t}\n"},
	{Name: "the step ahead overwrites the state", File: "decoder.go",
		From: "from[i], to[i], positions[i] = b.from, b.to,",
		To:   "from[i], to[i], positions[i] = b.from, b.to+planted(NAME)*(b.from-b.to),"},
	{Name: "a step ahead with another token is followed", File: "ahead.go",
		From: "b.token == token &&",
		To:   "(b.token == token || planted(NAME) == 1) &&"},
	{Name: "two slots follow one row", File: "ahead.go", Test: "Ahead",
		From: "&& !b.taken",
		To:   "&& (!b.taken || planted(NAME) == 1)"},
	{Name: "the step ahead takes a turn that is needed", File: "ahead.go",
		From: "for slices.ContainsFunc",
		To:   "for planted(NAME) == 0 && slices.ContainsFunc"},
	{Name: "hypotheses that move do not share the state", File: "stepper.go",
		From: "\t\t\ts.places.share(taken[i].state)\n",
		To:   "\t\t\tif planted(NAME) == 0 {\n\t\t\t\ts.places.share(taken[i].state)\n\t\t\t}\n"},
	{Name: "memory moves before it is written", File: "memory.go",
		From: "\tfor _, s := range streams {\n\t\tif err := s.Synchronize(); err != nil {",
		To:   "\tfor _, s := range streams {\n\t\tif err := unless(NAME, s.Synchronize); err != nil {"},
	{Name: "scores are added up before all models have theirs", File: "joint.go", Test: "Jointly",
		From: "j.steppers[0].stream.Wait(j.scored[i])",
		To:   "unless(NAME, func() error { return j.steppers[0].stream.Wait(j.scored[i]) })"},
	{Name: "scores are overwritten before they are added up", File: "joint.go", Test: "Jointly",
		From: "if again {",
		To:   "if again && planted(NAME) == 0 {"},
	{Name: "models guess before anything is chosen", File: "joint.go", Test: "Jointly",
		From: "s.stream.Wait(j.done)",
		To:   "unless(NAME, func() error { return s.stream.Wait(j.done) })"},
	{Name: "what all models choose is read before it is there", File: "joint.go", Test: "Jointly",
		From: "j.steppers[0].wait(j.done.Synchronize)",
		To:   "unless(NAME, j.done.Synchronize)"},
	{Name: "scores of prefixes are read before they are there", File: "pick.go",
		From: "s.wait(q.done.Synchronize)",
		To:   "unless(NAME, q.done.Synchronize)"},
	{Name: "a prefix goes on with another token", File: "guess.go",
		From: "b.token = token\n",
		To:   "b.token = token + planted(NAME)\n"},
	{Name: "hard attention does not move on", File: "hard.go", Test: "HardAttention",
		From: "StepCount: len(s.w.hard().steps),",
		To:   "StepCount: len(s.w.hard().steps) * int(1-planted(NAME)),"},
	{Name: "the word of a step ahead is lost", File: "ahead.go",
		From: "\t\t\ts.words.give(b.word)\n",
		To:   "\t\t\tif planted(NAME) == 0 {\n\t\t\t\ts.words.give(b.word)\n\t\t\t}\n"},
}

// The tests notice each, with one half of the streams ahead of the other or with neither: in short, or else as a whole.
func TestPlantedBugs(t *testing.T) {
	if testing.Short() || os.Getenv(emulated.LibraryVariable) != "" {
		t.Skip("builds the package again")
	}
	program := plantedtest.Build(t, plantedBugs)
	device := library(t, emulated.Unwatched)
	// run says what the tests print if they fail.
	run := func(t *testing.T, bug plantedtest.Bug, hasty string, short bool) (string, error) {
		tests := cmp.Or(bug.Test, "Ahead|Encodes|Beam|Candidates|Jointly|HardAttention")
		command := exec.CommandContext(t.Context(), program, "-test.run=^Test("+tests+")$", "-test.failfast",
			"-test.timeout=4m", fmt.Sprintf("-test.short=%v", short))
		command.Env = append(os.Environ(), emulated.LibraryVariable+"="+device, "SLUICE_EMULATED_HASTY="+hasty, plantedtest.Variable+"="+bug.Name)
		output, err := command.CombinedOutput()
		return string(output), err
	}
	halves := []string{"", "even", "odd"}
	for _, bug := range plantedtest.InTurn(t, plantedBugs, "*.go") {
		t.Run(bug.Name, func(t *testing.T) {
			for _, short := range []bool{true, false} {
				for _, hasty := range halves {
					output, err := run(t, bug, hasty, short)
					if err == nil {
						continue
					}
					if !strings.Contains(output, ", want ") && !strings.Contains(output, "panic: runtime error") {
						t.Errorf("it failed in another way: %v\n%s", err, output)
					}
					return
				}
			}
			t.Error("nobody noticed")
		})
	}
	// Without a bug all is well, with the halves ahead, too: that is for TestModes.
	if output, err := run(t, plantedtest.Bug{}, "", true); err != nil {
		t.Errorf("without a bug: %v\n%s", err, output)
	}
}
