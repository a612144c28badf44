package cpumodel

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/sluice-mt/sluice/translator/marian"
	"github.com/sluice-mt/sluice/translator/model"
	"github.com/sluice-mt/sluice/translator/search"
)

var minusInf = float32(math.Inf(-1))

// twoSentences steps two sentences for a while in alternating slots: even ones without candidates, odd ones with.
func twoSentences(s *Stepper, random *rand.Rand, candidates []search.Token) []search.Context {
	contexts := make([]search.Context, 2)
	s.Encode([]search.Source{{Tokens: []search.Token{3, 2, 0}}, {Tokens: []search.Token{5, 0}, Candidates: candidates}}, contexts)
	var slots []search.Slot
	tokens := make([]search.Token, s.Slots())
	for slot := range s.Slots() {
		s.Begin(search.Slot(slot), contexts[slot%2])
		slots = append(slots, search.Slot(slot))
		tokens[slot] = search.NoToken
	}
	for range 3 {
		s.Step(slots, tokens, false)
		copy(tokens, randomTokens(random, len(tokens), s.Vocabulary()))
	}
	return contexts
}

// TestAnswers compares Best, Top and LogProbs with each other, asked in any order and with banned tokens.
func TestAnswers(t *testing.T) {
	random := rand.New(rand.NewPCG(6, 6))
	m := synthesise(t, describe(""), false, random)
	for _, precision := range precisions {
		suppressed := []search.Token{4, 2}
		s := pack(t, m, precision, Options{Suppress: suppressed}).NewStepper(40)
		candidates := []search.Token{0, 1, 2, 6, 7, 8, 11, 12}
		twoSentences(s, random, candidates)
		for range 200 {
			rows, banned := randomQuestion(random, s.Slots(), m.TargetVocabulary)
			k := 1 + random.IntN(m.TargetVocabulary)
			best, top := make([]search.Scored, len(rows)), make([]search.Scored, len(rows)*k)
			if random.IntN(2) == 0 {
				s.Best(rows, banned, best)
				s.Top(rows, k, banned, top)
			} else {
				s.Top(rows, k, banned, top)
				s.Best(rows, banned, best)
			}
			for i, row := range rows {
				want := ranking(s.LogProbs(row), tokensOf(row, candidates, m.TargetVocabulary), bannedOf(banned, i), k)
				if got := top[i*k : (i+1)*k]; !slices.Equal(got, want) {
					t.Fatalf("%v: the best %d of row %d are %v, want %v", precision, k, row, got, want)
				}
				if best[i].Token != want[0].Token {
					t.Fatalf("%v: the best of row %d is %v, want %v", precision, row, best[i], want[0])
				}
				if want[0].Token == search.NoToken && best[i].Score != minusInf {
					t.Fatalf("%v: nothing is allowed in row %d, but the score is %v", precision, row, best[i].Score)
				}
			}
		}
	}
}

// randomQuestion chooses rows, in runs or mixed, and tokens that are banned, now and then all of them.
func randomQuestion(random *rand.Rand, rows, vocabulary int) (chosen []int32, banned [][]search.Token) {
	for row := range rows {
		if random.IntN(3) > 0 {
			chosen = append(chosen, int32(row))
		}
	}
	if random.IntN(2) == 0 {
		random.Shuffle(len(chosen), func(i, j int) { chosen[i], chosen[j] = chosen[j], chosen[i] })
	}
	if random.IntN(3) == 0 {
		return chosen, nil
	}
	for range chosen {
		n := random.IntN(4)
		if random.IntN(10) == 0 {
			n = 20 * vocabulary
		}
		banned = append(banned, randomTokens(random, n, vocabulary))
	}
	return chosen, banned
}

func tokensOf(row int32, candidates []search.Token, vocabulary int) []search.Token {
	if row%2 == 1 {
		return candidates
	}
	all := make([]search.Token, vocabulary)
	for i := range all {
		all[i] = search.Token(i)
	}
	return all
}

// ranking is Top in the plainest way.
func ranking(scores []float32, tokens, banned []search.Token, k int) []search.Scored {
	var all []search.Scored
	for i, score := range scores {
		if score != minusInf && !slices.Contains(banned, tokens[i]) {
			all = append(all, search.Scored{Token: tokens[i], Score: score})
		}
	}
	slices.SortStableFunc(all, func(a, b search.Scored) int {
		switch {
		case a.Score > b.Score:
			return -1
		case a.Score < b.Score:
			return 1
		}
		return 0
	})
	for len(all) < k {
		all = append(all, search.Scored{Token: search.NoToken, Score: minusInf})
	}
	return all[:k]
}

// TestLogProbs checks that probabilities add up to one over all candidates, the suppressed ones included.
func TestLogProbs(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 7))
	m := synthesise(t, describe(""), false, random)
	candidates := []search.Token{0, 1, 4, 6}
	all := pack(t, m, Float32, Options{}).NewStepper(2)
	some := pack(t, m, Float32, Options{Suppress: []search.Token{4}}).NewStepper(2)
	twoSentences(all, rand.New(rand.NewPCG(8, 8)), candidates)
	twoSentences(some, rand.New(rand.NewPCG(8, 8)), candidates)
	for row := range int32(2) {
		want, got := slices.Clone(all.LogProbs(row)), slices.Clone(some.LogProbs(row))
		total := 0.0
		for _, x := range want {
			total += math.Exp(float64(x))
		}
		if abs(total-1) > 1e-5 {
			t.Errorf("row %d: probabilities add up to %v", row, total)
		}
		place := slices.Index(tokensOf(row, candidates, m.TargetVocabulary), 4)
		want[place] = minusInf
		if !sameBits(got, want) {
			t.Errorf("row %d: %v, want %v", row, got, want)
		}
	}
}

func TestManyBest(t *testing.T) {
	random := rand.New(rand.NewPCG(9, 9))
	for range 300 {
		y := make([]float32, 1+random.IntN(60))
		tokens := make([]search.Token, len(y))
		for i := range y {
			y[i], tokens[i] = float32(random.IntN(8)), search.Token(i) // many are equal
			if random.IntN(5) == 0 {
				y[i] = minusInf
			}
		}
		for _, k := range []int{1, 5, fewBest, fewBest + 1, 40} {
			best, c := make([]search.Scored, k), scores{}
			before := slices.Clone(y)
			c.top(y, best)
			c.allow(y)
			if want := ranking(y, tokens, nil, k); !slices.Equal(best, want) || !slices.Equal(y, before) {
				t.Fatalf("the best %d of %v are %v, want %v", k, y, best, want)
			}
		}
	}
}

// TestNotFinite spoils the embeddings of some tokens: sentences with them are told from the others.
func TestNotFinite(t *testing.T) {
	for _, spoiled := range []float32{float32(math.NaN()), float32(math.Inf(1)), minusInf} {
		for _, precision := range precisions {
			for _, fixed := range []bool{false, true} {
				random := rand.New(rand.NewPCG(10, 10))
				m := synthesise(t, describe("transformer-preprocess: n\ntransformer-postprocess: da\ntransformer-postprocess-top: n"), false, random)
				spoil(m.SourceEmbedding, 5, spoiled)
				spoil(m.TargetEmbedding, 6, spoiled)
				if fixed {
					giveAlphas(m)
				}
				testNotFinite(t, pack(t, m, precision, Options{}))
			}
		}
	}
}

func spoil(t *marian.Tensor, row int, value float32) {
	binary.LittleEndian.PutUint32(t.Data[4*row*t.Shape[1]:], math.Float32bits(value))
}

// giveAlphas adds a multiplier of activations for each parameter.
func giveAlphas(m *model.Model) {
	for _, p := range m.Parameters() {
		data := binary.LittleEndian.AppendUint32(nil, math.Float32bits(20))
		m.Alphas[p.Name] = &marian.Tensor{Name: p.Name + "_QuantMultA", Shape: []int{1, 1}, Type: marian.Float32, Data: data}
	}
}

func testNotFinite(t *testing.T, w *Weights) {
	t.Helper()
	s := w.NewStepper(4)
	contexts := make([]search.Context, 3)
	s.Encode([]search.Source{
		{Tokens: []search.Token{1, 5, 0}},
		{Tokens: []search.Token{1, 4, 0}},
		{Tokens: []search.Token{1, 5, 0}, Candidates: []search.Token{0, 1, 2}},
	}, contexts)
	for slot, c := range []int{0, 1, 2, 1} {
		s.Begin(search.Slot(slot), contexts[c])
	}
	slots := []search.Slot{0, 1, 2, 3}
	rows := []int32{0, 1, 2, 3}
	s.Step(slots, []search.Token{-1, -1, -1, -1}, false)
	check := func(want ...bool) {
		t.Helper()
		best, top := make([]search.Scored, 4), make([]search.Scored, 8)
		s.Best(rows, nil, best)
		s.Top(rows, 2, nil, top)
		for i, broken := range want {
			for _, x := range []float32{best[i].Score, top[2*i].Score, top[2*i+1].Score, s.LogProbs(int32(i))[0]} {
				if (x != x) != broken || math.IsInf(float64(x), 0) {
					t.Errorf("row %d has the score %v, broken should be %v", i, x, broken)
				}
			}
		}
	}
	check(true, false, true, false)
	s.Step(slots, []search.Token{2, 6, 2, 2}, false) // the target token is spoiled in row 1
	check(true, true, true, false)
	s.Release(contexts[0])
	s.Encode([]search.Source{{Tokens: []search.Token{1, 4, 0}}}, contexts[:1])
	s.Begin(0, contexts[0])
	s.Step(slots, []search.Token{-1, 2, 2, 2}, false)
	check(false, true, true, false)
}
