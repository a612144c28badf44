package cpumodel

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/sluice-mt/sluice/translator/search"
)

// precisions are all of them.
var precisions = []Precision{Int8, Int16, BFloat16, Float32}

// A subject is a model in a precision, with sentences to translate.
type subject struct {
	name    string
	weights *Weights
	sources []search.Source
}

// subjects are all kinds of decoders in all precisions, with and without candidates.
func subjects(t *testing.T, sentences int) []subject {
	var all []subject
	for i, kind := range syntheticKinds {
		random := rand.New(rand.NewPCG(uint64(i), 2))
		m := synthesise(t, describe(kind.lines), kind.oldOutput, random)
		var list []search.Source
		for range sentences {
			source := search.Source{Tokens: randomTokens(random, 1+random.IntN(12), max(m.SourceVocabulary, 1)), Further: furtherTokens(random, m)}
			if len(list)%5 == 4 {
				source.Further = nil
			}
			if random.IntN(2) == 0 {
				source.Candidates = someCandidates(random, m.TargetVocabulary)
			}
			list = append(list, source)
		}
		for _, precision := range precisions {
			name := fmt.Sprintf("%s %v", kind.name, precision)
			all = append(all, subject{name, pack(t, m, precision, Options{Suppress: []search.Token{1, 7}}), list})
		}
		if w := pack(t, m, Float32, Options{Suppress: []search.Token{1, 7}, Beam: 4}); w.network != nil && w.network.devlin == nil && w.network.premixed != nil {
			all = append(all, subject{kind.name + " for beams", w, list})
		}
	}
	return all
}

func someCandidates(random *rand.Rand, vocabulary int) []search.Token {
	candidates := []search.Token{0}
	for token := 1; token < vocabulary; token++ {
		if random.IntN(2) == 0 {
			candidates = append(candidates, search.Token(token))
		}
	}
	return candidates
}

// student is a real model with a sentence for each of the lines.
func student(t *testing.T, file string, precision Precision, lines int) subject {
	v := openVocab(t, "ende-tiny/vocab.spm")
	weights := pack(t, loadModel(t, "ende-tiny/"+file), precision, Options{Suppress: v.Suppressed()})
	list := sources(v, readLines(t, "data/bench-short.en")[:lines], false)
	random := rand.New(rand.NewPCG(3, 3))
	for i := range list {
		if i%4 != 0 {
			list[i].Candidates = someCandidates(random, weights.Vocabulary())
		}
	}
	return subject{file + " " + precision.String(), weights, list}
}

// TestInvariance translates sentences alone, and in company of other sizes and orders: the bits must be the same.
func TestInvariance(t *testing.T) {
	all := subjects(t, 70)
	lines := 66 // more than the slots of the largest batch
	if testing.Short() {
		lines = 8
	}
	all = append(all, student(t, "model.npz", Float32, lines), student(t, "model.npz", Int8, lines), student(t, "model.npz", Int16, lines), student(t, "model.npz", BFloat16, lines), student(t, "model.intgemm.alphas.bin", Int8, lines))
	for _, c := range all {
		t.Run(c.name, func(t *testing.T) {
			random := rand.New(rand.NewPCG(4, 4))
			for _, scored := range []bool{false, true} {
				alone := c.translate(1, scored, c.sources)
				for _, slots := range []int{7, 64} {
					order := random.Perm(len(c.sources))
					shuffled := make([]search.Source, len(order))
					for i, from := range order {
						shuffled[i] = c.sources[from]
					}
					for i, got := range c.translate(slots, scored, shuffled) {
						if !sameTranslation(got, alone[order[i]]) {
							t.Fatalf("sentence %d among %d slots (scored %v):\n%v\nalone:\n%v", order[i], slots, scored, got, alone[order[i]])
						}
					}
				}
			}
		})
	}
}

func (c *subject) translate(slots int, scored bool, sources []search.Source) []translation {
	return c.translateWith(c.weights.NewStepper(slots), scored, sources)
}

func (c *subject) translateWith(s *Stepper, scored bool, sources []search.Source) []translation {
	g := greedy{stepper: s, scored: scored, align: true, cap: func(source int) int { return min(source+3, 12) }}
	return g.translate(sources)
}

func sameTranslation(a, b translation) bool {
	if !slices.Equal(a.tokens, b.tokens) || !sameBits(a.scores, b.scores) || len(a.attention) != len(b.attention) {
		return false
	}
	for i := range a.attention {
		if !sameBits(a.attention[i], b.attention[i]) {
			return false
		}
	}
	return true
}

func sameBits(a, b []float32) bool {
	return slices.EqualFunc(a, b, func(x, y float32) bool { return math.Float32bits(x) == math.Float32bits(y) })
}

// A hypothesis is a history of tokens in a slot.
type hypothesis struct {
	slot     search.Slot
	sentence int
	tokens   []search.Token // NoToken first
}

// TestHistories lets hypotheses of several sentences replace each other at random, in slots that begin at different times,
// and compares each with a slot in which nothing but its history happened.
func TestHistories(t *testing.T) {
	for _, c := range subjects(t, 8) {
		t.Run(c.name, func(t *testing.T) {
			random := rand.New(rand.NewPCG(5, 5))
			s, lone := c.weights.NewStepper(12), c.weights.NewStepper(1)
			contexts := make([]search.Context, len(c.sources))
			s.Encode(c.sources[:5], contexts[:5])
			s.Encode(c.sources[5:], contexts[5:])
			var live []hypothesis
			for slot := range 12 {
				live = append(live, hypothesis{slot: search.Slot(slot), sentence: slot / 3})
				s.Begin(search.Slot(slot), contexts[slot/3])
			}
			for step := range 12 {
				if step == 4 { // a sentence is done, and another takes its slots
					s.Release(contexts[0])
					for i := range live {
						if live[i].sentence == 0 {
							live[i] = hypothesis{slot: live[i].slot, sentence: 6}
							s.Begin(live[i].slot, contexts[6])
						}
					}
				}
				stepAtRandom(s, live, random, c.weights.Vocabulary())
				for row := range live {
					got := slices.Clone(s.LogProbs(int32(row)))
					if want := replay(lone, c.sources[live[row].sentence], live[row].tokens); !sameBits(got, want) {
						t.Fatalf("step %d, row %d (%v): %v, want %v", step, row, live[row].tokens, got, want)
					}
				}
				reorderAtRandom(s, live, random)
			}
			for i, context := range contexts {
				if i > 0 {
					s.Release(context)
				}
			}
			checkEmpty(t, s)
		})
	}
}

// stepAtRandom steps all hypotheses, in random order, with random tokens.
func stepAtRandom(s *Stepper, live []hypothesis, random *rand.Rand, vocabulary int) {
	random.Shuffle(len(live), func(i, j int) { live[i], live[j] = live[j], live[i] })
	var slots []search.Slot
	var tokens []search.Token
	for i := range live {
		token := search.NoToken
		if len(live[i].tokens) > 0 {
			token = search.Token(random.IntN(vocabulary))
		}
		live[i].tokens = append(slices.Clip(live[i].tokens), token)
		slots, tokens = append(slots, live[i].slot), append(tokens, token)
	}
	s.Step(slots, tokens, false)
}

// reorderAtRandom gives some slots the state of others of the same sentence.
func reorderAtRandom(s *Stepper, live []hypothesis, random *rand.Rand) {
	var dst, src []search.Slot
	before := slices.Clone(live)
	for i := range live {
		from := before[random.IntN(len(before))]
		if from.sentence != live[i].sentence {
			continue
		}
		dst, src = append(dst, live[i].slot), append(src, from.slot)
		live[i].tokens = from.tokens
	}
	s.Reorder(dst, src)
}

// replay returns the log-probabilities after a history.
func replay(s *Stepper, source search.Source, tokens []search.Token) []float32 {
	contexts := make([]search.Context, 1)
	s.Encode([]search.Source{source}, contexts)
	s.Begin(0, contexts[0])
	for _, token := range tokens {
		s.Step([]search.Slot{0}, []search.Token{token}, false)
	}
	scores := slices.Clone(s.LogProbs(0))
	s.Release(contexts[0])
	return scores
}

// checkEmpty checks that nothing is left in the memory of a Stepper whose contexts have all been released.
func checkEmpty(t *testing.T, s *Stepper) {
	t.Helper()
	for _, encoder := range s.further {
		checkEmpty(t, encoder)
	}
	for i, segment := range s.memory.segments {
		if len(segment.free) != 1 || segment.free[0].count*s.memory.width != len(segment.data) {
			t.Errorf("segment %d has the free runs %v", i, segment.free)
		}
	}
	for i, segment := range s.starts.segments {
		if len(segment.free) != 1 || segment.free[0].count*s.starts.width != len(segment.data) {
			t.Errorf("segment %d of first states has the free runs %v", i, segment.free)
		}
	}
	if len(s.cache.free) != len(s.cache.uses) {
		t.Errorf("%d of %d rows of the cache are free", len(s.cache.free), len(s.cache.uses))
	}
	if len(s.freeContexts) != len(s.contexts) {
		t.Errorf("%d of %d contexts are free", len(s.freeContexts), len(s.contexts))
	}
}
