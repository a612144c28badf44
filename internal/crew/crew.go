// Package crew has several cores do one piece of work that takes microseconds: less than it takes to wake a goroutine. Helpers therefore
// wait for the next piece with their eyes open, for as long as one is likely to follow, and then sleep until they are needed again.
package crew

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-mt/sluice/internal/cpu"
)

// Work is something that can be done in parts, at the same time.
type Work interface {
	// Part does part number part of so many. Parts of one work must not touch what another part writes.
	Part(part, parts int)
}

// A Crew is the goroutine that calls Do, and its helpers. One goroutine at a time may use it.
//
// Nobody waits for a helper that is not there: a part that no helper has begun is done by who called Do. So a machine with other things to
// do makes a crew smaller, but does not hold it up.
type Crew struct {
	helpers []*helper
	running sync.WaitGroup
}

// A helper is a goroutine that does one part of each work.
type helper struct {
	part  int
	wake  chan struct{}
	asked bool // whether the part of the current work was offered; known to who called Do

	// What a helper looks at while it waits and what it needs then are one line of the cache, and nothing else is in its pair of lines.
	_     [cpu.LinePair]byte
	work  Work
	parts int
	state atomic.Uint32
	_     [cpu.LinePair]byte
}

// The states of a helper. Who called Do takes it from asleep to waking, and from watching to offered and, if it does the part itself, back.
// All other changes are the helper's.
const (
	asleep   uint32 = iota
	waking          // it has been called, but has not come yet
	watching        // for an offer
	offered         // a part
	working
)

const (
	// patience is how long a helper watches. Between the works of one sentence there are some ten microseconds.
	patience = 100 * time.Microsecond
	// glances is how often a helper looks for an offer before it looks at the clock, and lets other goroutines have the core if any
	// wants it: for some microseconds.
	glances = 4096
)

// New returns a crew without helpers. They come as they are needed.
func New() *Crew { return new(Crew) }

// Do does all parts of a work, with a helper for each part but one, and returns when they are done. It allocates nothing once the crew has
// been as large.
func (c *Crew) Do(work Work, parts int) {
	if parts > 1 {
		c.hire(parts - 1)
	}
	for _, h := range c.helpers[:parts-1] {
		h.offer(work, parts)
	}
	work.Part(0, parts)
	for _, h := range c.helpers[:parts-1] {
		if !h.await() {
			work.Part(h.part, parts)
		}
	}
}

// hire sees to it that there are so many helpers.
func (c *Crew) hire(n int) {
	for len(c.helpers) < n {
		h := &helper{part: len(c.helpers) + 1, wake: make(chan struct{}, 1)}
		c.helpers = append(c.helpers, h)
		c.running.Go(h.run)
	}
}

// Close ends the helpers. The crew must not be used any more.
func (c *Crew) Close() {
	for _, h := range c.helpers {
		close(h.wake)
	}
	c.running.Wait()
	c.helpers = nil
}

// offer offers the helper its part of a work if it watches, and else wakes it for those that follow.
func (h *helper) offer(work Work, parts int) {
	h.work, h.parts = work, parts
	h.asked = h.state.CompareAndSwap(watching, offered)
	if !h.asked && h.state.CompareAndSwap(asleep, waking) {
		h.wake <- struct{}{}
	}
}

// await returns true once the helper has done its part, and false if it has not begun it and will not.
func (h *helper) await() bool {
	if !h.asked || h.state.CompareAndSwap(offered, watching) {
		return false
	}
	for glance := 1; h.state.Load() == working; glance++ {
		if glance%glances == 0 {
			runtime.Gosched() // to the helper, should it have been interrupted for this goroutine
		}
	}
	return true
}

// run is the helper's goroutine.
func (h *helper) run() {
	for range h.wake {
		h.state.Store(watching)
		h.watch()
	}
}

// watch does what is offered, until nothing has been for a while.
func (h *helper) watch() {
	last := time.Now()
	for {
		if h.glance() {
			h.work.Part(h.part, h.parts)
			h.state.Store(watching)
			last = time.Now()
			continue
		}
		if time.Since(last) > patience && h.state.CompareAndSwap(watching, asleep) {
			return
		}
		runtime.Gosched()
	}
}

// glance looks many times whether a part is offered, and returns true as soon as it has taken one.
func (h *helper) glance() bool {
	for range glances {
		if h.state.Load() == offered && h.state.CompareAndSwap(offered, working) {
			return true
		}
	}
	return false
}
