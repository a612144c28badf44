package translator_test

import (
	"bufio"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluice-mt/sluice/internal/job"
	"github.com/sluice-mt/sluice/internal/sharedtest"
	"github.com/sluice-mt/sluice/translator"
	"github.com/sluice-mt/sluice/translator/cpumodel"
	"github.com/sluice-mt/sluice/translator/marian"
	"github.com/sluice-mt/sluice/translator/model"
	"github.com/sluice-mt/sluice/translator/search"
	"github.com/sluice-mt/sluice/translator/shortlist"
	"github.com/sluice-mt/sluice/translator/vocab"
)

// demo is the folder of the model that lies in the repository.
func demo(elements ...string) string {
	return filepath.Join(append([]string{sharedtest.Root(), "models", "ende-tiny"}, elements...)...)
}

// cpuModels makes Steppers of one model on the CPU.
type cpuModels struct{ weights *cpumodel.Weights }

func (m cpuModels) NewSteppers(slots int) []search.Stepper {
	return []search.Stepper{m.weights.NewStepper(slots)}
}

// demoConfig is an engine of the demo model; loading is shared by the tests.
var demoConfig = sync.OnceValues(func() (map[cpumodel.Precision]translator.Config, error) {
	file, err := marian.Open(demo("model.intgemm.alphas.bin"))
	if err != nil {
		return nil, err
	}
	m, err := model.Load(file, nil)
	if err != nil {
		return nil, err
	}
	words, err := vocab.Open(demo("vocab.spm"))
	if err != nil {
		return nil, err
	}
	list, err := shortlist.Open(demo("lex.s2t.bin"), shortlist.Options{Parameters: shortlist.Defaults(), Shared: true, Source: words, Target: words})
	if err != nil {
		return nil, err
	}
	configs := map[cpumodel.Precision]translator.Config{}
	for _, precision := range []cpumodel.Precision{cpumodel.Int8, cpumodel.Float32} {
		weights, err := cpumodel.Load(m, precision, cpumodel.Options{Suppress: words.Suppressed()})
		if err != nil {
			return nil, err
		}
		configs[precision] = translator.Config{
			Models: cpuModels{weights},
			Text:   translator.Text{Source: words, Target: words, Shortlist: list, MaxLength: 1000},
			Search: search.Options{Beam: 1, Normalize: 1, MaxLengthFactor: 3},
		}
	}
	return configs, nil
})

func engineConfig(t testing.TB, precision cpumodel.Precision) translator.Config {
	t.Helper()
	configs, err := demoConfig()
	if err != nil {
		t.Fatal(err)
	}
	return configs[precision]
}

// translate gives the results of lines, submitted in the given order (nil is as they stand).
func translate(t *testing.T, config translator.Config, lines []string, order []int) []job.Result {
	t.Helper()
	engine, err := translator.New(config)
	if err != nil {
		t.Fatal(err)
	}
	defer engine.Close()
	results := make([]job.Result, len(lines))
	var pending sync.WaitGroup
	submit := func(i int) {
		pending.Add(1)
		engine.Submit(job.Segment{Text: lines[i], Done: func(r job.Result) { results[i] = r; pending.Done() }})
	}
	for i := range lines {
		if order != nil {
			i = order[i]
		}
		submit(i)
	}
	engine.Flush()
	pending.Wait()
	return results
}

// sentences are lines of many lengths, made of the words of a few sentences, so that no other file is needed.
func sentences(n int) []string {
	words := strings.Fields(`The committee will meet on Thursday in the old town hall to discuss the new timetable for buses ,
		but nobody knows whether a decision can be taken before the summer . A man in a red shirt is reading a newspaper on
		a park bench while two children play football . Please restart the computer after installing the update !`)
	random := rand.New(rand.NewPCG(1, 2))
	lines := make([]string, n)
	for i := range lines {
		start, length := random.IntN(len(words)), 1+random.IntN(1+random.IntN(30))
		var line []string
		for j := range length {
			line = append(line, words[(start+j)%len(words)])
		}
		lines[i] = strings.Join(line, " ")
	}
	return lines
}

// Closing does not wait for a text that takes long, of which parts are being translated.
func TestCloseIsPrompt(t *testing.T) {
	engine, err := translator.New(engineConfig(t, cpumodel.Int8))
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan job.Result, 1)
	engine.Submit(job.Segment{Text: strings.Repeat("7", 30_000), Done: func(r job.Result) { done <- r }})
	engine.Flush()
	for engine.Stats().Steps == 0 {
		time.Sleep(time.Millisecond)
	}
	begin := time.Now()
	engine.Close()
	if took := time.Since(begin); took > 10*time.Second {
		t.Errorf("it took %v", took)
	}
	if r := <-done; !errors.Is(r.Err, translator.ErrClosed) {
		t.Errorf("%v", r.Err)
	}
}

// The counts of an engine add up.
func TestStats(t *testing.T) {
	config := engineConfig(t, cpumodel.Int8)
	config.Batching = translator.Batching{Workers: 2, Slots: 16, MaxiBatch: 64}
	engine, err := translator.New(config)
	if err != nil {
		t.Fatal(err)
	}
	defer engine.Close()
	var pending sync.WaitGroup
	var source, target atomic.Int64
	lines := sentences(100)
	for _, line := range lines {
		pending.Add(1)
		engine.Submit(job.Segment{Text: line, Done: func(r job.Result) {
			source.Add(int64(r.SourceTokens))
			target.Add(int64(r.TargetTokens))
			pending.Done()
		}})
	}
	engine.Flush()
	pending.Wait()
	s := engine.Stats()
	if s.Sentences-s.Redone != int64(len(lines)) || s.Waiting != 0 || s.Workers != 2 || s.Slots != 16 {
		t.Errorf("%+v", s)
	}
	if s.Redone == 0 && (s.Tokens != source.Load() || s.Rows < target.Load()) || s.Rows > s.Steps*int64(s.Slots) {
		t.Errorf("%d source and %d target pieces: %+v", source.Load(), target.Load(), s)
	}
	if s.MiniBatches == 0 || s.Encode <= 0 || s.Decode <= 0 || s.Idle <= 0 {
		t.Errorf("%+v", s)
	}
}

// What comes out for a sentence must not depend on batches, workers or order, to the last bit.
func TestBatchInvariance(t *testing.T) {
	lines := sentences(120)
	searches := map[string]search.Options{
		"greedy": {Beam: 1, Normalize: 1, MaxLengthFactor: 3, WordScores: true, Align: true},
		"beam":   {Beam: 4, NBest: 4, Normalize: 0.6, WordPenalty: 0.2, MaxLengthFactor: 3, WordScores: true},
		"sample": {Beam: 1, MaxLengthFactor: 3, WordScores: true, Seed: 7, Sampling: search.Sampling{Method: search.Nucleus, P: 0.9}},
	}
	batchings := []translator.Batching{
		{},
		{Workers: 1, Slots: 4, MiniBatchTokens: 1, MaxiBatch: 1},
		{Workers: 3, Slots: 7, MiniBatchLines: 7, MaxiBatch: 20, TopUp: 1},
		{Workers: 2, Slots: 64, MiniBatchLines: 64, TopUp: 0.01, Unsorted: true},
	}
	for _, precision := range []cpumodel.Precision{cpumodel.Int8, cpumodel.Float32} {
		for name, options := range searches {
			t.Run(fmt.Sprintf("%v/%s", precision, name), func(t *testing.T) {
				config := engineConfig(t, precision)
				config.Search = options
				want := translate(t, config, lines, nil)
				for i, batching := range batchings {
					config.Batching = batching
					order := rand.New(rand.NewPCG(uint64(i), 5)).Perm(len(lines))
					got := translate(t, config, lines, order)
					for j := range lines {
						if !reflect.DeepEqual(got[j], want[j]) {
							t.Fatalf("batching %+v changes line %d %q:\ngot  %+v\nwant %+v", batching, j, lines[j], got[j], want[j])
						}
					}
				}
			})
		}
	}
}

// An input longer than the model takes is divided and rejoined, cropped if asked, and never lost.
func TestLongInputs(t *testing.T) {
	config := engineConfig(t, cpumodel.Int8)
	config.Text.MaxLength = 40
	long := strings.Repeat("A man in a red shirt is reading a newspaper. ", 30)
	digits := strings.Repeat("0123456789", 500)
	results := translate(t, config, []string{long, digits, "Hello.", strings.Repeat("\u3000", 5000)}, nil)
	if results[0].Flags != job.Split || strings.Count(results[0].Text(), "Zeitung") < 20 {
		t.Errorf("thirty sentences: flags %v, %q", results[0].Flags, results[0].Text())
	}
	if results[1].Flags&job.Split == 0 || results[1].Text() == "" || results[1].Err != nil {
		t.Errorf("digits: %+v", results[1])
	}
	if results[2].Flags != 0 {
		t.Errorf("a short neighbour is flagged %v", results[2].Flags)
	}
	if results[3].Err != nil || strings.TrimSpace(results[3].Text()) != "" {
		t.Errorf("white space: %+v", results[3])
	}
	config.Text.Crop = true
	cropped := translate(t, config, []string{long, "Hello."}, nil)
	if cropped[0].Flags&job.Cropped == 0 || cropped[0].SourceTokens != 40 {
		t.Errorf("cropped: flags %v, %d pieces", cropped[0].Flags, cropped[0].SourceTokens)
	}
	if cropped[1].Flags != 0 {
		t.Errorf("a short line is flagged %v", cropped[1].Flags)
	}
}

// A forced prefix begins the translation, also where the shortlist lacks its pieces.
func TestPrefix(t *testing.T) {
	engine, err := translator.New(engineConfig(t, cpumodel.Int8))
	if err != nil {
		t.Fatal(err)
	}
	defer engine.Close()
	done := make(chan job.Result, 1)
	engine.Submit(job.Segment{Text: "A man is reading a newspaper.", Prefix: "Quarkkuchen und", Done: func(r job.Result) { done <- r }})
	engine.Flush()
	if r := <-done; !strings.HasPrefix(r.Text(), "Quarkkuchen und") {
		t.Errorf("got %q", r.Text())
	}
}

// A segment that comes alone is translated within the latency, without a Flush.
func TestLatency(t *testing.T) {
	config := engineConfig(t, cpumodel.Int8)
	config.Batching.Latency = 20 * time.Millisecond
	engine, err := translator.New(config)
	if err != nil {
		t.Fatal(err)
	}
	defer engine.Close()
	done := make(chan job.Result, 1)
	engine.Submit(job.Segment{Text: "Hello.", Done: func(r job.Result) { done <- r }})
	select {
	case <-done:
	case <-time.After(5 * time.Second):
		t.Fatal("a lone segment waits for ever")
	}
}

// Every segment gets its Done, whenever the engine is closed.
func TestClose(t *testing.T) {
	for _, pause := range []time.Duration{0, 3 * time.Millisecond, 30 * time.Millisecond} {
		engine, err := translator.New(engineConfig(t, cpumodel.Int8))
		if err != nil {
			t.Fatal(err)
		}
		var pending sync.WaitGroup
		lines := sentences(300)
		pending.Add(len(lines))
		for _, line := range lines {
			engine.Submit(job.Segment{Text: line, Done: func(job.Result) { pending.Done() }})
		}
		engine.Flush()
		time.Sleep(pause)
		engine.Close()
		pending.Wait()
		answered := false
		engine.Submit(job.Segment{Text: "late", Done: func(r job.Result) { answered = r.Err != nil }})
		if !answered {
			t.Error("a segment after Close got no error")
		}
	}
}

func readLines(t *testing.T, path string) []string {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	var lines []string
	scanner := bufio.NewScanner(file)
	scanner.Buffer(nil, 1<<20)
	for scanner.Scan() {
		lines = append(lines, scanner.Text())
	}
	return lines
}

// The float32 model gives the recorded greedy translations, through the whole engine.
func TestRecordedTranslations(t *testing.T) {
	path := sharedtest.Path(t, "models", "ende-tiny", "model.npz")
	file, err := marian.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	m, err := model.Load(file, nil)
	if err != nil {
		t.Fatal(err)
	}
	config := engineConfig(t, cpumodel.Float32)
	weights, err := cpumodel.Load(m, cpumodel.Float32, cpumodel.Options{Suppress: config.Text.Target.Suppressed()})
	if err != nil {
		t.Fatal(err)
	}
	config.Models, config.Text.Shortlist, config.KeepRepetition = cpuModels{weights}, nil, true
	for _, set := range []struct{ source, recorded string }{
		{"test-multi30k-2016.en", "multi30k-2016.greedy.f32.de"},
		{"test-mix.en", "mix-500.greedy.f32.de"},
	} {
		want := readLines(t, sharedtest.Path(t, "models", "ende-tiny", "ref", set.recorded))
		source := readLines(t, sharedtest.Path(t, "data", set.source))[:len(want)]
		if testing.Short() {
			source, want = source[:100], want[:100]
		}
		equal := 0
		for i, result := range translate(t, config, source, nil) {
			if result.Text() == want[i] {
				equal++
			} else {
				t.Logf("%s:%d\n got %s\nwant %s", set.source, i+1, result.Text(), want[i])
			}
		}
		t.Logf("%s: %d of %d lines equal", set.source, equal, len(want))
		if float64(equal) < 0.995*float64(len(want)) {
			t.Errorf("%s: only %d of %d lines equal the recorded ones", set.source, equal, len(want))
		}
	}
}
