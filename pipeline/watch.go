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
	// ErrStalled is returned by Run when a lane stood still for longer than Config.Stall.
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
	Still     time.Duration // for how long nothing has happened that this record waits for
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
	window, done := l.window.state(), l.progress.Load()
	state := LaneState{Name: l.name, Committed: done.position, InFlight: window.records}
	switch {
	case !done.since.IsZero():
		state.Age = now.Sub(done.since)
	case window.records > 0:
		state.Age = now.Sub(window.admitted)
	}
	if begin := l.stillSince(window, done); !begin.IsZero() {
		state.Still = max(0, now.Sub(begin))
	}
	if sizer, ok := l.lane.(consumer.Sizer); ok {
		state.Read, state.Total = sizer.Progress()
	}
	return state
}

// stillSince returns since when nothing has happened that the oldest record of a lane waits for, zero if it waits for nothing. Age is no
// measure of that: behind a slow model and a queue that fills the memory for records, each of them waits for hours.
func (l *laneWriter) stillSince(window windowState, done *progress) time.Time {
	p := l.pipeline
	switch {
	case !done.since.IsZero(): // for the sink, which has it
		return done.touched
	case window.records == 0:
		return time.Time{}
	case !window.completed.IsZero(): // to be given to the sink
		return later(window.completed, done.touched)
	case p.answered.Load() > window.number+p.config.Overtaken: // for a translator that has long been at others
		return window.admitted
	}
	// For its turn. As long as translations come, to whichever lane, it comes nearer.
	return later(window.admitted, p.made.Add(time.Duration(p.lastAnswer.Load())))
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
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
			if lane.Still > p.config.Stall {
				stop(fmt.Errorf("%w: for %v nothing has happened that the record after %d of %s waits for", ErrStalled,
					lane.Still.Round(time.Millisecond), lane.Committed.Record, lane.Name))
				return
			}
		}
	}
}

// Credits returns how many bytes of the budget are in use, and how many there are.
func (p *Pipeline) Credits() (used, total int64) { return p.budget.used.Load(), p.budget.total }
