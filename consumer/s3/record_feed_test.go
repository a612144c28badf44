package s3

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/sluice-mt/sluice/consumer"
	"github.com/sluice-mt/sluice/internal/job"
)

// A tape is a source of one lane whose records are added while it is read.
type tape struct {
	records chan job.Record
	taken   bool

	mutex     sync.Mutex
	committed []int64
	closed    bool
}

func (s *tape) Connect(context.Context) error { return nil }
func (s *tape) Close(context.Context) error   { return nil }

func (s *tape) Next(ctx context.Context) (consumer.Lane, error) {
	if s.taken {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	s.taken = true
	return (*tapeLane)(s), nil
}

type tapeLane tape

func (l *tapeLane) Name() string                              { return "tape" }
func (l *tapeLane) Start(context.Context, job.Position) error { return nil }

func (l *tapeLane) Read(ctx context.Context) ([]job.Record, error) {
	select {
	case record, ok := <-l.records:
		if !ok {
			return nil, io.EOF
		}
		return []job.Record{record}, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (l *tapeLane) Commit(_ context.Context, pos job.Position) error {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if l.closed {
		return errors.New("Commit after Close")
	}
	l.committed = append(l.committed, pos.Record)
	return nil
}

func (l *tapeLane) Close() error {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.closed = true
	return nil
}

// A position is committed when everything before it is done with, in whichever order that happens.
func TestRecordFeedCommitsInOrder(t *testing.T) {
	source := &tape{records: make(chan job.Record, 10)}
	for i := range int64(5) {
		record := job.Record{Seq: i, Text: fmt.Sprint("notice ", i), End: job.Position{Record: i + 1}}
		if i == 3 {
			record.Text, record.Err = "", errors.New("unreadable")
		}
		source.records <- record
	}
	feed := NewRecordFeed(source, slog.New(slog.DiscardHandler))
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	var notices []Notice
	for range 4 {
		received, err := feed.Receive(ctx)
		if err != nil {
			t.Fatal(err)
		}
		notices = append(notices, received...)
	}
	if string(notices[3].Body) != "notice 4" || !notices[0].Once {
		t.Errorf("%q", notices[3].Body)
	}
	for _, i := range []int{2, 0, 3, 1} {
		if err := notices[i].Done(ctx); err != nil {
			t.Fatal(err)
		}
	}
	if want := []int64{1, 5}; !slices.Equal(source.committed, want) {
		t.Errorf("committed %d, want %d", source.committed, want)
	}
	close(source.records)
	if err := feed.Close(ctx); err != nil {
		t.Fatal(err)
	}
	if !source.closed {
		t.Error("the lane was not closed")
	}
	if err := notices[0].Done(ctx); err != nil { // too late, and no reason to complain
		t.Error(err)
	}
}

func TestRecordFeedFails(t *testing.T) {
	feed := NewRecordFeed(broken{}, slog.New(slog.DiscardHandler))
	for range 2 {
		if _, err := feed.Receive(context.Background()); !errors.Is(err, errBroken) {
			t.Errorf("%v", err)
		}
	}
	if err := feed.Close(context.Background()); err != nil {
		t.Error(err)
	}
}

var errBroken = errors.New("broken")

type broken struct{}

func (broken) Connect(context.Context) error               { return errBroken }
func (broken) Next(context.Context) (consumer.Lane, error) { return nil, errBroken }
func (broken) Close(context.Context) error                 { return nil }
