package search

import (
	"errors"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// basic are options for tests that care about something else.
func basic() Options { return Options{Beam: 1, MaxLengthFactor: 3} }

// alone decodes one sentence with one model.
func alone(t *testing.T, model *fakeModel, s *Sentence) Result {
	tr := trial{models: []*fakeModel{model}}
	return tr.decode(t, []*Sentence{s}, 64, 1, 1)[s]
}

// prefer returns a model that gives, after n tokens, the n-th of the given tokens, and the last one from then on.
func prefer(vocabulary int, tokens ...Token) *fakeModel {
	return &fakeModel{vocabulary: vocabulary, spoil: func(_, history []Token, logits []float32) {
		logits[tokens[min(len(history), len(tokens)-1)]] = 30
	}}
}

func TestEmptySource(t *testing.T) {
	model := prefer(5, 3)
	options := Options{Beam: 4, NBest: 4, MaxLengthFactor: 3, WordScores: true, Align: true, Normalize: 1, WordPenalty: 1}
	for _, tokens := range [][]Token{{end}, {}} {
		result := alone(t, model, &Sentence{Source: Source{Tokens: tokens}, Options: options})
		if len(result.Hypotheses) != 4 || result.Flags != 0 {
			t.Fatalf("source %v gives %+v", tokens, result)
		}
		for _, h := range result.Hypotheses {
			if !slices.Equal(h.Tokens, []Token{end}) || !h.Finished || h.Score != -1 || !slices.Equal(h.WordScores, []float32{0}) ||
				!slices.Equal(h.ModelScores, []float32{0}) || len(h.Alignment) != 1 || !slices.Equal(h.Alignment[0], []float32{1}) {
				t.Errorf("source %v gives %+v", tokens, h)
			}
		}
	}
}

func TestEmptySourceNeverReachesTheModel(t *testing.T) {
	stepper := newFakeStepper(prefer(5, 3), 2)
	d, err := NewDecoder([]Stepper{stepper}, nil, end)
	if err != nil {
		t.Fatal(err)
	}
	s := &Sentence{Source: Source{Tokens: []Token{end}}, Options: basic()}
	d.Encode([]*Sentence{s})
	if s.Slots() != 0 || !d.Start(s) || len(d.Step()) != 1 || stepper.encodes+stepper.steps > 0 {
		t.Errorf("an empty source took %d slots, %d encoder and %d decoder passes", s.Slots(), stepper.encodes, stepper.steps)
	}
}

// TestLengthCap checks the cap by Marian's rule: at least factor times the source pieces, the end included.
func TestLengthCap(t *testing.T) {
	for _, test := range []struct {
		factor float32
		source int
		prefix int
		want   int
	}{{3, 4, 0, 12}, {1, 4, 0, 4}, {1.5, 3, 0, 5}, {0.1, 3, 0, 1}, {0.1, 3, 6, 7}, {1, 4, 3, 4}} {
		s := &Sentence{Source: Source{Tokens: append(slices.Repeat([]Token{2}, test.source-1), end)}, Options: basic()}
		s.Options.MaxLengthFactor = test.factor
		s.Prefix = slices.Repeat([]Token{2}, test.prefix)
		for _, beam := range []int{1, 3} {
			s.Options.Beam = beam
			result := alone(t, prefer(9, 3), s)
			h := result.Hypotheses[0]
			if len(h.Tokens) != test.want || h.Finished || result.Flags&Unfinished == 0 {
				t.Errorf("factor %v, source %d, prefix %d, beam %d: %d tokens, want %d; flags %b",
					test.factor, test.source, test.prefix, beam, len(h.Tokens), test.want, result.Flags)
			}
		}
	}
}

func TestEndOfSentenceAtTheCapIsFinished(t *testing.T) {
	s := &Sentence{Source: Source{Tokens: []Token{2, end}}, Options: basic()}
	s.Options.MaxLengthFactor = 1
	result := alone(t, prefer(5, 3, end), s)
	if h := result.Hypotheses[0]; !slices.Equal(h.Tokens, []Token{3, end}) || !h.Finished || result.Flags != 0 {
		t.Errorf("got %+v", result)
	}
}

func TestPrefixMayEndTheSentence(t *testing.T) {
	for _, beam := range []int{1, 4} {
		s := &Sentence{Source: Source{Tokens: []Token{2, 2, end}}, Prefix: []Token{3, end, 3}, Options: basic()}
		s.Options.Beam = beam
		result := alone(t, prefer(5, 3), s)
		if h := result.Hypotheses[0]; !slices.Equal(h.Tokens, []Token{3, end}) || !h.Finished || len(result.Hypotheses) != 1 {
			t.Errorf("beam %d: got %+v", beam, result)
		}
	}
}

func TestPrefixTokensThatTheModelCannotGiveCountAsCertain(t *testing.T) {
	model := prefer(6, 3, 3, end)
	model.suppressed = []Token{1}
	s := &Sentence{Source: Source{Tokens: []Token{2, 2, end}, Candidates: []Token{0, 1, 3}}, Prefix: []Token{1, 5}, Options: basic()}
	s.Options.WordScores = true
	h := alone(t, model, s).Hypotheses[0]
	if !slices.Equal(h.Tokens, []Token{1, 5, end}) || h.WordScores[0] != 0 || h.WordScores[1] != 0 || !(h.WordScores[2] < 0) {
		t.Errorf("got %+v", h)
	}
}

func TestNonFiniteEndsTheSentence(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	for name, spoil := range map[string]func([]float32){
		"one NaN": func(logits []float32) { logits[2] = nan },
		"all NaN": func(logits []float32) {
			for j := range logits {
				logits[j] = nan
			}
		},
		"infinity": func(logits []float32) { logits[3] = inf },
	} {
		model := prefer(6, 3, 4, 3, end)
		model.spoil = func(good func(_, _ []Token, _ []float32)) func(_, history []Token, logits []float32) {
			return func(source, history []Token, logits []float32) {
				good(source, history, logits)
				if source[0] == 5 && len(history) == 2 {
					spoil(logits)
				}
			}
		}(model.spoil)
		for _, sampling := range []Method{NoSampling, Full, TopK, Gumbel} {
			for _, beam := range []int{1, 2} {
				options := Options{Beam: beam, MaxLengthFactor: 3, Sampling: Sampling{Method: sampling, K: 3}}
				bad := &Sentence{Source: Source{Tokens: []Token{5, 2, end}}, Options: options}
				good := &Sentence{Source: Source{Tokens: []Token{2, 2, end}}, Options: options}
				tr := trial{models: []*fakeModel{model}}
				results := tr.decode(t, []*Sentence{good, bad}, 8, 2, 1)
				if r := results[bad]; r.Flags != NonFinite || r.Hypotheses != nil {
					t.Errorf("%s, method %d, beam %d: got %+v", name, sampling, beam, r)
				}
				if r := results[good]; r.Flags&NonFinite != 0 || len(r.Hypotheses) == 0 {
					t.Errorf("%s, method %d, beam %d: the neighbour got %+v", name, sampling, beam, r)
				}
			}
		}
	}
}

// TestNothingAllowed forbids every token that is left, so that the search cannot go on.
func TestNothingAllowed(t *testing.T) {
	model := prefer(4, 3)
	model.suppressed = []Token{end, 1}
	for _, method := range []Method{NoSampling, Full, TopK, Gumbel} {
		for _, beam := range []int{1, 3} {
			s := &Sentence{Source: Source{Tokens: []Token{2, 2, 2, end}}, Options: Options{
				Beam: beam, NBest: 2, MaxLengthFactor: 3, NoRepeat: 1, Sampling: Sampling{Method: method, K: 3},
			}}
			result := alone(t, model, s)
			for _, h := range result.Hypotheses {
				if len(h.Tokens) > 2 || h.Finished || result.Flags != Unfinished {
					t.Errorf("method %d, beam %d: got %+v", method, beam, result)
				}
			}
			if len(result.Hypotheses) == 0 {
				t.Errorf("method %d, beam %d: no hypothesis", method, beam)
			}
		}
	}
}

func TestGreedyAvoidsTheSoftmax(t *testing.T) {
	for _, scores := range []bool{false, true} {
		stepper := newFakeStepper(prefer(5, 3, 4, end), 2)
		d, err := NewDecoder([]Stepper{stepper}, nil, end)
		if err != nil {
			t.Fatal(err)
		}
		s := &Sentence{Source: Source{Tokens: []Token{2, end}}, Options: basic()}
		s.Options.Scores = scores
		d.Encode([]*Sentence{s})
		d.Start(s)
		for len(d.Step()) == 0 {
		}
		if (stepper.bests == 3) == scores {
			t.Errorf("scores %v: asked %d times for the best only", scores, stepper.bests)
		}
	}
}

func TestRepeats(t *testing.T) {
	ascending := allTokens(200)
	for _, test := range []struct {
		name   string
		tokens []Token
		want   bool
	}{
		{"nothing", nil, false},
		{"no repetition", ascending, false},
		{"one token 23 times", slices.Repeat([]Token{7}, 23), false},
		{"one token 24 times", slices.Repeat([]Token{7}, 24), true},
		{"in the middle", slices.Concat(ascending[:30], slices.Repeat([]Token{7}, 24), ascending[:30]), true},
		{"three times ten", slices.Repeat(ascending[:10], 3), false},
		{"four times ten", slices.Repeat(ascending[:10], 4), true},
		{"four times ten less one", slices.Repeat(ascending[:10], 4)[:39], false},
		{"four times the longest cycle", slices.Repeat(ascending[:24], 4), true},
		{"four times a longer cycle", slices.Repeat(ascending[:25], 4), false},
		{"interrupted", slices.Concat(slices.Repeat([]Token{7}, 20), []Token{8}, slices.Repeat([]Token{7}, 20)), false},
	} {
		if got := Repeats(test.tokens); got != test.want {
			t.Errorf("%s: %v", test.name, got)
		}
	}
}

func TestRepetitionIsFlaggedUnlessTheSourceRepeatsToo(t *testing.T) {
	varied := &Sentence{Source: Source{Tokens: append(allTokens(12)[1:], end)}, Options: basic()}
	same := &Sentence{Source: Source{Tokens: append(slices.Repeat([]Token{2}, 30), end)}, Options: basic()}
	model := prefer(20, 3)
	if r := alone(t, model, varied); r.Flags != Unfinished|Repetition {
		t.Errorf("flags %b for a loop", r.Flags)
	}
	if r := alone(t, model, same); r.Flags != Unfinished {
		t.Errorf("flags %b for a loop that the source has too", r.Flags)
	}
	varied.Options.NoRepeat = 2
	r := alone(t, model, varied)
	if r.Flags&Repetition != 0 {
		t.Errorf("flags %b although nothing may repeat", r.Flags)
	}
	seen := map[[2]Token]bool{}
	tokens := r.Hypotheses[0].Tokens
	for i := range tokens[1:] {
		pair := [2]Token{tokens[i], tokens[i+1]}
		if seen[pair] {
			t.Errorf("%v stands twice in %v", pair, tokens)
		}
		seen[pair] = true
	}
}

func TestBannedTokens(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tokens := rapid.SliceOf(rapid.Int32Range(0, 3)).Draw(t, "tokens")
		n := rapid.IntRange(1, 4).Draw(t, "n")
		got := banned(nil, tokens, n)
		naive := naive{options: Options{NoRepeat: n}}
		for token := range Token(4) {
			if want := naive.repeats(tokens, token); slices.Contains(got, token) != want {
				t.Fatalf("after %v token %d is banned: %v, want %v", tokens, token, !want, want)
			}
		}
	})
}

func TestAbandonAndRelease(t *testing.T) {
	stepper := newFakeStepper(prefer(5, 3), 8)
	d, err := NewDecoder([]Stepper{stepper}, nil, end)
	if err != nil {
		t.Fatal(err)
	}
	sentences := make([]*Sentence, 5)
	for i := range sentences {
		sentences[i] = &Sentence{Source: Source{Tokens: []Token{2, end}}, Options: Options{Beam: 3, MaxLengthFactor: 3}}
	}
	d.Encode(sentences)
	if !d.Start(sentences[0]) || !d.Start(sentences[1]) || d.Start(sentences[2]) || d.Free() != 2 || d.Active() != 2 {
		t.Fatalf("%d slots free, %d active", d.Free(), d.Active())
	}
	d.Step()
	d.Abandon()
	for _, s := range sentences[2:] {
		d.Release(s)
	}
	if d.Free() != 8 || d.Active() != 0 || len(stepper.contexts) != 0 {
		t.Errorf("%d slots free, %d active, %d contexts", d.Free(), d.Active(), len(stepper.contexts))
	}
}

func TestNewDecoderChecksTheEnsemble(t *testing.T) {
	a, b := newFakeStepper(prefer(5, 3), 2), newFakeStepper(prefer(6, 3), 4)
	for name, make := range map[string]func() (*Decoder, error){
		"no model":          func() (*Decoder, error) { return NewDecoder(nil, nil, end) },
		"too few weights":   func() (*Decoder, error) { return NewDecoder([]Stepper{a, a}, []float32{1}, end) },
		"weight not finite": func() (*Decoder, error) { return NewDecoder([]Stepper{a}, []float32{float32(math.NaN())}, end) },
		"two vocabularies":  func() (*Decoder, error) { return NewDecoder([]Stepper{a, b}, nil, end) },
	} {
		if _, err := make(); !errors.Is(err, ErrEnsemble) {
			t.Errorf("%s: error %v", name, err)
		}
	}
	d, err := NewDecoder([]Stepper{newFakeStepper(prefer(5, 3), 7), a}, nil, end)
	if err != nil || d.Slots() != 2 || d.Free() != 2 {
		t.Errorf("%v, error %v", d, err)
	}
}

func TestValidate(t *testing.T) {
	nan := float32(math.NaN())
	for name, spoil := range map[string]func(*Options){
		"beam":        func(o *Options) { o.Beam = 0 },
		"n-best":      func(o *Options) { o.NBest = -1 },
		"normalize":   func(o *Options) { o.Normalize = -1 },
		"penalty":     func(o *Options) { o.WordPenalty = nan },
		"factor":      func(o *Options) { o.MaxLengthFactor = 0 },
		"no repeat":   func(o *Options) { o.NoRepeat = -1 },
		"stop below":  func(o *Options) { o.StopBelow = -1 },
		"method":      func(o *Options) { o.Sampling.Method = Gumbel + 1 },
		"temperature": func(o *Options) { o.Sampling = Sampling{Method: Full, Temperature: -1} },
		"k":           func(o *Options) { o.Sampling = Sampling{Method: TopK} },
		"p":           func(o *Options) { o.Sampling = Sampling{Method: Nucleus, P: 1.1} },
		"p of nan":    func(o *Options) { o.Sampling = Sampling{Method: Nucleus, P: nan} },
		"epsilon":     func(o *Options) { o.Sampling = Sampling{Method: Epsilon} },
	} {
		options := basic()
		if err := options.Validate(); err != nil {
			t.Fatal(err)
		}
		spoil(&options)
		if err := options.Validate(); !errors.Is(err, ErrOptions) {
			t.Errorf("%s: error %v", name, err)
		}
	}
}
