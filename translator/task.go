package translator

import (
	"strings"
	"sync/atomic"

	"github.com/sluice-mt/sluice/internal/job"
	"github.com/sluice-mt/sluice/translator/search"
	"github.com/sluice-mt/sluice/translator/split"
	"github.com/sluice-mt/sluice/translator/vocab"
)

// A task is a segment that the engine works on: one unit, or several where the segment is too long for the model.
type task struct {
	segment job.Segment
	flags   job.Flags // found before the search
	err     error     // why there is nothing to search

	parts     []split.Segment // as they were divided; nil for a task of one unit
	backwards bool            // the model writes from right to left
	results   []job.Result    // of the parts; one without pieces has no hypotheses
	remaining atomic.Int32    // units without a result

	// Of a task of one unit, as nearly all are, so that it takes no memory of its own. The tokens keep theirs for the next task.
	only       unit
	onlyUnit   [1]*unit
	onlyResult [1]job.Result
}

// A unit is one sequence of pieces on its way through the decoder.
type unit struct {
	task     *task
	part     int
	tokens   []search.Token   // end of sentence last, reversed for a right-to-left model
	further  [][]search.Token // of the second source and those after it
	prefix   []search.Token
	sentence search.Sentence
	flags    job.Flags // found by searches before this one
}

// pieces is how many pieces all sources of the unit have together.
func (u *unit) pieces() int { return (&search.Source{Tokens: u.tokens, Further: u.further}).Pieces() }

// deliverEmpty answers a segment without pieces: the model is not asked.
func (t *task) deliverEmpty() {
	t.segment.Done(job.Result{Hypotheses: []job.Hypothesis{{}}, Flags: t.flags})
}

// fail ends a unit without a translation.
func (u *unit) fail(err error) {
	u.deliver(job.Result{Flags: job.Failed, Err: err})
}

// deliver stores the result of a unit and, if it was the last one of its task, the task's.
func (u *unit) deliver(result job.Result) {
	t := u.task
	result.Flags |= u.flags
	t.results[u.part] = result
	if t.remaining.Add(-1) == 0 {
		t.segment.Done(t.join())
	}
}

// join puts the results of the parts together.
func (t *task) join() job.Result {
	if len(t.results) == 1 {
		result := t.results[0]
		result.Flags |= t.flags
		return result
	}
	joined := job.Result{Flags: t.flags}
	alternatives := 0
	for _, result := range t.results {
		joined.Flags |= result.Flags
		joined.SourceTokens += result.SourceTokens
		joined.TargetTokens += result.TargetTokens
		if joined.Err == nil {
			joined.Err = result.Err
		}
		if n := len(result.Hypotheses); n > 0 && (alternatives == 0 || n < alternatives) {
			alternatives = n
		}
	}
	if joined.Err != nil {
		return joined
	}
	for i := range alternatives {
		joined.Hypotheses = append(joined.Hypotheses, t.joinHypotheses(i))
	}
	if t.segment.Details {
		joined.SourcePieces = t.joinSources()
	}
	return joined
}

// bytesPerPiece is about the most bytes that a piece of ordinary text stands for. A text with more for each piece that
// the model takes is divided before its pieces are counted, so that no long line is encoded as a whole.
const bytesPerPiece = 16

// units turns a task's text into units, none if the text has no pieces.
func (x *Text) units(t *task) []*unit {
	if len(x.Further) > 0 {
		return x.several(t)
	}
	limit := x.MaxLength - 1 // the end of sentence takes a place
	text := t.segment.Text
	var pieces []search.Token
	short := len(text) <= bytesPerPiece*limit
	if short {
		pieces = x.encode(text, t.only.tokens[:0])
	}
	switch {
	case short && len(pieces) <= limit:
	case x.Crop:
		var cropped bool
		if pieces, cropped = x.crop(x.Source, text, limit); cropped {
			t.flags |= job.Cropped
		}
	default:
		return x.divide(t, limit)
	}
	if len(pieces) == 0 {
		return nil
	}
	t.results = t.onlyResult[:]
	t.remaining.Store(1)
	t.onlyUnit[0] = &t.only
	x.fill(t.onlyUnit[0], t, 0, pieces)
	return x.force(t.onlyUnit[:])
}

// divide makes a unit of each part of a text that is too long. Parts without pieces have their empty result at once.
func (x *Text) divide(t *task, limit int) []*unit {
	t.parts = split.Split(t.segment.Text, limit, func(part string) int { return len(x.encode(part, nil)) })
	t.results, t.backwards = make([]job.Result, len(t.parts)), x.RightLeft
	if len(t.parts) > 1 {
		t.flags |= job.Split
	}
	var units []*unit
	for i, part := range t.parts {
		pieces := x.encode(part.Text, nil)
		if len(pieces) > limit { // a single character of more pieces than the model takes
			pieces = pieces[:limit]
			t.flags |= job.Cropped
		}
		if len(pieces) == 0 {
			continue
		}
		units = append(units, x.unit(t, i, pieces))
	}
	t.remaining.Store(int32(len(units)))
	return x.force(units)
}

// force gives the segment's prefix to the unit that the translation begins with, in the order in which the model writes: for
// a right-to-left model, as in Marian, the prefix is the end of the text.
func (x *Text) force(units []*unit) []*unit {
	if len(units) == 0 || units[0].task.segment.Prefix == "" {
		return units
	}
	first := units[0]
	if x.RightLeft {
		first = units[len(units)-1]
	}
	first.prefix = x.encodeWith(x.Target, first.task.segment.Prefix, nil)
	if x.RightLeft {
		reverse(first.prefix)
	}
	return units
}

// crop returns the first pieces of a text, and whether there are more. It looks at no more of the text than they can
// stand for.
func (x *Text) crop(vocabulary vocab.Vocabulary, text string, limit int) (pieces []search.Token, cropped bool) {
	for size := bytesPerPiece * limit; ; size *= 2 {
		whole := size >= len(text)
		pieces = x.encodeWith(vocabulary, strings.ToValidUTF8(text[:min(size, len(text))], ""), nil)
		if len(pieces) > limit {
			return pieces[:limit], true
		}
		if whole {
			return pieces, false
		}
	}
}

// unit returns a new unit of a task.
func (x *Text) unit(t *task, part int, pieces []search.Token) *unit {
	u := new(unit)
	x.fill(u, t, part, pieces)
	return u
}

// fill makes of u the unit of a part of a task.
func (x *Text) fill(u *unit, t *task, part int, pieces []search.Token) {
	u.task, u.part, u.tokens = t, part, append(pieces, x.Source.EOS())
	if x.RightLeft {
		reverse(u.tokens[:len(u.tokens)-1])
	}
}

// encode appends the pieces of a source text, without the end of sentence.
func (x *Text) encode(text string, pieces []search.Token) []search.Token {
	return x.encodeWith(x.Source, text, pieces)
}

func (x *Text) encodeWith(vocabulary vocab.Vocabulary, text string, pieces []search.Token) []search.Token {
	if !x.Pieces {
		return vocabulary.Encode(text, pieces)
	}
	for piece := range strings.FieldsSeq(text) {
		id, ok := vocabulary.ID(piece)
		if !ok {
			id = vocabulary.Unk()
		}
		pieces = append(pieces, id)
	}
	return pieces
}

func reverse(tokens []search.Token) {
	for i, j := 0, len(tokens)-1; i < j; i, j = i+1, j-1 {
		tokens[i], tokens[j] = tokens[j], tokens[i]
	}
}
