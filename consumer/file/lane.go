package file

import (
	"context"
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"

	"github.com/sluice-mt/sluice/internal/job"
	"github.com/sluice-mt/sluice/internal/readahead"
	"github.com/sluice-mt/sluice/internal/recordio"
)

var errClosed = os.ErrClosed

// lane reads one input after the other in a goroutine of its own, a bounded number of records ahead, so that Read
// can give what is there without waiting for what is not.
type lane struct {
	name    string
	inputs  []*input
	beside  bool // inputs are read side by side instead of one after the other
	records recordio.Options
	total   int64
	done    atomic.Int64
	queue   *readahead.Queue
	started atomic.Bool
	closing atomic.Bool
	reader  sync.WaitGroup
}

func newLane(name string, inputs []*input, records recordio.Options) *lane {
	return &lane{name: name, inputs: inputs, records: records, total: totalSize(inputs), queue: readahead.New()}
}

// Name returns the path of the input.
func (l *lane) Name() string { return l.name }

// Start begins to read at a position that a record of the lane had as its end.
func (l *lane) Start(_ context.Context, at job.Position) error {
	if at.Input < 0 || at.Input > len(l.inputs) || at.Offset < 0 || at.Record < 0 {
		return fmt.Errorf("%s: there is no position %+v in %d inputs", l.name, at, len(l.inputs))
	}
	for _, in := range l.inputs[:at.Input] {
		if in.pipe == nil {
			l.done.Add(in.size)
		}
	}
	l.started.Store(true)
	l.reader.Go(func() { l.queue.End(l.read(at)) })
	return nil
}

// read puts all records from a position on into the queue. It returns io.EOF when there are no more.
func (l *lane) read(at job.Position) error {
	if l.beside && len(l.inputs) > 0 {
		return l.readBeside(at)
	}
	for ; at.Input < len(l.inputs); at.Input, at.Offset = at.Input+1, 0 {
		var err error
		if at, err = l.readInput(l.inputs[at.Input], at); err != nil {
			return err
		}
	}
	return io.EOF
}

func (l *lane) readInput(in *input, at job.Position) (job.Position, error) {
	decoder, closer, err := l.open(in, at)
	if err != nil {
		return at, err
	}
	defer closer.Close()
	for {
		record, err := decoder.Next()
		if err == io.EOF {
			return at, nil
		}
		if err != nil {
			return at, err
		}
		at = record.End
		if !l.queue.Put(record) {
			return at, errClosed
		}
	}
}

// open returns a decoder of an input at a position, and what is to be closed.
func (l *lane) open(in *input, at job.Position) (recordio.Decoder, io.Closer, error) {
	if l.records.Format == recordio.Parquet {
		return l.openParquet(in, at)
	}
	stream, err := newStream(in, &l.done, &l.closing)
	if err != nil {
		return nil, nil, err
	}
	decoder, err := recordio.NewDecoder(l.records, in.path, stream, at)
	if err != nil {
		stream.Close()
		return nil, nil, err
	}
	return decoder, stream, nil
}

// Read returns the records that are there, waiting for at least one.
func (l *lane) Read(ctx context.Context) ([]job.Record, error) { return l.queue.Take(ctx) }

// Commit has nothing to do: what was read stays where it is.
func (l *lane) Commit(context.Context, job.Position) error { return nil }

// Progress returns how many bytes have been read, and how many there are.
func (l *lane) Progress() (done, total int64) { return l.done.Load(), l.total }

// Close ends the reading and waits for that.
func (l *lane) Close() error {
	l.closing.Store(true)
	if !l.started.Load() {
		l.done.Store(l.total)
	}
	l.queue.Close()
	for _, in := range l.inputs {
		if in.pipe != nil && !in.pipe.interrupt() {
			return nil // waits for someone to open the other end, which cannot be ended
		}
	}
	l.reader.Wait()
	return nil
}
