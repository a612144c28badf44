package pipeline

import (
	"errors"
	"sync"
	"time"

	"github.com/sluice-mt/sluice/consumer"
	"github.com/sluice-mt/sluice/internal/job"
)

// A slot is a record's place in its lane's window.
type slot struct {
	record     job.Record
	result     job.Result
	credit     int64
	fetched    *Span // the read that returned it
	number     int64 // counts what the translator is asked for, over all lanes
	admitted   time.Time
	completed  time.Time
	translated bool
	words      int64 // of the text, if it is translated
	done       bool
}

// A window holds the records of a lane that are in flight, in order. They are added at one end, completed in any
// order, and taken at the other end once they are complete.
//
// One goroutine adds, one takes, any number complete. Its lock is never held while anything else is called, because a
// translator may complete a slot from within Submit.
type window struct {
	budget  *laneBudget
	counted func(*slot)   // is told of every completed record; must not block
	ready   chan struct{} // holds a token when the head may be complete, or the lane may have ended

	unused []slot // of the last block that was made; only whoever adds looks at it

	mutex sync.Mutex
	slots []*slot // from head on
	head  int
	ended bool
	err   error // why no more records come; nil at the end of the lane
}

// slotBlock is how many slots are made at once. A block lives as long as one of its slots is in flight; what the others
// refer to must not.
const slotBlock = 32

func newWindow(budget *laneBudget, counted func(*slot)) *window {
	return &window{budget: budget, counted: counted, ready: make(chan struct{}, 1)}
}

// add puts a record at the end of the window.
func (w *window) add(record *job.Record, fetched *Span, credit, number int64) *slot {
	if len(w.unused) == 0 {
		w.unused = make([]slot, slotBlock)
	}
	s := &w.unused[0]
	w.unused = w.unused[1:]
	s.record, s.fetched, s.credit, s.number, s.admitted = *record, fetched, credit, number, time.Now()
	w.mutex.Lock()
	defer w.mutex.Unlock()
	if w.head > 1024 && 2*w.head > len(w.slots) {
		n := copy(w.slots, w.slots[w.head:])
		clear(w.slots[n:])
		w.slots, w.head = w.slots[:n], 0
	}
	w.slots = append(w.slots, s)
	return s
}

// complete stores the result of a slot. It never blocks.
func (w *window) complete(s *slot, result job.Result) {
	if result.Err != nil && result.Flags&job.Unreadable == 0 {
		result.Flags |= job.Failed
	}
	result.Flags |= s.record.Flags
	s.completed = time.Now()
	w.counted(s)
	w.mutex.Lock()
	s.result, s.done = result, true
	isHead := w.head < len(w.slots) && w.slots[w.head] == s
	w.mutex.Unlock()
	if isHead {
		w.signal()
	}
}

// end says that no more records come, and why. Those of a lost lane are dropped.
func (w *window) end(err error) {
	if errors.Is(err, consumer.ErrLaneLost) {
		w.discard()
	}
	w.mutex.Lock()
	w.ended, w.err = true, err
	w.mutex.Unlock()
	w.signal()
}

func (w *window) signal() {
	select {
	case w.ready <- struct{}{}:
	default:
	}
}

// take appends the completed slots at the head to run, limit of them at most. more says whether another take would
// give some. ended is true when the lane has no more records and the window is empty now; err is then why.
func (w *window) take(run []*slot, limit int) (_ []*slot, more, ended bool, err error) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	for len(run) < limit && w.head < len(w.slots) && w.slots[w.head].done {
		run = append(run, w.slots[w.head])
		w.slots[w.head] = nil
		w.head++
	}
	if w.head == len(w.slots) {
		w.slots, w.head = w.slots[:0], 0
		return run, false, w.ended, w.err
	}
	return run, w.slots[w.head].done, false, nil
}

// discard gives back the credits of everything that is left.
func (w *window) discard() {
	w.mutex.Lock()
	rest := w.slots[w.head:]
	w.slots, w.head = nil, 0
	w.mutex.Unlock()
	w.budget.release(creditOf(rest), len(rest))
}

func creditOf(slots []*slot) (credit int64) {
	for _, s := range slots {
		credit += s.credit
	}
	return credit
}

// A windowState is how many records are in a window, and what became of the oldest of them.
type windowState struct {
	records   int
	number    int64
	admitted  time.Time
	completed time.Time // zero if it is not
}

func (w *window) state() windowState {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	state := windowState{records: len(w.slots) - w.head}
	if state.records > 0 {
		oldest := w.slots[w.head]
		state.number, state.admitted = oldest.number, oldest.admitted
		if oldest.done {
			state.completed = oldest.completed
		}
	}
	return state
}
