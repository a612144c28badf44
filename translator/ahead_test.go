package translator

import (
	"slices"
	"testing"
	"time"

	"github.com/sluice-mt/sluice/translator/search"
	"github.com/sluice-mt/sluice/translator/vocab"
)

// A mute Stepper encodes, and does nothing else.
type mute struct {
	search.Stepper
	slots int
}

func (m mute) Slots() int                               { return m.slots }
func (m mute) Vocabulary() int                          { return 10 }
func (m mute) Encode([]search.Source, []search.Context) {}

// onlyEnd is a vocabulary of the end of sentence.
type onlyEnd struct{ vocab.Vocabulary }

func (onlyEnd) EOS() search.Token { return 0 }

// A worker encodes ahead if its device has memory for it, what waits could not fill all slots, and nobody else has something to gain.
func TestEncodeAhead(t *testing.T) {
	const slots, budget, length = 4, 6, 3
	unitOf := func() *unit { return &unit{task: new(task), tokens: make([]search.Token, length)} }
	for _, c := range []struct {
		name   string
		change func(e *Engine, w *worker)
		want   int // sentences that were encoded
		pieces int // of them
	}{
		{"memory", func(*Engine, *worker) {}, 2, 2 * length},
		{"just enough memory", func(_ *Engine, w *worker) { w.queue.Push(unitOf(), 0, 14) }, 2, 2 * length},
		{"no memory", func(_ *Engine, w *worker) { w.queue.Push(unitOf(), 0, 15) }, 0, 0},
		{"a device that does not encode ahead", func(_ *Engine, w *worker) { w.budget.Encoded = 0 }, 0, 0},
		{"three wait", func(_ *Engine, w *worker) { w.queue.Push(unitOf(), 3, 0) }, 2, 2 * length},
		{"four wait", func(_ *Engine, w *worker) { w.queue.Push(unitOf(), 4, 0) }, 0, 0},
		{"something is to be redone", func(_ *Engine, w *worker) { w.redo = []*unit{unitOf()} }, 0, 0},
		{"a worker is idle", func(e *Engine, _ *worker) { e.idle.Store(1) }, 0, 0},
		{"somebody waits for a sentence", func(e *Engine, _ *worker) { e.urgent = []*unit{unitOf()} }, 0, 0},
		{"a sentence was given back", func(e *Engine, _ *worker) { e.returned = []*unit{unitOf()} }, 0, 0},
		{"a sentence that is too long", func(e *Engine, w *worker) {
			e.pool.Add(&unit{task: new(task), tokens: make([]search.Token, 21)}, 21, time.Now())
			e.pool.Flush()
		}, 0, 0},
		{"a sentence longer than a mini-batch", func(e *Engine, w *worker) {
			e.pool.Add(&unit{task: new(task), tokens: make([]search.Token, 3*length)}, 3*length, time.Now())
			e.pool.Flush()
			w.budget.Tokens = length
			w.queue.Push(unitOf(), 0, 11) // just enough room
		}, 1, 3 * length},
		{"closed", func(e *Engine, _ *worker) { e.closed = true }, 0, 0},
		{"a smaller worker", func(_ *Engine, w *worker) { w.budget.Tokens = 3 }, 1, length},
		{"nothing is ready", func(e *Engine, _ *worker) {
			e.pool.Cut(nil, time.Now())
			e.pool.Add(unitOf(), length, time.Now())
		}, 0, 0},
	} {
		device := Device{Slots: slots, MiniBatchTokens: budget, Encoded: 20,
			Open: func(slots int) ([]search.Stepper, error) { return []search.Stepper{mute{slots: slots}}, nil }}
		e := &Engine{config: Config{Batching: Batching{Latency: time.Hour}.Automatic(1), Text: Text{Target: onlyEnd{}}}, miniBatch: budget}
		e.changed.L = &e.mutex
		var err error
		if e.pool, err = newPool(e.config.Batching, budget); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			e.pool.Add(unitOf(), length, time.Now())
		}
		e.pool.Flush()
		w := e.newWorker(&device)
		if err := w.open(); err != nil {
			t.Fatal(err)
		}
		c.change(e, w)
		waiting, encoded, left := w.queue.Len(), w.queue.Encoded(), e.pool.Len()+len(e.returned)
		w.encodeAhead()
		if have := w.queue.Len() - waiting; have != c.want || w.queue.Encoded()-encoded != c.pieces {
			t.Errorf("%s: %d sentences were encoded, and %d pieces counted, want %d and %d", c.name, have, w.queue.Encoded()-encoded, c.want, c.pieces)
		}
		if remain := e.pool.Len() + len(e.returned); remain != left-c.want {
			t.Errorf("%s: %d sentences remain of %d", c.name, remain, left)
		}
	}
}

// The pieces of all sources count: where mini-batches are cut, where others are given back, and for the memory of what is encoded.
func TestPiecesOfAllSourcesCount(t *testing.T) {
	unitOf := func() *unit {
		return &unit{task: new(task), tokens: make([]search.Token, 3), further: [][]search.Token{make([]search.Token, 4), make([]search.Token, 5)}}
	}
	device := Device{Slots: 8, MiniBatchTokens: 24, Encoded: 40,
		Open: func(slots int) ([]search.Stepper, error) { return []search.Stepper{mute{slots: slots}}, nil }}
	e := &Engine{config: Config{Batching: Batching{Latency: time.Hour}.Automatic(1), Text: Text{Target: onlyEnd{}}}, miniBatch: 24}
	e.changed.L = &e.mutex
	var err error
	if e.pool, err = newPool(e.config.Batching, 24); err != nil {
		t.Fatal(err)
	}
	for range 4 {
		u := unitOf()
		e.pool.Add(u, u.pieces(), time.Now())
	}
	e.pool.Flush()
	w := e.newWorker(&device)
	if err := w.open(); err != nil {
		t.Fatal(err)
	}
	for _, want := range []int{2, 2} { // 24 of 40 pieces, and then 16 are too few for a mini-batch
		if w.encodeAhead(); w.queue.Len() != want || w.queue.Encoded() != 12*want {
			t.Errorf("%d sentences of %d pieces are encoded, want %d", w.queue.Len(), w.queue.Encoded(), want)
		}
	}
	e.returned = []*unit{unitOf(), unitOf(), unitOf()}
	if taken := e.takeReturned(nil, 30); len(taken) != 2 {
		t.Errorf("of sentences that were given back %d were taken, want 2", len(taken))
	}
	u, _ := w.queue.Next(8)
	w.finish(search.Result{Sentence: &search.Sentence{Tag: u}, Flags: search.Repetition})
	if encoded := w.queue.Encoded(); encoded != 12 {
		t.Errorf("%d pieces are encoded when one of two sentences is done, want 12", encoded)
	}
}

// Where nothing is sorted, mini-batches have the units in their order, and no more pieces than else.
func TestUnsortedMiniBatchesKeepToTheirPieces(t *testing.T) {
	e := &Engine{config: Config{Batching: Batching{Latency: time.Hour, Unsorted: true, MiniBatchTokens: 24}.Automatic(1)}, miniBatch: 24}
	e.changed.L = &e.mutex
	var err error
	if e.pool, err = newPool(e.config.Batching, 24); err != nil {
		t.Fatal(err)
	}
	e.timer = time.AfterFunc(time.Hour, e.wake)
	defer e.timer.Stop()
	for _, n := range []int{3, 20, 5, 40, 1} {
		e.add([]*unit{{task: new(task), tokens: make([]search.Token, n)}}, false)
	}
	e.pool.Flush()
	for _, want := range [][]int{{3, 20}, {5}, {40}, {1}} {
		var got []int
		for _, u := range e.cut(nil, 24, time.Now()) {
			got = append(got, u.pieces())
		}
		if !slices.Equal(got, want) {
			t.Errorf("a mini-batch of %d pieces, want %d", got, want)
		}
	}
}
