// Package contract tests what every consumer.Source promises. A source's own test makes a Config and calls RunTests.
package contract

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"go.uber.org/goleak"

	"github.com/sluice-mt/sluice/consumer"
	"github.com/sluice-mt/sluice/internal/job"
)

// Config makes the sources that are tested.
type Config struct {
	// Store keeps lanes of records where the source finds them, and returns a function that gives a source of them,
	// not connected. It is called several times, each time for a process that starts anew. Lanes may come in any
	// order. Texts are of one line and not empty.
	Store func(t *testing.T, lanes [][]string) func() consumer.Source

	// Live, if set, returns a source of one lane whose records arrive while it is read, and functions to add one
	// and to end the lane.
	Live func(t *testing.T) (source consumer.Source, add func(text string), end func())
}

const timeout = 20 * time.Second

// RunTests runs all tests as subtests of t.
func RunTests(t *testing.T, config Config) {
	for _, test := range []struct {
		name string
		run  func(*testing.T, Config)
	}{
		{"RecordsComeInOrderWithoutGaps", testOrder},
		{"ALaneContinuesAtAnyPosition", testContinue},
		{"TheEndStaysTheEnd", testEnd},
		{"ALaneCanBeClosedAtAnyTime", testClose},
		{"CommitMayComeFromElsewhere", testCommit},
		{"ProgressReachesTheTotal", testProgress},
		{"ACancelledContextEndsNext", testCancelNext},
		{"WhatHasArrivedIsNotHeldBack", testArrival},
		{"ACancelledContextEndsRead", testCancelRead},
		{"CloseEndsAWaitingSource", testCloseWaiting},
	} {
		t.Run(test.name, func(t *testing.T) {
			defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
			test.run(t, config)
		})
	}
}

// sample has lanes of different lengths, one of them empty.
func sample() [][]string {
	lanes := make([][]string, 4)
	for i, n := range []int{3, 0, 5000, 1} {
		for j := range n {
			lanes[i] = append(lanes[i], fmt.Sprintf("lane %d record %d %s", i, j, strings.Repeat("ä", j%50)))
		}
	}
	return lanes
}

func withTimeout(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	t.Cleanup(cancel)
	return ctx
}

// connect returns the lanes of a source.
func connect(t *testing.T, ctx context.Context, source consumer.Source) []consumer.Lane {
	t.Helper()
	if err := source.Connect(ctx); err != nil {
		t.Fatal(err)
	}
	var lanes []consumer.Lane
	for {
		lane, err := source.Next(ctx)
		if errors.Is(err, consumer.ErrEndOfInput) {
			return lanes
		}
		if err != nil {
			t.Fatal(err)
		}
		lanes = append(lanes, lane)
	}
}

func closeAll(t *testing.T, source consumer.Source, lanes []consumer.Lane) {
	t.Helper()
	for _, lane := range lanes {
		if err := lane.Close(); err != nil {
			t.Error(err)
		}
	}
	if err := source.Close(context.Background()); err != nil {
		t.Error(err)
	}
}

// rest reads a lane to its end.
func rest(t *testing.T, ctx context.Context, lane consumer.Lane) []job.Record {
	t.Helper()
	var records []job.Record
	for {
		batch, err := lane.Read(ctx)
		if err == io.EOF {
			return records
		}
		if err != nil {
			t.Fatal(err)
		}
		if len(batch) == 0 {
			t.Fatal("Read gave no records and no error")
		}
		records = append(records, batch...)
	}
}

func texts(records []job.Record) []string {
	list := make([]string, len(records))
	for i, record := range records {
		list[i] = record.Text
	}
	return list
}

// readAll reads every lane from its beginning.
func readAll(t *testing.T, open func() consumer.Source) map[string][]job.Record {
	t.Helper()
	ctx := withTimeout(t)
	source := open()
	lanes := connect(t, ctx, source)
	defer closeAll(t, source, lanes)
	records := map[string][]job.Record{}
	for _, lane := range lanes {
		if _, twice := records[lane.Name()]; twice || lane.Name() == "" {
			t.Errorf("two lanes have the name %q, or it is empty", lane.Name())
		}
		if err := lane.Start(ctx, job.Position{}); err != nil {
			t.Fatal(err)
		}
		records[lane.Name()] = rest(t, ctx, lane)
	}
	return records
}

func testOrder(t *testing.T, config Config) {
	stored := sample()
	read := readAll(t, config.Store(t, stored))
	for name, records := range read {
		at := slices.IndexFunc(stored, func(lane []string) bool { return slices.Equal(lane, texts(records)) })
		if at < 0 {
			t.Fatalf("lane %s gave %d records, which no lane has", name, len(records))
		}
		stored = slices.Delete(stored, at, at+1)
		for i, record := range records {
			if record.Seq != int64(i) || record.End.Record != int64(i+1) {
				t.Fatalf("lane %s: record %d has number %d and ends before %d", name, i, record.Seq, record.End.Record)
			}
			if record.Size <= 0 || record.Flags != 0 || record.Err != nil || !utf8.ValidString(record.Text) {
				t.Fatalf("lane %s: record %d is %+v", name, i, record)
			}
		}
	}
	stored = slices.DeleteFunc(stored, func(lane []string) bool { return len(lane) == 0 })
	if len(stored) > 0 {
		t.Errorf("%d lanes did not come", len(stored))
	}
}

func testContinue(t *testing.T, config Config) {
	open := config.Store(t, sample())
	whole := readAll(t, open)
	for _, share := range []float64{0, 0.001, 0.5, 1} {
		ctx := withTimeout(t)
		source := open()
		lanes := connect(t, ctx, source)
		for _, lane := range lanes {
			records := whole[lane.Name()]
			n := int(share * float64(len(records)))
			if n == 0 {
				n = min(1, len(records))
			}
			at := job.Position{}
			if n > 0 {
				at = records[n-1].End
			}
			if err := lane.Start(ctx, at); err != nil {
				t.Fatal(err)
			}
			got := rest(t, ctx, lane)
			if !slices.Equal(texts(got), texts(records[n:])) {
				t.Errorf("lane %s, at %+v: %d records, want %d", lane.Name(), at, len(got), len(records)-n)
			}
			for i, record := range got {
				if record.Seq != records[n+i].Seq || record.End != records[n+i].End {
					t.Fatalf("lane %s, at %+v: record %d is %+v, and was %+v", lane.Name(), at, i, record, records[n+i])
				}
			}
		}
		closeAll(t, source, lanes)
	}
}

func testEnd(t *testing.T, config Config) {
	ctx := withTimeout(t)
	source := config.Store(t, sample())()
	lanes := connect(t, ctx, source)
	defer closeAll(t, source, lanes)
	for range 2 {
		if _, err := source.Next(ctx); !errors.Is(err, consumer.ErrEndOfInput) {
			t.Errorf("Next: %v", err)
		}
	}
	for _, lane := range lanes {
		if err := lane.Start(ctx, job.Position{}); err != nil {
			t.Fatal(err)
		}
		rest(t, ctx, lane)
		if records, err := lane.Read(ctx); err != io.EOF {
			t.Errorf("lane %s: %d records, error %v behind the end", lane.Name(), len(records), err)
		}
	}
}

func testClose(t *testing.T, config Config) {
	ctx := withTimeout(t)
	source := config.Store(t, sample())()
	lanes := connect(t, ctx, source)
	for i, lane := range lanes {
		if i%2 == 0 {
			if err := lane.Start(ctx, job.Position{}); err != nil {
				t.Fatal(err)
			}
		}
		if i%4 == 0 {
			if _, err := lane.Read(ctx); err != nil && err != io.EOF {
				t.Fatal(err)
			}
		}
	}
	closeAll(t, source, lanes)
}

func testCommit(t *testing.T, config Config) {
	ctx := withTimeout(t)
	source := config.Store(t, sample())()
	lanes := connect(t, ctx, source)
	defer closeAll(t, source, lanes)
	for _, lane := range lanes {
		if err := lane.Start(ctx, job.Position{}); err != nil {
			t.Fatal(err)
		}
		commits, done := make(chan job.Position, 100), make(chan error)
		go func() {
			var failure error
			for at := range commits {
				failure = errors.Join(failure, lane.Commit(ctx, at))
			}
			done <- failure
		}()
		for {
			records, err := lane.Read(ctx)
			if err != nil {
				break
			}
			commits <- records[len(records)-1].End
		}
		close(commits)
		if err := <-done; err != nil {
			t.Errorf("lane %s: %v", lane.Name(), err)
		}
	}
}

func testProgress(t *testing.T, config Config) {
	ctx := withTimeout(t)
	source := config.Store(t, sample())()
	lanes := connect(t, ctx, source)
	defer closeAll(t, source, lanes)
	for _, lane := range lanes {
		sizer, ok := lane.(consumer.Sizer)
		if !ok {
			t.Skip("the source does not know how much there is")
		}
		if err := lane.Start(ctx, job.Position{}); err != nil {
			t.Fatal(err)
		}
		last := int64(0)
		for {
			_, err := lane.Read(ctx)
			done, total := sizer.Progress()
			if done < last || total > 0 && done > total {
				t.Errorf("lane %s: %d of %d bytes after %d", lane.Name(), done, total, last)
			}
			last = done
			if err == io.EOF && total > 0 && done != total {
				t.Errorf("lane %s: %d of %d bytes at the end", lane.Name(), done, total)
			}
			if err != nil {
				break
			}
		}
	}
}

func testCancelNext(t *testing.T, config Config) {
	ctx := withTimeout(t)
	source := config.Store(t, sample())()
	if err := source.Connect(ctx); err != nil {
		t.Fatal(err)
	}
	defer closeAll(t, source, nil)
	cancelled, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := source.Next(cancelled); !errors.Is(err, context.Canceled) {
		t.Errorf("Next: %v", err)
	}
}

// live starts the lane of a live source.
func live(t *testing.T, ctx context.Context, config Config) (source consumer.Source, lane consumer.Lane, add func(string), end func()) {
	t.Helper()
	if config.Live == nil {
		t.Skip("the source has no lane that grows")
	}
	source, add, end = config.Live(t)
	if err := source.Connect(ctx); err != nil {
		t.Fatal(err)
	}
	lane, err := source.Next(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := lane.Start(ctx, job.Position{}); err != nil {
		t.Fatal(err)
	}
	return source, lane, add, end
}

func testArrival(t *testing.T, config Config) {
	ctx := withTimeout(t)
	source, lane, add, end := live(t, ctx, config)
	defer closeAll(t, source, []consumer.Lane{lane})
	for i := range 5 {
		text := fmt.Sprint("record ", i)
		add(text)
		records, err := lane.Read(ctx)
		if err != nil || len(records) != 1 || records[0].Text != text {
			t.Fatalf("%d records, error %v, want %q", len(records), err, text)
		}
	}
	end()
	if _, err := lane.Read(ctx); err != io.EOF {
		t.Errorf("error %v at the end", err)
	}
}

func testCancelRead(t *testing.T, config Config) {
	ctx := withTimeout(t)
	source, lane, add, end := live(t, ctx, config)
	defer closeAll(t, source, []consumer.Lane{lane})
	defer end()
	short, cancel := context.WithTimeout(ctx, 10*time.Millisecond)
	defer cancel()
	if _, err := lane.Read(short); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Read: %v", err)
	}
	add("later")
	if records, err := lane.Read(ctx); err != nil || len(records) != 1 || records[0].Text != "later" {
		t.Errorf("after a Read that was cancelled: %d records, error %v", len(records), err)
	}
}

func testCloseWaiting(t *testing.T, config Config) {
	ctx := withTimeout(t)
	source, lane, _, end := live(t, ctx, config)
	defer end()
	time.Sleep(10 * time.Millisecond) // so that the source waits for input
	closed := make(chan struct{})
	go func() {
		closeAll(t, source, []consumer.Lane{lane})
		close(closed)
	}()
	select {
	case <-closed:
	case <-ctx.Done():
		t.Error("Close waits for input")
	}
}
