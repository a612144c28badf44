package pipeline

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sluice-mt/sluice/consumer"
	"github.com/sluice-mt/sluice/internal/job"
)

var (
	// ErrStalled is returned by Run when a record was in flight for longer than Config.Stall.
	ErrStalled = errors.New("no progress")

	// ErrTooManyFailed is returned by Run when more records failed than Config.MaxFailed allows.
	ErrTooManyFailed = errors.New("too many records have failed")
)

// A LaneState is how far an open lane is.
type LaneState struct {
	Name      string
	Committed job.Position  // everything before it is durable
	InFlight  int           // records read and not written
	Age       time.Duration // for how long the oldest record that is not durable has been in flight; 0 if there is none
	Read      int64         // bytes of the input that were read, before decompression
	Total     int64         // bytes of the input; 0 if unknown
}

// Lanes returns the state of the open lanes, sorted by name. It may be called while Run is going on.
func (p *Pipeline) Lanes() []LaneState {
	p.mutex.Lock()
	writers := make([]*laneWriter, 0, len(p.open))
	for writer := range p.open {
		writers = append(writers, writer)
	}
	p.mutex.Unlock()
	states := make([]LaneState, len(writers))
	for i, writer := range writers {
		states[i] = writer.state(time.Now())
	}
	slices.SortFunc(states, func(a, b LaneState) int { return strings.Compare(a.Name, b.Name) })
	return states
}

func (l *laneWriter) state(now time.Time) LaneState {
	records, since := l.window.oldest()
	done := l.progress.Load()
	if !done.since.IsZero() {
		since = done.since
	}
	state := LaneState{Name: l.name, Committed: done.position, InFlight: records}
	if !since.IsZero() {
		state.Age = now.Sub(since)
	}
	if sizer, ok := l.lane.(consumer.Sizer); ok {
		state.Read, state.Total = sizer.Progress()
	}
	return state
}

// watch stops the job when a lane makes no progress. A consumer group takes a member for alive as long as it sends
// heartbeats, and so a worker that is stuck would keep its partitions for ever.
func (p *Pipeline) watch(ctx context.Context, stop context.CancelCauseFunc) {
	if p.config.Stall <= 0 {
		return
	}
	ticker := time.NewTicker(max(p.config.Stall/10, time.Millisecond))
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		for _, lane := range p.Lanes() {
			if lane.Age > p.config.Stall {
				stop(fmt.Errorf("%w: the record after %d of %s has been in flight for %v", ErrStalled, lane.Committed.Record,
					lane.Name, lane.Age.Round(time.Millisecond)))
				return
			}
		}
	}
}

// Credits returns how many bytes of the budget are in use, and how many there are.
func (p *Pipeline) Credits() (used, total int64) { return p.budget.used.Load(), p.budget.total }
