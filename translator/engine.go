// Package translator is the engine: text in, text out. It knows nothing of files, topics or devices. Segments are
// encoded into pieces, gathered into a maxi-batch that is sorted by length, and decoded by one worker per core in
// batches that are topped up as sentences finish.
//
// What a segment gives depends on the segment, the models and the options alone: not on its neighbours, the sizes of
// batches, the number of workers or the time.
package translator

import (
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-mt/sluice/internal/job"
	"github.com/sluice-mt/sluice/translator/batch"
	"github.com/sluice-mt/sluice/translator/search"
)

// ErrClosed is the error of segments that were still queued when the engine was closed.
var ErrClosed = errors.New("the engine was closed")

// An Engine translates segments. Its methods may be called from any goroutine.
type Engine struct {
	config Config

	// mutex guards the pool and what follows. Workers wait on changed for something to do.
	mutex    sync.Mutex
	changed  sync.Cond
	pool     *batch.Pool[*unit]
	urgent   []*unit     // somebody waits for them: they go before the pool
	returned []*unit     // by workers whose device failed: they go before all others
	timer    *time.Timer // wakes a worker when the oldest unit has waited long enough
	closed   bool
	closing  atomic.Bool // the same, for workers that are in the middle of a sentence

	miniBatch  int // source pieces that mini-batches are cut to
	leastSlots int // that a worker must have
	workers    sync.WaitGroup
	live       atomic.Int32 // workers whose device has not failed
	idle       atomic.Int32 // those of them that wait for something to do
	precise    precise
	counters   counters
	tasks      sync.Pool // of *task, without anything in them but memory
}

// New starts an engine. Close ends it.
func New(config Config) (*Engine, error) {
	if err := config.check(); err != nil {
		return nil, err
	}
	config.Batching = config.Batching.Automatic(1)
	e := &Engine{config: config, miniBatch: config.miniBatch()}
	e.leastSlots = (&search.Sentence{Source: search.Source{Tokens: make([]search.Token, 2)}, Options: config.Search}).Slots()
	e.config.Batching.Slots = max(config.Batching.Slots, e.leastSlots)
	e.changed.L = &e.mutex
	e.precise.open(config.Precise)
	var err error
	if e.pool, err = newPool(config.Batching, e.miniBatch); err != nil {
		return nil, err
	}
	workers, err := e.openWorkers()
	if err != nil {
		return nil, err
	}
	e.timer = time.AfterFunc(time.Hour, e.wake)
	e.timer.Stop()
	for _, w := range workers {
		e.workers.Go(w.run)
	}
	return e, nil
}

// openWorkers makes the workers of all devices. A device that has no memory for all of its workers has fewer.
func (e *Engine) openWorkers() ([]*worker, error) {
	var workers []*worker
	devices := e.config.devices()
	for i := range devices {
		for n := range max(devices[i].Workers, 1) {
			w := e.newWorker(&devices[i])
			err := w.open()
			if err != nil && n > 0 && w.device.Fits != nil && w.device.Fits(err) {
				break
			}
			if err != nil {
				for _, opened := range workers {
					opened.close()
				}
				return nil, err
			}
			workers = append(workers, w)
		}
	}
	e.live.Store(int32(len(workers)))
	return workers, nil
}

func newPool(b Batching, tokens int) (*batch.Pool[*unit], error) {
	lines := b.MiniBatchLines
	if lines == b.MiniBatchTokens { // as chosen by Automatic
		lines = tokens
	}
	return batch.NewPool[*unit](batch.Config{
		Tokens: tokens, Sentences: lines, Unsorted: b.Unsorted, Full: b.MaxiBatch,
		Linger: b.Latency, MaxOvertaken: b.MaxiBatch,
	})
}

// Submit queues a segment. Its Done is called exactly once.
func (e *Engine) Submit(segment job.Segment) {
	t := e.newTask(segment)
	units := e.config.Text.units(t)
	if t.err != nil {
		segment.Done(job.Result{Flags: job.Failed, Err: t.err})
		return
	}
	if len(units) == 0 {
		t.deliverEmpty()
		return
	}
	if !e.add(units, segment.Details) {
		segment.Done(job.Result{Flags: job.Failed, Err: ErrClosed})
	}
}

// usualPieces is the room that tasks have for pieces before they grow: most sentences have fewer.
const usualPieces = 64

func (e *Engine) newTask(segment job.Segment) *task {
	t, _ := e.tasks.Get().(*task)
	if t == nil {
		t = new(task)
		t.only.tokens = make([]search.Token, 0, usualPieces)
	}
	t.segment = segment
	return t
}

// recycle keeps the memory of a task that has been answered, if it is one of a single unit. Nobody may know the task or its unit
// any more.
func (e *Engine) recycle(t *task) {
	if t.only.task == nil { // the parts of a divided one may end on several workers
		return
	}
	tokens := t.only.tokens[:0]
	*t = task{}
	t.only.tokens = tokens
	e.tasks.Put(t)
}

// add puts units into the pool, or before it; it reports false if the engine is closed.
func (e *Engine) add(units []*unit, urgent bool) bool {
	e.mutex.Lock()
	defer e.mutex.Unlock()
	if e.closed {
		return false
	}
	if urgent {
		e.urgent = append(e.urgent, units...)
		e.changed.Broadcast()
		return true
	}
	now := time.Now()
	for _, u := range units {
		e.pool.Add(u, u.pieces(), now)
	}
	e.announce(now)
	return true
}

// Flush says that what is queued should not wait for company.
func (e *Engine) Flush() {
	e.mutex.Lock()
	defer e.mutex.Unlock()
	e.pool.Flush()
	e.announce(time.Now())
}

// announce wakes the workers if a mini-batch is ready, and otherwise sets the timer for when one will be.
func (e *Engine) announce(now time.Time) {
	if e.pool.Ready(now) {
		e.changed.Broadcast()
		return
	}
	if deadline, ok := e.pool.Deadline(); ok {
		e.timer.Reset(max(0, deadline.Sub(now)))
	}
}

func (e *Engine) wake() {
	e.mutex.Lock()
	defer e.mutex.Unlock()
	e.changed.Broadcast()
}

// take appends a mini-batch of about that many source pieces at most to dst. With wait it blocks until there is one. It reports
// false once the engine is closed.
func (e *Engine) take(dst []*unit, tokens int, wait bool) ([]*unit, bool) {
	e.mutex.Lock()
	defer e.mutex.Unlock()
	waiting := false
	defer func() {
		if waiting {
			e.idle.Add(-1)
		}
	}()
	for !e.closed {
		if len(e.returned) > 0 {
			return e.takeReturned(dst, tokens), true
		}
		if len(e.urgent) > 0 {
			dst = append(dst, e.urgent...)
			clear(e.urgent)
			e.urgent = e.urgent[:0]
			return dst, true
		}
		now := time.Now()
		if e.pool.Ready(now) {
			return e.cut(dst, tokens, now), true
		}
		if !wait {
			return dst, true
		}
		e.announce(now)
		if !waiting {
			waiting = true
			e.idle.Add(1)
		}
		e.changed.Wait()
	}
	return dst, false
}

// takeAhead is take for a worker that would not begin what it takes at once, and has room for so many pieces: it leaves to others what they could, and
// what should not wait. A sentence that is longer than the room is left until slots wait for it.
func (e *Engine) takeAhead(dst []*unit, tokens, room int) []*unit {
	e.mutex.Lock()
	defer e.mutex.Unlock()
	now := time.Now()
	if e.closed || e.idle.Load() > 0 || len(e.returned) > 0 || len(e.urgent) > 0 || !e.pool.Ready(now) {
		return dst
	}
	taken := e.cut(dst, tokens, now)
	if tokensOf(taken[len(dst):]) > room {
		e.returned = slices.Insert(e.returned, 0, taken[len(dst):]...)
		return dst
	}
	return taken
}

// tokensOf is how many source pieces the units have together.
func tokensOf(units []*unit) (n int) {
	for _, u := range units {
		n += u.pieces()
	}
	return n
}

// cut takes a mini-batch from the pool, which must be ready. Of what is too much for a worker, all others get the rest first.
func (e *Engine) cut(dst []*unit, tokens int, now time.Time) []*unit {
	if tokens >= e.miniBatch {
		return e.pool.Cut(dst, now)
	}
	e.returned = e.pool.Cut(e.returned, now)
	return e.takeReturned(dst, tokens)
}

// takeReturned takes the first of the returned units, up to a number of pieces, and one in any case.
func (e *Engine) takeReturned(dst []*unit, tokens int) []*unit {
	count := 0
	for _, u := range e.returned {
		if tokens -= u.pieces(); tokens < 0 && count > 0 {
			break
		}
		count++
	}
	dst = append(dst, e.returned[:count]...)
	e.returned = slices.Delete(e.returned, 0, count)
	return dst
}

// cores returns how many cores a worker that has something to do may use: those of workers that have nothing to do are shared among the
// others.
func (e *Engine) cores() int {
	live := int(e.live.Load())
	busy := max(live-int(e.idle.Load()), 1)
	return max(1, min(live/busy, e.config.Batching.SentenceCores))
}

// Close ends the workers without finishing what is queued or being translated: those segments get ErrClosed. It returns when
// no goroutine of the engine is left, which takes a step of the decoder or a mini-batch of the encoder at most, and as long as float32 models take to
// load if a sentence has just overflowed for the first time.
func (e *Engine) Close() {
	e.closing.Store(true)
	e.mutex.Lock()
	e.closed = true
	e.timer.Stop()
	rest := append(e.urgent, e.returned...)
	e.urgent, e.returned = nil, nil
	for e.pool.Len() > 0 {
		rest = e.pool.Cut(rest, time.Now())
	}
	e.changed.Broadcast()
	e.mutex.Unlock()
	e.precise.close()
	for _, u := range rest {
		u.fail(ErrClosed)
	}
	e.workers.Wait()
}
