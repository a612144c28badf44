package search

import (
	"math"
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// A trial is a set of models with sentences to translate.
type trial struct {
	models    []*fakeModel
	weights   []float32
	sentences []*Sentence
	stepped   int                        // rows of the last decode
	wrap      func(*fakeStepper) Stepper // what the Decoder is given in place of a fakeStepper; nil: itself
}

func drawTrial(t *rapid.T) trial {
	var tr trial
	vocabulary := rapid.IntRange(2, 40).Draw(t, "vocabulary")
	grid := rapid.SampledFrom([]float64{0, 0, 1, 2}).Draw(t, "grid")
	for range rapid.SampledFrom([]int{1, 1, 2, 3}).Draw(t, "models") {
		m := &fakeModel{seed: rapid.Uint64().Draw(t, "seed"), vocabulary: vocabulary, grid: grid, endBias: 0.3}
		if vocabulary > 4 {
			m.suppressed = []Token{1}
		}
		tr.models = append(tr.models, m)
	}
	if rapid.Bool().Draw(t, "weighted") {
		for range tr.models {
			tr.weights = append(tr.weights, float32(rapid.Float64Range(0.1, 2).Draw(t, "weight")))
		}
	}
	for range rapid.IntRange(1, 8).Draw(t, "sentences") {
		tr.sentences = append(tr.sentences, drawSentence(t, vocabulary))
	}
	return tr
}

func drawSentence(t *rapid.T, vocabulary int) *Sentence {
	token := rapid.Int32Range(1, int32(vocabulary-1))
	s := &Sentence{
		Source: Source{Tokens: append(rapid.SliceOfN(token, 1, 6).Draw(t, "source"), end)},
		Seed:   rapid.Uint64().Draw(t, "sentence seed"),
		Options: Options{
			Beam:            rapid.IntRange(1, 6).Draw(t, "beam"),
			NBest:           rapid.IntRange(0, 7).Draw(t, "n-best"),
			Normalize:       rapid.SampledFrom([]float32{0, 0.6, 1}).Draw(t, "normalize"),
			WordPenalty:     rapid.SampledFrom([]float32{0, 0.2, -0.5}).Draw(t, "word penalty"),
			MaxLengthFactor: rapid.SampledFrom([]float32{0.1, 1, 1.5, 3}).Draw(t, "factor"),
			Scores:          rapid.Bool().Draw(t, "scores"),
			WordScores:      rapid.Bool().Draw(t, "word scores"),
			Align:           rapid.Bool().Draw(t, "align"),
			StopBelow:       rapid.SampledFrom([]float32{0, 0, 0.3, 1, 3}).Draw(t, "stop below"),
			NoRepeat:        rapid.SampledFrom([]int{0, 0, 1, 2, 3}).Draw(t, "no repeat"),
			Seed:            7,
		},
	}
	if rapid.IntRange(0, 2).Draw(t, "shortlist") == 0 {
		s.Source.Candidates = slices.DeleteFunc(allTokens(vocabulary), func(token Token) bool {
			return token != end && uniform(s.Seed^mix(uint64(token))) < 0.5
		})
	}
	if rapid.IntRange(0, 3).Draw(t, "forced") == 0 {
		s.Prefix = rapid.SliceOfN(token, 1, 5).Draw(t, "prefix")
	}
	return s
}

// A failer is a test, ordinary or of properties.
type failer interface {
	Fatal(...any)
	Fatalf(string, ...any)
}

// decode runs sentences through one decoder, in the order given, with mini-batches and refills of the given sizes.
func (tr *trial) decode(t failer, sentences []*Sentence, slots, miniBatch, refill int) map[*Sentence]Result {
	var fakes []*fakeStepper
	var steppers []Stepper
	for _, m := range tr.models {
		fakes = append(fakes, newFakeStepper(m, slots))
		if tr.wrap != nil {
			steppers = append(steppers, tr.wrap(fakes[len(fakes)-1]))
		} else {
			steppers = append(steppers, fakes[len(fakes)-1])
		}
	}
	d, err := NewDecoder(steppers, tr.weights, end)
	if err != nil {
		t.Fatal(err)
	}
	results := map[*Sentence]Result{}
	var waiting []*Sentence
	for len(results) < len(sentences) {
		if len(waiting) == 0 && len(sentences) > 0 {
			n := min(miniBatch, len(sentences)-len(results)-d.Active())
			first := len(results) + d.Active()
			waiting = append(waiting, sentences[first:first+n]...)
			d.Encode(waiting)
		}
		if d.Free() >= refill || d.Free() == slots {
			for len(waiting) > 0 && d.Start(waiting[0]) {
				waiting = waiting[1:]
			}
		}
		for _, result := range d.Step() {
			if _, twice := results[result.Sentence]; twice {
				t.Fatal("a sentence ended twice")
			}
			results[result.Sentence] = result.Clone()
		}
	}
	if d.Free() != slots || d.Active() != 0 || d.Step() != nil {
		t.Fatalf("%d of %d slots are free in the end, %d sentences active", d.Free(), slots, d.Active())
	}
	for _, f := range fakes {
		if len(f.contexts) > 0 {
			t.Fatalf("%d contexts were not released", len(f.contexts))
		}
	}
	tr.stepped = fakes[0].stepped
	return results
}

func TestAgainstNaiveSearch(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tr := drawTrial(t)
		for _, s := range tr.sentences {
			if rapid.IntRange(0, 3).Draw(t, "noise") == 0 {
				s.Options.Sampling = Sampling{Method: Gumbel, Temperature: rapid.SampledFrom([]float32{0, 0.5, 2}).Draw(t, "temperature")}
			}
		}
		results := tr.decode(t, tr.sentences, rapid.IntRange(6, 40).Draw(t, "slots"), 3, 3)
		for _, s := range tr.sentences {
			n := naive{tr.models, tr.weights, s.Options, s.Source, s.Prefix, s.Seed}
			compare(t, s, results[s], n.search())
		}
	})
}

// compare compares a result with all hypotheses of the naive search.
func compare(t *rapid.T, s *Sentence, got Result, want []Hypothesis) {
	if len(want) > 0 && len(want[0].Tokens) == 0 { // no token was allowed from the start
		if got.Flags != NonFinite {
			t.Fatalf("flags %v where nothing is allowed", got.Flags)
		}
		return
	}
	want = want[:min(len(want), max(s.Options.NBest, 1))]
	if len(got.Hypotheses) != len(want) {
		t.Fatalf("%d hypotheses, want %d", len(got.Hypotheses), len(want))
	}
	scored := s.Options.scored()
	for i, h := range got.Hypotheses {
		w := want[i]
		if !slices.Equal(h.Tokens, w.Tokens) || h.Finished != w.Finished {
			t.Fatalf("hypothesis %d is %v, want %v (score %v, want %v)", i, h.Tokens, w.Tokens, h.Score, w.Score)
		}
		if scored && (!near(h.Score, w.Score) || !slices.EqualFunc(h.ModelScores, w.ModelScores, near)) {
			t.Fatalf("hypothesis %d has scores %v %v, want %v %v", i, h.Score, h.ModelScores, w.Score, w.ModelScores)
		}
		if !scored && (h.ModelScores != nil || h.Score != 0) {
			t.Fatalf("hypothesis %d has scores %v %v, though none were asked for", i, h.Score, h.ModelScores)
		}
		if s.Options.WordScores && !slices.EqualFunc(h.WordScores, w.WordScores, near) {
			t.Fatalf("word scores %v, want %v", h.WordScores, w.WordScores)
		}
		if s.Options.Align && !slices.EqualFunc(h.Alignment, w.Alignment, slices.Equal[[]float32]) {
			t.Fatalf("alignment %v, want %v", h.Alignment, w.Alignment)
		}
		if !s.Options.WordScores && h.WordScores != nil || !s.Options.Align && h.Alignment != nil {
			t.Fatal("word scores or alignment, though not asked for")
		}
	}
	if unfinished := got.Flags&Unfinished != 0; unfinished == got.Hypotheses[0].Finished {
		t.Fatalf("flags %v for a best hypothesis that is finished: %v", got.Flags, got.Hypotheses[0].Finished)
	}
}

// A search that stops early finds the same best translation, as long as scores can only fall.
func TestStoppingEarly(t *testing.T) {
	rows := map[bool]int{}
	rapid.Check(t, func(t *rapid.T) {
		tr := drawTrial(t)
		for _, s := range tr.sentences {
			s.Options.Normalize, s.Options.WordPenalty = 0, max(s.Options.WordPenalty, 0)
			s.Options.NBest, s.Options.MaxLengthFactor, s.Options.StopBelow = 1, 3, 0
		}
		want := tr.decode(t, tr.sentences, 40, 3, 3)
		all := tr.stepped
		for _, s := range tr.sentences {
			s.Options.StopBelow = rapid.SampledFrom([]float32{0.01, 0.5, 3}).Draw(t, "stop below")
		}
		got := tr.decode(t, tr.sentences, 40, 3, 3)
		for i, s := range tr.sentences {
			if !reflect.DeepEqual(got[s], want[s]) {
				t.Fatalf("sentence %d gives\n%v\nand when the search stops early\n%v", i, want[s], got[s])
			}
		}
		rows[false], rows[true] = rows[false]+all, rows[true]+tr.stepped
	})
	if rows[true] >= rows[false] {
		t.Errorf("%d rows with early stops, %d without", rows[true], rows[false])
	}
}

func near(x, y float32) bool { return math.Abs(float64(x-y)) < 1e-4 }

func TestResultsDoNotDependOnCompany(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tr := drawTrial(t)
		for _, s := range tr.sentences {
			s.Options.Sampling = drawSampling(t)
		}
		want := map[*Sentence]Result{}
		for _, s := range tr.sentences {
			want[s] = tr.decode(t, []*Sentence{s}, 8, 1, 1)[s]
		}
		for range 3 {
			order := rapid.Permutation(tr.sentences).Draw(t, "order")
			slots := rapid.IntRange(8, 64).Draw(t, "slots")
			got := tr.decode(t, order, slots, rapid.IntRange(1, 8).Draw(t, "mini-batch"), rapid.IntRange(1, slots).Draw(t, "refill"))
			for i, s := range tr.sentences {
				if !reflect.DeepEqual(got[s], want[s]) {
					t.Fatalf("sentence %d gives\n%v\nin company and\n%v\nalone", i, got[s], want[s])
				}
			}
		}
	})
}

func drawSampling(t *rapid.T) Sampling {
	return Sampling{
		Method:      Method(rapid.IntRange(0, int(Gumbel)).Draw(t, "method")),
		Temperature: rapid.SampledFrom([]float32{0, 1, 0.7, 1.5}).Draw(t, "temperature"),
		K:           rapid.IntRange(1, 50).Draw(t, "k"),
		P:           float32(rapid.Float64Range(0.05, 1).Draw(t, "p")),
		Epsilon:     float32(rapid.Float64Range(0.001, 0.9).Draw(t, "epsilon")),
	}
}
