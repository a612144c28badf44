package search

import (
	"fmt"
	"math"
	"slices"
)

const end Token = 0

// A fakeModel is a language model made of hashes: the logits of the next token are a function of the source and of the
// history, and of nothing else.
type fakeModel struct {
	seed       uint64
	vocabulary int
	suppressed []Token
	endBias    float64 // added to the end of sentence for each token before it
	grid       float64 // logits are multiples of it, so that there are ties; 0 for none
	spoil      func(source, history []Token, logits []float32)
}

func (m *fakeModel) logits(source, history []Token) []float32 {
	key := mix(m.seed)
	for _, token := range source {
		key = mix(key ^ uint64(token))
	}
	key = mix(key ^ 0xabcdef)
	for _, token := range history {
		key = mix(key ^ uint64(uint32(token)))
	}
	logits := make([]float32, m.vocabulary)
	for j := range logits {
		x := 4 * uniform(key^mix(uint64(j)))
		if Token(j) == end {
			x += m.endBias * float64(len(history))
		}
		if m.grid > 0 {
			x = math.Round(x/m.grid) * m.grid
		}
		logits[j] = float32(x)
	}
	if m.spoil != nil {
		m.spoil(source, history, logits)
	}
	return logits
}

// logProbs are those of the candidates, -Inf for suppressed ones.
func (m *fakeModel) logProbs(source Source, history []Token) []float32 {
	logits := m.logits(source.Tokens, history)
	candidates := source.Candidates
	if candidates == nil {
		candidates = allTokens(m.vocabulary)
	}
	out := make([]float32, len(candidates))
	total := 0.0
	for _, token := range candidates {
		total += math.Exp(float64(logits[token]))
	}
	for j, token := range candidates {
		out[j] = float32(float64(logits[token]) - math.Log(total))
		if slices.Contains(m.suppressed, token) {
			out[j] = negativeInfinity
		}
	}
	return out
}

func (m *fakeModel) attention(source, history []Token) []float32 {
	weights := make([]float32, len(source))
	total := float32(0)
	for j := range weights {
		weights[j] = float32(uniform(mix(m.seed+uint64(j)) ^ mix(uint64(len(history))) ^ mix(uint64(uint32(lastOf(history))))))
		total += weights[j]
	}
	for j := range weights {
		weights[j] /= total
	}
	return weights
}

func lastOf(history []Token) Token {
	if len(history) == 0 {
		return NoToken
	}
	return history[len(history)-1]
}

func allTokens(n int) []Token {
	tokens := make([]Token, n)
	for j := range tokens {
		tokens[j] = Token(j)
	}
	return tokens
}

// A fakeStepper runs a fakeModel, and panics where the contract of Stepper is broken.
type fakeStepper struct {
	model    *fakeModel
	slots    []fakeSlot
	contexts map[Context]Source
	next     Context
	rows     []Slot
	aligned  bool
	encodes  int // calls
	steps    int
	stepped  int // rows of all steps
	bests    int
}

type fakeSlot struct {
	context Context
	begun   bool
	history []Token
}

func newFakeStepper(model *fakeModel, slots int) *fakeStepper {
	return &fakeStepper{model: model, slots: make([]fakeSlot, slots), contexts: map[Context]Source{}}
}

func (f *fakeStepper) Slots() int      { return len(f.slots) }
func (f *fakeStepper) Vocabulary() int { return f.model.vocabulary }

func (f *fakeStepper) Encode(sources []Source, contexts []Context) {
	f.encodes++
	for i, source := range sources {
		f.next++
		contexts[i] = f.next
		f.contexts[f.next] = Source{Tokens: slices.Clone(source.Tokens), Candidates: source.Candidates}
	}
}

func (f *fakeStepper) Release(context Context) {
	if _, ok := f.contexts[context]; !ok {
		panic(fmt.Sprintf("context %d released twice, or never given", context))
	}
	delete(f.contexts, context)
}

func (f *fakeStepper) Begin(slot Slot, context Context) {
	f.slots[slot] = fakeSlot{context: context, begun: true}
}

func (f *fakeStepper) Reorder(dst, src []Slot) {
	before := slices.Clone(f.slots)
	for i := range dst {
		if slices.Contains(dst[:i], dst[i]) || before[dst[i]].context != before[src[i]].context {
			panic("reorder into the same slot twice, or between sentences")
		}
		f.slots[dst[i]] = before[src[i]]
		f.slots[dst[i]].history = slices.Clone(before[src[i]].history)
	}
}

func (f *fakeStepper) Step(slots []Slot, tokens []Token, align bool) {
	f.steps++
	f.stepped += len(slots)
	f.rows = append(f.rows[:0], slots...)
	f.aligned = align
	for i, slot := range slots {
		s := &f.slots[slot]
		if _, ok := f.contexts[s.context]; !ok || !s.begun || slices.Contains(slots[:i], slot) {
			panic(fmt.Sprintf("step of slot %d, which is not in use, or twice", slot))
		}
		if (tokens[i] == NoToken) != (len(s.history) == 0) {
			panic("NoToken must come first and only there")
		}
		s.history = append(s.history, tokens[i])
	}
}

// row is the source and the history of a row.
func (f *fakeStepper) row(row int32) (Source, []Token) {
	s := &f.slots[f.rows[row]]
	return f.contexts[s.context], s.history[1:]
}

func (f *fakeStepper) Best(rows []int32, banned [][]Token, out []Scored) {
	f.bests++
	f.Top(rows, 1, banned, out)
}

func (f *fakeStepper) Top(rows []int32, k int, banned [][]Token, out []Scored) {
	if len(out) != len(rows)*k || banned != nil && len(banned) != len(rows) {
		panic("answers or bans do not fit the rows")
	}
	for i, row := range rows {
		source, history := f.row(row)
		logProbs := f.model.logProbs(source, history)
		type pair struct {
			token Token
			score float32
		}
		var pairs []pair
		bad := false
		for j, x := range logProbs {
			bad = bad || notFinite(x)
			token := Token(j)
			if source.Candidates != nil {
				token = source.Candidates[j]
			}
			if x == negativeInfinity || banned != nil && slices.Contains(banned[i], token) {
				continue
			}
			pairs = append(pairs, pair{token, x})
		}
		slices.SortStableFunc(pairs, func(a, b pair) int {
			if a.score > b.score {
				return -1
			} else if a.score < b.score {
				return 1
			}
			return int(a.token - b.token)
		})
		for j := range k {
			out[i*k+j] = Scored{NoToken, negativeInfinity}
			if bad {
				out[i*k+j].Score = float32(math.NaN())
			} else if j < len(pairs) {
				out[i*k+j] = Scored{pairs[j].token, pairs[j].score}
			}
		}
	}
}

func (f *fakeStepper) LogProbs(row int32) []float32 {
	source, history := f.row(row)
	return f.model.logProbs(source, history)
}

func (f *fakeStepper) Attention(row int32) []float32 {
	if !f.aligned {
		panic("attention without having asked for it")
	}
	source, history := f.row(row)
	return f.model.attention(source.Tokens, history)
}
