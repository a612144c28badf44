package pipeline

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"
)

// traceLog collects traces by lane.
type traceLog struct {
	mutex  sync.Mutex
	traces map[string][]RunTrace
}

func (l *traceLog) tell(trace *RunTrace) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if l.traces == nil {
		l.traces = map[string][]RunTrace{}
	}
	l.traces[trace.Lane] = append(l.traces[trace.Lane], *trace)
}

// The runs of a lane follow each other, cover it, and pass through the stages in their order.
func TestTracesCoverEveryLane(t *testing.T) {
	var log traceLog
	source := &memorySource{lanes: 3, records: 300, batch: 7}
	p := New(Config{RunRecords: 20, CommitEvery: time.Millisecond, Trace: log.tell}, source, newMemorySink(), newShuffler(10))
	if err := p.Run(context.Background()); err != nil {
		t.Fatal(err)
	}
	if len(log.traces) != 3 {
		t.Fatalf("%d lanes are traced", len(log.traces))
	}
	for lane, traces := range log.traces {
		at, bytes, flagged := int64(0), int64(0), 0
		for _, trace := range traces {
			if trace.From != at || trace.To <= trace.From || trace.To > trace.From+20 {
				t.Fatalf("%s: a run from %d to %d follows one to %d", lane, trace.From, trace.To, at)
			}
			at, bytes, flagged = trace.To, bytes+trace.Bytes, flagged+trace.Flagged
			inOrder(t, trace.Fetched.Begin, trace.Fetched.End, trace.Translated.Begin, trace.Translated.End,
				trace.Written.Begin, trace.Written.End, trace.Committed.Begin, trace.Committed.End)
			if trace.Err != nil {
				t.Errorf("%s: %v", lane, trace.Err)
			}
		}
		if at != 300 || bytes != 300*20 || flagged != 30 {
			t.Errorf("%s: traces up to record %d, %d bytes, %d flagged", lane, at, bytes, flagged)
		}
	}
}

func inOrder(t *testing.T, times ...time.Time) {
	t.Helper()
	for i := range times {
		if times[i].IsZero() || i > 0 && times[i].Before(times[i-1]) {
			t.Fatalf("time %d is out of order: %v", i, times)
		}
	}
}

// A run that could not be written or committed says so.
func TestTracesOfFailures(t *testing.T) {
	for name, plan := range map[string]func(*memorySink){
		"write":  func(sink *memorySink) { sink.failWrite = 150 },
		"commit": func(sink *memorySink) { sink.failCommit = 150 },
	} {
		t.Run(name, func(t *testing.T) {
			var log traceLog
			sink := newMemorySink()
			plan(sink)
			p := New(Config{RunRecords: 20, CommitEvery: time.Microsecond, Trace: log.tell}, &memorySource{lanes: 1, records: 300, batch: 7}, sink, newShuffler(10))
			if err := p.Run(context.Background()); !errors.Is(err, errPlanned) {
				t.Fatal(err)
			}
			traces := log.traces["lane1"]
			last := traces[len(traces)-1]
			if !errors.Is(last.Err, errPlanned) || last.From > 150 {
				t.Errorf("the last trace is %+v", last)
			}
			for _, trace := range traces[:len(traces)-1] {
				if trace.Err != nil && trace.To < last.From {
					t.Errorf("%+v", trace)
				}
			}
		})
	}
}
