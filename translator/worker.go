package translator

import (
	"time"

	"github.com/sluice-mt/sluice/internal/job"
	"github.com/sluice-mt/sluice/translator/batch"
	"github.com/sluice-mt/sluice/translator/search"
	"github.com/sluice-mt/sluice/translator/shortlist"
)

// A worker is a goroutine with a decoder of its own. Encoder and decoder are decoupled by a queue: a mini-batch is
// encoded when the queue cannot fill the free slots, and slots are filled from the queue when enough of them are free. A
// device that encodes beside its steps has the next mini-batch to encode before that, so that no slot waits for it.
type worker struct {
	engine  *Engine
	decoder *search.Decoder
	queue   *batch.TopUp[*unit]
	scratch *shortlist.Scratch // nil without a shortlist

	device   *Device
	budget   Budget
	steppers []search.Stepper

	redo       []*unit // to be searched again with other options
	taken      []*unit
	sentences  []*search.Sentence
	candidates [][]search.Token // lists that no sentence has any more
	blocks     blocks           // of its results
}

// newWorker returns a worker of a device that has yet to be opened.
func (e *Engine) newWorker(d *Device) *worker {
	w := &worker{engine: e, device: d, budget: d.budget(e.config.Batching)}
	w.budget.Slots = max(w.budget.Slots, e.leastSlots)
	if e.config.Text.Shortlist != nil {
		w.scratch = e.config.Text.Shortlist.NewScratch()
	}
	return w
}

// connect makes a decoder of the steppers.
func (w *worker) connect() (err error) {
	c := &w.engine.config
	if w.decoder, err = search.NewDecoder(w.steppers, c.Weights, c.Text.Target.EOS()); err != nil {
		return err
	}
	w.queue, err = batch.NewTopUp[*unit](w.decoder.Slots(), w.device.topUp(c.Batching))
	return err
}

// run works until the engine is closed, and then fails what is left, or until the worker's device fails for good.
func (w *worker) run() {
	for !w.engine.closing.Load() {
		open := w.refill()
		var results []search.Result
		if open && w.failure() == nil {
			results = w.step()
			w.encodeAhead()
		}
		if err := w.failure(); err != nil && open {
			w.reclaim(results)
			if !w.recover(err) {
				return
			}
			continue
		}
		if !open {
			break
		}
		for _, result := range results {
			w.finish(result)
		}
	}
	for _, u := range w.unfinished() {
		u.fail(ErrClosed)
	}
	w.close()
}

// reclaim takes sentences back whose results are not to be trusted, since the device failed meanwhile.
func (w *worker) reclaim(results []search.Result) {
	for _, result := range results {
		w.redo = append(w.redo, result.Sentence.Tag.(*unit))
	}
}

// step advances what is being decoded by one piece.
func (w *worker) step() []search.Result {
	c := &w.engine.counters
	defer since(time.Now(), &c.decode)
	c.steps.Add(1)
	c.rows.Add(int64(w.decoder.Slots() - w.decoder.Free()))
	w.decoder.Spread(w.engine.cores())
	return w.decoder.Step()
}

// refill tops the decoder up. It waits for work if there is none, and reports false once the engine is closed.
func (w *worker) refill() bool {
	if !w.queue.Due(w.decoder.Free()) {
		return true
	}
	for w.queue.Hungry(w.decoder.Free()) && w.failure() == nil {
		idle := w.decoder.Active() == 0 && w.queue.Len() == 0 && len(w.redo) == 0
		units, open := w.next(idle)
		if !open {
			return false
		}
		if len(units) == 0 {
			break
		}
		w.encode(units)
	}
	for u, ok := w.queue.Next(w.decoder.Free()); ok; u, ok = w.queue.Next(w.decoder.Free()) {
		if !w.decoder.Start(&u.sentence) {
			panic("translator: the decoder has fewer free slots than it says")
		}
	}
	return true
}

// encodeAhead lets the device encode one more mini-batch while it decodes. What has to be redone is not kept waiting by others: it is encoded as soon
// as slots wait.
func (w *worker) encodeAhead() {
	room := w.queue.RoomAhead(w.budget.Encoded, w.budget.Tokens)
	if room == 0 || len(w.redo) > 0 || w.failure() != nil {
		return
	}
	if w.taken = w.engine.takeAhead(w.taken[:0], w.budget.Tokens, room); len(w.taken) > 0 {
		w.encode(w.taken)
	}
}

// next returns the next mini-batch: what has to be redone first.
func (w *worker) next(wait bool) ([]*unit, bool) {
	if len(w.redo) > 0 {
		w.taken = append(w.taken[:0], w.redo...)
		clear(w.redo)
		w.redo = w.redo[:0]
		return w.taken, true
	}
	if wait {
		defer since(time.Now(), &w.engine.counters.idle)
	}
	var open bool
	w.taken, open = w.engine.take(w.taken[:0], w.budget.Tokens, wait)
	return w.taken, open
}

// encode runs the encoders over a mini-batch and puts it into the queue.
func (w *worker) encode(units []*unit) {
	c := &w.engine.counters
	defer since(time.Now(), &c.encode)
	c.miniBatches.Add(1)
	c.sentences.Add(int64(len(units)))
	w.sentences = w.sentences[:0]
	for _, u := range units {
		w.prepare(u)
		w.sentences = append(w.sentences, &u.sentence)
		c.tokens.Add(int64(u.pieces()))
	}
	w.decoder.Spread(w.engine.cores())
	w.decoder.Encode(w.sentences)
	for _, u := range units {
		w.queue.Push(u, u.sentence.Slots(), u.pieces())
	}
	clear(units)
	clear(w.sentences)
}

// prepare fills in the sentence of a unit that is searched for the first time.
func (w *worker) prepare(u *unit) {
	if u.sentence.Tag != nil {
		return
	}
	u.sentence = search.Sentence{
		Source:  search.Source{Tokens: u.tokens, Further: u.further},
		Prefix:  u.prefix,
		Seed:    seed(u.tokens, u.further...),
		Options: w.engine.config.Search,
		Tag:     u,
	}
	if u.task.segment.Details {
		u.sentence.Options.WordScores, u.sentence.Options.Align = true, true
	}
	if w.scratch != nil {
		var list []search.Token
		if last := len(w.candidates) - 1; last >= 0 {
			list, w.candidates = w.candidates[last], w.candidates[:last]
		}
		u.sentence.Source.Candidates = w.scratch.Candidates(u.tokens, u.prefix, list)
	}
}

// seed makes a number of a sentence's pieces (FNV-1a), so that what is drawn for a sentence belongs to the sentence.
func seed(tokens []search.Token, further ...[]search.Token) uint64 {
	hash := hashed(14695981039346656037, tokens)
	for _, tokens := range further {
		hash = hashed(hash, tokens)
	}
	return hash
}

func hashed(hash uint64, tokens []search.Token) uint64 {
	for _, token := range tokens {
		for shift := 0; shift < 32; shift += 8 {
			hash = (hash ^ uint64(uint8(token>>shift))) * 1099511628211
		}
	}
	return hash
}

// noRepeat is the size of n-grams that are not repeated when a sentence is searched again for having repeated itself.
const noRepeat = 3

// finish delivers a result, or has the sentence searched again.
func (w *worker) finish(result search.Result) {
	u := result.Sentence.Tag.(*unit)
	w.queue.Done(u.pieces())
	switch {
	case result.Flags&search.NonFinite != 0:
		u.flags |= job.NonFinite
		w.engine.searchPrecisely(u)
	case w.engine.searchesAgain(u, &result):
		w.redo = append(w.redo, u)
	default:
		w.deliver(u, &result)
	}
}

// searchesAgain reports whether a unit is to be searched for once more, since its translation repeats itself. It flags it and forbids that.
func (e *Engine) searchesAgain(u *unit, result *search.Result) bool {
	if result.Flags&search.NonFinite != 0 || result.Flags&search.Repetition == 0 || u.flags&job.Repetition != 0 {
		return false
	}
	u.flags |= job.Repetition
	if e.config.KeepRepetition {
		return false
	}
	e.counters.redone.Add(1)
	u.sentence.Options.NoRepeat = noRepeat
	return true
}

// deliver ends a unit with what was found for it. Its list of candidates, of which nobody else knows, will be another's.
func (w *worker) deliver(u *unit, result *search.Result) {
	if list := u.sentence.Source.Candidates; list != nil {
		u.sentence.Source.Candidates = nil
		w.candidates = append(w.candidates, list[:0])
	}
	u.deliver(w.engine.config.Text.result(u, result, &w.blocks))
	w.engine.recycle(u.task)
}
