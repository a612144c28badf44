package translator_test

import (
	"runtime"
	"sync"
	"testing"

	"github.com/sluice-mt/sluice/internal/job"
	"github.com/sluice-mt/sluice/translator"
	"github.com/sluice-mt/sluice/translator/cpumodel"
)

// perSentence are the allocations of a sentence once the engine has what it works with: its parts of blocks, and of lists that grow
// once more.
const perSentence = 0.25

// steadyEngine returns a function that translates so many sentences, at most a thousand, with an engine of one worker that has seen
// all of them several times.
func steadyEngine(tb testing.TB) (translate func(n int)) {
	config := engineConfig(tb, cpumodel.Int8)
	config.Batching.Workers = 1
	engine, err := translator.New(config)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(engine.Close)
	lines := sentences(1000)
	var pending sync.WaitGroup
	done := func(job.Result) { pending.Done() }
	translate = func(n int) {
		pending.Add(n)
		for _, line := range lines[:n] {
			engine.Submit(job.Segment{Text: line, Done: done})
		}
		engine.Flush()
		pending.Wait()
	}
	for range 4 {
		translate(len(lines))
	}
	return translate
}

// TestSteadyState counts what an engine allocates for sentences after it has seen as many.
func TestSteadyState(t *testing.T) {
	if testing.Short() {
		t.Skip("the race detector, which runs the short tests, has pools forget what they hold")
	}
	translate := steadyEngine(t)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	translate(1000)
	runtime.ReadMemStats(&after)
	got := float64(after.Mallocs-before.Mallocs) / 1000
	t.Logf("%.3f allocations for a sentence", got)
	if got > perSentence {
		t.Errorf("%.3f allocations for a sentence, want %v at most", got, perSentence)
	}
}

// BenchmarkSentence translates sentences. With -benchmem it says what one allocates.
func BenchmarkSentence(b *testing.B) {
	translate := steadyEngine(b)
	b.ResetTimer()
	for left := b.N; left > 0; left -= 1000 {
		translate(min(left, 1000))
	}
}
