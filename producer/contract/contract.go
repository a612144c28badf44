// Package contract tests what every producer.Sink promises. A sink's own test makes a Config and calls RunTests.
package contract

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/sluice-mt/sluice/internal/job"
	"github.com/sluice-mt/sluice/producer"
)

// Config makes the sinks that are tested.
type Config struct {
	// New makes an empty place for outputs.
	New func(t testing.TB) Place

	// Incremental says that outputs can be seen as they are committed, and not only when all are there.
	Incremental bool

	// Forgets says that the sink does not know a complete output again, so that Open does not return
	// producer.ErrDone.
	Forgets bool

	// Overlaps says that two writers of a lane may both go on, since they write the same: the first one that finishes
	// publishes the output, and the other finds it and is content.
	Overlaps bool

	// Races says that of two writers of a lane the first one that commits has it, and not the one that opened it last.
	Races bool
}

// A Place is where outputs go.
type Place struct {
	// Sink returns a sink that writes the best translation of every output to the place. It is called several times,
	// each time for a process that starts anew.
	Sink func() producer.Sink

	// Published returns the texts that a reader sees of a lane, nil if there is nothing to see.
	Published func(t testing.TB, lane string) []string
}

const timeout = 20 * time.Second

// RunTests runs all tests as subtests of t.
func RunTests(t *testing.T, config Config) {
	for _, test := range []struct {
		name string
		run  func(*testing.T, Config)
	}{
		{"WhatIsWrittenIsPublished", testWrite},
		{"NothingIsPublishedBeforeItIsComplete", testHidden},
		{"AnEmptyLaneIsPublished", testEmpty},
		{"WithoutACommitTheLaneBeginsAgain", testNoCommit},
		{"WhatWasNotCommittedIsGone", testUncommitted},
		{"ACompleteLaneIsDone", testDone},
		{"TwoWritersOfALaneExcludeEachOther", testExclusive},
		{"LanesAreIndependent", testLanes},
		{"AnyInterruptionGivesTheSame", testInterruptions},
	} {
		t.Run(test.name, func(t *testing.T) {
			defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
			test.run(t, config)
		})
	}
}

// lane is the name of the lane that most tests write.
const lane = "lane.txt"

// outputs returns outputs from..to of a lane. Their texts are long enough to fill frames and buffers.
func outputs(from, to int) []job.Output {
	list := make([]job.Output, 0, to-from)
	for i := from; i < to; i++ {
		list = append(list, job.Output{
			Record: job.Record{Seq: int64(i), Text: text(i), End: position(i + 1)},
			Result: job.Result{Hypotheses: []job.Hypothesis{{Text: text(i)}}},
		})
	}
	return list
}

func text(i int) string {
	return fmt.Sprintf("record %d %s", i, strings.Repeat("translated ", i*7919%60))
}

func position(records int) job.Position {
	return job.Position{Record: int64(records), Offset: int64(10 * records)}
}

func wanted(n int) []string {
	list := make([]string, n)
	for i := range list {
		list[i] = text(i)
	}
	return list
}

func withTimeout(t testing.TB) (context.Context, context.CancelFunc) {
	t.Helper()
	return context.WithTimeout(context.Background(), timeout)
}

// session is one process's work on a place.
type session struct {
	t    testing.TB
	ctx  context.Context
	sink producer.Sink
	stop context.CancelFunc
}

func begin(t testing.TB, place Place) *session {
	t.Helper()
	ctx, stop := withTimeout(t)
	s := &session{t: t, ctx: ctx, sink: place.Sink(), stop: stop}
	if err := s.sink.Connect(ctx); err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *session) end() {
	s.t.Helper()
	if err := s.sink.Close(s.ctx); err != nil {
		s.t.Error(err)
	}
	s.stop()
}

func (s *session) open(lane string) (producer.Writer, int) {
	s.t.Helper()
	w, at, err := s.sink.Open(s.ctx, lane)
	if err != nil {
		s.t.Fatal(err)
	}
	if at != position(int(at.Record)) && at != (job.Position{}) {
		s.t.Fatalf("the lane continues at %+v, which was never its position", at)
	}
	return w, int(at.Record)
}

func (s *session) write(w producer.Writer, from, to int) {
	s.t.Helper()
	if err := w.Write(s.ctx, outputs(from, to)); err != nil {
		s.t.Fatal(err)
	}
}

func (s *session) commit(w producer.Writer) int {
	s.t.Helper()
	at, err := w.Commit(s.ctx)
	if err != nil {
		s.t.Fatal(err)
	}
	return int(at.Record)
}

func (s *session) finish(w producer.Writer) {
	s.t.Helper()
	if err := w.Finish(s.ctx); err != nil {
		s.t.Fatal(err)
	}
	s.close(w)
}

func (s *session) close(w producer.Writer) {
	s.t.Helper()
	if err := w.Close(); err != nil {
		s.t.Error(err)
	}
}

func expect(t testing.TB, place Place, lane string, n int) {
	t.Helper()
	got := place.Published(t, lane)
	if got == nil || !slices.Equal(got, wanted(n)) {
		t.Errorf("lane %s: %d texts are published, want %d, or other ones", lane, len(got), n)
	}
}

func testWrite(t *testing.T, config Config) {
	for _, n := range []int{1, 10, 5000} {
		place := config.New(t)
		s := begin(t, place)
		w, at := s.open(lane)
		if at != 0 {
			t.Errorf("a new lane continues at %d", at)
		}
		for from := 0; from < n; from += 700 {
			s.write(w, from, min(n, from+700))
		}
		s.finish(w)
		s.end()
		expect(t, place, lane, n)
	}
}

func testHidden(t *testing.T, config Config) {
	if config.Incremental {
		t.Skip("outputs can be seen as they are committed")
	}
	place := config.New(t)
	s := begin(t, place)
	w, _ := s.open(lane)
	for from := 0; from < 5000; from += 1000 {
		s.write(w, from, from+1000)
		s.commit(w)
		if got := place.Published(t, lane); got != nil {
			t.Errorf("after %d outputs, %d can be seen", from+1000, len(got))
		}
	}
	s.finish(w)
	s.end()
	expect(t, place, lane, 5000)
}

func testEmpty(t *testing.T, config Config) {
	place := config.New(t)
	s := begin(t, place)
	w, _ := s.open(lane)
	if at := s.commit(w); at != 0 {
		t.Errorf("a commit of nothing is at %d", at)
	}
	s.finish(w)
	s.end()
	if got := place.Published(t, lane); len(got) != 0 || got == nil && !config.Incremental {
		t.Errorf("%q is published", got)
	}
}

func testNoCommit(t *testing.T, config Config) {
	place := config.New(t)
	s := begin(t, place)
	w, _ := s.open(lane)
	s.write(w, 0, 3000)
	s.close(w)
	s.end()
	s = begin(t, place)
	w, at := s.open(lane)
	if at != 0 {
		t.Errorf("the lane continues at %d", at)
	}
	s.write(w, 0, 10)
	s.finish(w)
	s.end()
	expect(t, place, lane, 10)
}

// testUncommitted leaves other and longer outputs behind the last commit than those that follow in the end.
func testUncommitted(t *testing.T, config Config) {
	place := config.New(t)
	s := begin(t, place)
	w, _ := s.open(lane)
	s.write(w, 0, 3000)
	durable := s.commit(w)
	wrong := outputs(3000, 6000)
	for i := range wrong {
		wrong[i].Result.Hypotheses[0].Text = "wrong " + strings.Repeat("x", 500)
	}
	if err := w.Write(s.ctx, wrong); err != nil {
		t.Fatal(err)
	}
	s.close(w)
	s.end()
	s = begin(t, place)
	w, at := s.open(lane)
	if at != durable {
		t.Errorf("the lane continues at %d, and %d were durable", at, durable)
	}
	s.write(w, at, 3001)
	s.finish(w)
	s.end()
	expect(t, place, lane, 3001)
}

func testDone(t *testing.T, config Config) {
	if config.Forgets {
		t.Skip("the sink does not know complete outputs again")
	}
	place := config.New(t)
	s := begin(t, place)
	w, _ := s.open(lane)
	s.write(w, 0, 10)
	s.finish(w)
	for range 2 {
		if _, _, err := s.sink.Open(s.ctx, lane); !errors.Is(err, producer.ErrDone) {
			t.Errorf("Open: %v", err)
		}
		s.end()
		s = begin(t, place)
	}
	s.end()
	expect(t, place, lane, 10)
}

// testExclusive accepts all ways: the second writer is refused, or one of them finds itself fenced, or both write the same.
func testExclusive(t *testing.T, config Config) {
	place := config.New(t)
	first, second := begin(t, place), begin(t, place)
	w1, _ := first.open(lane)
	first.write(w1, 0, 10)
	first.commit(w1)
	w2, at, err := second.sink.Open(second.ctx, lane)
	if err != nil {
		if !errors.Is(err, producer.ErrFenced) {
			t.Errorf("Open by a second writer: %v", err)
		}
		first.write(w1, 10, 20)
		first.finish(w1)
	} else if config.Overlaps {
		second.write(w2, int(at.Record), 20)
		first.write(w1, 10, 20)
		second.finish(w2)
		first.finish(w1)
	} else if config.Races {
		first.write(w1, 10, 15)
		first.commit(w1)
		writeErr := w2.Write(second.ctx, outputs(int(at.Record), 20))
		_, commitErr := w2.Commit(second.ctx)
		if !errors.Is(errors.Join(writeErr, commitErr), producer.ErrFenced) {
			t.Errorf("the second writer is not fenced: %v, %v", writeErr, commitErr)
		}
		w2.Close()
		first.write(w1, 15, 20)
		first.finish(w1)
	} else {
		writeErr := w1.Write(first.ctx, outputs(10, 15))
		_, commitErr := w1.Commit(first.ctx)
		if !errors.Is(errors.Join(writeErr, commitErr), producer.ErrFenced) {
			t.Errorf("the first writer is not fenced: %v, %v", writeErr, commitErr)
		}
		w1.Close()
		second.write(w2, int(at.Record), 20)
		second.finish(w2)
	}
	first.end()
	second.end()
	expect(t, place, lane, 20)
}

func testLanes(t *testing.T, config Config) {
	place := config.New(t)
	s := begin(t, place)
	var wait sync.WaitGroup
	for i := range 4 {
		wait.Go(func() {
			name := fmt.Sprintf("folder/lane %d.txt", i)
			w, _, err := s.sink.Open(s.ctx, name)
			if err != nil {
				t.Error(err)
				return
			}
			for from := 0; from < 100*i; from += 50 {
				if err := w.Write(s.ctx, outputs(from, from+50)); err != nil {
					t.Error(err)
				}
				if _, err := w.Commit(s.ctx); err != nil {
					t.Error(err)
				}
			}
			if err := errors.Join(w.Finish(s.ctx), w.Close()); err != nil {
				t.Error(err)
			}
		})
	}
	wait.Wait()
	s.end()
	for i := 1; i < 4; i++ {
		expect(t, place, fmt.Sprintf("folder/lane %d.txt", i), 100*i)
	}
}

// testInterruptions writes in runs, commits, and starts anew, all at random, and checks what Commit and Open say.
func testInterruptions(t *testing.T, config Config) {
	rapid.Check(t, func(r *rapid.T) {
		place := config.New(t)
		total := rapid.IntRange(0, 4000).Draw(r, "total")
		durable := 0
		for done := false; !done; {
			s := begin(t, place)
			w, at := s.open(lane)
			if at != durable {
				r.Fatalf("the lane continues at %d, and %d were durable", at, durable)
			}
			written := at
			for range rapid.IntRange(0, 6).Draw(r, "steps") {
				next := min(total, written+rapid.IntRange(1, 1500).Draw(r, "run"))
				if next > written {
					s.write(w, written, next)
					written = next
				}
				if rapid.Bool().Draw(r, "commit") {
					now := s.commit(w)
					if now < durable || now > written {
						r.Fatalf("durable up to %d after %d, of %d written", now, durable, written)
					}
					durable = now
				}
			}
			if written == total && rapid.Bool().Draw(r, "finish") {
				s.finish(w)
				done = true
			} else {
				s.close(w)
			}
			s.end()
		}
		if got := place.Published(t, lane); !slices.Equal(got, wanted(total)) {
			r.Fatalf("%d texts are published, want %d, or other ones", len(got), total)
		}
	})
}
