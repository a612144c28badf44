// Package batch decides which sentences are processed together: the maxi-batch that is sorted by length, the mini-batches cut
// from it, and the queue from which the decoder's free slots are topped up. It has no goroutines, no locks and no clock: what
// it does depends on the calls alone.
package batch

import (
	"errors"
	"fmt"
	"time"
)

// Config says how a Pool cuts mini-batches.
type Config struct {
	// Tokens is the budget of a mini-batch: the lengths of its items add up to no more, unless it holds a single item that is
	// longer by itself. There is no padding, so that nothing else counts.
	Tokens int
	// Sentences is the most items of a mini-batch.
	Sentences int
	// Unsorted leaves items in the order of their arrival, whatever their lengths.
	Unsorted bool

	// Full is the number of items with which the maxi-batch is full. From then on mini-batches are ready until it is down to
	// half.
	Full int
	// Linger is how long an item waits for others: when the oldest has waited so long, a mini-batch is ready.
	Linger time.Duration

	// MaxAge is how long an item may lie in the pool before it goes first, whatever its length. 0 sets no limit.
	MaxAge time.Duration
	// MaxOvertaken is how many later items may leave before an item goes first. 0 sets no limit. It bounds how much output,
	// which is in input order, waits for one item.
	MaxOvertaken int
}

// ErrConfig is wrapped by the errors of NewPool and NewTopUp.
var ErrConfig = errors.New("batch settings")

func (c *Config) validate() error {
	switch {
	case c.Tokens < 1:
		return fmt.Errorf("%w: a mini-batch of %d tokens, but it must hold at least 1", ErrConfig, c.Tokens)
	case c.Sentences < 1:
		return fmt.Errorf("%w: a mini-batch of %d sentences, but it must hold at least 1", ErrConfig, c.Sentences)
	case c.Full < 1:
		return fmt.Errorf("%w: a maxi-batch of %d sentences, but it must hold at least 1", ErrConfig, c.Full)
	case c.Linger < 0 || c.MaxAge < 0 || c.MaxOvertaken < 0:
		return fmt.Errorf("%w: a time or number to wait is negative", ErrConfig)
	}
	return nil
}

// buckets is the number of lengths that are told apart. Longer items count as equally long when they are sorted, not when the
// budget is kept.
const buckets = 4096

// A Pool is a maxi-batch: it takes items as they arrive and gives them out in mini-batches of similar length, the longest
// first, or in the order in which they came.
type Pool[T any] struct {
	config  Config
	entries []entry[T] // items in the pool, and unused places
	unused  []int32
	arrived ring          // all items in the order of arrival, and some that have left already
	lengths [buckets]ring // the items of each length, in the order of arrival
	longest int           // no bucket above it holds anything
	count   int
	tokens  int
	next    int64 // number of the next arrival
	left    int64 // items that have left
	flushed int64 // items below this number need not wait
	filled  bool  // the pool has been full and is not yet down to half
}

// An entry is a place for an item.
type entry[T any] struct {
	item    T
	length  int
	arrival int64 // -1 if the place is unused
	time    time.Time
}

// NewPool returns an empty pool.
func NewPool[T any](config Config) (*Pool[T], error) {
	if err := config.validate(); err != nil {
		return nil, err
	}
	return &Pool[T]{config: config}, nil
}

// Len is the number of items in the pool.
func (p *Pool[T]) Len() int { return p.count }

// Tokens is the sum of the lengths of the items in the pool.
func (p *Pool[T]) Tokens() int { return p.tokens }

// Add puts an item of that length into the pool. The times given to a pool must not decrease.
func (p *Pool[T]) Add(item T, length int, now time.Time) {
	var place int32
	if n := len(p.unused); n > 0 {
		place = p.unused[n-1]
		p.unused = p.unused[:n-1]
	} else {
		place = int32(len(p.entries))
		p.entries = append(p.entries, entry[T]{})
	}
	p.entries[place] = entry[T]{item: item, length: length, arrival: p.next, time: now}
	bucket := p.bucketOf(length)
	p.lengths[bucket].push(ticket{place, p.next})
	if p.arrived.count > 2*p.count+64 {
		p.forget()
	}
	p.arrived.push(ticket{place, p.next})
	p.longest = max(p.longest, bucket)
	p.next++
	p.count++
	p.tokens += length
	if p.count >= p.config.Full {
		p.filled = true
	}
}

// Flush says that the items now in the pool need not wait for others.
func (p *Pool[T]) Flush() { p.flushed = p.next }

// Ready reports whether a mini-batch should be cut: the pool is full, or was and is not yet half empty, or its oldest item was
// flushed or has waited long enough.
func (p *Pool[T]) Ready(now time.Time) bool {
	oldest := p.oldest()
	if oldest == nil {
		return false
	}
	return p.filled || oldest.arrival < p.flushed || now.Sub(oldest.time) >= p.config.Linger
}

// Deadline is the time at which the pool is going to be ready if nothing else happens. It reports false if the pool is empty.
func (p *Pool[T]) Deadline() (time.Time, bool) {
	oldest := p.oldest()
	if oldest == nil {
		return time.Time{}, false
	}
	if p.filled || oldest.arrival < p.flushed {
		return oldest.time, true
	}
	return oldest.time.Add(p.config.Linger), true
}

// Cut appends the next mini-batch to dst. It gives one whenever the pool holds anything, ready or not.
//
// Items that have waited too long go first, in the order of their arrival. Then come the longest; or, after items that have
// waited too long, those that are as long as the first of them, then shorter ones, then longer ones.
func (p *Pool[T]) Cut(dst []T, now time.Time) []T {
	c := cut[T]{pool: p, dst: dst}
	start := p.longest
	for oldest := p.oldest(); oldest != nil && p.overdue(oldest, now) && !c.full; oldest = p.oldest() {
		bucket := p.bucketOf(oldest.length)
		if c.sentences == 0 {
			start = bucket
		}
		c.take(&p.lengths[bucket]) // the oldest of all is the oldest of its length
	}
	for bucket := start; bucket >= 0; bucket-- {
		c.drain(&p.lengths[bucket])
	}
	for bucket := start + 1; bucket <= p.longest; bucket++ {
		c.drain(&p.lengths[bucket])
	}
	for p.longest > 0 && p.lengths[p.longest].count == 0 {
		p.longest--
	}
	if p.count <= p.config.Full/2 {
		p.filled = false
	}
	return c.dst
}

func (p *Pool[T]) overdue(e *entry[T], now time.Time) bool {
	if p.config.MaxAge > 0 && now.Sub(e.time) >= p.config.MaxAge {
		return true
	}
	return p.config.MaxOvertaken > 0 && p.overtaken(e) >= int64(p.config.MaxOvertaken)
}

// overtaken is the number of later items that have left before the oldest one. As it is the oldest, all earlier items, whose
// number is its arrival, have left too.
func (p *Pool[T]) overtaken(oldest *entry[T]) int64 { return p.left - oldest.arrival }

// oldest is the entry that arrived first, nil if the pool is empty.
func (p *Pool[T]) oldest() *entry[T] {
	for p.arrived.count > 0 {
		if e := p.holder(p.arrived.first()); e != nil {
			return e
		}
		p.arrived.pop()
	}
	return nil
}

// holder is the entry that a ticket names, nil if the item has left.
func (p *Pool[T]) holder(t ticket) *entry[T] {
	if e := &p.entries[t.place]; e.arrival == t.arrival {
		return e
	}
	return nil
}

// forget drops the tickets of items that have left from arrived.
func (p *Pool[T]) forget() {
	for range p.arrived.count {
		if t := p.arrived.pop(); p.holder(t) != nil {
			p.arrived.push(t)
		}
	}
}

// A cut is a mini-batch in the making.
type cut[T any] struct {
	pool      *Pool[T]
	dst       []T
	sentences int
	tokens    int
	full      bool
}

// drain takes items from a ring as long as they fit.
func (c *cut[T]) drain(r *ring) {
	for r.count > 0 && !c.full {
		c.take(r)
	}
}

// take moves the first item of a ring to the mini-batch, or finds that it does not fit and that the mini-batch is full.
func (c *cut[T]) take(r *ring) {
	p, place := c.pool, r.first().place
	e := &p.entries[place]
	tooLong := c.sentences > 0 && e.length > p.config.Tokens-c.tokens
	if tooLong || c.sentences == p.config.Sentences {
		c.full = true
		return
	}
	c.sentences++
	c.tokens += e.length
	c.dst = append(c.dst, e.item)
	r.pop()
	p.count--
	p.tokens -= e.length
	p.left++
	*e = entry[T]{arrival: -1}
	p.unused = append(p.unused, place)
}

// bucketOf is where items of that length are.
func (p *Pool[T]) bucketOf(length int) int {
	if p.config.Unsorted {
		return 0
	}
	return min(max(length, 0), buckets-1)
}
