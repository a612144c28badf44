package file

import (
	"context"
	"os"
	"sync"

	"github.com/sluice-mt/sluice/internal/job"
)

// What a lane reads ahead.
const (
	mostRecords = 1024
	mostBytes   = 1 << 20
)

var errClosed = os.ErrClosed

// queue hands records from the goroutine that reads to the one that takes.
type queue struct {
	mu      sync.Mutex
	records []job.Record
	bytes   int
	err     error // after the records

	ready  chan struct{} // holds one when there may be something to take
	space  chan struct{} // holds one when there may be room
	closed chan struct{}
	once   sync.Once
}

func newQueue() *queue {
	return &queue{ready: make(chan struct{}, 1), space: make(chan struct{}, 1), closed: make(chan struct{})}
}

// put adds a record, waiting for room. It returns false when the queue is closed.
func (q *queue) put(record job.Record) bool {
	for {
		q.mu.Lock()
		full := len(q.records) >= mostRecords || len(q.records) > 0 && q.bytes+record.Size > mostBytes
		if !full {
			q.records = append(q.records, record)
			q.bytes += record.Size
			q.mu.Unlock()
			signal(q.ready)
			return true
		}
		q.mu.Unlock()
		select {
		case <-q.space:
		case <-q.closed:
			return false
		}
	}
}

// end says that no more records come, and why.
func (q *queue) end(err error) {
	q.mu.Lock()
	q.err = err
	q.mu.Unlock()
	signal(q.ready)
}

// take returns all records that are there, or waits for the first.
func (q *queue) take(ctx context.Context) ([]job.Record, error) {
	for {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		q.mu.Lock()
		records, err := q.records, q.err
		q.records, q.bytes = nil, 0
		q.mu.Unlock()
		if len(records) > 0 {
			signal(q.space)
			return records, nil
		}
		if err != nil {
			return nil, err
		}
		select {
		case <-q.ready:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func (q *queue) close() { q.once.Do(func() { close(q.closed) }) }

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
