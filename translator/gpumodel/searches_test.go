//go:build linux && (amd64 || arm64) && !nogpu

package gpumodel

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-mt/sluice/translator/cpumodel"
	"github.com/sluice-mt/sluice/translator/model"
	"github.com/sluice-mt/sluice/translator/search"
)

// A searchCase is a way to search that every device must offer.
type searchCase struct {
	name       string
	options    search.Options
	prefix     []search.Token
	candidates bool
}

// searches is the list for all devices.
func searches() []searchCase {
	drawn := func(s search.Sampling) search.Options {
		return search.Options{Beam: 1, NBest: 3, Normalize: 1, MaxLengthFactor: 1.5, WordScores: true, Sampling: s, Seed: 7}
	}
	return []searchCase{
		{name: "greedy", options: search.Options{Beam: 1, MaxLengthFactor: 2}},
		{name: "greedy with candidates", options: search.Options{Beam: 1, MaxLengthFactor: 2}, candidates: true},
		{name: "greedy without repeating", options: search.Options{Beam: 1, MaxLengthFactor: 2, NoRepeat: 1}},
		{name: "word scores", options: search.Options{Beam: 1, MaxLengthFactor: 2, WordScores: true}},
		{name: "list", options: search.Options{Beam: 4, NBest: 4, Normalize: 0.6, MaxLengthFactor: 1.5, WordScores: true}},
		{name: "list with candidates", options: search.Options{Beam: 3, NBest: 3, Normalize: 1, WordPenalty: 0.5, MaxLengthFactor: 1.5, WordScores: true}, candidates: true},
		{name: "list without repeating", options: search.Options{Beam: 3, NBest: 2, Normalize: 1, MaxLengthFactor: 1.5, WordScores: true, NoRepeat: 2}},
		{name: "beam that stops early", options: search.Options{Beam: 3, NBest: 3, MaxLengthFactor: 1.5, StopBelow: 3}},
		{name: "prefix", options: search.Options{Beam: 1, MaxLengthFactor: 2}, prefix: []search.Token{9, 4}},
		{name: "prefix of a beam", options: search.Options{Beam: 3, NBest: 3, Normalize: 1, MaxLengthFactor: 2, WordScores: true}, prefix: []search.Token{9, 4, 33}},
		{name: "prefix with candidates", options: search.Options{Beam: 2, NBest: 2, Normalize: 1, MaxLengthFactor: 2, WordScores: true}, prefix: []search.Token{20}, candidates: true},
		{name: "samples", options: drawn(search.Sampling{Method: search.Full})},
		{name: "cold samples", options: drawn(search.Sampling{Method: search.Full, Temperature: 0.5}), candidates: true},
		{name: "samples of the best", options: drawn(search.Sampling{Method: search.TopK, K: 5})},
		{name: "samples of a nucleus", options: drawn(search.Sampling{Method: search.Nucleus, P: 0.8})},
		{name: "likely samples", options: drawn(search.Sampling{Method: search.Epsilon, Epsilon: 0.02})},
		{name: "noisy beam", options: search.Options{Beam: 3, NBest: 3, MaxLengthFactor: 1.5, WordScores: true, Sampling: search.Sampling{Method: search.Gumbel}, Seed: 3}},
	}
}

// sentencesOf are sentences to be searched for in every way of the list. align asks for alignments of all.
func sentencesOf(cases []searchCase, align bool) []*search.Sentence {
	var all []*search.Sentence
	for _, c := range cases {
		for i, source := range randomSources(6, 11, 3) {
			if c.candidates {
				source.Candidates = []search.Token{0, 2, 3, 4, 9, 17, 20, 21, 33, 40, 56, 69}
			}
			s := &search.Sentence{Source: source, Options: c.options, Prefix: c.prefix, Seed: uint64(i), Tag: c.name}
			s.Options.Align = align
			all = append(all, s)
		}
	}
	return all
}

// A precise search gives what others are compared with: that of the processor, one sentence at a time.
type precise struct {
	t         testing.TB
	models    []*model.Model // an ensemble, if there are several
	precision cpumodel.Precision
}

func (p *precise) search(s *search.Sentence) search.Result {
	alone := *s
	return searchAll(p.t, onProcessor(p.t, p.models, 16, p.precision), []*search.Sentence{&alone})[0]
}

func onProcessor(t testing.TB, models []*model.Model, slots int, precision cpumodel.Precision) []search.Stepper {
	var all []search.Stepper
	for _, m := range models {
		weights, err := cpumodel.Load(m, precision, cpumodel.Options{})
		must(t, err)
		all = append(all, weights.NewStepper(slots))
	}
	return all
}

func on(t testing.TB, d *Device, models []*model.Model, slots int) []search.Stepper {
	var all []search.Stepper
	for _, m := range models {
		all = append(all, newStepper(t, d, m, slots))
	}
	return all
}

// score gives a translation its scores and alignment.
func (p *precise) score(s *search.Sentence, tokens []search.Token) search.Hypothesis {
	forced := *s
	forced.Prefix = tokens
	forced.Options = search.Options{Beam: 1, MaxLengthFactor: s.Options.MaxLengthFactor, Normalize: s.Options.Normalize,
		WordPenalty: s.Options.WordPenalty, WordScores: true, Align: s.Options.Align}
	if n := len(tokens); tokens[n-1] != 0 { // an end that the length's limit made: one more token follows a prefix
		forced.Options.MaxLengthFactor = float32(n+1) / float32(len(s.Source.Tokens))
	}
	h := p.search(&forced).Hypotheses[0]
	h.Tokens, h.WordScores = h.Tokens[:len(tokens)], h.WordScores[:len(tokens)]
	if h.Alignment != nil {
		h.Alignment = h.Alignment[:len(tokens)]
	}
	sum := float32(0)
	for _, score := range h.WordScores {
		sum += score
	}
	length := float64(len(tokens))
	h.Score = float32((float64(sum) - float64(s.Options.WordPenalty)*length) / math.Pow(length, float64(s.Options.Normalize)))
	return h
}

// searchAll finds sentences side by side, as many as fit, in their order.
func searchAll(t testing.TB, steppers []search.Stepper, sentences []*search.Sentence) []search.Result {
	t.Helper()
	return searchWeighted(t, steppers, nil, sentences)
}

// searchWeighted is searchAll with models that have weights.
func searchWeighted(t testing.TB, steppers []search.Stepper, weights []float32, sentences []*search.Sentence) []search.Result {
	t.Helper()
	d, err := search.NewDecoder(steppers, weights, 0)
	must(t, err)
	place := map[*search.Sentence]int{}
	results := make([]search.Result, len(sentences))
	for done, next := 0, 0; done < len(sentences); {
		for next < len(sentences) && sentences[next].Slots() <= d.Free() {
			place[sentences[next]] = next
			d.Encode(sentences[next : next+1])
			d.Start(sentences[next])
			next++
		}
		if d.Active() == 0 {
			t.Fatalf("%v needs %d slots, and there are %d", sentences[next].Tag, sentences[next].Slots(), d.Slots())
		}
		for _, result := range d.Step() {
			results[place[result.Sentence]] = result.Clone()
			done++
		}
	}
	return results
}

// A judge compares what a device found with what the processor does, within what the device's numbers allow.
type judge struct {
	precise
	tolerance float64 // of the logarithm of a word's probability
	ties      int     // other translations, each about as good
	lost      []string
}

// compare looks at all hypotheses of a result. Those that the processor finds, too, must have its numbers. A list with others is a tie
// if the processor, made to translate so, gives them the device's numbers, and if what it has in their place is not better by more than
// rounding can hide; otherwise rounding has made a beam lose it early. Of noisy searches nobody can tell that; there the numbers alone
// count.
func (j *judge) compare(have, want search.Result) {
	j.t.Helper()
	name := have.Sentence.Tag
	if have.Flags != want.Flags&^search.Repetition|have.Flags&search.Repetition || len(have.Hypotheses) != len(want.Hypotheses) {
		j.t.Errorf("%v: flags %b and %d hypotheses, want %b and %d", name, have.Flags, len(have.Hypotheses), want.Flags, len(want.Hypotheses))
		return
	}
	if slices.EqualFunc(have.Hypotheses, want.Hypotheses, sameTokens) {
		for i := range want.Hypotheses {
			j.near(name, have.Sentence, &have.Hypotheses[i], &want.Hypotheses[i])
		}
		return
	}
	j.ties++
	lowest, longest := math.Inf(1), 0
	for i := range have.Hypotheses {
		h := &have.Hypotheses[i]
		scored := j.score(have.Sentence, h.Tokens)
		j.near(name, have.Sentence, h, &scored)
		lowest, longest = min(lowest, float64(scored.Score)), max(longest, len(h.Tokens))
	}
	if have.Sentence.Options.Sampling.Method != search.NoSampling {
		return
	}
	for _, h := range want.Hypotheses {
		scored := j.score(have.Sentence, h.Tokens)
		if loss := float64(scored.Score) - lowest; loss > j.allowed(have.Sentence, max(longest, len(h.Tokens))) {
			j.lost = append(j.lost, fmt.Sprintf("%v: %v, which is better by %v than what is found", name, h.Tokens, loss))
		}
	}
}

func sameTokens(x, y search.Hypothesis) bool { return slices.Equal(x.Tokens, y.Tokens) }

// allowed is how much the score of so many tokens may be another one.
func (j *judge) allowed(s *search.Sentence, length int) float64 {
	return j.tolerance * math.Pow(float64(length), 1-float64(s.Options.Normalize))
}

func (j *judge) near(name any, s *search.Sentence, have, want *search.Hypothesis) {
	j.t.Helper()
	if len(have.WordScores) > 0 || have.Score != 0 {
		if difference := math.Abs(float64(have.Score - want.Score)); !(difference <= j.allowed(s, len(want.Tokens))) {
			j.t.Errorf("%v: %v scores %v, want %v", name, have.Tokens, have.Score, want.Score)
		}
	}
	for i, score := range have.WordScores {
		if difference := math.Abs(float64(score - want.WordScores[i])); !(difference <= j.tolerance) {
			j.t.Errorf("%v: word %d of %v scores %v, want %v", name, i, have.Tokens, score, want.WordScores[i])
		}
	}
	if (s.Options.Align) != (len(have.Alignment) > 0) {
		j.t.Errorf("%v: %d rows of alignment", name, len(have.Alignment))
	}
	for i, row := range have.Alignment {
		for position, weight := range row {
			if difference := math.Abs(float64(weight - want.Alignment[i][position])); !(difference <= j.tolerance) {
				j.t.Errorf("%v: word %d of %v looks at %d by %v, want %v", name, i, have.Tokens, position, weight, want.Alignment[i][position])
			}
		}
	}
}

// searchers are the devices, each with the processor's arithmetic that it is compared with, what it may differ by from that, and how many
// ties there may be of all sentences in the list, and translations that a beam loses: random models are often undecided, and what a beam
// drops by less than the rounding may have become the better translation. That guesses and decisions agree to the last bit is for
// TestSearchesAhead.
var searchers = []struct {
	name      string
	open      func(t testing.TB) *Device // nil: the processor itself
	precision cpumodel.Precision
	tolerance float64
	ties      int
	lost      int
	only      string // kind of model; "": all
}{
	{"processor", nil, cpumodel.Float32, 0, 0, 0, ""},
	{"GPU", openDevice, cpumodel.Float32, 0.05, 3, 3, ""},
	{"GPU with bfloat16", openBFloat16, cpumodel.Float32, 0.4, 8, 3, ""},
	// What 16 bits round otherwise becomes another integer now and then: where random models hold many words as good, beams part early.
	{"GPU with int8", openInt8, cpumodel.Int8, 0.4, 3, 3, "post-norm"},
}

// Every way to search, all side by side, on every device: the processor must give each sentence what it gives it alone, to the last bit,
// and a GPU the same within its rounding.
func TestSearches(t *testing.T) {
	if testing.Short() { // as in other modes
		testSearches(t, false, autoregressions[0])
		testSearches(t, true, autoregressions[1])
		return
	}
	for _, kind := range autoregressions {
		for _, align := range []bool{false, true} {
			testSearches(t, align, kind)
		}
	}
	// All scores of every row are looked at.
	testSearches(t, true, "tied layers", "plain average attention")
	testSearches(t, true, "two sources")
	testSearches(t, false, "pre-norm self-attention", "language model")
}

// testSearches goes through the list with models of these kinds.
func testSearches(t *testing.T, align bool, kinds ...string) {
	var models []*model.Model
	for _, kind := range kinds {
		models = append(models, randomModel(t, describe(descriptions[kind])))
	}
	wanted := map[cpumodel.Precision][]search.Result{}
	devices := searchers[:2]
	if align == strings.Contains(kinds[0], "self-attention") {
		devices = searchers // one pass of each kind is enough
	}
	for _, device := range devices {
		if device.only != "" && device.only != kinds[0] {
			continue
		}
		t.Run(fmt.Sprintf("%s on the %s, alignments %v", strings.Join(kinds, " and "), device.name, align), func(t *testing.T) {
			cases := searches()
			if len(models) > 1 {
				cases = append(cases, wideSearches()...)
			}
			j := judge{precise: precise{t, models, device.precision}, tolerance: device.tolerance}
			if wanted[device.precision] == nil {
				for _, s := range sentencesOf(cases, align) {
					wanted[device.precision] = append(wanted[device.precision], j.search(s))
				}
			}
			steppers := onProcessor(t, models, 64, device.precision)
			if device.open != nil {
				steppers = on(t, device.open(t), models, 64)
			}
			want := wanted[device.precision]
			for i, have := range searchAll(t, steppers, sentencesOf(cases, align)) {
				j.compare(have, want[i])
			}
			t.Logf("%d of %d are other translations, and %d that are better are not found", j.ties, len(want), len(j.lost))
			ties := device.ties
			if len(models) > 1 { // wide beams have long lists, in which one place is enough
				ties += 2
			}
			if j.ties > ties {
				t.Errorf("%d ties", j.ties)
			}
			if len(j.lost) > device.lost {
				t.Errorf("not found: %s", strings.Join(j.lost, "\n"))
			}
		})
	}
}

// A sentence gives the same hypotheses, to the last bit, alone and among all others: in each way to search, with each arithmetic, each kind of model,
// and ensembles.
func TestSearchesAlone(t *testing.T) {
	for _, d := range devices(t) {
		testSearchesAlone(t, d, small(""))
	}
	if testing.Short() {
		return
	}
	for _, kind := range autoregressions {
		t.Run(kind, func(t *testing.T) { testSearchesAlone(t, openDevice(t), describe(descriptions[kind])) })
	}
	t.Run("ensemble", func(t *testing.T) {
		testSearchesAlone(t, openDevice(t), describe(descriptions["tied layers"]), describe(descriptions["plain average attention"]))
	})
}

func testSearchesAlone(t *testing.T, d *Device, descriptions ...[]byte) {
	t.Helper()
	var models []*model.Model
	for _, description := range descriptions {
		models = append(models, randomModel(t, description))
	}
	steppers := on(t, d, models, 64)
	together := searchAll(t, steppers, sentencesOf(searches(), false))
	for i, sentence := range sentencesOf(searches(), false) {
		if i%3 == 1 { // one of each way
			alone := searchAll(t, steppers, []*search.Sentence{sentence})[0]
			if !reflect.DeepEqual(alone.Hypotheses, together[i].Hypotheses) {
				t.Errorf("%v: alone it is\n%+v\nnot\n%+v", sentence.Tag, alone.Hypotheses, together[i].Hypotheses)
			}
		}
	}
}
