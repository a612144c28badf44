package translator_test

import (
	"errors"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/sluice-mt/sluice/internal/job"
	"github.com/sluice-mt/sluice/internal/sharedtest"
	"github.com/sluice-mt/sluice/translator"
	"github.com/sluice-mt/sluice/translator/cpumodel"
	"github.com/sluice-mt/sluice/translator/marian"
	"github.com/sluice-mt/sluice/translator/model"
	"github.com/sluice-mt/sluice/translator/search"
	"github.com/sluice-mt/sluice/translator/vocab"
)

// twoSources is an engine's settings for a model of two sources.
func twoSources(t *testing.T) translator.Config {
	t.Helper()
	file, err := marian.Open(sharedtest.Path(t, "models/reference/multi-transformer/model.npz"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	m, err := model.Load(file, nil)
	if err != nil {
		t.Fatal(err)
	}
	words, err := vocab.Open(sharedtest.Path(t, "models/reference/vocab/joint.spm"))
	if err != nil {
		t.Fatal(err)
	}
	weights, err := cpumodel.Load(m, cpumodel.Int8, cpumodel.Options{Suppress: words.Suppressed()})
	if err != nil {
		t.Fatal(err)
	}
	return translator.Config{
		Models: cpuModels{weights}, Search: search.Options{Beam: 1, MaxLengthFactor: 3}, KeepRepetition: true,
		Text: translator.Text{Source: words, Target: words, Further: []vocab.Vocabulary{words}, MaxLength: 30},
	}
}

// What a sentence with several sources becomes does not depend on its company.
func TestSeveralSourcesAreInvariant(t *testing.T) {
	config := twoSources(t)
	random := rand.New(rand.NewPCG(1, 2))
	words := strings.Fields("the house is old and we see a small red car near water where people speak of music")
	phrase := func() string {
		var chosen []string
		for range 1 + random.IntN(10) {
			chosen = append(chosen, words[random.IntN(len(words))])
		}
		return strings.Join(chosen, " ")
	}
	var lines []string
	for range 60 {
		lines = append(lines, phrase()+"\t"+phrase())
	}
	config.Batching = translator.Batching{Workers: 1, Slots: 1, MiniBatchLines: 1}
	alone := translate(t, config, lines, nil)
	for _, slots := range []int{7, 64} {
		config.Batching = translator.Batching{Workers: 2, Slots: slots, MiniBatchTokens: 100}
		order := random.Perm(len(lines))
		shuffled := make([]string, len(lines))
		for i, from := range order {
			shuffled[i] = lines[from]
		}
		for i, result := range translate(t, config, shuffled, nil) {
			if got, want := result.Text(), alone[order[i]].Text(); got != want {
				t.Errorf("%d slots: %q is %q, alone %q", slots, shuffled[i], got, want)
			}
		}
	}
}

func TestSeveralSourcesAreCounted(t *testing.T) {
	config := twoSources(t)
	long := strings.Repeat("water ", 50)
	results := translate(t, config, []string{"the house", "a\tb\tc", "", " \t", "the house\t", "the house\t" + long, long + "\tthe house"}, nil)
	for i, want := range []error{translator.ErrSources, translator.ErrSources, nil, nil, nil, nil, nil} {
		if !errors.Is(results[i].Err, want) {
			t.Errorf("line %d: error %v, want %v", i, results[i].Err, want)
		}
	}
	for i, want := range []job.Flags{job.Failed, job.Failed, 0, 0, 0, job.Cropped, job.Cropped} {
		if results[i].Flags&^(job.Unfinished|job.Repetition) != want {
			t.Errorf("line %d: flags %v, want %v", i, results[i].Flags, want)
		}
	}
	if results[2].Text() != "" || results[3].Text() != "" || results[4].Text() == "" {
		t.Errorf("%q, %q and %q", results[2].Text(), results[3].Text(), results[4].Text())
	}
}
