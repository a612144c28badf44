// Package job holds the words that every part of the pipeline shares: a record of input, the segment of text that
// is translated, the result, and the position at which a lane continues.
//
// A lane is the unit of order: one file, one object, one topic partition. Records of a lane are numbered from 0
// without gaps, and their outputs leave in that order.
package job

import (
	"strings"
	"time"
)

// A Position says where a lane continues. It is stored in checkpoints and commits, so its fields only grow.
// The zero Position is the beginning of the lane.
type Position struct {
	Record int64 `json:"record"` // number of the next record in the lane
	Input  int   `json:"input"`  // index of the file or object, where a lane joins several
	Offset int64 `json:"offset"` // byte (after decompression) or broker offset within that input
}

// A Record is one unit of input: a line, a row, a message.
type Record struct {
	Seq      int64    // number within the lane, from 0, without gaps
	Text     string   // what is to be translated; valid UTF-8
	Prefix   string   // the translation is forced to begin with this text; "" for none
	Carry    any      // what the record's format needs to write it back; opaque to everyone else
	Message  *Message // what a broker keeps beside the value; nil where there is no broker
	Original []byte   // the record as it was read, for dead letters; nil means that Text is all there was
	Size     int      // bytes of input the record stands for, counted against the memory budget
	End      Position // where the lane continues after this record
	Flags    Flags    // what was wrong with it already when it was read
	Err      error    // why it cannot be translated; it still gets its place in the output
}

// A Message is what a broker keeps beside a record's value. It is carried over to the output.
type Message struct {
	Key       []byte // nil is no key, which is not the same as an empty one
	Headers   []Header
	Time      time.Time
	Tombstone bool // there is no value; the output has none either
}

// A Header is a named value of a Message. Names may repeat.
type Header struct {
	Key   string
	Value []byte
}

// A Segment is a text on its way through the engine.
type Segment struct {
	Text   string
	Prefix string // the translation is forced to begin with this text; "" for none
	// Details asks for everything about the translation that the engine can tell: the pieces of both sides, the score of each
	// piece and the alignment. The translation itself is the same. It is for the few segments that somebody waits for: they are
	// translated before all that wait already.
	Details bool
	// Done is called exactly once, from any goroutine, possibly before the call that submitted the segment returns.
	// It must not block.
	Done func(Result)
}

// An Output is a record with its result: what a sink writes.
type Output struct {
	Record Record
	Result Result
}

// A Result is the translation of one segment.
type Result struct {
	Hypotheses   []Hypothesis // best first; at least one unless Err is set
	Flags        Flags
	SourceTokens int // pieces read, end of sentence included; 0 if the model was not asked
	TargetTokens int // pieces of the best hypothesis, end of sentence included
	// SourcePieces are the pieces read, end of sentence included, in the order in which the model reads them, which is that of
	// the columns of an alignment; only with Segment.Details. Of several sources they are those of the first.
	SourcePieces []string
	Err          error
}

// Text is the best translation, "" where there is none.
func (r *Result) Text() string {
	if len(r.Hypotheses) == 0 {
		return ""
	}
	return r.Hypotheses[0].Text
}

// A Hypothesis is one candidate translation.
type Hypothesis struct {
	Text        string
	Finished    bool        // the model ended it; false where the length cap did, or where the model was not asked
	Pieces      []string    // the target pieces in reading order, end of sentence included when it was generated; only if asked for
	Score       float32     // total: weighted, word penalty and length normalisation applied
	ModelScores []float32   // sum of log-probabilities of each model, unweighted (Marian's F0=, F1=)
	WordScores  []float32   // log-probability of each piece in generation order; only if asked for
	Alignment   [][]float32 // per target piece in generation order, the weight of each source piece (end of sentence included on both sides); only if asked for
}

// Flags mark results that a user may want to look at. None of them means that a record is missing.
type Flags uint32

const (
	Cropped     Flags = 1 << iota // the input was longer than the limit, and the rest was dropped as asked
	Split                         // the input was longer than the limit, and its parts were translated on their own
	Unfinished                    // the length cap ended the translation before the model did
	Repetition                    // the translation repeated itself; it was redone without repetition
	NonFinite                     // the arithmetic overflowed; the sentence was redone in float32
	InvalidText                   // the input was not valid UTF-8; bad bytes were replaced
	Unreadable                    // the record could not be parsed; it was carried through untranslated
	Failed                        // the segment could not be translated at all
)

var flagNames = []string{"cropped", "split", "unfinished", "repetition", "non-finite", "invalid-text", "unreadable", "failed"}

// Names lists the names of the set flags, in the order of the constants.
func (f Flags) Names() []string {
	var names []string
	for i, name := range flagNames {
		if f&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	return names
}

// String joins the names with commas.
func (f Flags) String() string { return strings.Join(f.Names(), ",") }
