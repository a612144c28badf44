package rescore

import (
	"context"

	"github.com/sluice-mt/sluice/translator/batch"
	"github.com/sluice-mt/sluice/translator/search"
)

// A worker decodes the trees of many sentences at once. Slots that become free are filled from a queue of encoded
// sentences, which is filled when it runs short, or before that where the device encodes beside its steps.
type worker struct {
	device          int // its place among those of the Scorer
	stepper         search.Stepper
	miniBatchTokens int
	encoded         int // source pieces, waiting or being decoded, up to which it encodes ahead
	queue           *batch.TopUp[*tree]
	free            []search.Slot
	active          []*tree

	trees    []*tree // of the mini-batch that is encoded
	sources  []search.Source
	contexts []search.Context
	slots    []search.Slot
	tokens   []search.Token
	dst, src []search.Slot

	starts   []int32        // for each row, where its tokens begin in what follows, and where those of the last end
	wanted   []search.Token // whose scores are asked for
	logProbs []float32      // of these
	leaves   [][]leaf       // that have each of these tokens next
	open     [][]leaf       // those of the question before, which is open; nil for none
	spare    [][]leaf       // for the next question
}

// prepare makes the queue, and all slots free.
func (w *worker) prepare(topUp float64) (err error) {
	for slot := w.stepper.Slots() - 1; slot >= 0; slot-- {
		w.free = append(w.free, search.Slot(slot))
	}
	w.queue, err = batch.NewTopUp[*tree](w.stepper.Slots(), topUp)
	return err
}

// failure is the first error of the worker's device, nil as long as all is well.
func (w *worker) failure() error {
	if f, ok := w.stepper.(interface{ Err() error }); ok && f.Err() != nil {
		return &DeviceError{w.device, f.Err()}
	}
	return nil
}

// run scores the trees of a supply, until there are none any more. Whatever happens, nothing stays in the Stepper.
func (w *worker) run(ctx context.Context, from *supply) error {
	defer w.abandon()
	for more := true; more || len(w.active) > 0 || w.queue.Len() > 0; {
		if err := ctx.Err(); err != nil {
			return err
		}
		if w.queue.Due(len(w.free)) {
			for more && w.queue.Hungry(len(w.free)) {
				more = w.encode(from)
			}
			w.fill()
		}
		w.step()
		if more && w.encodesAhead(from) {
			more = w.encode(from)
		}
		if err := w.failure(); err != nil {
			return err
		}
	}
	w.answer()
	return w.failure()
}

// encodesAhead says whether the device should encode one more mini-batch while it decodes. A mini-batch may have more pieces than it should by those of
// its last sentence.
func (w *worker) encodesAhead(from *supply) bool {
	return w.queue.RoomAhead(w.encoded-from.longest, w.miniBatchTokens) > 0 && from.spares(len(w.active))
}

// encode encodes a mini-batch. It reports false when there is nothing after it.
func (w *worker) encode(from *supply) bool {
	w.trees, w.sources = w.trees[:0], w.sources[:0]
	more := true
	for tokens := 0; tokens < w.miniBatchTokens; {
		t := from.next()
		if t == nil {
			more = false
			break
		}
		w.trees, w.sources = append(w.trees, t), append(w.sources, t.source)
		tokens += t.source.Pieces()
	}
	if len(w.trees) > 0 {
		w.contexts = append(w.contexts[:0], make([]search.Context, len(w.trees))...)
		w.stepper.Encode(w.sources, w.contexts)
	}
	for i, t := range w.trees {
		t.context = w.contexts[i]
		w.queue.Push(t, t.width, t.source.Pieces())
	}
	clear(w.trees)
	clear(w.sources)
	return more
}

// fill starts trees that wait, while there are slots for them.
func (w *worker) fill() {
	for t, ok := w.queue.Next(len(w.free)); ok; t, ok = w.queue.Next(len(w.free)) {
		rest := len(w.free) - t.width
		slots := append([]search.Slot(nil), w.free[rest:]...)
		w.free = w.free[:rest]
		for _, slot := range slots {
			w.stepper.Begin(slot, t.context)
		}
		t.start(slots)
		w.active = append(w.active, t)
	}
}

// step scores one token of every branch.
func (w *worker) step() {
	w.slots, w.tokens = w.slots[:0], w.tokens[:0]
	for _, t := range w.active {
		for _, b := range t.branches {
			w.slots, w.tokens = append(w.slots, b.slot), append(w.tokens, t.lastToken(b))
		}
	}
	if len(w.slots) == 0 {
		return
	}
	w.stepper.Step(w.slots, w.tokens, false)
	w.score()
	w.dst, w.src = w.dst[:0], w.src[:0]
	for _, t := range w.active {
		w.dst, w.src = t.grow(w.dst, w.src)
	}
	if len(w.dst) > 0 {
		w.stepper.Reorder(w.dst, w.src)
	}
	w.retire()
}

// score asks for the scores of the tokens that follow in each row.
func (w *worker) score() {
	w.starts, w.wanted, w.leaves, w.spare = append(w.starts[:0], 0), w.wanted[:0], w.spare[:0], nil
	for _, t := range w.active {
		for _, b := range t.branches {
			for token, run := range t.runs(b, t.depth) {
				w.wanted, w.leaves = append(w.wanted, token), append(w.leaves, t.leaves[run.first:run.end])
			}
			w.starts = append(w.starts, int32(len(w.wanted)))
		}
	}
	if p, ok := w.stepper.(search.Picker); ok {
		p.AskLogProbs(w.starts, w.wanted)
		w.answer()
		w.open = w.leaves
		return
	}
	w.logProbs = w.logProbs[:0]
	for row := range w.slots {
		all := w.stepper.LogProbs(int32(row))
		for i := w.starts[row]; i < w.starts[row+1]; i++ {
			w.logProbs = append(w.logProbs, all[w.wanted[i]])
		}
	}
	w.record(w.leaves)
	w.spare = w.leaves
}

// answer notes the answers to the question before the last, or to the last one if nothing is asked behind it.
func (w *worker) answer() {
	if w.open == nil {
		return
	}
	w.logProbs = append(w.logProbs[:0], make([]float32, len(w.open))...)
	w.stepper.(search.Picker).AnswerLogProbs(w.logProbs)
	w.record(w.open)
	w.spare, w.open = w.open, nil
}

// record notes the scores of the next tokens of leaves.
func (w *worker) record(next [][]leaf) {
	for i, leaves := range next {
		for _, l := range leaves {
			l.score.Words = append(l.score.Words, w.logProbs[i])
		}
	}
}

// retire frees what the trees held that are done.
func (w *worker) retire() {
	remaining := w.active[:0]
	for _, t := range w.active {
		if len(t.branches) > 0 {
			remaining = append(remaining, t)
			continue
		}
		w.vacate(t)
	}
	clear(w.active[len(remaining):])
	w.active = remaining
}

func (w *worker) vacate(t *tree) {
	for _, b := range t.branches {
		w.free = append(w.free, b.slot)
	}
	w.free = append(w.free, t.spare...)
	w.release(t)
}

// release gives up what was encoded for a tree.
func (w *worker) release(t *tree) {
	w.stepper.Release(t.context)
	w.queue.Done(t.source.Pieces())
}

// abandon frees what is left of a run that was cut short.
func (w *worker) abandon() {
	w.answer()
	for _, t := range w.active {
		w.vacate(t)
	}
	w.active = w.active[:0]
	for t, ok := w.queue.Next(w.stepper.Slots()); ok; t, ok = w.queue.Next(w.stepper.Slots()) {
		w.release(t)
	}
}
