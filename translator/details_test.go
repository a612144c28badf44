package translator_test

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/sluice-mt/sluice/internal/job"
	"github.com/sluice-mt/sluice/translator"
	"github.com/sluice-mt/sluice/translator/cpumodel"
)

// With details a translation is the same, and pieces, scores and alignment go together, of a divided text as well.
func TestDetails(t *testing.T) {
	config := engineConfig(t, cpumodel.Int8)
	config.Text.MaxLength = 12
	engine, err := translator.New(config)
	if err != nil {
		t.Fatal(err)
	}
	defer engine.Close()
	ask := func(segment job.Segment) job.Result {
		done := make(chan job.Result, 1)
		segment.Done = func(result job.Result) { done <- result }
		engine.Submit(segment)
		engine.Flush()
		return <-done
	}
	for text, divided := range map[string]bool{
		"Two children play.": false,
		"A man is reading a newspaper. Two dogs are running over the grass. It is raining.": true,
	} {
		plain, details := ask(job.Segment{Text: text}), ask(job.Segment{Text: text, Details: true})
		if plain.Err != nil || details.Err != nil {
			t.Fatal(plain.Err, details.Err)
		}
		h := &details.Hypotheses[0]
		if h.Text != plain.Text() || details.Flags != plain.Flags || (details.Flags&job.Split != 0) != divided {
			t.Errorf("%q: %q %v with details, %q %v without", text, h.Text, details.Flags, plain.Text(), plain.Flags)
		}
		if plain.SourcePieces != nil || plain.Hypotheses[0].Alignment != nil {
			t.Errorf("%q: details that nobody asked for", text)
		}
		if len(h.Pieces) == 0 || len(h.Pieces) != len(h.WordScores) || len(h.Pieces) != len(h.Alignment) {
			t.Fatalf("%q: %d pieces, %d scores, %d rows", text, len(h.Pieces), len(h.WordScores), len(h.Alignment))
		}
		for i, row := range h.Alignment {
			if len(row) != len(details.SourcePieces) {
				t.Errorf("%q: row %d has %d weights for %q", text, i, len(row), details.SourcePieces)
			}
		}
		if got := spoken(details.SourcePieces); got != text {
			t.Errorf("the source pieces of %q say %q", text, got)
		}
		if got := spoken(h.Pieces); got != h.Text {
			t.Errorf("the target pieces of %q say %q", h.Text, got)
		}
	}
}

// spoken makes a text of the pieces of a SentencePiece model.
func spoken(pieces []string) string {
	text := strings.Join(pieces[:len(pieces)-1], "")
	return strings.TrimSpace(strings.ReplaceAll(text, "▁", " "))
}

// Somebody who asks for details does not wait until a long queue is done with.
func TestDetailsGoFirst(t *testing.T) {
	engine, err := translator.New(engineConfig(t, cpumodel.Int8))
	if err != nil {
		t.Fatal(err)
	}
	defer engine.Close()
	var before, done sync.WaitGroup
	var behind atomic.Int64
	const others = 800
	before.Add(10)
	for i := range others {
		done.Add(1)
		engine.Submit(job.Segment{Text: fmt.Sprintf("%d people are reading a newspaper in the park.", i), Done: func(job.Result) {
			if behind.Add(1) <= 10 {
				before.Done()
			}
			done.Done()
		}})
	}
	engine.Flush()
	before.Wait() // the engine is at work
	answered := make(chan int64, 1)
	engine.Submit(job.Segment{Text: "It is raining.", Details: true, Done: func(result job.Result) { answered <- behind.Load() }})
	if n := <-answered; n > others/2 {
		t.Errorf("%d of %d others were translated first", n, others)
	}
	done.Wait()
}
