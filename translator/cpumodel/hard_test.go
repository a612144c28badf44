package cpumodel

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/sluice-mt/sluice/translator/model"
	"github.com/sluice-mt/sluice/translator/search"
)

// readHard moves hard attention on after a token, and returns what the first cell reads. weights are those of a model without soft
// attention.
func (n *naive) readHard(encoded []vec, state *naiveState, embedded vec, token search.Token) (input, weights vec) {
	h := n.m.Recurrence.Hard
	if slices.Contains(h.Steps, token) && state.reads+1 < len(encoded) {
		state.reads++
	}
	if !h.Soft {
		weights = make(vec, len(encoded))
		weights[state.reads] = 1
	}
	return slices.Concat(embedded, encoded[state.reads]), weights
}

// forbidden returns the token that hard attention does not allow, -1 for other models.
func (n *naive) forbidden(state *naiveState, length int) int {
	switch {
	case n.m.Recurrence == nil || n.m.Recurrence.Hard == nil:
		return -1
	case state.reads == length-1:
		return 2
	}
	return 0
}

// allowAll checks that the one token that hard attention does not allow cannot be chosen, and gives it the probability that it would have.
func (n *naive) allowAll(t *testing.T, got []float32, logits vec, state *naiveState, length int) []float32 {
	t.Helper()
	token := n.forbidden(state, length)
	if token < 0 {
		return got
	}
	if !math.IsInf(float64(got[token]), -1) {
		t.Fatalf("token %d has the log-probability %v at source token %d of %d", token, got[token], state.reads, length)
	}
	got = slices.Clone(got)
	got[token] = float32(naiveLogSoftmax(logits)[token])
	return got
}

// A naiveHypothesis is a translation on its way.
type naiveHypothesis struct {
	tokens []search.Token
	sum    float64
}

// after returns the log-probabilities of what may follow a hypothesis, which is read again from its beginning.
func (n *naive) after(encoded []vec, tokens []search.Token) vec {
	states, token, logits := make([]naiveState, n.m.DecoderStack.Depth), search.NoToken, vec(nil)
	for position := range len(tokens) + 1 {
		logits, _ = n.step(encoded, states, token, position)
		if position < len(tokens) {
			token = tokens[position]
		}
	}
	allowed := naiveLogSoftmax(logits)
	if token := n.forbidden(&states[0], len(encoded)); token >= 0 {
		allowed[token] = math.Inf(-1)
	}
	return allowed
}

// beam is Marian's beam search, without normalisation: the width is that of the hypotheses that are open.
func (n *naive) beam(encoded []vec, width, longest int) naiveHypothesis {
	open, best := []naiveHypothesis{{}}, naiveHypothesis{sum: math.Inf(-1)}
	for length := 1; width > 0 && length <= longest; length++ {
		var next []naiveHypothesis
		for _, h := range open {
			for token, p := range n.after(encoded, h.tokens) {
				if !math.IsInf(p, -1) {
					next = append(next, naiveHypothesis{append(slices.Clone(h.tokens), search.Token(token)), h.sum + p})
				}
			}
		}
		slices.SortFunc(next, func(a, b naiveHypothesis) int { return cmp.Compare(b.sum, a.sum) })
		open = nil
		for _, h := range next[:width] {
			ended := h.tokens[length-1] == 0
			if ended {
				width--
			} else {
				open = append(open, h)
			}
			if (ended || length == longest) && h.sum > best.sum {
				best = h
			}
		}
	}
	return best
}

// TestHardBeam searches with models whose attention is hard, greedily and by beams, and compares with the plain arithmetic, which reads
// every hypothesis from its beginning.
func TestHardBeam(t *testing.T) {
	moved, ended := 0, 0
	for i, lines := range []string{
		"type: hard-att\ndim-rnn: 10\ndec-depth: 2\ndim-vocabs: [9, 6]\nspecial-vocab: [2, 3]",
		"type: hard-soft-att\ndim-rnn: 10\ndim-vocabs: [9, 6]\nspecial-vocab: [2, 3]\nlayer-normalization: true",
	} {
		random := rand.New(rand.NewPCG(uint64(i), 61))
		m := synthesise(t, describe(lines), false, random)
		plain := newNaive(m)
		var sources []search.Source
		for range 12 {
			sources = append(sources, search.Source{Tokens: append(randomTokens(random, 1+random.IntN(4), 9), 0)})
		}
		for _, width := range []int{1, 3} {
			options := search.Options{Beam: width, MaxLengthFactor: 2, Scores: true}
			for j, got := range decode(t, pack(t, m, Float32, Options{Beam: width}).NewStepper(12), 0, sources, options) {
				length := len(sources[j].Tokens)
				want := plain.beam(plain.encode(sources[j].Tokens), width, 2*length)
				if !slices.Equal(got.Tokens, want.tokens) || abs(float64(got.Score)-want.sum) > 1e-3 {
					t.Errorf("%s, beam %d, sentence %d: %v %v, want %v %v", m.Type, width, j, got.Tokens, got.Score, want.tokens, want.sum)
				}
				steps := 0
				for _, token := range got.Tokens {
					if token == 2 || token == 3 {
						steps++
					}
				}
				if got.Finished {
					ended++
					if steps < length-1 {
						t.Errorf("%s: %v ends after %d steps, but the source has %d tokens", m.Type, got.Tokens, steps, length)
					}
				}
				moved += steps
			}
		}
	}
	if moved == 0 || ended == 0 {
		t.Errorf("%d steps and %d ends: nothing is tested", moved, ended)
	}
}

// TestHardDescription describes models that say nothing, or nonsense, about when attention moves on.
func TestHardDescription(t *testing.T) {
	for _, lines := range []string{"type: hard-att\nspecial-vocab: [23]", "type: hard-soft-att", "type: hard-att\nspecial-vocab: [-1]"} {
		if _, err := model.Describe([]byte(describe(lines))); err == nil {
			t.Errorf("%q is accepted", lines)
		}
	}
}
