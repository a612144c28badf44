package translator

import (
	"sync/atomic"

	"github.com/sluice-mt/sluice/internal/job"
	"github.com/sluice-mt/sluice/translator/split"
)

// A Submitter is what Documents hands sentences to.
type Submitter interface {
	Submit(segment job.Segment)
	Flush()
}

// Documents translates texts of several sentences: each sentence is a segment of its own, and their best translations are put
// together with the white space that stood between them. A result has that one hypothesis, its score the sum over the
// sentences; the flags are those of all sentences.
type Documents struct {
	sentences Submitter
}

// NewDocuments returns a Documents that translates sentences with s.
func NewDocuments(s Submitter) *Documents { return &Documents{s} }

// Flush says that what is queued should not wait for company.
func (d *Documents) Flush() { d.sentences.Flush() }

// Submit queues a text. A forced prefix belongs to its first sentence.
func (d *Documents) Submit(segment job.Segment) {
	parts := split.Sentences(segment.Text)
	whole := &document{parts: parts, results: make([]job.Result, len(parts)), done: segment.Done}
	whole.open.Store(int32(len(parts)))
	prefix := segment.Prefix
	for i, part := range parts {
		if part.Text == "" {
			whole.complete(i, job.Result{})
			continue
		}
		d.sentences.Submit(job.Segment{Text: part.Text, Prefix: prefix, Done: func(r job.Result) { whole.complete(i, r) }})
		prefix = ""
	}
}

// A document is a text whose sentences are being translated.
type document struct {
	parts   []split.Segment
	results []job.Result // each is written by the goroutine that completes it, before it counts open down
	open    atomic.Int32
	done    func(job.Result)
}

func (d *document) complete(i int, result job.Result) {
	d.results[i] = result
	if d.open.Add(-1) == 0 {
		d.done(d.join())
	}
}

// join puts the results together. A sentence that failed fails the document, since a reader could not tell what is missing.
func (d *document) join() job.Result {
	var whole job.Result
	var score float32
	texts := make([]string, len(d.parts))
	for i := range d.results {
		r := &d.results[i]
		whole.Flags |= r.Flags
		whole.SourceTokens += r.SourceTokens
		whole.TargetTokens += r.TargetTokens
		if r.Err != nil {
			return job.Result{Err: r.Err, Flags: whole.Flags, SourceTokens: whole.SourceTokens, TargetTokens: whole.TargetTokens}
		}
		texts[i] = r.Text()
		if len(r.Hypotheses) > 0 {
			score += r.Hypotheses[0].Score
		}
	}
	whole.Hypotheses = []job.Hypothesis{{Text: split.Join(d.parts, texts), Score: score}}
	return whole
}
