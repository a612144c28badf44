//go:build linux && (amd64 || arm64) && !nogpu

package gpumodel

import (
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/sluice-mt/sluice/translator/search"
)

// someCandidates returns a few tokens, ascending: the end of a sentence and others below most.
func someCandidates(random *rand.Rand, most int) []search.Token {
	tokens := []search.Token{0}
	for range 5 {
		tokens = append(tokens, 1+random.Int32N(int32(most)-1))
	}
	slices.Sort(tokens)
	return slices.Compact(tokens)
}

// unionOf lists the candidates of contexts, ascending.
func unionOf(s *Stepper, contexts ...search.Context) (tokens []int32) {
	for _, handle := range contexts {
		tokens = append(tokens, s.contexts[handle].candidates...)
	}
	slices.Sort(tokens)
	return slices.Compact(tokens)
}

// A forgetful Stepper goes through the candidates of all rows each time.
type forgetful struct{ *Stepper }

func (f forgetful) Best(rows []int32, banned [][]search.Token, out []search.Scored) {
	f.union = union{}
	for i := range f.contexts {
		f.contexts[i].counted = false
	}
	f.Stepper.Best(rows, banned, out)
}

// Sentences that come and go, each with candidates of its own, get the same bits whether these are counted for good or each time anew.
func TestColumnsChangeNothing(t *testing.T) {
	for _, d := range devices(t) {
		m := randomModel(t, small(""))
		counting, behind := newStepper(t, d, m, 6), newStepper(t, d, m, 6)
		behind.waits = true
		var sentences [2][]*search.Sentence
		for i := range sentences {
			random := rand.New(rand.NewPCG(8, 9))
			for number, source := range randomSources(3, 9, 4, 7, 2, 5, 8, 3, 6, 1, 9, 4, 4, 12, 3, 5) {
				source.Candidates = someCandidates(random, 30)
				sentences[i] = append(sentences[i], &search.Sentence{Source: source, Tag: number, Options: search.Options{Beam: 1, MaxLengthFactor: 3, NoRepeat: number % 3}})
			}
		}
		have := searchAll(t, []search.Stepper{counting}, sentences[0])
		want := searchAll(t, []search.Stepper{forgetful{behind}}, sentences[1])
		for i := range want {
			if have[i].Flags != want[i].Flags || !reflect.DeepEqual(have[i].Hypotheses, want[i].Hypotheses) {
				t.Errorf("sentence %d: it is %+v, want %+v", i, have[i].Hypotheses, want[i].Hypotheses)
			}
		}
		if counting.union.listings == 0 {
			t.Error("no columns were listed, want some")
		}
		if slices.ContainsFunc(counting.union.counts, func(n int32) bool { return n != 0 }) {
			t.Errorf("candidates of sentences that are released are counted: %v", counting.union.counts)
		}
	}
}

// encodeWith encodes a sentence for each list of candidates.
func encodeWith(s *Stepper, lists ...[]search.Token) []search.Context {
	sources, contexts := make([]search.Source, len(lists)), make([]search.Context, len(lists))
	for i, list := range lists {
		sources[i] = search.Source{Tokens: []search.Token{4, 7, 0}, Candidates: list}
	}
	s.Encode(sources, contexts)
	return contexts
}

// Columns are made when other contexts are asked about, and not when the same go on.
func TestColumnsAreKept(t *testing.T) {
	s := newStepper(t, openDevice(t), randomModel(t, small("")), 4)
	listings := func(want int) {
		t.Helper()
		if s.union.listings != want {
			t.Errorf("%d lists were made, want %d", s.union.listings, want)
		}
	}
	contexts := encodeWith(s, []search.Token{0, 5, 9}, []search.Token{0, 6, 9, 30}, []search.Token{0, 8})
	slots, rows, tokens := []search.Slot{2, 0}, []int32{0, 1}, []search.Token{search.NoToken, search.NoToken}
	s.Begin(2, contexts[0])
	s.Begin(0, contexts[1])
	best := make([]search.Scored, len(rows))
	for range 5 {
		s.Step(slots, tokens, false)
		s.Best(rows, nil, best)
		for i := range best {
			tokens[i] = best[i].Token
		}
	}
	listings(1)
	s.columns(contexts[1:2], false) // fewer
	listings(1)
	s.columns(contexts, false) // one more
	listings(2)
	s.Release(contexts[2])
	s.columns(contexts[:2], false)
	listings(3)
	s.Release(encodeWith(s, []search.Token{0, 40})[0]) // that nobody asked about
	s.columns(contexts[:2], false)
	listings(3)
}

// Columns are those of the contexts that there are, also where one has the number of another that was released; they are no more than are
// asked about where that is much less, and none where the vocabulary is hardly more.
func TestColumnsOfContexts(t *testing.T) {
	s := newStepper(t, openDevice(t), randomModel(t, small("")), 4)
	check := func(what string, asked []search.Context, want []int32) {
		t.Helper()
		if have := s.columns(asked, false); !slices.Equal(have, want) {
			t.Errorf("%s: columns %v, want %v", what, have, want)
		}
	}
	contexts := encodeWith(s, []search.Token{0, 5, 9}, []search.Token{0, 6, 9, 30}, []search.Token{0, 8})
	check("two", contexts[:2], unionOf(s, contexts[:2]...))
	check("one of two", contexts[:1], unionOf(s, contexts[:2]...))
	check("three", contexts, unionOf(s, contexts...))
	check("few of them", contexts[2:], []int32{0, 8})
	s.Release(contexts[1])
	again := encodeWith(s, []search.Token{0, 7, 31})
	if again[0] != contexts[1] {
		t.Fatalf("the context has the number %d, want that of the last one that was released, %d", again[0], contexts[1])
	}
	check("the same number for another sentence", contexts, []int32{0, 5, 7, 8, 9, 31})
	s.Release(contexts[0])
	check("what is left", contexts[1:], []int32{0, 7, 8, 31})
	other := encodeWith(s, nil)
	check("one without candidates", append(other, contexts[1:]...), nil)
	var half []search.Token
	for token := range search.Token(smallVocabulary/2 + 1) {
		half = append(half, token)
	}
	check("more than half of the vocabulary", encodeWith(s, half), nil)
	if columns := s.columns(contexts[1:], true); columns != nil {
		t.Errorf("for normalised scores: columns %v, want none", columns)
	}
	check("few beside more than half", contexts[1:], []int32{0, 7, 8, 31})
}

// The choices of a step have their columns, though those of the step ahead, which are fewer, are asked for before the device has got there.
func TestColumnsOfTwoTurns(t *testing.T) {
	s := newStepper(t, openDevice(t), randomModel(t, small("")), 4)
	var many []search.Token
	for token := search.Token(5); token < 25; token++ {
		many = append(many, token)
	}
	few := []search.Token{40, 41}
	contexts := encodeWith(s, many, few)
	f := greedily(2)
	f.Prospects[0].Ends = true
	for range 3 { // the first time buffers grow, which waits for the device
		s.Begin(0, contexts[0])
		s.Begin(1, contexts[1])
		s.Step([]search.Slot{0, 1}, []search.Token{search.NoToken, search.NoToken}, false)
		s.Foresee(f)
		best := make([]search.Scored, 2)
		s.Best([]int32{0, 1}, nil, best)
		for i, list := range [][]search.Token{many, few} {
			if !slices.Contains(list, best[i].Token) {
				t.Errorf("row %d chooses %+v, want one of %v", i, best[i], list)
			}
		}
		if !slices.Equal(s.fedColumns, few) {
			t.Errorf("the step ahead has the columns %v, want %v", s.fedColumns, few)
		}
	}
}

// The device has the candidates of each context, however many are encoded at a time and whatever numbers they have, before it is done with
// those of others.
func TestCandidates(t *testing.T) {
	s := newStepper(t, openDevice(t), randomModel(t, small("")), 6)
	lists := func(tokens ...search.Token) (lists [][]search.Token) {
		for _, token := range tokens {
			lists = append(lists, []search.Token{token})
		}
		return lists
	}
	check := func(contexts []search.Context) {
		t.Helper()
		slots, rows, tokens := make([]search.Slot, len(contexts)), make([]int32, len(contexts)), make([]search.Token, len(contexts))
		for i, handle := range contexts {
			slots[i], rows[i], tokens[i] = search.Slot(i), int32(i), search.NoToken
			s.Begin(slots[i], handle)
		}
		s.Step(slots, tokens, false)
		best := make([]search.Scored, len(rows))
		s.Best(rows, nil, best)
		for i, handle := range contexts {
			if only := s.contexts[handle].candidates[0]; best[i].Token != only || best[i].Score != best[i].Score {
				t.Errorf("context %d chooses %+v, want %d", handle, best[i], only)
			}
		}
	}
	contexts := encodeWith(s, lists(5, 40, 31, 32, 69)...)
	check(contexts)
	for _, i := range []int{3, 0, 1, 4} { // two with numbers one behind the other among others
		s.Release(contexts[i])
	}
	again := encodeWith(s, lists(33, 64, 1, 63)...)
	check(append(again, contexts[2]))
	for _, handle := range again {
		s.Release(handle)
	}
	for i, list := range lists(2, 66, 35, 34) {
		again[i] = encodeWith(s, list)[0]
	}
	check(append(again, contexts[2]))
}
