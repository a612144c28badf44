package pipeline

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-mt/sluice/consumer"
	"github.com/sluice-mt/sluice/internal/job"
	"github.com/sluice-mt/sluice/producer"
)

// ErrInterrupted is returned, wrapped, by Run when its context ended before all lanes were complete. What was finished
// by then is committed.
var ErrInterrupted = errors.New("interrupted")

// A StageError says in which stage of which lane something failed.
type StageError struct {
	Stage string // read, write, commit
	Lane  string // "" before there is one
	Err   error
}

// Error names stage, lane and reason.
func (e *StageError) Error() string {
	if e.Lane == "" {
		return fmt.Sprintf("%s: %v", e.Stage, e.Err)
	}
	return fmt.Sprintf("%s %s: %v", e.Stage, e.Lane, e.Err)
}

// Unwrap returns the reason.
func (e *StageError) Unwrap() error { return e.Err }

// Config says how much is in flight and how often it is made durable. Zero values are replaced by the defaults named.
type Config struct {
	Memory      int64         // bytes of records in flight, over all lanes; 64 MiB
	Lanes       int           // lanes open at once; 32
	RunRecords  int           // most records handed to a Writer at once; 1024
	CommitEvery time.Duration // time between commits while there is output; 2 s
	Grace       time.Duration // after the context has ended: time to finish what is in flight
	Logger      *slog.Logger  // nil is silent

	// Shared says that other workers carry lanes of the same source. A lane that goes to one of them is then no failure.
	Shared bool
	// Stall is for how long nothing may happen that a lane waits for before the job counts as stuck and fails with ErrStalled; 0 is
	// for ever. See LaneState.Still.
	Stall time.Duration
	// Overtaken is how many later records the translator may complete before an earlier one; 32,768. Beyond that it has forgotten it.
	Overtaken int64
	// MaxFailed is the share of records that may fail, or be unreadable, before the job stops with ErrTooManyFailed; it is
	// looked at from the thousandth record on. 0 is no limit.
	MaxFailed float64
	// Notable, if not nil, is told of every output that carries a flag or an error once it has been written, in the order of
	// its lane. It is called by the goroutine of the lane, must not block, and must not keep the output.
	Notable func(lane string, output *job.Output)
	// Trace, if not nil, is told of every run once it is committed or has failed. It is called by the goroutine that writes
	// the lane and must not keep what it is given.
	Trace func(*RunTrace)
}

func (c Config) withDefaults() Config {
	setDefault(&c.Memory, 64<<20)
	setDefault(&c.Lanes, 32)
	setDefault(&c.RunRecords, 1024)
	setDefault(&c.CommitEvery, 2*time.Second)
	setDefault(&c.Overtaken, 1<<15)
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

func setDefault[T int | int64 | time.Duration](value *T, otherwise T) {
	if *value <= 0 {
		*value = otherwise
	}
}

// Stats count what was written, and where time went. Times are summed over lanes.
type Stats struct {
	Admitted         int64 // records that were read by this run
	Completed        int64 // of them, those whose result is there, written or not
	CompletedWords   int64 // source words of these
	Records          int64 // written by this run
	Translated       int64 // of them, those the translator was asked for
	Empty            int64 // of them, those without text
	Resumed          int64 // found done at the start, in lanes that were continued
	SourceTokens     int64
	TargetTokens     int64
	SourceWords      int64 // words between white space
	SourceBytes      int64 // as the source counts them
	Lanes            int64 // completed by this run
	LanesAlreadyDone int64
	LanesLost        int64 // to other workers
	Flags            map[string]int64

	Read, Wait, Write, Commit time.Duration
}

// A Pipeline carries the records of one source to one sink.
type Pipeline struct {
	config     Config
	source     consumer.Source
	sink       producer.Sink
	translator Translator
	budget     *budget

	// Counted for every record, by many goroutines: no lock for these.
	admitted, completed, completedWords atomic.Int64
	asked, answered                     atomic.Int64 // of the translator
	lastAnswer                          atomic.Int64 // when it came, in nanoseconds since made
	made                                time.Time

	mutex sync.Mutex
	stats Stats
	open  map[*laneWriter]struct{}
}

// New returns a Pipeline that has not begun.
func New(config Config, source consumer.Source, sink producer.Sink, translator Translator) *Pipeline {
	config = config.withDefaults()
	return &Pipeline{
		config: config, source: source, sink: sink, translator: translator,
		budget: newBudget(config.Memory),
		stats:  Stats{Flags: map[string]int64{}},
		open:   map[*laneWriter]struct{}{},
		made:   time.Now(),
	}
}

// Stats returns the counts so far. It may be called while Run is going on.
func (p *Pipeline) Stats() Stats {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	stats := p.stats
	stats.Flags = maps.Clone(p.stats.Flags)
	stats.Completed, stats.CompletedWords = p.completed.Load(), p.completedWords.Load()
	stats.Admitted = p.admitted.Load() // after what was completed, which is never more
	return stats
}

// register notes that a lane is being written, or no longer.
func (p *Pipeline) register(writer *laneWriter, open bool) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if open {
		p.open[writer] = struct{}{}
	} else {
		delete(p.open, writer)
	}
}

func (p *Pipeline) count(add func(*Stats)) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	add(&p.stats)
}

// complete counts a record whose result has come.
func (p *Pipeline) complete(done *slot) {
	p.completed.Add(1)
	p.completedWords.Add(done.words)
	if done.translated {
		p.answered.Add(1)
		p.lastAnswer.Store(int64(done.completed.Sub(p.made)))
	}
}

// Run carries everything over. It returns nil when all lanes are complete.
//
// When ctx ends, reading stops; what is in flight has Config.Grace to finish and is committed, and Run returns
// ErrInterrupted. When something fails, the other lanes stop in the same way, and Run returns the first error.
func (p *Pipeline) Run(ctx context.Context) error {
	reading, stopReading := context.WithCancelCause(ctx)
	defer stopReading(nil)
	working, stopWorking := p.afterGrace(reading)
	defer stopWorking()

	if err := p.source.Connect(reading); err != nil {
		return interruptedOr(reading, &StageError{"read", "", err})
	}
	if err := p.sink.Connect(reading); err != nil {
		return errors.Join(interruptedOr(reading, &StageError{"write", "", err}), p.source.Close(working))
	}
	watching, stopWatching := context.WithCancel(working)
	var watchdog sync.WaitGroup
	watchdog.Go(func() { p.watch(watching, stopReading) })
	err := p.lanes(reading, working, stopReading)
	stopWatching()
	watchdog.Wait()
	if closeErr := p.sink.Close(working); err == nil && closeErr != nil {
		err = &StageError{"write", "", closeErr}
	}
	if closeErr := p.source.Close(working); err == nil && closeErr != nil {
		err = &StageError{"read", "", closeErr}
	}
	return err
}

// interruptedOr returns ErrInterrupted for an error that only says that the context has ended, and other errors as they
// are.
func interruptedOr(ctx context.Context, err error) error {
	if ctx.Err() != nil && (errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)) {
		return fmt.Errorf("%w: %w", ErrInterrupted, context.Cause(ctx))
	}
	return err
}

// afterGrace returns a context that ends Config.Grace after the given one has.
func (p *Pipeline) afterGrace(reading context.Context) (context.Context, context.CancelFunc) {
	working, cancel := context.WithCancel(context.WithoutCancel(reading))
	stop := context.AfterFunc(reading, func() {
		timer := time.NewTimer(p.config.Grace)
		defer timer.Stop()
		select {
		case <-timer.C:
			cancel()
		case <-working.Done():
		}
	})
	return working, func() { stop(); cancel() }
}

// lanes carries all lanes over, a few at a time, and returns the first error.
func (p *Pipeline) lanes(reading, working context.Context, stopReading context.CancelCauseFunc) error {
	var (
		group      sync.WaitGroup
		once       sync.Once
		first      error
		incomplete atomic.Bool // a lane was left before its end, or not begun
	)
	fail := func(err error) {
		if errors.Is(interruptedOr(reading, err), ErrInterrupted) {
			incomplete.Store(true)
			return
		}
		once.Do(func() { first = err; stopReading(err) })
	}
	places := make(chan struct{}, p.config.Lanes)
	for {
		lane, err := p.nextLane(reading, places)
		if err != nil {
			if !errors.Is(err, consumer.ErrEndOfInput) {
				fail(&StageError{"read", "", err})
			}
			break
		}
		group.Go(func() {
			defer func() { <-places }()
			err := p.carry(reading, working, lane)
			switch {
			case err == nil:
			case p.config.Shared && (errors.Is(err, consumer.ErrLaneLost) || errors.Is(err, producer.ErrFenced)):
				p.config.Logger.Info("lane went to another worker", "lane", lane.Name(), "why", err)
				p.count(func(s *Stats) { s.LanesLost++ })
			default:
				fail(err)
			}
		})
	}
	group.Wait()
	switch cause := context.Cause(reading); {
	case first == nil && errors.Is(cause, ErrStalled):
		return cause
	case first == nil && incomplete.Load():
		return fmt.Errorf("%w: %w", ErrInterrupted, context.Cause(reading))
	}
	return first
}

// nextLane waits for a place and takes it for the source's next lane.
func (p *Pipeline) nextLane(ctx context.Context, places chan struct{}) (consumer.Lane, error) {
	select {
	case places <- struct{}{}:
		return p.source.Next(ctx)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// carry carries one lane over: a goroutine reads it, this one writes it.
func (p *Pipeline) carry(reading, working context.Context, lane consumer.Lane) (err error) {
	name := lane.Name()
	defer func() {
		if closeErr := lane.Close(); err == nil && closeErr != nil {
			err = &StageError{"read", name, closeErr}
		}
	}()
	writer, position, err := p.sink.Open(reading, name)
	switch {
	case errors.Is(err, producer.ErrDone):
		p.count(func(s *Stats) { s.LanesAlreadyDone++ })
		if passer, ok := lane.(consumer.Passer); ok {
			passer.PassedOver()
		}
		return nil
	case err != nil:
		return &StageError{"write", name, err}
	}
	p.count(func(s *Stats) { s.Resumed += position.Record })
	if position != (job.Position{}) {
		p.config.Logger.Info("continuing", "lane", name, "record", position.Record)
	}
	w := newWindow(p.budget.forLane(), p.complete)
	defer w.discard()

	laneReading, stop := context.WithCancel(reading)
	var reader sync.WaitGroup
	reader.Go(func() {
		err := p.read(laneReading, lane, position, w)
		p.translator.Flush() // however the lane ended, its last records must not wait for others
		w.end(err)
	})
	output := newLaneWriter(p, lane, writer, w, position)
	p.register(output, true)
	err = output.run(working)
	output.traces.settled(math.MaxInt64, Span{}, err) // of runs that nothing was committed of
	p.register(output, false)
	stop()
	reader.Wait()
	if closeErr := writer.Close(); err == nil && closeErr != nil {
		err = &StageError{"write", name, closeErr}
	}
	return err
}

// read puts the records of a lane into its window until the lane is complete (nil) or cannot go on.
func (p *Pipeline) read(ctx context.Context, lane consumer.Lane, position job.Position, w *window) error {
	if err := lane.Start(ctx, position); err != nil {
		return &StageError{"read", lane.Name(), err}
	}
	for {
		records, fetched, err := p.readSome(ctx, lane)
		for i := range records {
			if err := p.admit(ctx, &records[i], fetched, w); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			return &StageError{"read", lane.Name(), err}
		}
	}
}

// patience is how long a Read may take before the source counts as idle, and what is queued is no longer held back.
const patience = 5 * time.Millisecond

func (p *Pipeline) readSome(ctx context.Context, lane consumer.Lane) ([]job.Record, *Span, error) {
	start := time.Now()
	idle := time.AfterFunc(patience, p.translator.Flush)
	records, err := lane.Read(ctx)
	idle.Stop()
	end := time.Now()
	p.count(func(s *Stats) { s.Read += end.Sub(start) })
	return records, &Span{start, end}, err
}

// admit takes credits for a record and hands it to the translator, waiting for credits if there are none left.
func (p *Pipeline) admit(ctx context.Context, record *job.Record, fetched *Span, w *window) error {
	credit, err := w.budget.take(ctx, record, p.translator.Flush)
	if err != nil {
		return err
	}
	var number int64
	if record.Err == nil && record.Text != "" {
		number = p.asked.Add(1)
	}
	slot := w.add(record, fetched, credit, number)
	p.admitted.Add(1)
	switch {
	case record.Err != nil:
		w.complete(slot, job.Result{Flags: job.Unreadable, Err: record.Err})
	case record.Text == "":
		w.complete(slot, job.Result{Hypotheses: make([]job.Hypothesis, 1)}) // none at all is what a failure has
	default:
		slot.translated, slot.words = true, countWords(record.Text)
		p.translator.Submit(job.Segment{Text: record.Text, Prefix: record.Prefix, Done: func(result job.Result) { w.complete(slot, result) }})
	}
	return nil
}
