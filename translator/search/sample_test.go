package search

import (
	"fmt"
	"math"
	"slices"
	"testing"
)

// flat is a model whose logits do not depend on anything, so that every draw has the same distribution.
func flat(logits ...float32) *fakeModel {
	return &fakeModel{vocabulary: len(logits), spoil: func(_, _ []Token, out []float32) { copy(out, logits) }}
}

var flatLogits = []float32{0.5, 2, 1.9, -1, 0, 1, -3, 1.2}

// expected is the distribution that a method draws from, worked out in the plainest way: sort, cut, normalise.
func expected(logits []float32, suppressed []Token, sampling Sampling) []float64 {
	p := make([]float64, len(logits))
	order := make([]int, 0, len(p))
	total := 0.0
	for j, x := range logits {
		if !slices.Contains(suppressed, Token(j)) {
			p[j] = math.Exp(float64(x))
			total += p[j]
			order = append(order, j)
		}
	}
	for j := range p {
		p[j] /= total
	}
	slices.SortStableFunc(order, func(a, b int) int {
		if p[a] > p[b] {
			return -1
		}
		return 1
	})
	keep, mass := 0, 0.0
	for keep < len(order) {
		probability := p[order[keep]]
		switch {
		case keep == 0:
		case sampling.Method == TopK && keep >= sampling.K,
			sampling.Method == Nucleus && mass >= float64(sampling.P),
			sampling.Method == Epsilon && probability < float64(sampling.Epsilon):
			order = order[:keep]
			continue
		}
		mass += probability
		keep++
	}
	temperature := float64(sampling.Temperature)
	if temperature == 0 {
		temperature = 1
	}
	out := make([]float64, len(p))
	total = 0
	for _, j := range order {
		out[j] = math.Pow(p[j], 1/temperature)
		total += out[j]
	}
	for j := range out {
		out[j] /= total
	}
	return out
}

// checkFit tests by χ² that counts come from a distribution. The bound is some five standard deviations; as the seeds are
// fixed, the outcome is too.
func checkFit(t *testing.T, what string, counts []int, p []float64) {
	t.Helper()
	n := 0
	for _, c := range counts {
		n += c
	}
	statistic, freedom := 0.0, -1.0
	for j, c := range counts {
		if p[j] == 0 {
			if c > 0 {
				t.Errorf("%s: %d was drawn %d times, but must not be", what, j, c)
			}
			continue
		}
		e := p[j] * float64(n)
		statistic += (float64(c) - e) * (float64(c) - e) / e
		freedom++
	}
	if statistic > freedom+5*math.Sqrt(2*freedom)+5 {
		t.Errorf("%s: χ² is %.1f for %v degrees of freedom: counts %v for probabilities %.4f", what, statistic, freedom, counts, p)
	}
}

// draws returns results for n sentences with different seeds.
func draws(t *testing.T, models []*fakeModel, weights []float32, options Options, n int) []Result {
	tr := trial{models: models, weights: weights}
	sentences := make([]*Sentence, n)
	for i := range sentences {
		sentences[i] = &Sentence{Source: Source{Tokens: []Token{2, end}}, Seed: uint64(i), Options: options}
	}
	results := tr.decode(t, sentences, 64, 64, 1)
	out := make([]Result, n)
	for i, s := range sentences {
		out[i] = results[s]
	}
	return out
}

func TestSamplingDistributions(t *testing.T) {
	for _, sampling := range []Sampling{
		{Method: Full}, {Method: Full, Temperature: 0.5}, {Method: Full, Temperature: 3},
		{Method: TopK, K: 1}, {Method: TopK, K: 3}, {Method: TopK, K: 100}, {Method: TopK, K: 3, Temperature: 2},
		{Method: Nucleus, P: 0.2}, {Method: Nucleus, P: 0.75}, {Method: Nucleus, P: 1}, {Method: Nucleus, P: 0.9, Temperature: 0.7},
		{Method: Epsilon, Epsilon: 0.9}, {Method: Epsilon, Epsilon: 0.08}, {Method: Epsilon, Epsilon: 0.02, Temperature: 1.5},
		{Method: Gumbel}, {Method: Gumbel, Temperature: 0.5},
	} {
		model := flat(flatLogits...)
		model.suppressed = []Token{7}
		options := Options{Beam: 1, MaxLengthFactor: 0.1, Sampling: sampling}
		counts := make([]int, len(flatLogits))
		for _, r := range draws(t, []*fakeModel{model}, nil, options, 4000) {
			counts[r.Hypotheses[0].Tokens[0]]++
		}
		checkFit(t, fmt.Sprintf("%+v", sampling), counts, expected(flatLogits, model.suppressed, sampling))

		options.NoRepeat = 1 // forbids nothing in the first token, but keeps to the other path
		half := []*fakeModel{model, model}
		counts = make([]int, len(flatLogits))
		for _, r := range draws(t, half, []float32{0.25, 0.75}, options, 4000) {
			counts[r.Hypotheses[0].Tokens[0]]++
		}
		checkFit(t, fmt.Sprintf("ensemble %+v", sampling), counts, expected(flatLogits, model.suppressed, sampling))
	}
}

// TestDrawsAreIndependent looks at pairs of draws: of one hypothesis at two steps, and of two hypotheses at one.
func TestDrawsAreIndependent(t *testing.T) {
	logits := []float32{-30, 1, 0.5, 0}
	model := flat(logits...)
	p := expected(logits, nil, Sampling{Method: Full})
	joint := make([]float64, 16)
	for i := range joint {
		joint[i] = p[i/4] * p[i%4]
		if i/4 == 0 || i%4 == 0 {
			joint[i] = 0 // too rare to be met
		}
	}
	for _, method := range []Method{Full, TopK} {
		options := Options{Beam: 1, NBest: 2, MaxLengthFactor: 1, Sampling: Sampling{Method: method, K: 4}}
		steps, numbers, seeds := make([]int, 16), make([]int, 16), make([]int, 16)
		last := Token(1)
		for _, r := range draws(t, []*fakeModel{model}, nil, options, 6000) {
			a, b := r.Hypotheses[0].Tokens, r.Hypotheses[1].Tokens
			steps[4*a[0]+a[1]]++
			numbers[4*a[0]+b[0]]++
			seeds[4*last+a[0]]++
			last = a[0]
		}
		checkFit(t, "steps", steps, joint)
		checkFit(t, "hypotheses", numbers, joint)
		checkFit(t, "seeds", seeds, joint)
	}
}

// TestGumbelBeamDrawsWithoutReplacement: the beam of noisy scores holds different tokens, and which comes first follows the
// distribution (Kool et al., arXiv 1903.06059).
func TestGumbelBeamDrawsWithoutReplacement(t *testing.T) {
	p := expected(flatLogits, nil, Sampling{Method: Full})
	options := Options{Beam: 3, NBest: 3, MaxLengthFactor: 0.1, Sampling: Sampling{Method: Gumbel}}
	first, second := make([]int, len(p)), make([]int, len(p))
	for _, r := range draws(t, []*fakeModel{flat(flatLogits...)}, nil, options, 6000) {
		a, b, c := r.Hypotheses[0].Tokens[0], r.Hypotheses[1].Tokens[0], r.Hypotheses[2].Tokens[0]
		if a == b || b == c || a == c {
			t.Fatalf("drew %d, %d, %d", a, b, c)
		}
		first[a]++
		second[b]++
		if score := r.Hypotheses[0].Score; !near(score, float32(math.Log(p[a]))) {
			t.Fatalf("score %v for a token of log-probability %v", score, math.Log(p[a]))
		}
	}
	checkFit(t, "first", first, p)
	then := make([]float64, len(p))
	for i := range p {
		for j := range p {
			if i != j {
				then[j] += p[i] * p[j] / (1 - p[i])
			}
		}
	}
	checkFit(t, "second", second, then)
}

func TestSamplesDoNotDependOnTheirNumber(t *testing.T) {
	for _, method := range []Method{Full, TopK, Nucleus, Epsilon} {
		options := Options{Beam: 1, MaxLengthFactor: 3, Sampling: Sampling{Method: method, K: 5, P: 0.9, Epsilon: 0.05}}
		model := &fakeModel{vocabulary: 12, seed: 5, endBias: 0.3}
		one := draws(t, []*fakeModel{model}, nil, options, 20)
		options.NBest = 6
		six := draws(t, []*fakeModel{model}, nil, options, 20)
		differ := 0
		for i := range one {
			if !slices.Equal(one[i].Hypotheses[0].Tokens, six[i].Hypotheses[0].Tokens) || len(six[i].Hypotheses) != 6 {
				t.Errorf("method %d, sentence %d: %v alone, %v as the first of six", method, i, one[i].Hypotheses, six[i].Hypotheses)
			}
			if !slices.Equal(six[i].Hypotheses[0].Tokens, six[i].Hypotheses[1].Tokens) {
				differ++
			}
		}
		if differ < 10 {
			t.Errorf("method %d: only %d of 20 sentences have two different samples", method, differ)
		}
	}
}

func TestSeedsMatter(t *testing.T) {
	model := &fakeModel{vocabulary: 30, seed: 5}
	run := func(seed uint64) []Result {
		options := Options{Beam: 1, MaxLengthFactor: 3, Sampling: Sampling{Method: Full}, Seed: seed}
		return draws(t, []*fakeModel{model}, nil, options, 10)
	}
	a, again, b := run(1), run(1), run(2)
	for i := range a {
		if !slices.Equal(a[i].Hypotheses[0].Tokens, again[i].Hypotheses[0].Tokens) {
			t.Errorf("sentence %d differs with the same seed", i)
		}
		if slices.Equal(a[i].Hypotheses[0].Tokens, b[i].Hypotheses[0].Tokens) {
			t.Errorf("sentence %d is the same with another seed", i)
		}
	}
}

func TestUniformStaysInside(t *testing.T) {
	for key := range uint64(100_000) {
		if u := uniform(key); !(u > 0 && u < 1) {
			t.Fatalf("uniform(%d) is %v", key, u)
		}
		if g := gumbel(key, 3); math.IsInf(g, 0) || g != g {
			t.Fatalf("gumbel(%d) is %v", key, g)
		}
	}
}
