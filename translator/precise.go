package translator

import (
	"errors"
	"fmt"
	"sync"

	"github.com/sluice-mt/sluice/translator/search"
)

// errNonFinite is the error of a sentence whose arithmetic overflows even in float32.
var errNonFinite = errors.New("the model's arithmetic gives no numbers for this sentence; check the model with sluice model verify")

// precise searches the rare sentences that overflow, one at a time, with models in float32. It has a goroutine of its own while there are any, so that
// workers go on meanwhile: a device would have nothing to do.
type precise struct {
	mutex     sync.Mutex
	left      sync.Cond // fewer wait, or the engine is closed
	waiting   []*unit
	searching bool // there is a goroutine
	closed    bool

	load    func() (Models, error) // the same models whenever it is called
	decoder *search.Decoder        // the goroutine's
	blocks  blocks                 // the goroutine's
}

// mostPrecise is how many sentences wait to be searched in float32. A worker that has one more waits: of a model that overflows all the time, no more
// becomes known than can be searched.
const mostPrecise = 256

func (p *precise) open(load func() (Models, error)) {
	if load == nil {
		load = func() (Models, error) { return nil, errors.New("there is no model in float32") }
	}
	p.left.L, p.load = &p.mutex, sync.OnceValues(load)
}

// close lets nobody wait any more. What waits fails when the goroutine comes to it.
func (p *precise) close() {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.closed = true
	p.left.Broadcast()
}

// searchPrecisely has a unit searched again in float32. Only workers may call it.
func (e *Engine) searchPrecisely(u *unit) {
	if e.config.Precise == nil {
		u.fail(errNonFinite)
		return
	}
	e.counters.precise.Add(1)
	if !e.queuePrecisely(u) {
		u.fail(ErrClosed)
	}
}

// queuePrecisely lets a unit wait to be searched. It reports false if the engine is closed.
func (e *Engine) queuePrecisely(u *unit) bool {
	p := &e.precise
	p.mutex.Lock()
	defer p.mutex.Unlock()
	for len(p.waiting) >= mostPrecise && !p.closed {
		p.left.Wait()
	}
	if p.closed {
		return false
	}
	p.waiting = append(p.waiting, u)
	if !p.searching {
		p.searching = true
		e.workers.Go(e.searchWaiting)
	}
	return true
}

// searchWaiting searches for what waits, until nothing does.
func (e *Engine) searchWaiting() {
	for u := e.precise.next(); u != nil; u = e.precise.next() {
		e.searchInFloat32(u)
	}
}

// next takes the unit that has waited for longest. If there is none, it returns nil, and the goroutine has to end.
func (p *precise) next() *unit {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if len(p.waiting) == 0 {
		p.searching = false
		return nil
	}
	u := p.waiting[0]
	p.waiting[0] = nil
	p.waiting = p.waiting[1:]
	p.left.Signal()
	return u
}

// searchInFloat32 searches for a unit and delivers what comes out.
func (e *Engine) searchInFloat32(u *unit) {
	if e.closing.Load() {
		u.fail(ErrClosed)
		return
	}
	decoder, err := e.preciseDecoder()
	if err != nil {
		u.fail(fmt.Errorf("loading the model in float32: %w", err))
		return
	}
	result := e.searchIn(decoder, u)
	if result != nil && e.searchesAgain(u, result) {
		result = e.searchIn(decoder, u)
	}
	switch {
	case result == nil:
		u.fail(ErrClosed)
	case result.Flags&search.NonFinite != 0:
		u.fail(errNonFinite)
	default:
		u.deliver(e.config.Text.result(u, result, &e.precise.blocks))
	}
}

// searchIn searches for a unit alone. It returns nil if the engine is closed meanwhile.
func (e *Engine) searchIn(decoder *search.Decoder, u *unit) *search.Result {
	decoder.Encode([]*search.Sentence{&u.sentence})
	decoder.Start(&u.sentence)
	for {
		if results := decoder.Step(); len(results) > 0 {
			return &results[0]
		}
		if e.closing.Load() {
			decoder.Abandon()
			return nil
		}
	}
}

// preciseDecoder loads the float32 models the first time they are needed.
func (e *Engine) preciseDecoder() (*search.Decoder, error) {
	p := &e.precise
	if p.decoder != nil {
		return p.decoder, nil
	}
	models, err := p.load()
	if err != nil {
		return nil, err
	}
	p.decoder, err = search.NewDecoder(models.NewSteppers(e.config.Batching.Slots), e.config.Weights, e.config.Text.Target.EOS())
	return p.decoder, err
}
