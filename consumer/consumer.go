// Package consumer defines what a source of records is.
package consumer

import (
	"context"
	"errors"

	"github.com/sluice-mt/sluice/internal/job"
)

var (
	// ErrEndOfInput is returned by Source.Next when no further lane will come.
	ErrEndOfInput = errors.New("end of input")

	// ErrLaneLost is returned by a Lane whose records belong to someone else from now on (a revoked partition, an
	// object that was replaced while it was read). What was read and not committed is not to be written.
	ErrLaneLost = errors.New("lane lost")
)

// A Source gives lanes of records: the files of a folder, the objects under a prefix, the partitions of a topic.
//
// Connect is called once before anything else. Next is then called from one goroutine until it returns an error.
// It returns ErrEndOfInput when no further lane will come, and ctx.Err() when ctx ends first. Close is called once,
// after every lane has been closed.
type Source interface {
	Connect(ctx context.Context) error
	Next(ctx context.Context) (Lane, error)
	Close(ctx context.Context) error
}

// A Lane is one ordered sequence of records.
//
// Start is called once, with the position at which the sink says the lane continues. Read then returns the next
// records in order, at least one, waiting for them if need be; io.EOF says that the lane is complete. Read may be
// slow, so it must return early with what it has when the input pauses. Commit says that everything before pos is
// durable in the sink; a source that keeps progress of its own stores it then. Start, Read and Close are called
// from one goroutine; Commit may be called from another, never after Close.
type Lane interface {
	Name() string // what a user calls the lane: a path, a key, topic/partition
	Start(ctx context.Context, pos job.Position) error
	Read(ctx context.Context) ([]job.Record, error)
	Commit(ctx context.Context, pos job.Position) error
	Close() error
}

// A Sizer is a Lane that knows how much there is to read. Progress bars use it.
type Sizer interface {
	// Progress returns bytes read from the input so far and in total, before decompression; total is 0 if unknown.
	Progress() (done, total int64)
}

// A Passer is a Lane that wants to know when the sink has its complete output already: one that was told of by a message,
// say, which is then settled. PassedOver is called before Close, and Start is not.
type Passer interface {
	PassedOver()
}
