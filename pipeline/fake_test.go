package pipeline

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"
	"sync"
	"time"

	"github.com/sluice-mt/sluice/consumer"
	"github.com/sluice-mt/sluice/internal/job"
	"github.com/sluice-mt/sluice/producer"
)

var errPlanned = errors.New("planned failure")

// A memorySource has lanes of numbered records.
type memorySource struct {
	lanes, records int
	batch          int           // records of one Read
	pause          time.Duration // before each Read
	failAt         int64         // Read fails at this record; 0 never
	next           int

	mutex     sync.Mutex
	committed map[string]int64
	closed    map[string]bool
	passed    int // lanes that the sink had already
}

func (s *memorySource) Connect(context.Context) error {
	s.committed, s.closed = map[string]int64{}, map[string]bool{}
	return nil
}
func (s *memorySource) Close(context.Context) error { return nil }

func (s *memorySource) Next(ctx context.Context) (consumer.Lane, error) {
	if s.next == s.lanes {
		return nil, consumer.ErrEndOfInput
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.next++
	return &memoryLane{source: s, name: fmt.Sprint("lane", s.next)}, nil
}

type memoryLane struct {
	source *memorySource
	name   string
	at     int64
}

func (l *memoryLane) Name() string { return l.name }
func (l *memoryLane) PassedOver() {
	l.source.mutex.Lock()
	defer l.source.mutex.Unlock()
	l.source.passed++
}

func (l *memoryLane) Start(_ context.Context, at job.Position) error {
	l.at = at.Record
	return nil
}

func (l *memoryLane) Read(ctx context.Context) ([]job.Record, error) {
	select {
	case <-time.After(l.source.pause):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	var records []job.Record
	for range max(1, l.source.batch) {
		if l.at == int64(l.source.records) {
			if len(records) > 0 {
				return records, nil
			}
			return nil, io.EOF
		}
		if l.source.failAt > 0 && l.at == l.source.failAt {
			return records, errPlanned
		}
		record := job.Record{Seq: l.at, Text: fmt.Sprint(l.name, " ", l.at), Size: 20, End: job.Position{Record: l.at + 1}}
		switch l.at % 10 {
		case 3:
			record.Text = ""
		case 7:
			record.Err, record.Flags = errPlanned, job.Unreadable
		}
		records = append(records, record)
		l.at++
	}
	return records, nil
}

func (l *memoryLane) Commit(_ context.Context, at job.Position) error {
	l.source.mutex.Lock()
	defer l.source.mutex.Unlock()
	if l.source.closed[l.name] {
		panic("Commit after Close")
	}
	l.source.committed[l.name] = at.Record
	return nil
}

func (l *memoryLane) Close() error {
	l.source.mutex.Lock()
	defer l.source.mutex.Unlock()
	l.source.closed[l.name] = true
	return nil
}

// A memorySink keeps what is written, and what of it is durable. It outlives runs.
type memorySink struct {
	failWrite, failCommit int64 // at this record; 0 never
	slow                  time.Duration
	putOff                time.Duration       // commits are put off for so long after the first output
	stall                 map[string]struct{} // lanes whose Write does not return before its context ends
	fenced                map[string]struct{} // lanes whose Write says that somebody else writes them

	mutex    sync.Mutex
	durable  map[string][]job.Output
	finished map[string]bool
}

func newMemorySink() *memorySink {
	return &memorySink{durable: map[string][]job.Output{}, finished: map[string]bool{}}
}

func (s *memorySink) Connect(context.Context) error { return nil }
func (s *memorySink) Close(context.Context) error   { return nil }

func (s *memorySink) Open(_ context.Context, lane string) (producer.Writer, job.Position, error) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.finished[lane] {
		return nil, job.Position{}, producer.ErrDone
	}
	return &memoryWriter{sink: s, lane: lane}, job.Position{Record: int64(len(s.durable[lane]))}, nil
}

type memoryWriter struct {
	sink    *memorySink
	lane    string
	written []job.Output
	began   time.Time // when the first of them was written
}

func (w *memoryWriter) Write(ctx context.Context, run []job.Output) error {
	time.Sleep(w.sink.slow)
	if _, stalled := w.sink.stall[w.lane]; stalled {
		<-ctx.Done()
		return ctx.Err()
	}
	if _, fenced := w.sink.fenced[w.lane]; fenced {
		return producer.ErrFenced
	}
	for _, output := range run {
		if w.sink.failWrite > 0 && output.Record.Seq == w.sink.failWrite {
			return errPlanned
		}
		if len(w.written) == 0 {
			w.began = time.Now()
		}
		w.written = append(w.written, output)
	}
	return nil
}

func (w *memoryWriter) Commit(context.Context) (job.Position, error) {
	return w.commit(w.sink.putOff)
}

func (w *memoryWriter) commit(putOff time.Duration) (job.Position, error) {
	w.sink.mutex.Lock()
	defer w.sink.mutex.Unlock()
	if time.Since(w.began) < putOff {
		return job.Position{Record: int64(len(w.sink.durable[w.lane]))}, nil
	}
	if n := len(w.written); w.sink.failCommit > 0 && n > 0 && w.written[n-1].Record.Seq >= w.sink.failCommit {
		return job.Position{}, errPlanned
	}
	w.sink.durable[w.lane] = append(w.sink.durable[w.lane], w.written...)
	w.written = nil
	return job.Position{Record: int64(len(w.sink.durable[w.lane]))}, nil
}

func (w *memoryWriter) Finish(context.Context) error {
	if _, err := w.commit(0); err != nil {
		return err
	}
	w.sink.mutex.Lock()
	defer w.sink.mutex.Unlock()
	w.sink.finished[w.lane] = true
	return nil
}

func (w *memoryWriter) Close() error { return nil }

// A shuffler completes segments in random order: it gathers some, and completes them when it has enough, is flushed,
// or, with a delay, after a while. Some are completed within Submit.
type shuffler struct {
	gather int
	delay  time.Duration
	stuck  bool // never completes anything
	fail   string

	mutex   sync.Mutex
	random  *rand.Rand
	waiting []job.Segment
	inside  int64 // bytes of text waiting
	most    int64
}

func newShuffler(gather int) *shuffler {
	return &shuffler{gather: gather, random: rand.New(rand.NewPCG(1, 1))}
}

func (s *shuffler) Submit(segment job.Segment) {
	s.mutex.Lock()
	if s.random.IntN(10) == 0 && !s.stuck {
		s.mutex.Unlock()
		segment.Done(s.result(segment))
		return
	}
	s.waiting = append(s.waiting, segment)
	s.inside++
	s.most = max(s.most, s.inside)
	full := len(s.waiting) >= s.gather
	s.mutex.Unlock()
	if full {
		s.Flush()
	}
}

func (s *shuffler) Flush() {
	if s.stuck {
		return
	}
	s.mutex.Lock()
	batch := s.waiting
	s.waiting, s.inside = nil, 0
	s.random.Shuffle(len(batch), func(i, j int) { batch[i], batch[j] = batch[j], batch[i] })
	s.mutex.Unlock()
	complete := func() {
		for _, segment := range batch {
			segment.Done(s.result(segment))
		}
	}
	if s.delay == 0 {
		complete()
		return
	}
	time.AfterFunc(s.delay, complete)
}

func (s *shuffler) result(segment job.Segment) job.Result {
	if s.fail != "" && segment.Text == s.fail {
		return job.Result{Err: errPlanned}
	}
	return job.Result{Hypotheses: []job.Hypothesis{{Text: "<" + segment.Text + ">"}}, SourceTokens: 2, TargetTokens: 3}
}

// A countingSink keeps nothing, and looks at the heap now and then.
type countingSink struct {
	*memorySink
	records int64
	peak    uint64
}

func (s *countingSink) Open(context.Context, string) (producer.Writer, job.Position, error) {
	return &countingWriter{sink: s}, job.Position{}, nil
}

type countingWriter struct{ sink *countingSink }

func (w *countingWriter) Write(_ context.Context, run []job.Output) error {
	before := w.sink.records
	for _, output := range run {
		if output.Record.Seq != w.sink.records {
			return fmt.Errorf("record %d where %d is due", output.Record.Seq, w.sink.records)
		}
		w.sink.records++
	}
	if before/50_000 != w.sink.records/50_000 {
		var memory runtime.MemStats
		runtime.ReadMemStats(&memory)
		w.sink.peak = max(w.sink.peak, memory.HeapInuse)
	}
	return nil
}

func (w *countingWriter) Commit(context.Context) (job.Position, error) {
	return job.Position{Record: w.sink.records}, nil
}
func (w *countingWriter) Finish(context.Context) error { return nil }
func (w *countingWriter) Close() error                 { return nil }
