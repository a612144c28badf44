package s3

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"

	"github.com/sluice-mt/sluice/consumer"
	"github.com/sluice-mt/sluice/internal/job"
	"github.com/sluice-mt/sluice/internal/readahead"
	"github.com/sluice-mt/sluice/internal/recordio"
	"github.com/sluice-mt/sluice/internal/s3client"
)

// lane reads an object, or a range of one, in a goroutine of its own, a bounded number of records ahead.
type lane struct {
	source *Source
	name   string
	object *object
	part   part
	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	queue  *readahead.Queue
	done   atomic.Int64
	reader sync.WaitGroup
	once   sync.Once

	mutex     sync.Mutex
	read      job.Position // after the last record; where the lane ends, once all is set
	all       bool         // every record was read
	committed bool         // and is in the sink
}

func newLane(s *Source, o *object, p part) *lane {
	l := &lane{source: s, name: o.info.URI(), object: o, part: p, queue: readahead.New()}
	if p.count > 1 {
		l.name += fmt.Sprintf("[%d/%d]", p.index, p.count)
	}
	l.ctx, l.cancel = context.WithCancel(context.Background())
	return l
}

// Name returns the name of the object; of a range, with its number from 0 and how many there are.
func (l *lane) Name() string { return l.name }

// Start begins to read at a position that a record of the lane had as its end.
func (l *lane) Start(_ context.Context, at job.Position) error {
	if at.Input != 0 || at.Offset < 0 || at.Record < 0 {
		return fmt.Errorf("%s: there is no position %+v", l.name, at)
	}
	l.mutex.Lock()
	l.read = at
	l.mutex.Unlock()
	l.reader.Go(func() { l.queue.End(l.readAll(at)) })
	return nil
}

// readAll puts all records from a position on into the queue. It returns io.EOF when there are no more.
func (l *lane) readAll(at job.Position) error {
	decoder, closer, err := l.decoder(at)
	if err != nil {
		return l.lost(err)
	}
	defer closer.Close()
	for {
		record, err := decoder.Next()
		if err != nil {
			if err == io.EOF {
				l.mutex.Lock()
				l.all = true
				l.mutex.Unlock()
			}
			return l.lost(err)
		}
		l.mutex.Lock()
		l.read = record.End
		l.mutex.Unlock()
		if !l.queue.Put(record) {
			return context.Canceled
		}
	}
}

// lost marks errors that say that what was found is not there any more.
func (l *lane) lost(err error) error {
	if errors.Is(err, s3client.ErrReplaced) || errors.Is(err, s3client.ErrNotFound) {
		return fmt.Errorf("%w: %s was replaced or removed after it was found: %w", consumer.ErrLaneLost, l.object.info.URI(), err)
	}
	return err
}

func (l *lane) decoder(at job.Position) (recordio.Decoder, io.Closer, error) {
	options := l.source.config.Records
	switch {
	case options.Format == recordio.Parquet:
		return l.parquet(at)
	case l.part.count > 1:
		return l.ranged(at)
	}
	s, err := newStream(l)
	if err != nil {
		return nil, nil, err
	}
	decoder, err := recordio.NewDecoder(options, l.name, s, at)
	if err != nil {
		s.Close()
		return nil, nil, err
	}
	return decoder, s, nil
}

// Read returns the records that are there, waiting for at least one.
func (l *lane) Read(ctx context.Context) ([]job.Record, error) { return l.queue.Take(ctx) }

// Commit notes whether the sink has everything.
func (l *lane) Commit(_ context.Context, at job.Position) error {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.committed = l.all && at == l.read
	return nil
}

// PassedOver says that the sink had the lane's complete output already.
func (l *lane) PassedOver() {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.committed = true
}

// Progress returns how many bytes have been read, and how many there are.
func (l *lane) Progress() (done, total int64) {
	total = l.part.to - l.part.from
	return min(l.done.Load(), total), total
}

// Close ends the reading and waits for that.
func (l *lane) Close() error {
	l.forget()
	l.reader.Wait()
	return nil
}

// forget lets go of a lane, whether it was read or not, and tells the notification that it came from.
func (l *lane) forget() {
	l.cancel()
	l.queue.Close()
	l.once.Do(func() {
		l.source.mutex.Lock()
		delete(l.source.open, l.name)
		l.source.mutex.Unlock()
		l.mutex.Lock()
		defer l.mutex.Unlock()
		if d := l.object.delivery; d != nil {
			d.settle(l.committed)
		}
	})
}
