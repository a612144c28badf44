// Package producer defines what a sink of translated records is.
package producer

import (
	"context"
	"errors"

	"github.com/sluice-mt/sluice/internal/job"
)

// ErrFenced is returned by a Writer whose lane is being written by someone else. Nothing that it was given since
// the last commit has become visible.
var ErrFenced = errors.New("another writer has taken over this lane")

// ErrDone is returned by Sink.Open for a lane whose output is already complete.
var ErrDone = errors.New("output is already complete")

// ErrNoPlace is wrapped by the error of a Writer that was given an output it can neither write nor set aside. To try again
// changes nothing: the record has to be repaired, or the sink be told where such records go.
var ErrNoPlace = errors.New("the record cannot be translated, and there is no place for dead letters")

// A Sink takes the outputs of lanes: one output file per input file, one object per object, a topic.
//
// Connect is called once before anything else. Open prepares the output of one lane and tells where the lane
// continues: the sink, which holds what is already written, is the one that knows. The source is told that position
// before its first Read. Open returns ErrDone where nothing remains to be done. Close is called once, after every
// Writer has been closed.
type Sink interface {
	Connect(ctx context.Context) error
	Open(ctx context.Context, lane string) (Writer, job.Position, error)
	Close(ctx context.Context) error
}

// A Writer writes the outputs of one lane.
//
// Write takes a run: outputs that follow each other in the lane without gap and follow the run before. It may
// buffer. Commit makes what was written durable together with the position after it, and returns the position up to
// which the lane is now durable, which may lie before the last run (a compressed frame still open). Finish commits
// everything and publishes the output as complete. Close releases the writer and, without a Finish before it,
// leaves what was committed for a later Open to continue. All calls come from one goroutine at a time.
type Writer interface {
	Write(ctx context.Context, run []job.Output) error
	Commit(ctx context.Context) (job.Position, error)
	Finish(ctx context.Context) error
	Close() error
}
