//go:build linux && (amd64 || arm64) && !nogpu

package main

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"testing"
	"time"

	"github.com/sluice-mt/sluice/gpukernels"
	"github.com/sluice-mt/sluice/gpukernels/cuda"
	"github.com/sluice-mt/sluice/gpukernels/emulated"
	"github.com/sluice-mt/sluice/internal/sharedtest"
	"github.com/sluice-mt/sluice/translator/gpumodel"
	"github.com/sluice-mt/sluice/translator/model"
	"github.com/sluice-mt/sluice/translator/search"
	"github.com/sluice-mt/sluice/translator/vocab"
)

// toyTrial is what an emulated device with a toy tries loads with.
func toyTrial(t *testing.T) *loadTrial {
	t.Helper()
	driver, err := cuda.Open(emulated.Library(t, emulated.Unwatched, emulated.Sources(t)...))
	if err != nil {
		t.Fatal(err)
	}
	device, err := gpumodel.Open(driver, 0)
	if err != nil {
		t.Fatal(err)
	}
	toy := toys()[1]
	g := &gpu{driver: driver, device: device, weights: []*gpumodel.Weights{loadToy(t, device, toy)}}
	t.Cleanup(g.close)
	return &loadTrial{gpu: g, options: search.Options{Beam: 2, MaxLengthFactor: 1}, vocabulary: toy.size().Vocabulary, limit: time.Minute,
		logger: slog.New(slog.DiscardHandler)}
}

// Loads are tried for models of several sources, whose sentences have pieces of each, and not for language models, which have none.
func TestLoadsOfSeveralSources(t *testing.T) {
	target, err := vocab.Open(filepath.Join(sharedtest.Root(), "models", "ende-tiny", "vocab.spm"))
	if err != nil {
		t.Fatal(err)
	}
	g := toyTrial(t).gpu
	of := func(kind, vocabularies string) (*model.Model, *loadTrial) {
		description := strings.NewReplacer("type: transformer", "type: "+kind, "dim-vocabs: [50, 50]", "dim-vocabs: "+vocabularies,
			"tied-embeddings-all: true", "tied-embeddings: true").Replace(toys()[0].description())
		m, err := randomModel(description, rand.New(rand.NewPCG(2018, 1)))
		if err != nil {
			t.Fatal(err)
		}
		p := &engineParts{models: &ensemble{models: []*model.Model{m}}}
		p.config.Text.Target, p.config.Search = target, search.Options{Beam: 2}
		return m, p.loadTrial(g, slog.New(slog.DiscardHandler))
	}
	if _, trial := of("lm-transformer", "[50]"); trial != nil {
		t.Errorf("a language model would read %+v", trial.sources(0, 1))
	}
	m, trial := of("multi-transformer", "[50, 7, 50]")
	if trial == nil {
		t.Fatal("no loads are tried")
	}
	for _, source := range trial.sources(1, 20) {
		if len(source.Further) != 1 || len(source.Further[0]) != len(source.Tokens) || slices.Max(source.Further[0]) > 6 {
			t.Fatalf("%+v", source)
		}
	}
	weights, err := g.device.Load(m, gpumodel.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer weights.Close()
	trial.gpu = &gpu{driver: g.driver, device: g.device, weights: []*gpumodel.Weights{weights}}
	if rate, err := trial.rate(t.Context(), gpuLoad{1, 4}, 20*time.Millisecond); err != nil || !(rate > 0) {
		t.Errorf("%v hypotheses a second, %v", rate, err)
	}
}

// loadToy loads a model with random parameters.
func loadToy(t *testing.T, device *gpumodel.Device, toy architecture) *gpumodel.Weights {
	t.Helper()
	m, err := randomModel(toy.description(), rand.New(rand.NewPCG(2018, 1)))
	if err != nil {
		t.Fatal(err)
	}
	weights, err := device.Load(m, gpumodel.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return weights
}

// A load is measured on a device, and one for which there is no memory does nothing.
func TestLoadRate(t *testing.T) {
	trial := toyTrial(t)
	for _, l := range []gpuLoad{{1, 4}, {2, 5}} {
		if rate, err := trial.rate(t.Context(), l, 20*time.Millisecond); err != nil || !(rate > 0) {
			t.Errorf("%+v: %v hypotheses a second, %v", l, rate, err)
		}
	}
	free, _ := trial.gpu.weights[0].Batch(trial.gpu.sharedBy(1))
	if !trial.gpu.fits(gpuLoad{1, free}) || trial.gpu.fits(gpuLoad{1 << 20, 1 << 20}) {
		t.Error("it is not seen what there is memory for")
	}
}

// There is room for less where there is less memory, and of two models together for much less than half of what there is for one: the scores that
// they add up take memory, too.
func TestRoomForLoads(t *testing.T) {
	g := toyTrial(t).gpu
	context, err := g.driver.Context(0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { context.Close() })
	bound := func(work func() error) {
		t.Helper()
		release, err := context.Bind()
		if err == nil {
			err = work()
			release()
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	wordy := loadToy(t, g.device, student{"wordy toy", 1, 2, 32, 64, 2, 5000, ofSSRUs})
	t.Cleanup(func() { wordy.Close() })
	of := func(models int, joint bool) *gpu {
		return &gpu{driver: g.driver, device: g.device, weights: slices.Repeat([]*gpumodel.Weights{wordy}, models), joint: joint}
	}
	most := func(g *gpu) int {
		return sort.Search(1<<24, func(slots int) bool { return !g.fits(gpuLoad{usualStreams, slots + 1}) })
	}
	before := g.room()
	var taken cuda.Pointer
	bound(func() error {
		free, _, err := context.Memory()
		if err == nil {
			taken, err = cuda.Alloc[byte](context, int(free/16*15))
		}
		return err
	})
	if less := g.room(); less >= before || !g.fits(gpuLoad{usualStreams, less}) || g.fits(gpuLoad{usualStreams, 2 * less}) {
		t.Errorf("room for %d slots, and for %d with a sixteenth of the memory", before, less)
	}
	one, drawn, two := most(of(1, false)), most(of(1, true)), most(of(2, false))
	if two == 0 || two >= one/3 {
		t.Errorf("two models fit with %d slots, want less than a third of the %d of one", two, one)
	}
	if drawn >= one/2 || drawn <= two {
		t.Errorf("one model that draws from all tokens fits with %d slots, want less than half of the %d of one that does not, and more than the %d of two", drawn, one, two)
	}
	bound(func() error { return context.Free(taken) })
}

// Measuring ends in time, however long the steps of the usual load would take, and when the program is to end. Nothing is known then.
func TestLoadsAreTriedInTime(t *testing.T) {
	trial := toyTrial(t)
	usual := gpuLoad{2, 256}
	began := time.Now()
	if err := trial.fewSteps(t.Context(), usual.Slots); err != nil {
		t.Fatal(err)
	}
	step := time.Since(began) / 2
	find := func(ctx context.Context, limit time.Duration) (time.Duration, error) {
		trial.limit = limit
		began := time.Now()
		best, measured, err := trial.find(ctx, usual, true)
		if best != usual || measured {
			t.Errorf("%+v, measured %v within %v, where a step takes %v", best, measured, limit, step)
		}
		return time.Since(began), err
	}
	if took, err := find(t.Context(), step/2); err != nil || took > 3*step { // the machine may be busy
		t.Errorf("%v, %v, where half of a step was allowed, which takes %v", took, err, step)
	}
	rate := func(ctx context.Context, took time.Duration) time.Duration {
		began := time.Now()
		if rate, err := trial.rate(ctx, gpuLoad{1, 64}, took); err != nil || ctx.Err() != nil && rate > 0 {
			t.Errorf("%v hypotheses a second, %v", rate, err)
		}
		return time.Since(began)
	}
	done, cancel := context.WithCancel(t.Context())
	cancel()
	if whole, took := rate(t.Context(), time.Nanosecond), rate(done, time.Hour); took > whole/2 {
		t.Errorf("a load that is not tried any more takes %v, and one that is %v", took, whole)
	}
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(4*step, cancel)
	if took, err := find(ctx, time.Hour); !errors.Is(err, context.Canceled) || took > 60*step {
		t.Errorf("%v, %v, where it was interrupted after four steps, each of which takes %v", took, err, step)
	}
}

// What was measured is in the file, and is taken from there. Nothing is measured with a slow device, or without a
// place for the file.
func TestLoadIsRemembered(t *testing.T) {
	trial := toyTrial(t)
	file := testTuner(filepath.Join(t.TempDir(), "sluice", "kernels.json")).loadsOfGPU(gpuAndDriver{"a card", "12.2"})
	trial.limit = time.Nanosecond
	if l := trial.remembered(t.Context(), file, "toy", 6); l != (gpuLoad{usualStreams, 6}) || len(file.read()) > 0 {
		t.Errorf("a slow device: %+v, remembered are %v", l, file.read())
	}
	trial.limit, trial.weights = 2*time.Second, []float32{1, 1} // of which a model has one
	if l := trial.remembered(t.Context(), file, "toy", 6); l != (gpuLoad{usualStreams, 6}) || len(file.read()) > 0 {
		t.Errorf("a failure: %+v, remembered are %v", l, file.read())
	}
	trial.weights = nil
	if l := trial.remembered(t.Context(), file, "toy", 1); l != (gpuLoad{usualStreams, 1}) || len(file.read()) > 0 {
		t.Errorf("no load that does anything: %+v, remembered are %v", l, file.read())
	}
	found := trial.remembered(t.Context(), file, "toy", 6)
	if known := file.read()["toy"]; known != found || found.Slots != 6 {
		t.Fatalf("found %+v, remembered are %v", found, file.read())
	}
	want := gpuLoad{3, 6} // which nobody tries
	if err := file.write(func() map[string]gpuLoad { return map[string]gpuLoad{"toy": want} }); err != nil {
		t.Fatal(err)
	}
	if l := trial.remembered(t.Context(), file, "toy", 6); l != want {
		t.Errorf("%+v is remembered, and %+v taken", want, l)
	}
	if l := trial.remembered(t.Context(), file, "another toy", 7); l.Slots != 7 || len(file.read()) != 2 {
		t.Errorf("%+v, remembered are %v", l, file.read())
	}
	nowhere := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(nowhere, nil, 0o666); err != nil {
		t.Fatal(err)
	}
	lost := testTuner(filepath.Join(nowhere, "sluice", "kernels.json")).loadsOfGPU(gpuAndDriver{"a card", "12.2"})
	if l := trial.remembered(t.Context(), lost, "toy", 6); l != (gpuLoad{usualStreams, 6}) {
		t.Errorf("without a place: %+v", l)
	}
}

// Loads are remembered apart wherever something differs that decides how fast they are.
func TestLoadKeys(t *testing.T) {
	m, err := randomModel(toys()[0].description(), rand.New(rand.NewPCG(2018, 1)))
	if err != nil {
		t.Fatal(err)
	}
	keys := map[string]string{}
	for name, change := range map[string]func(p *engineParts){
		"as usual":     func(*engineParts) {},
		"8 bits":       func(p *engineParts) { p.models.onGPU.Products = gpukernels.Int8 },
		"alphas":       func(p *engineParts) { p.models.onGPU.Products, p.models.int8.ignoreAlphas = gpukernels.Int8, false },
		"two models":   func(p *engineParts) { p.models.models = append(p.models.models, m) },
		"samples":      func(p *engineParts) { p.config.Search.Sampling = search.Sampling{Method: search.TopK, K: 5} },
		"more samples": func(p *engineParts) { p.config.Search.Sampling = search.Sampling{Method: search.TopK, K: 6} },
		"scores":       func(p *engineParts) { p.config.Search.Scores = true },
		"a beam":       func(p *engineParts) { p.config.Search.Beam = 3 },
	} {
		p := &engineParts{models: &ensemble{models: []*model.Model{m}, int8: quantisation{ignoreAlphas: true}}}
		change(p)
		key := p.loadKey("own kernels", 64, 0)
		if other, taken := keys[key]; taken {
			t.Errorf("%s and %s have the same key: %s", name, other, key)
		}
		keys[key] = name
	}
}

// Loads for scoring given translations are measured, for language models, too. All slots are at work: lists follow each other, and what they held is
// given back.
func TestScoringLoads(t *testing.T) {
	trial := toyTrial(t)
	trial.scores = trial.vocabulary
	for _, trial.vocabulary = range []int{trial.vocabulary, 0} {
		for _, l := range []gpuLoad{{1, 4}, {2, 25}} {
			if rate, err := trial.rate(t.Context(), l, 20*time.Millisecond); err != nil || !(rate > 0) {
				t.Errorf("%+v: %v hypotheses a second, %v", l, rate, err)
			}
		}
	}
	const slots = 3 * scoredOfList
	workers, err := trial.open(gpuLoad{1, slots})
	if err != nil {
		t.Fatal(err)
	}
	scorer := workers[0].(*busyScorer)
	for step := range 2*modelLength + 1 {
		if advanced := scorer.busyStep(); advanced != slots {
			t.Fatalf("step %d advances %d translations, want %d", step, advanced, slots)
		}
		for _, score := range scorer.scores {
			if !(score < 0) {
				t.Fatalf("step %d: a log-probability of %v", step, score)
			}
		}
		if want := 3 * min((step+1)%modelLength, 1); len(scorer.lists) != want {
			t.Fatalf("after step %d %d lists are scored, want %d", step, len(scorer.lists), want)
		}
	}
	if err := errors.Join(scorer.failure(), scorer.close()); err != nil {
		t.Fatal(err)
	}
}
