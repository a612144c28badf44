package pipeline

import (
	"context"
	"sync/atomic"

	"golang.org/x/sync/semaphore"

	"github.com/sluice-mt/sluice/internal/job"
)

const (
	expansion   = 4   // bytes in flight for each byte of a record: pieces, states, output
	fixedCredit = 512 // and for each record
)

// A budget bounds the bytes in flight over all lanes. A record takes credits when it enters and gives them back when
// it is with the sink.
//
// No lane can have more than half of it, so that one whose sink has stalled, or whose head takes long, does not stop
// the others. And a lane that has nothing in flight may always have one record, whatever the others hold, so that
// every lane gets on. The bound is therefore the budget and the largest record of each open lane.
//
// It cannot deadlock: whoever waits has flushed the translator, so that everything that holds credits is being
// translated or on its way to a sink. What a sink keeps for itself until it commits (a batch, a part of an upload, the
// open piece of a chain) does not count; each bounds that for a lane.
type budget struct {
	total   int64
	credits *semaphore.Weighted
	used    atomic.Int64
}

func newBudget(total int64) *budget {
	return &budget{total: total, credits: semaphore.NewWeighted(total)}
}

// A laneBudget is one lane's part of the budget.
type laneBudget struct {
	*budget
	own     *semaphore.Weighted // what this lane may still take
	records atomic.Int64        // in flight
	emptied chan struct{}       // holds a token when nothing is in flight any more
}

func (b *budget) forLane() *laneBudget {
	return &laneBudget{budget: b, own: semaphore.NewWeighted(b.mostOfLane()), emptied: make(chan struct{}, 1)}
}

func (b *budget) mostOfLane() int64 { return max(1, b.total/2) }

// credit is what a record takes.
func (b *budget) credit(size int) int64 {
	return min(b.mostOfLane(), expansion*int64(size)+fixedCredit)
}

// take takes credits for a record and returns how many it took. If there are none it calls shortage and waits.
func (b *laneBudget) take(ctx context.Context, record *job.Record, shortage func()) (credit int64, err error) {
	credit = b.credit(record.Size)
	if !b.try(credit) {
		if credit, err = b.wait(ctx, credit, shortage); err != nil {
			return 0, err
		}
	}
	b.records.Add(1)
	b.used.Add(credit)
	return credit, nil
}

func (b *laneBudget) try(credit int64) bool {
	if !b.own.TryAcquire(credit) {
		return false
	}
	if !b.credits.TryAcquire(credit) {
		b.own.Release(credit)
		return false
	}
	return true
}

// wait waits for credits, or until nothing of the lane is in flight any more: then the record is the lane's reserve, which
// takes none.
func (b *laneBudget) wait(ctx context.Context, credit int64, shortage func()) (int64, error) {
	shortage()
	select {
	case <-b.emptied: // of an earlier time
	default:
	}
	if b.records.Load() == 0 {
		return 0, nil
	}
	waiting, cancel := context.WithCancel(ctx)
	defer cancel()
	acquired := make(chan error, 1)
	go func() { acquired <- b.acquire(waiting, credit) }()
	select {
	case err := <-acquired:
		return credit, err
	case <-b.emptied:
		cancel()
		if err := <-acquired; err == nil {
			return credit, nil
		}
		return 0, ctx.Err()
	}
}

func (b *laneBudget) acquire(ctx context.Context, credit int64) error {
	if err := b.own.Acquire(ctx, credit); err != nil {
		return err
	}
	if err := b.credits.Acquire(ctx, credit); err != nil {
		b.own.Release(credit)
		return err
	}
	return nil
}

// release gives back the credits of so many records.
func (b *laneBudget) release(credit int64, records int) {
	if b.records.Add(-int64(records)) == 0 {
		select {
		case b.emptied <- struct{}{}:
		default:
		}
	}
	b.used.Add(-credit)
	b.own.Release(credit)
	b.credits.Release(credit)
}
