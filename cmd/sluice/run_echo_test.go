package main

import (
	"strings"
	"sync"

	"github.com/sluice-mt/sluice/internal/job"
	"github.com/sluice-mt/sluice/translator"
)

// An echo stands in for the engine where it would be the bottleneck. It answers in capitals, some segments at a time and
// the last of them first, and fails for texts that hold "poison".
type echo struct {
	mutex   sync.Mutex
	waiting []job.Segment
}

func beginEcho(translator.Config) (liveTranslator, error) { return new(echo), nil }

func (e *echo) Submit(segment job.Segment) {
	e.mutex.Lock()
	e.waiting = append(e.waiting, segment)
	full := len(e.waiting) == 64
	e.mutex.Unlock()
	if full {
		e.Flush()
	}
}

func (e *echo) Flush() {
	e.mutex.Lock()
	batch := e.waiting
	e.waiting = nil
	e.mutex.Unlock()
	for i := range batch {
		segment := batch[len(batch)-1-i]
		if strings.Contains(segment.Text, "poison") {
			segment.Done(job.Result{Err: translator.ErrClosed})
			continue
		}
		segment.Done(job.Result{Hypotheses: []job.Hypothesis{{Text: strings.ToUpper(segment.Text)}}})
	}
}

func (e *echo) Close() {}
