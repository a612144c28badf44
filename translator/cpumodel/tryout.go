package cpumodel

import (
	"math/bits"
	"slices"
	"time"
)

// A tryout finds the fastest of some ways to do the same thing, while it is done: each way is used for a while, in turns, and then the one
// that took least. Ways that take more from others, as more cores do, come later and must be clearly faster. As other programs come and go,
// all are tried again from time to time. What is computed must not depend on the way.
type tryout struct {
	ways  int
	run   int // how often a way has been used for a while
	used  int // uses of the current way, or of the fastest one
	best  int
	times [tryoutWays][tryoutRounds * (tryoutRun - 1)]time.Duration
}

const (
	tryoutWays = len(spreadWays)
	// tryoutRun is how often a way is used in turn. The first time does not count: caches hold what another way wanted.
	tryoutRun = 4
	// tryoutRounds is how often it is each way's turn.
	tryoutRounds = 4
	// tryoutTrust is how often the fastest way is used before all are tried again.
	tryoutTrust = 1 << 14
	// tryoutGain is how much faster than an earlier way, which costs less, another must be.
	tryoutGain = 1.03
)

// spreadClasses are the numbers of rows that have tryouts of their own.
const spreadClasses = 8

// classOf returns the class of a number of rows: they are less than twice as many as others of it, but in the last one.
func classOf(rows int) int { return min(bits.Len(uint(rows)), spreadClasses) - 1 }

// tryouts are those for numbers of cores, which come and go with what other workers have to do, and for classes of rows.
type tryouts [coreClasses][spreadClasses]tryout

// coreClasses are the numbers of cores that have ways of their own: those between one power of two and the next have the same.
const coreClasses = 4

// of returns the tryout for so many cores, up to MostCores, and rows.
func (t *tryouts) of(cores, rows int) *tryout { return &t[bits.Len(uint(cores))-1][classOf(rows)] }

// next returns the way to use, of so many.
func (t *tryout) next(ways int) int {
	if ways != t.ways || t.settled() && t.used == tryoutTrust {
		*t = tryout{ways: ways}
	}
	if t.settled() {
		t.used++
		return t.best
	}
	return t.run % t.ways
}

// settled says whether the fastest way is known.
func (t *tryout) settled() bool { return t.ways > 0 && t.run == t.ways*tryoutRounds }

// record notes how long it took in the way that next returned last.
func (t *tryout) record(took time.Duration) {
	if t.ways == 0 || t.settled() {
		return
	}
	if t.used > 0 {
		t.times[t.run%t.ways][t.run/t.ways*(tryoutRun-1)+t.used-1] = took
	}
	if t.used++; t.used < tryoutRun {
		return
	}
	t.used = 0
	if t.run++; t.settled() {
		t.best = t.fastest()
	}
}

// fastest returns the way that took least in the median, but rather an earlier one, which costs less, unless a later one is clearly faster.
func (t *tryout) fastest() int {
	best, least := 0, time.Duration(0)
	for way := range t.ways {
		times := t.times[way]
		slices.Sort(times[:])
		median := times[len(times)/2]
		if way == 0 || tryoutGain*float64(median) < float64(least) {
			best, least = way, median
		}
	}
	return best
}
