package s3

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"

	"github.com/sluice-mt/sluice/consumer"
	"github.com/sluice-mt/sluice/internal/job"
)

// A RecordFeed is a Feed of the records of another source, such as a topic that a store writes its notifications to. The
// text of a record is the notification. Its lane is told of the position before which everything is in the sink.
type RecordFeed struct {
	source consumer.Source
	logger *slog.Logger

	begin   sync.Once
	ctx     context.Context // of all lanes
	stop    context.CancelFunc
	lanes   sync.WaitGroup
	notices chan Notice
	failed  chan error // holds the first failure
}

// NewRecordFeed returns a feed that connects to its source when it is first asked for notifications.
func NewRecordFeed(source consumer.Source, logger *slog.Logger) *RecordFeed {
	f := &RecordFeed{source: source, logger: logger, notices: make(chan Notice), failed: make(chan error, 1)}
	f.ctx, f.stop = context.WithCancel(context.Background())
	return f
}

// Receive waits for the next notification.
func (f *RecordFeed) Receive(ctx context.Context) ([]Notice, error) {
	f.begin.Do(func() {
		if err := f.source.Connect(ctx); err != nil {
			f.fail(err)
			return
		}
		f.lanes.Go(f.take)
	})
	select {
	case notice := <-f.notices:
		return []Notice{notice}, nil
	case err := <-f.failed:
		f.failed <- err // for the next call
		return nil, err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Close ends the reading. It is called when every Notice is done with or never will be.
func (f *RecordFeed) Close(ctx context.Context) error {
	f.stop()
	f.lanes.Wait()
	return f.source.Close(ctx)
}

func (f *RecordFeed) fail(err error) {
	select {
	case f.failed <- err:
	default:
	}
}

// take takes the source's lanes.
func (f *RecordFeed) take() {
	for {
		lane, err := f.source.Next(f.ctx)
		if err != nil {
			if !errors.Is(err, consumer.ErrEndOfInput) && f.ctx.Err() == nil {
				f.fail(err)
			}
			return
		}
		f.lanes.Go(func() {
			if err := f.read(lane); err != nil && f.ctx.Err() == nil {
				f.fail(fmt.Errorf("%s: %w", lane.Name(), err))
			}
		})
	}
}

// read makes notices of the records of a lane.
func (f *RecordFeed) read(lane consumer.Lane) error {
	front := &frontier{lane: lane, idle: make(chan struct{}, 1)}
	defer front.close(f.logger)
	if err := lane.Start(f.ctx, job.Position{}); err != nil {
		return err
	}
	for {
		records, err := lane.Read(f.ctx)
		for i := range records {
			if err := f.hand(front, &records[i]); err != nil {
				return err
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			return front.wait(f.ctx)
		case errors.Is(err, consumer.ErrLaneLost):
			return nil // whoever has it now is given what was not committed
		case err != nil:
			return err
		}
	}
}

func (f *RecordFeed) hand(front *frontier, record *job.Record) error {
	done := front.add(record.End)
	if record.Err != nil || record.Text == "" {
		f.logger.Warn("a record is no notification and is passed over", "lane", front.lane.Name(), "record", record.Seq, "error", record.Err)
		return done(f.ctx)
	}
	select {
	case f.notices <- Notice{Body: []byte(record.Text), Done: done, Once: true}:
		return nil
	case <-f.ctx.Done():
		return f.ctx.Err()
	}
}

// A frontier knows which records of a lane are done with, and tells the lane of the last position that has none before it
// that is not.
type frontier struct {
	lane consumer.Lane
	idle chan struct{} // holds a token when nothing is left

	mutex   sync.Mutex
	entries []*entry // in the order of the lane
	closed  bool
}

type entry struct {
	end  job.Position
	done bool
}

// add puts a record behind the others and returns what says that it is done with.
func (f *frontier) add(end job.Position) (done func(context.Context) error) {
	e := &entry{end: end}
	f.mutex.Lock()
	f.entries = append(f.entries, e)
	f.mutex.Unlock()
	return func(ctx context.Context) error { return f.settle(ctx, e) }
}

func (f *frontier) settle(ctx context.Context, e *entry) error {
	f.mutex.Lock()
	defer f.mutex.Unlock() // so that the lane is not closed meanwhile, and hears of positions in their order
	e.done = true
	var last *entry
	for len(f.entries) > 0 && f.entries[0].done {
		last, f.entries = f.entries[0], f.entries[1:]
	}
	if len(f.entries) == 0 {
		select {
		case f.idle <- struct{}{}:
		default:
		}
	}
	if last == nil || f.closed {
		return nil
	}
	return f.lane.Commit(ctx, last.end)
}

// wait waits until every record is done with.
func (f *frontier) wait(ctx context.Context) error {
	for {
		f.mutex.Lock()
		left := len(f.entries)
		f.mutex.Unlock()
		if left == 0 {
			return nil
		}
		select {
		case <-f.idle:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (f *frontier) close(logger *slog.Logger) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	f.closed = true
	if err := f.lane.Close(); err != nil {
		logger.Warn("notifications", "lane", f.lane.Name(), "error", err)
	}
}
