//go:build linux && (amd64 || arm64) && !nogpu

package gpumodel

import (
	"errors"
	"math"
	"os"
	"reflect"
	"slices"
	"testing"

	"github.com/sluice-mt/sluice/gpukernels/cuda"
	"github.com/sluice-mt/sluice/gpukernels/emulated"
	"github.com/sluice-mt/sluice/translator/cpumodel"
	"github.com/sluice-mt/sluice/translator/model"
	"github.com/sluice-mt/sluice/translator/search"
)

// ensemble makes models of these kinds.
func ensemble(t *testing.T, kinds ...string) []*model.Model {
	var models []*model.Model
	for _, kind := range kinds {
		m := randomModel(t, describe(descriptions[kind]))
		if slices.Contains(hardModels, kind) {
			m = hardModel(t, kind)
		}
		models = append(models, m)
	}
	return models
}

// jointSearches are some ways to search, in all of which a Joint chooses if there are several models.
func jointSearches() []searchCase {
	return slices.DeleteFunc(searches(), func(c searchCase) bool {
		return !slices.Contains([]string{"greedy with candidates", "list", "list without repeating", "prefix of a beam", "samples", "samples of the best",
			"samples of a nucleus", "likely samples", "noisy beam"}, c.name)
	})
}

// wideSearches look at so many of the best tokens that the device sorts them.
func wideSearches() []searchCase {
	return []searchCase{
		{name: "wide beam", options: search.Options{Beam: 16, NBest: 4, Normalize: 1, MaxLengthFactor: 1.5, WordScores: true}},
		{name: "wide noisy beam with candidates", candidates: true, options: search.Options{Beam: 14, NBest: 4, MaxLengthFactor: 1.5, WordScores: true,
			Sampling: search.Sampling{Method: search.Gumbel, Temperature: 2}, Seed: 5}},
		{name: "samples of many", options: search.Options{Beam: 1, NBest: 3, MaxLengthFactor: 1.5, Sampling: search.Sampling{Method: search.TopK, K: 66}}},
	}
}

// A jointPair are Steppers of the same models twice: some are counted, and run ahead; the others never do.
type jointPair struct {
	counters      []*counter
	ahead, behind []search.Stepper
}

func newJointPair(t *testing.T, d *Device, models []*model.Model, slots int) *jointPair {
	p := &jointPair{}
	for _, m := range models {
		c := count(newStepper(t, d, m, slots))
		p.counters, p.ahead = append(p.counters, c), append(p.ahead, c)
		s := newStepper(t, d, m, slots)
		s.waits = true
		p.behind = append(p.behind, s)
		moveStreams(t, d)
	}
	return p
}

// moveStreams takes a stream, so that where one half of the streams is ahead of the other one, those of Steppers that follow are in the other
// half.
func moveStreams(t *testing.T, d *Device) {
	var stream *cuda.Stream
	must(t, d.bound(func() (err error) { stream, err = d.context.Stream(); return err }))
	t.Cleanup(func() { must(t, d.bound(stream.Close)) })
}

// check fails unless both find the same, to the last bit, though those that run ahead look at fewer rows together; and unless all that could
// have been run ahead was, by all models.
func (p *jointPair) check(t *testing.T, what any, cases []searchCase, align bool) {
	t.Helper()
	for _, c := range p.counters {
		*c = *count(c.Stepper)
	}
	have, want := searchFew(t, p.ahead, sentencesOf(cases, align)), searchAll(t, p.behind, sentencesOf(cases, align))
	for i := range want {
		if have[i].Flags != want[i].Flags || !reflect.DeepEqual(have[i].Hypotheses, want[i].Hypotheses) {
			t.Errorf("%v, %v: it is %+v, want %+v", what, want[i].Sentence.Tag, have[i].Hypotheses, want[i].Hypotheses)
		}
	}
	for i, c := range p.counters {
		t.Logf("%v, %d ways to search: %d rows of %d were run ahead by model %d", what, len(cases), c.followed, c.rows, i)
		if c.missed > 0 || c.followed == 0 {
			t.Errorf("%v: model %d ran %d rows ahead, and %d that it could have run ahead it did not, want none", what, i, c.followed, c.missed)
		}
	}
}

// Two models together, and samples of one.
func TestJointly(t *testing.T) {
	d := openDevice(t)
	p := newJointPair(t, d, ensemble(t, "pre-norm self-attention", "average attention"), 16)
	p.check(t, "two models", jointSearches(), true)
	prefixes := slices.DeleteFunc(searches(), func(c searchCase) bool { return len(c.prefix) < 2 })
	p.check(t, "two models, of which all tokens are given at first", prefixes, false)
	p = newJointPair(t, d, ensemble(t, "lstm"), 16)
	p.check(t, "one model, of whose searches some look at all tokens", jointSearches(), false)
}

// Ensembles of all kinds, in all ways to search.
func TestEnsemblesAhead(t *testing.T) {
	d := openDevice(t)
	if testing.Short() { // as in other modes
		newJointPair(t, d, ensemble(t, "post-norm", "s2s"), 24).check(t, "two models", searches(), false)
		return
	}
	for i, kinds := range [][]string{{"post-norm", "s2s", "deep devlin"}, {"hard attention", "odd heads, pre-norm"}} {
		p := newJointPair(t, d, ensemble(t, kinds...), 24)
		p.check(t, kinds, append(searches(), wideSearches()...), i == 1)
	}
}

// searchFew is searchAll, with a Joint that looks at few rows together.
func searchFew(t *testing.T, steppers []search.Stepper, sentences []*search.Sentence) []search.Result {
	t.Helper()
	few := slices.Clone(steppers)
	few[0] = &fewTogether{steppers[0].(*counter)}
	return searchAll(t, few, sentences)
}

type fewTogether struct{ *counter }

func (f *fewTogether) Join(others []search.Stepper, weights []float32) search.Joint {
	j := f.counter.Join(others, weights).(*countedJoint)
	j.together = 5
	return j
}

// What rows are drawn, and what ensembles choose, is the same alone and among others, to the last bit, in whichever slots.
func TestJointAlone(t *testing.T) {
	d := openDevice(t)
	for _, kinds := range [][]string{{"post-norm"}, {"post-norm", "self-attention"}} {
		models := ensemble(t, kinds...)
		steppers, fewer := on(t, d, models, 40), on(t, d, models, 16)
		cases := append(searches(), wideSearches()...)
		together := searchAll(t, steppers, sentencesOf(cases, false))
		for i, sentence := range sentencesOf(cases, false) {
			if i%3 != 1 { // one of each way
				continue
			}
			alone := searchAll(t, fewer, []*search.Sentence{sentence})[0]
			if !reflect.DeepEqual(alone.Hypotheses, together[i].Hypotheses) {
				t.Errorf("%v, %v: alone it is\n%+v\nwant\n%+v", kinds, sentence.Tag, alone.Hypotheses, together[i].Hypotheses)
			}
		}
	}
}

// Whatever weight a model has, searches give the same, to the last bit, beside others that look at all tokens and beside none, and all run ahead.
func TestWeightsBesideOthers(t *testing.T) {
	d := openDevice(t)
	m := randomModel(t, small(""))
	cases := jointSearches()
	for _, weight := range []float32{0.3, -0.5} {
		s := count(newStepper(t, d, m, 24))
		together := searchWeighted(t, []search.Stepper{s}, []float32{weight}, sentencesOf(cases, false))
		if s.missed > 0 || s.followed == 0 {
			t.Errorf("weight %v: %d rows were run ahead, and %d that could have been were not, want some and none", weight, s.followed, s.missed)
		}
		alone := []search.Stepper{newStepper(t, d, m, 8)}
		for i, sentence := range sentencesOf(cases, false) {
			have := searchWeighted(t, alone, []float32{weight}, []*search.Sentence{sentence})[0]
			if !reflect.DeepEqual(have.Hypotheses, together[i].Hypotheses) {
				t.Errorf("weight %v, %v: alone it is\n%+v\nwant\n%+v", weight, sentence.Tag, have.Hypotheses, together[i].Hypotheses)
			}
		}
	}
}

// Nobody ever asks for all scores of a row.
func TestJointLooksAtNothing(t *testing.T) {
	d := openDevice(t)
	for _, kinds := range [][]string{{"post-norm"}, {"post-norm", "s2s"}} {
		steppers := on(t, d, ensemble(t, kinds...), 40)
		for _, c := range append(searches(), wideSearches()...) {
			searchAll(t, steppers, sentencesOf([]searchCase{c}, false))
		}
		for i, s := range steppers {
			if scored := s.(*Stepper).scored.scores; len(scored) > 0 {
				t.Errorf("%v: %d scores of model %d were brought to the processor, want none", kinds, len(scored), i)
			}
		}
	}
}

// A broken row of one model spoils its own sentence and no other.
func TestJointOfBrokenRows(t *testing.T) {
	d := openDevice(t)
	models := ensemble(t, "post-norm", "average attention")
	putFloat(models[1].Output.Bias, 40, float32(math.Inf(1)))
	for _, method := range []search.Method{search.NoSampling, search.Full, search.Nucleus, search.TopK, search.Gumbel} {
		var sentences []*search.Sentence
		for i, source := range randomSources(6, 5, 4) {
			if i != 1 {
				source.Candidates = []search.Token{0, 2, 3, 4, 9}
			}
			sentences = append(sentences, &search.Sentence{Source: source, Options: search.Options{Beam: 2, NBest: 2, MaxLengthFactor: 2,
				Sampling: search.Sampling{Method: method, K: 3, P: 0.8}}})
		}
		for i, r := range searchAll(t, on(t, d, models, 12), sentences) {
			if broken := r.Flags&search.NonFinite != 0; broken != (i == 1) {
				t.Errorf("method %d: sentence %d has the flags %b, want a broken one: %v", method, i, r.Flags, i == 1)
			}
		}
	}
}

// Steppers of other devices, of other vocabularies, and of other kinds are asked for their scores.
func TestJoin(t *testing.T) {
	d := openDevice(t)
	m := randomModel(t, small(""))
	s, other := newStepper(t, d, m, 2), newStepper(t, openDevice(t), m, 2)
	if s.Join([]search.Stepper{newStepper(t, d, m, 2)}, []float32{1, 1}) == nil {
		t.Error("Steppers of one device have no Joint")
	}
	for what, others := range map[string][]search.Stepper{"another device": {other}, "another kind": {count(newStepper(t, d, m, 2))}} {
		if j := s.Join(others, []float32{1, 1}); j != nil {
			t.Errorf("with a Stepper of %s there is a Joint, %v", what, j)
		}
	}
}

// When the device fails while models choose together, all that they choose is NaN, from then on, and a Stepper says why.
func TestJointFails(t *testing.T) {
	if os.Getenv("FAULT") != "joint" {
		if os.Getenv(emulated.LibraryVariable) != "" {
			t.Skip("needs an emulated device of its own")
		}
		output, err := emulated.Rerun(t, emulated.Plain(), library(t, emulated.Unwatched), "^TestJointFails$", "FAULT=joint")
		if err != nil {
			t.Errorf("%v\n%s", err, output)
		}
		return
	}
	d := openDevice(t)
	var steppers []*Stepper
	for _, m := range ensemble(t, "post-norm", "s2s") {
		w, err := d.Load(m, Options{})
		must(t, err)
		s, err := w.NewStepper(2)
		must(t, err)
		contexts := make([]search.Context, 2)
		s.Encode(randomSources(5, 6), contexts)
		s.Begin(0, contexts[0])
		s.Begin(1, contexts[1])
		s.Step([]search.Slot{0, 1}, []search.Token{search.NoToken, search.NoToken}, false)
		steppers = append(steppers, s)
	}
	j := steppers[0].Join([]search.Stepper{steppers[1]}, []float32{1, 0.5})
	for call := range 3 { // the second one's kernel fails
		if call == 1 {
			emulatedSetting(t)("fault", "cuLaunchKernel:4:719")
		}
		out, parts := make([]search.Scored, 4), make([]float32, 8)
		j.Choose([]int32{0, 1}, 2, nil, make([]search.Lot, 2), out, parts)
		for _, scored := range out {
			if (scored.Score == scored.Score) != (call == 0) {
				t.Errorf("call %d: the score %v, want NaN: %v", call, scored.Score, call > 0)
			}
		}
	}
	if err := errors.Join(steppers[0].Err(), steppers[1].Err()); !errors.Is(err, cuda.ErrLost) {
		t.Errorf("got %v, want %v", err, cuda.ErrLost)
	}
}

// What one of the models suppresses, nobody writes.
func TestJointSuppresses(t *testing.T) {
	d := openDevice(t)
	models := ensemble(t, "lstm", "post-norm")
	var favourites []search.Token // of the two without suppressed tokens
	for _, suppress := range []bool{false, true} {
		steppers := []search.Stepper{newStepper(t, d, models[0], 12), newStepper(t, d, models[1], 12)}
		if suppress {
			steppers[1] = newStepper(t, d, models[1], 12, favourites...)
		}
		for _, method := range []search.Method{search.NoSampling, search.Full, search.Nucleus, search.TopK, search.Gumbel} {
			var sentences []*search.Sentence
			for _, source := range randomSources(6, 5, 4) {
				sentences = append(sentences, &search.Sentence{Source: source, Options: search.Options{Beam: 2, NBest: 3, MaxLengthFactor: 2,
					Sampling: search.Sampling{Method: method, K: 30, P: 0.8}}})
			}
			for _, r := range searchAll(t, steppers, sentences) {
				for _, token := range r.Hypotheses[0].Tokens {
					if suppress && slices.Contains(favourites, token) {
						t.Errorf("method %d writes %d, want none of %v", method, token, favourites)
					}
					if !suppress && token != 0 && len(favourites) < 8 {
						favourites = append(favourites, token)
					}
				}
			}
		}
	}
	if len(favourites) == 0 {
		t.Error("there is nothing to suppress")
	}
}

// A token that a prefix gives counts as certain where a model suppresses it, or it is no candidate, as it does on the processor.
func TestPrefixOfSuppressedTokens(t *testing.T) {
	d := openDevice(t)
	models, suppressed := ensemble(t, "lstm", "post-norm"), []search.Token{7, 33}
	for _, count := range []int{1, 2} {
		var gpu, cpu []search.Stepper
		for i, m := range models[:count] {
			own := suppressed[i:]
			gpu = append(gpu, newStepper(t, d, m, 4, own...))
			packed, err := cpumodel.Load(m, cpumodel.Float32, cpumodel.Options{Suppress: own})
			must(t, err)
			cpu = append(cpu, packed.NewStepper(4))
		}
		var wanted []search.Result
		for _, steppers := range [][]search.Stepper{cpu, gpu} {
			var sentences []*search.Sentence
			for i, source := range randomSources(6, 4) {
				if i == 1 {
					source.Candidates = []search.Token{0, 7, 9, 20, 33, 40}
				}
				sentences = append(sentences, &search.Sentence{Source: source, Prefix: []search.Token{9, 7, 33, 50},
					Options: search.Options{Beam: 2, NBest: 1, MaxLengthFactor: 1, WordScores: true}})
			}
			results := searchAll(t, steppers, sentences)
			if wanted == nil {
				wanted = results
				continue
			}
			for i := range results {
				have, want := results[i].Hypotheses[0].WordScores, wanted[i].Hypotheses[0].WordScores
				certain := 0
				for n := range 4 { // what comes after it is chosen
					if !(math.Abs(float64(have[n]-want[n])) <= 0.05*float64(count)) {
						t.Errorf("%d models, sentence %d: the prefix scores %v, want %v", count, i, have[:4], want[:4])
					}
					if have[n] == 0 {
						certain++
					}
				}
				if all := 3 - count + i; certain != all {
					t.Errorf("%d models, sentence %d: %v has %d certain tokens, want %d", count, i, have[:4], certain, all)
				}
			}
		}
	}
}

// What models take to look at rows together is what is counted for it where slots are.
func TestJointIsCounted(t *testing.T) {
	d := openDevice(t)
	for _, c := range []struct {
		slots  int
		models []string
	}{{24, []string{"post-norm", "lstm", "post-norm"}}, {300, []string{"post-norm", "lstm", "post-norm"}}, {24, []string{"post-norm"}}} {
		slots, steppers := c.slots, on(t, d, ensemble(t, c.models...), c.slots)
		first := steppers[0].(*Stepper)
		j := first.Join(steppers[1:], slices.Repeat([]float32{1}, len(steppers))).(*joint)
		before := freeMemory(t, d)
		must(t, d.bound(func() error { return j.reserve(1) }))
		scores := uint64(min(first.turnSize, jointlyScored) * first.w.jointBytes(Sharing{Models: len(steppers), Joint: true}))
		choices := uint64(first.turnSize * (8 + 4*len(steppers)) * 2) // and normalisers
		if taken := before - freeMemory(t, d); taken < scores || taken > scores+choices {
			t.Errorf("%d slots of %d models: %d bytes are taken, want %d and at most %d for choices", slots, len(steppers), taken, scores, choices)
		}
	}
	for _, c := range []struct{ bytes, slot, more, want int }{
		{0, 10, 5, 0}, {14, 10, 5, 0}, {150, 10, 5, 10}, {150, 10, 0, 15},
		{15*jointlyScored - 1, 10, 5, jointlyScored - 1}, {15 * jointlyScored, 10, 5, jointlyScored},
		{15*jointlyScored + 99, 10, 5, jointlyScored + 9}, {15*jointlyScored + 100, 10, 5, jointlyScored + 10},
	} {
		if slots := slotsWithin(c.bytes, c.slot, c.more); slots != c.want {
			t.Errorf("%d bytes, of which a slot takes %d, and some %d more: %d slots, want %d", c.bytes, c.slot, c.more, slots, c.want)
		}
	}
}
