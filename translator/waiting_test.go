package translator

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-mt/sluice/internal/job"
	"github.com/sluice-mt/sluice/translator/search"
)

// answers are the errors of units that were answered.
type answers chan error

// unit returns one that overflowed.
func (a answers) unit() *unit {
	t := &task{results: make([]job.Result, 1), segment: job.Segment{Done: func(r job.Result) { a <- r.Err }}}
	t.remaining.Store(1)
	return &unit{task: t, tokens: make([]search.Token, 3)}
}

// While the models in float32 are busy, a worker hands over as many sentences as may wait, and then waits itself; once the engine is closed it goes on, and
// every sentence has been answered, once.
func TestFewWaitForFloat32(t *testing.T) {
	for _, closes := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) { checkWaitForFloat32(t, closes) })
	}
}

func checkWaitForFloat32(t *testing.T, closes bool) {
	t.Helper()
	busy, errNone := make(chan struct{}), errors.New("no model")
	e := &Engine{timer: time.NewTimer(time.Hour)}
	e.changed.L = &e.mutex
	e.config.Precise = func() (Models, error) { <-busy; return nil, errNone }
	e.precise.open(e.config.Precise)
	var err error
	if e.pool, err = newPool(Batching{}.Automatic(1), 8); err != nil {
		t.Fatal(err)
	}
	const all = 2 * mostPrecise
	answered, handed := make(answers, all), 0
	e.workers.Go(func() {
		for range all {
			e.searchPrecisely(answered.unit())
			handed++
		}
	})
	synctest.Wait()
	if handed != mostPrecise+1 || len(answered) > 0 { // one is searched
		t.Errorf("a worker has handed over %d sentences, and %d are answered", handed, len(answered))
	}
	if closes {
		go e.Close()
		synctest.Wait()
		if handed != all || len(answered) != all-mostPrecise-1 {
			t.Errorf("a worker of a closed engine has handed over %d sentences of %d, and %d are answered", handed, all, len(answered))
		}
	}
	close(busy)
	e.workers.Wait()
	none, closed := 0, 0
	for range len(answered) {
		switch err := <-answered; {
		case errors.Is(err, errNone):
			none++
		case errors.Is(err, ErrClosed):
			closed++
		default:
			t.Errorf("the error is %v", err)
		}
	}
	if want := map[bool][2]int{false: {all, 0}, true: {1, all - 1}}[closes]; none != want[0] || closed != want[1] {
		t.Errorf("closed %v: %d sentences were searched and %d were not, want %v", closes, none, closed, want)
	}
	if e.precise.searching || len(e.precise.waiting) > 0 {
		t.Errorf("in the end %d wait, and there is a goroutine: %v", len(e.precise.waiting), e.precise.searching)
	}
	e.timer.Stop()
}
