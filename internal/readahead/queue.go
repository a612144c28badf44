// Package readahead hands records from the goroutine that reads a lane to the one that takes them, a bounded number
// ahead, so that a lane can give what is there without waiting for what is not.
package readahead

import (
	"context"
	"sync"

	"github.com/sluice-mt/sluice/internal/job"
)

// What a Queue holds at most.
const (
	mostRecords = 1024
	mostBytes   = 1 << 20
)

// A Queue holds records that were read and not taken yet.
type Queue struct {
	mu      sync.Mutex
	records []job.Record
	last    int // how many were taken the last time
	bytes   int
	err     error // after the records

	ready  chan struct{} // holds one when there may be something to take
	space  chan struct{} // holds one when there may be room
	closed chan struct{}
	once   sync.Once
}

// New returns an empty Queue.
func New() *Queue {
	return &Queue{ready: make(chan struct{}, 1), space: make(chan struct{}, 1), closed: make(chan struct{})}
}

// Put adds a record, waiting for room. It returns false when the queue is closed.
func (q *Queue) Put(record job.Record) bool {
	for {
		q.mu.Lock()
		full := len(q.records) >= mostRecords || len(q.records) > 0 && q.bytes+record.Size > mostBytes
		if !full {
			if q.records == nil {
				q.records = make([]job.Record, 0, max(16, q.last))
			}
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

// End says that no more records come, and why.
func (q *Queue) End(err error) {
	q.mu.Lock()
	q.err = err
	q.mu.Unlock()
	signal(q.ready)
}

// Take returns all records that are there, or waits for the first. After the last it returns the error of End.
func (q *Queue) Take(ctx context.Context) ([]job.Record, error) {
	for {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		q.mu.Lock()
		records, err := q.records, q.err
		q.records, q.bytes = nil, 0
		if len(records) > 0 {
			q.last = len(records)
		}
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

// Close ends a Put that waits, and all that follow.
func (q *Queue) Close() { q.once.Do(func() { close(q.closed) }) }

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
