package pipeline

import (
	"context"
	"fmt"
	"io"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluice-mt/sluice/consumer"
	"github.com/sluice-mt/sluice/internal/job"
	"github.com/sluice-mt/sluice/producer"
)

// A heavySource has lanes of records that claim to have so many bytes each.
type heavySource struct {
	lanes, records, bytes int
	next                  int

	read, written, most atomic.Int64 // bytes
}

func (s *heavySource) Connect(context.Context) error { return nil }
func (s *heavySource) Close(context.Context) error   { return nil }

func (s *heavySource) Next(context.Context) (consumer.Lane, error) {
	if s.next == s.lanes {
		return nil, consumer.ErrEndOfInput
	}
	s.next++
	return &heavyLane{source: s, name: fmt.Sprint("lane", s.next)}, nil
}

type heavyLane struct {
	source *heavySource
	name   string
	at     int64
}

func (l *heavyLane) Name() string                               { return l.name }
func (l *heavyLane) Start(context.Context, job.Position) error  { return nil }
func (l *heavyLane) Commit(context.Context, job.Position) error { return nil }
func (l *heavyLane) Close() error                               { return nil }

func (l *heavyLane) Read(ctx context.Context) ([]job.Record, error) {
	if l.at == int64(l.source.records) {
		return nil, io.EOF
	}
	source := l.source
	inside := source.read.Add(int64(source.bytes)) - source.written.Load()
	for most := source.most.Load(); inside > most && !source.most.CompareAndSwap(most, inside); most = source.most.Load() {
	}
	record := job.Record{Seq: l.at, Text: "x", Size: l.source.bytes, End: job.Position{Record: l.at + 1}}
	l.at++
	return []job.Record{record}, nil
}

// A staller completes nothing of the first lane's first record before everything else is done.
type staller struct {
	stalled atomic.Bool
	head    chan job.Segment
}

func (s *staller) Submit(segment job.Segment) {
	if s.stalled.CompareAndSwap(false, true) {
		s.head <- segment
		return
	}
	segment.Done(job.Result{Hypotheses: []job.Hypothesis{{Text: segment.Text}}})
}

func (s *staller) Flush() {}

// A drain is a sink that keeps nothing.
type drain struct {
	*memorySink
	source *heavySource
}

func (d *drain) Open(context.Context, string) (producer.Writer, job.Position, error) {
	return &drainWriter{drain: d}, job.Position{}, nil
}

type drainWriter struct {
	drain *drain
	at    job.Position
}

func (w *drainWriter) Write(_ context.Context, run []job.Output) error {
	for _, output := range run {
		w.drain.source.written.Add(int64(output.Record.Size))
	}
	w.at = run[len(run)-1].Record.End
	return nil
}
func (w *drainWriter) Commit(context.Context) (job.Position, error) { return w.at, nil }
func (w *drainWriter) Finish(context.Context) error                 { return nil }
func (w *drainWriter) Close() error                                 { return nil }

// What is in flight stays within the budget and a record or two for each lane, whatever the records are like and although the head
// of one lane takes for ever.
func TestMemoryIsBounded(t *testing.T) {
	const (
		lanes  = 64
		bytes  = 10 << 20
		memory = 1 << 30
	)
	// Each lane may have one record that has been read and waits for credits, and one in its reserve. Everything else is in the
	// budget, which counts a record's bytes several times over, for what the engine makes of them.
	const bound = memory/expansion + 2*lanes*bytes
	source := &heavySource{lanes: lanes, records: 100, bytes: bytes}
	translator := &staller{head: make(chan job.Segment, 1)}
	p := New(Config{Memory: memory, Lanes: lanes}, source, &drain{newMemorySink(), source}, translator)
	done := make(chan error, 1)
	go func() { done <- p.Run(context.Background()) }()
	for p.Stats().Lanes < lanes-1 {
		time.Sleep(time.Millisecond)
	}
	segment := <-translator.head
	segment.Done(job.Result{})
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if most := source.most.Load(); most > bound || most < memory/expansion/2 {
		t.Errorf("%d MiB in flight, %d are allowed", most>>20, bound>>20)
	}
	if n := p.Stats().Records; n != lanes*100 {
		t.Errorf("%d records of %d", n, lanes*100)
	}
}
