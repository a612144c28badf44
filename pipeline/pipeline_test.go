package pipeline

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/sluice-mt/sluice/consumer"
	"github.com/sluice-mt/sluice/internal/job"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type failer interface {
	Helper()
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
}

// checkPrefix checks that what is durable of every lane is its beginning, in order, each record once and with its own
// result, and returns how many records that are.
func checkPrefix(t failer, sink *memorySink) (total int) {
	t.Helper()
	for lane, outputs := range sink.durable {
		for i, output := range outputs {
			if output.Record.Seq != int64(i) {
				t.Fatalf("%s: place %d holds record %d", lane, i, output.Record.Seq)
			}
			want := fmt.Sprint("<", lane, " ", i, ">")
			switch i % 10 {
			case 3, 7:
				want = ""
			}
			if got := output.Result.Text(); got != want && output.Result.Err == nil {
				t.Fatalf("%s: record %d has the result %q, not %q", lane, i, got, want)
			}
			if failed := output.Result.Err != nil; failed != (len(output.Result.Hypotheses) == 0) {
				t.Fatalf("%s: record %d has %d hypotheses, and the error %v", lane, i, len(output.Result.Hypotheses), output.Result.Err)
			}
		}
		total += len(outputs)
	}
	return total
}

// Order, completeness and counts hold whatever the order of completion, the sizes and the budget.
func TestEveryRecordOnceInOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		source := &memorySource{
			lanes: rapid.IntRange(0, 5).Draw(t, "lanes"), records: rapid.IntRange(0, 300).Draw(t, "records"),
			batch: rapid.IntRange(1, 50).Draw(t, "batch"),
		}
		config := Config{
			Memory: rapid.Int64Range(1, 20_000).Draw(t, "memory"), Lanes: rapid.IntRange(1, 4).Draw(t, "open lanes"),
			RunRecords: rapid.IntRange(1, 40).Draw(t, "run"), CommitEvery: time.Duration(rapid.IntRange(1, 1000).Draw(t, "commit")) * time.Microsecond,
		}
		shuffle := newShuffler(rapid.IntRange(1, 1000).Draw(t, "gather"))
		sink := newMemorySink()
		p := New(config, source, sink, shuffle)
		if err := p.Run(context.Background()); err != nil {
			t.Fatalf("Run: %v", err)
		}
		all := source.lanes * source.records
		if n := checkPrefix(t, sink); n != all {
			t.Fatalf("%d records of %d came out", n, all)
		}
		stats := p.Stats()
		if stats.Records != int64(all) || stats.Lanes != int64(source.lanes) ||
			stats.Translated+stats.Empty+stats.Flags["unreadable"] != int64(all) {
			t.Errorf("counts: %+v", stats)
		}
		most := p.budget.total/min(p.budget.mostOfLane(), expansion*20+fixedCredit) + int64(config.Lanes)
		if shuffle.most > most {
			t.Errorf("%d records were in flight; the budget of %d bytes allows %d", shuffle.most, config.Memory, most)
		}
		if left := p.budget.credits.TryAcquire(config.Memory); !left {
			t.Error("credits were not given back")
		}
		if used, total := p.Credits(); used != 0 || total != config.Memory {
			t.Errorf("%d credits of %d are in use", used, total)
		}
	})
}

// A failure anywhere ends the run with its stage; what is durable is a correct beginning, and a second run completes it.
func TestFailuresLeaveABeginning(t *testing.T) {
	tests := []struct {
		name  string
		stage string
		plan  func(*memorySource, *memorySink)
	}{
		{"source", "read", func(source *memorySource, _ *memorySink) { source.failAt = 150 }},
		{"write", "write", func(_ *memorySource, sink *memorySink) { sink.failWrite = 150 }},
		{"commit", "commit", func(_ *memorySource, sink *memorySink) { sink.failCommit = 150 }},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			source, sink := &memorySource{lanes: 3, records: 300, batch: 7}, newMemorySink()
			test.plan(source, sink)
			err := New(Config{RunRecords: 20, CommitEvery: time.Microsecond, Grace: time.Minute}, source, sink, newShuffler(10)).Run(context.Background())
			var stage *StageError
			if !errors.Is(err, errPlanned) || !errors.As(err, &stage) || stage.Stage != test.stage || stage.Lane == "" {
				t.Fatalf("Run: %v", err)
			}
			checkPrefix(t, sink)
			sink.failWrite, sink.failCommit = 0, 0
			if err := New(Config{}, &memorySource{lanes: 3, records: 300}, sink, newShuffler(10)).Run(context.Background()); err != nil {
				t.Fatalf("second run: %v", err)
			}
			if n := checkPrefix(t, sink); n != 900 {
				t.Errorf("%d records of 900 after the second run", n)
			}
		})
	}
}

// What one segment fails with is its own: it keeps its place, flagged.
func TestFailedSegmentKeepsItsPlace(t *testing.T) {
	shuffle := newShuffler(10)
	shuffle.fail = "lane1 42"
	sink := newMemorySink()
	p := New(Config{}, &memorySource{lanes: 1, records: 100}, sink, shuffle)
	if err := p.Run(context.Background()); err != nil {
		t.Fatal(err)
	}
	if flags := sink.durable["lane1"][42].Result.Flags; flags != job.Failed {
		t.Errorf("flags %v", flags)
	}
	if flags := sink.durable["lane1"][7].Result.Flags; flags != job.Unreadable {
		t.Errorf("an unreadable record has the flags %v", flags)
	}
	if n := p.Stats().Flags["failed"]; n != 1 {
		t.Errorf("%d counted as failed", n)
	}
}

// When the context ends, what is in flight is finished and committed within the grace period.
func TestInterruptFinishesWhatIsInFlight(t *testing.T) {
	bubble(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		source, sink, shuffle := &memorySource{lanes: 2, records: 1 << 30, pause: time.Millisecond}, newMemorySink(), newShuffler(1000)
		shuffle.delay = 300 * time.Millisecond
		time.AfterFunc(2*time.Second, cancel)
		start := time.Now()
		p := New(Config{Grace: time.Minute}, source, sink, shuffle)
		if err := p.Run(ctx); !errors.Is(err, ErrInterrupted) {
			t.Fatalf("Run: %v", err)
		}
		if took := time.Since(start); took > 4*time.Second {
			t.Errorf("stopping took %v", took-2*time.Second)
		}
		if n := checkPrefix(t, sink); n < 1000 || int64(n) != p.Stats().Records {
			t.Errorf("%d records are durable, %d were written", n, p.Stats().Records)
		}
	})
}

// Whoever interrupts a job whose last record has been read already gets it complete, and is told so.
func TestInterruptAfterTheLastRead(t *testing.T) {
	bubble(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		sink, shuffle := newMemorySink(), newShuffler(10)
		shuffle.delay = 3 * time.Second
		if err := New(Config{Grace: time.Minute}, &memorySource{lanes: 2, records: 100}, sink, shuffle).Run(ctx); err != nil {
			t.Fatalf("Run: %v", err)
		}
		if n := checkPrefix(t, sink); n != 200 || !sink.finished["lane1"] || !sink.finished["lane2"] {
			t.Errorf("%d records of 200 are durable", n)
		}
	})
}

// A translator that does not come back does not keep the process from ending: after the grace period it is left alone.
func TestGraceEnds(t *testing.T) {
	bubble(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		shuffle := newShuffler(10)
		shuffle.stuck = true
		start := time.Now()
		err := New(Config{Grace: 5 * time.Second}, &memorySource{lanes: 2, records: 1000}, newMemorySink(), shuffle).Run(ctx)
		if !errors.Is(err, ErrInterrupted) {
			t.Fatalf("Run: %v", err)
		}
		if took := time.Since(start); took < 6*time.Second || took > 7*time.Second {
			t.Errorf("ended after %v; 1 s and 5 s of grace were asked", took)
		}
	})
}

// A source that pauses does not hold back what it gave before.
func TestSlowSourceIsFlushed(t *testing.T) {
	bubble(t, func(t *testing.T) {
		source := &memorySource{lanes: 1, records: 3, pause: time.Minute}
		sink, shuffle := newMemorySink(), newShuffler(1000)
		p := New(Config{CommitEvery: time.Second}, source, sink, shuffle)
		go func() {
			time.Sleep(time.Minute + 2*time.Second)
			if n := p.Stats().Records; n != 1 {
				t.Errorf("two seconds after the first record came, %d are written", n)
			}
		}()
		if err := p.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
	})
}

// A lane that is lost is dropped without writing what was not committed.
// What a sink puts off becomes durable when its time has come, without another record. Until then it counts as committed for
// nobody.
func TestWhatIsPutOffIsCommittedLater(t *testing.T) {
	bubble(t, func(t *testing.T) {
		source := &memorySource{lanes: 1, records: 3, pause: time.Minute}
		sink := newMemorySink()
		sink.putOff = 10 * time.Second
		var log traceLog
		p := New(Config{CommitEvery: time.Second, Trace: log.tell}, source, sink, newShuffler(1))
		expect := func(want int) {
			sink.mutex.Lock()
			durable := len(sink.durable["lane1"])
			sink.mutex.Unlock()
			source.mutex.Lock()
			told := int(source.committed["lane1"])
			source.mutex.Unlock()
			log.mutex.Lock()
			traced := len(log.traces["lane1"])
			log.mutex.Unlock()
			if durable != want || told != want || traced != want {
				t.Errorf("%d records are durable, the source was told of %d, and %d runs are traced, not %d", durable, told, traced, want)
			}
		}
		go func() {
			time.Sleep(time.Minute + sink.putOff - time.Second/2)
			expect(0)
			time.Sleep(2 * time.Second)
			expect(1)
		}()
		if err := p.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		expect(3)
	})
}

func TestLostLane(t *testing.T) {
	source := &lostSource{memorySource{lanes: 1, records: 100, batch: 10}}
	sink := newMemorySink()
	shuffle := newShuffler(1000)
	shuffle.delay = 50 * time.Millisecond // nothing is complete before the lane is lost
	err := New(Config{CommitEvery: time.Nanosecond}, source, sink, shuffle).Run(context.Background())
	if !errors.Is(err, consumer.ErrLaneLost) {
		t.Fatalf("Run: %v", err)
	}
	if n := checkPrefix(t, sink); n != 0 {
		t.Errorf("%d records were committed after the lane was lost", n)
	}
	time.Sleep(2 * shuffle.delay) // for the translator's last timers
}

type lostSource struct{ memorySource }

func (s *lostSource) Next(ctx context.Context) (consumer.Lane, error) {
	lane, err := s.memorySource.Next(ctx)
	if err != nil {
		return nil, err
	}
	return &lostLane{lane.(*memoryLane)}, nil
}

type lostLane struct{ *memoryLane }

func (l *lostLane) Read(ctx context.Context) ([]job.Record, error) {
	if l.at >= 50 {
		return nil, consumer.ErrLaneLost
	}
	return l.memoryLane.Read(ctx)
}

// The source hears of everything that is durable, the last records of a lane included; lanes that are done are passed over.
func TestSourceHearsOfCommits(t *testing.T) {
	sink := newMemorySink()
	for run := range 2 {
		source := &memorySource{lanes: 3, records: 25}
		p := New(Config{}, source, sink, newShuffler(10))
		if err := p.Run(context.Background()); err != nil {
			t.Fatal(err)
		}
		if run == 1 {
			if n := p.Stats().LanesAlreadyDone; n != 3 {
				t.Errorf("%d lanes of 3 were passed over", n)
			}
			if source.passed != 3 {
				t.Errorf("%d lanes of 3 were told that they are passed over", source.passed)
			}
			continue
		}
		for lane, record := range source.committed {
			if record != 25 {
				t.Errorf("%s: the source was told of %d records of 25", lane, record)
			}
		}
		if len(source.committed) != 3 {
			t.Errorf("the source was told of %d lanes of 3", len(source.committed))
		}
	}
}

// A context that ends at any moment is an interruption, with a correct beginning behind it, and never a hang.
func TestInterruptAtAnyMoment(t *testing.T) {
	for i := range 60 {
		bubble(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i*i)*100*time.Microsecond)
			defer cancel()
			source, sink, shuffle := &memorySource{lanes: 5, records: 100, pause: time.Millisecond}, newMemorySink(), newShuffler(20)
			shuffle.delay = 3 * time.Millisecond
			err := New(Config{Grace: time.Second, Lanes: 2, CommitEvery: 5 * time.Millisecond}, source, sink, shuffle).Run(ctx)
			if n := checkPrefix(t, sink); err == nil && n != 500 || err != nil && !errors.Is(err, ErrInterrupted) {
				t.Errorf("after %d records: %v", n, err)
			}
		})
	}
}

// Memory does not grow with the number of records. SLUICE_HEAVY=1 makes it ten million.
func TestManyRecords(t *testing.T) {
	records := 300_000
	if os.Getenv("SLUICE_HEAVY") != "" {
		records = 10_000_000
	}
	if testing.Short() {
		records = 30_000
	}
	const budget = 8 << 20
	sink := &countingSink{memorySink: newMemorySink()}
	start := time.Now()
	p := New(Config{Memory: budget}, &memorySource{lanes: 1, records: records, batch: 1000}, sink, newShuffler(5000))
	if err := p.Run(context.Background()); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d records, %.0f a second, at most %d MiB of heap", records, float64(records)/time.Since(start).Seconds(), sink.peak>>20)
	if sink.records != int64(records) {
		t.Errorf("%d of %d records came out", sink.records, records)
	}
	if sink.peak > 10*budget {
		t.Errorf("the heap grew to %d MiB with a budget of %d MiB", sink.peak>>20, budget>>20)
	}
}

func TestCountWords(t *testing.T) {
	for text, want := range map[string]int64{
		"": 0, " ": 0, "a": 1, " a  b\tc\n": 3, "ä": 1, "aä b": 2, "a äö\u00a0b": 3, "\u2028x\u3000y ": 2, "a\u00a0": 1, "x y\u00e9z w": 3,
	} {
		if got := countWords(text); got != want {
			t.Errorf("%q: %d words, want %d", text, got, want)
		}
	}
	rapid.Check(t, func(r *rapid.T) {
		text := rapid.StringOf(rapid.OneOf(rapid.RuneFrom([]rune(" \t\n\v\f\r\x08\x0e\x1f!~\x7f\x00a")), rapid.RuneFrom([]rune("  xyz\u00a0\u0085ä")))).Draw(r, "text")
		if got, want := countWords(text), int64(len(strings.Fields(text))); got != want {
			r.Fatalf("%q: %d words, want %d", text, got, want)
		}
	})
}
