package rescore

import (
	"math"
	"slices"
	"strings"

	"github.com/sluice-mt/sluice/translator/search"
)

// letters is a vocabulary whose pieces are the letters from a on. Piece 0 is the end of sentence.
type letters int

func (v letters) Encode(text string, dst []int32) []int32 {
	for _, r := range text {
		dst = append(dst, 1+(r-'a')%(int32(v)-1))
	}
	return dst
}
func (v letters) EncodePieces(text string) []string   { return strings.Split(text, "") }
func (v letters) Decode(_ []int32, dst []byte) []byte { return dst }
func (v letters) Piece(id int32) string               { return string('a' + id - 1) }
func (v letters) ID(piece string) (int32, bool)       { return int32(piece[0]-'a') + 1, true }
func (v letters) Size() int                           { return int(v) }
func (v letters) EOS() int32                          { return 0 }
func (v letters) Unk() int32                          { return 1 }
func (v letters) IsControl(id int32) bool             { return id == 0 }
func (v letters) Suppressed() []int32                 { return nil }
func (v letters) Fingerprint() string                 { return "" }

// hashed is the log-probability of a token in a model made of hashes: a function of source and history, and of nothing else.
// The numbers do not add up to one, which nobody needs here.
func hashed(source search.Source, history []search.Token, token search.Token) float32 {
	key := uint64(14695981039346656037)
	mix := func(tokens []search.Token) {
		for _, token := range append(slices.Clone(tokens), -7) {
			key = (key ^ uint64(uint32(token))) * 1099511628211
			key ^= key >> 29
		}
	}
	mix(source.Tokens)
	for _, further := range source.Further {
		mix(further)
	}
	mix(history)
	mix([]search.Token{token})
	return -float32(key>>40) / (1 << 20)
}

// A fakeStepper is that model. It panics where the contract of Stepper is broken.
type fakeStepper struct {
	vocabulary int
	slots      []fakeSlot
	contexts   map[search.Context]search.Source
	next       search.Context
	rows       []search.Slot
	stepped    int // rows of all steps
	spoiled    bool
	answers    [][]float32 // to the questions that are open
}

type fakeSlot struct {
	context search.Context
	begun   bool
	history []search.Token
}

func newFakeStepper(vocabulary, slots int) *fakeStepper {
	return &fakeStepper{vocabulary: vocabulary, slots: make([]fakeSlot, slots), contexts: map[search.Context]search.Source{}}
}

func (f *fakeStepper) Slots() int      { return len(f.slots) }
func (f *fakeStepper) Vocabulary() int { return f.vocabulary }

func (f *fakeStepper) Encode(sources []search.Source, contexts []search.Context) {
	for i, source := range sources {
		contexts[i] = f.next
		f.contexts[f.next] = search.Source{Tokens: slices.Clone(source.Tokens), Further: slices.Clone(source.Further)}
		f.next++
	}
}

func (f *fakeStepper) Release(context search.Context) {
	if _, ok := f.contexts[context]; !ok {
		panic("a context is released that there is not")
	}
	delete(f.contexts, context)
}

func (f *fakeStepper) Begin(slot search.Slot, context search.Context) {
	f.slots[slot] = fakeSlot{context: context, begun: true}
}

func (f *fakeStepper) Reorder(dst, src []search.Slot) {
	before := slices.Clone(f.slots)
	seen := map[search.Slot]bool{}
	for i, from := range src {
		if seen[dst[i]] || before[from].context != before[dst[i]].context {
			panic("slots are reordered that must not be")
		}
		seen[dst[i]] = true
		f.slots[dst[i]].history = slices.Clone(before[from].history)
	}
}

func (f *fakeStepper) Step(slots []search.Slot, tokens []search.Token, _ bool) {
	f.rows = slices.Clone(slots)
	seen := map[search.Slot]bool{}
	for i, slot := range slots {
		s := &f.slots[slot]
		if _, ok := f.contexts[s.context]; !ok || !s.begun || seen[slot] || (tokens[i] == search.NoToken) != (len(s.history) == 0) {
			panic("a slot is stepped that must not be")
		}
		seen[slot] = true
		s.history = append(s.history, tokens[i])
	}
	f.stepped += len(slots)
}

func (f *fakeStepper) LogProbs(row int32) []float32 {
	s := &f.slots[f.rows[row]]
	out := make([]float32, f.vocabulary)
	for token := range out {
		out[token] = hashed(f.contexts[s.context], s.history[1:], search.Token(token))
		if f.spoiled {
			out[token] = float32(math.NaN())
		}
	}
	return out
}

// A pickingStepper gives the scores of single tokens, and of no others.
type pickingStepper struct{ *fakeStepper }

func (f pickingStepper) LogProbs(int32) []float32 { panic("not asked for") }

func (f pickingStepper) AskLogProbs(starts []int32, tokens []search.Token) {
	var answers []float32
	for row := range f.rows {
		all := f.fakeStepper.LogProbs(int32(row))
		for i := starts[row]; i < starts[row+1]; i++ {
			answers = append(answers, all[tokens[i]])
		}
	}
	if f.answers = append(f.answers, answers); len(f.answers) > 2 {
		panic("too many questions are open")
	}
}

func (f pickingStepper) AnswerLogProbs(out []float32) {
	if copy(out, f.answers[0]) != len(f.answers[0]) || len(out) != len(f.answers[0]) {
		panic("an answer of another length")
	}
	f.answers = f.answers[1:]
}

func (f *fakeStepper) Best([]int32, [][]search.Token, []search.Scored)     { panic("not asked for") }
func (f *fakeStepper) Top([]int32, int, [][]search.Token, []search.Scored) { panic("not asked for") }
func (f *fakeStepper) Attention(int32) []float32                           { panic("not asked for") }
