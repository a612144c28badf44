package translator_test

import (
	"runtime"
	"sync"
	"testing"

	"github.com/sluice-mt/sluice/internal/job"
	"github.com/sluice-mt/sluice/translator"
	"github.com/sluice-mt/sluice/translator/cpumodel"
)

// perSentence are the allocations of a sentence once the engine has what it works with: the segment's task and its pieces, the hypothesis
// of the search and its tokens, the hypothesis of the result and its text.
const perSentence = 6

// TestSteadyState counts what an engine allocates for sentences after it has seen as many.
func TestSteadyState(t *testing.T) {
	if testing.Short() {
		t.Skip("the race detector, which runs the short tests, has pools forget what they hold")
	}
	config := engineConfig(t, cpumodel.Int8)
	config.Batching.Workers = 1
	engine, err := translator.New(config)
	if err != nil {
		t.Fatal(err)
	}
	defer engine.Close()
	lines := sentences(1000)
	var pending sync.WaitGroup
	done := func(job.Result) { pending.Done() }
	translate := func() {
		pending.Add(len(lines))
		for _, line := range lines {
			engine.Submit(job.Segment{Text: line, Done: done})
		}
		engine.Flush()
		pending.Wait()
	}
	translate()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	translate()
	runtime.ReadMemStats(&after)
	// Lists that grow once more, and sentences that are searched again, are few.
	if got := float64(after.Mallocs-before.Mallocs) / float64(len(lines)); got > perSentence+0.5 {
		t.Errorf("%.2f allocations for a sentence, want %d", got, perSentence)
	}
}
