package cpumodel

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/sluice-mt/sluice/kernels"
	"github.com/sluice-mt/sluice/translator/search"
)

// Sentences that come join what the others have in common, until they are too many for it to be theirs; so it is made anew seldom, and all have the
// scores that they have alone.
func TestSentencesJoinWhatIsCommon(t *testing.T) {
	const vocabulary, begun, most = 400, 20, 48
	random := rand.New(rand.NewPCG(14, 14))
	m := synthesise(t, describe(fmt.Sprintf("dim-vocabs: [%d, %d]\ntied-embeddings: true", vocabulary, vocabulary)), false, random)
	w := pack(t, m, Int8, Options{})
	s, alone := w.NewStepper(most), w.NewStepper(1)
	frequent := randomCandidates(random, vocabulary, 100)
	var slots []search.Slot
	var sources []search.Source // of the slots
	var steps []int             // of each
	for _, phase := range []struct {
		what        string
		leave, come int
		made        int // how often the choice has been made
	}{
		{"the first", 0, begun, 1},
		{"half as many join", 0, begun / 2, 1},
		{"one more is too many", 0, 1, 2},
		{"some leave, as many come", begun / 2, begun / 2, 2},
		{"more than half leave", begun, 0, 3},
		{"too few are left", begun/2 + 1 - commonRows + 1, 0, 3},
		{"enough again", 0, 1, 3},
		{"of another number", 0, commonRows, 4},
	} {
		for _, slot := range slots[:phase.leave] {
			s.Release(s.slots[slot].context)
		}
		slots, sources, steps = slots[phase.leave:], sources[phase.leave:], steps[phase.leave:]
		for range phase.come {
			free := search.Slot(0)
			for slices.Contains(slots, free) {
				free++
			}
			candidates := append(slices.Clone(frequent), randomCandidates(random, vocabulary, 10+random.IntN(30))...)
			slices.Sort(candidates)
			source := search.Source{Tokens: append(randomTokens(random, 3, vocabulary), 0), Candidates: slices.Compact(candidates)}
			context := make([]search.Context, 1)
			s.Encode([]search.Source{source}, context)
			s.Begin(free, context[0])
			slots, sources, steps = append(slots, free), append(sources, source), append(steps, 0)
		}
		s.Step(slots, slices.Repeat([]search.Token{search.NoToken}, len(slots)), false)
		for row := range slots {
			steps[row]++
			got, ok := s.commonScores(row)
			if want := len(slots) >= commonRows; ok != want {
				t.Fatalf("%s: the scores of row %d of %d are computed in common: %v, want %v", phase.what, row, len(slots), ok, want)
			}
			if !ok {
				continue
			}
			context := make([]search.Context, 1)
			alone.Encode(sources[row:row+1], context)
			alone.Begin(0, context[0])
			for range steps[row] {
				alone.Step([]search.Slot{0}, []search.Token{search.NoToken}, false)
			}
			if want := alone.raw(0, 0); !slices.Equal(got, want) {
				t.Fatalf("%s: row %d has other scores than alone", phase.what, row)
			}
			alone.Release(context[0])
		}
		if s.common.made != phase.made {
			t.Errorf("%s: what is in common was chosen %d times, want %d", phase.what, s.common.made, phase.made)
		}
	}
}

// What is in common is what at least a quarter of the slots want, also while beams that have just come have a single row.
func TestCommonCountsSlots(t *testing.T) {
	const vocabulary, width, sentences = 400, 4, 12
	random := rand.New(rand.NewPCG(15, 15))
	m := synthesise(t, describe(fmt.Sprintf("dim-vocabs: [%d, %d]\ntied-embeddings: true", vocabulary, vocabulary)), false, random)
	s := pack(t, m, Int8, Options{}).NewStepper(width * sentences)
	var candidates [sentences][]search.Token
	begin := func(sentence int) {
		candidates[sentence] = randomCandidates(random, vocabulary, 100)
		context := make([]search.Context, 1)
		s.Encode([]search.Source{{Tokens: []search.Token{1, 0}, Candidates: candidates[sentence]}}, context)
		for i := range width {
			s.Begin(search.Slot(sentence*width+i), context[0])
		}
	}
	step := func(what string, rows func(sentence int) int, made int) {
		t.Helper()
		var slots []search.Slot
		for sentence := range sentences {
			for i := range rows(sentence) {
				slots = append(slots, search.Slot(sentence*width+i))
			}
		}
		s.Step(slots, slices.Repeat([]search.Token{search.NoToken}, len(slots)), false)
		if _, ok := s.commonScores(0); !ok || s.common.made != made {
			t.Fatalf("%s: computed in common: %v; what is in common was chosen %d times, want %d", what, ok, s.common.made, made)
		}
	}
	isCommon := func(what string) {
		t.Helper()
		wanted := make([]int, vocabulary)
		for _, list := range candidates {
			for _, token := range list {
				wanted[token] += width
			}
		}
		for token, slots := range wanted {
			if got, want := slices.Contains(s.common.tokens, search.Token(token)), slots >= kernels.LeastSharing(width*sentences); got != want {
				t.Fatalf("%s: token %d, which %d slots want, is in common: %v", what, token, slots, got)
			}
		}
	}
	for sentence := range sentences {
		begin(sentence)
	}
	one, all := func(int) int { return 1 }, func(int) int { return width }
	step("the first step", one, 1)
	isCommon("the first step")
	step("the second", all, 1)
	replaced := sentences/2 + 1
	for sentence := range replaced {
		s.Release(s.slots[sentence*width].context)
		begin(sentence)
	}
	step("more than half are new", func(sentence int) int {
		if sentence < replaced {
			return 1
		}
		return width
	}, 2)
	isCommon("more than half are new")
}
