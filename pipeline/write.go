package pipeline

import (
	"context"
	"errors"
	"fmt"
	"math/bits"
	"sync/atomic"
	"time"
	"unicode"

	"github.com/sluice-mt/sluice/consumer"
	"github.com/sluice-mt/sluice/internal/job"
	"github.com/sluice-mt/sluice/producer"
)

// A laneWriter takes what is complete out of a lane's window and writes it. There is never more than one run of a lane
// on its way, so that order holds whatever the sink does.
type laneWriter struct {
	pipeline *Pipeline
	lane     consumer.Lane
	name     string
	writer   producer.Writer
	window   *window

	taken       []*slot
	outputs     []job.Output
	position    job.Position // after what was written
	uncommitted bool         // something was written that is not durable
	committed   time.Time    // when the last commit was asked for
	traces      laneTraces

	progress atomic.Pointer[progress]
}

// progress is what others may know of a laneWriter.
type progress struct {
	position job.Position // committed
	since    time.Time    // the oldest record that was written after the last commit has been in flight since then
	touched  time.Time    // when a write or commit began or succeeded for the last time
}

func newLaneWriter(p *Pipeline, lane consumer.Lane, writer producer.Writer, w *window, position job.Position) *laneWriter {
	l := &laneWriter{pipeline: p, lane: lane, name: lane.Name(), writer: writer, window: w, position: position, traces: laneTraces{tell: p.config.Trace}}
	l.progress.Store(&progress{position: position})
	return l
}

// run writes until the lane is complete, has failed or was stopped, and commits what was written.
func (l *laneWriter) run(ctx context.Context) error {
	l.committed = time.Now()
	idle := time.NewTimer(time.Hour)
	defer idle.Stop()
	for {
		var more, ended bool
		var reason error
		l.taken, more, ended, reason = l.window.take(l.taken[:0], l.pipeline.config.RunRecords)
		if len(l.taken) > 0 {
			if err := l.write(ctx); err != nil {
				return err
			}
		}
		switch {
		case ended:
			return l.finish(ctx, reason)
		case l.uncommitted && time.Since(l.committed) >= l.pipeline.config.CommitEvery:
			if err := l.commit(ctx); err != nil {
				return err
			}
		}
		if more {
			continue
		}
		if stopped, err := l.wait(ctx, idle); stopped || err != nil {
			return err
		}
	}
}

// wait waits for something to write. Output that is not committed is when its time comes. stopped is true when time is
// up: everything written is committed then.
func (l *laneWriter) wait(ctx context.Context, timer *time.Timer) (stopped bool, err error) {
	start := time.Now()
	defer func() { l.pipeline.count(func(s *Stats) { s.Wait += time.Since(start) }) }()
	var due <-chan time.Time
	if l.uncommitted {
		timer.Reset(max(0, l.pipeline.config.CommitEvery-time.Since(l.committed)))
		due = timer.C
	}
	select {
	case <-l.window.ready:
		return false, nil
	case <-due:
		return false, l.commit(ctx)
	case <-ctx.Done():
		l.pipeline.config.Logger.Warn("time is up; what is in flight will be done again", "lane", l.name)
		return true, l.finish(context.WithoutCancel(ctx), ctx.Err())
	}
}

// write hands a run to the sink.
func (l *laneWriter) write(ctx context.Context) error {
	start := time.Now()
	l.uncommitted = true
	l.touch(start)
	l.outputs = l.outputs[:0]
	for _, s := range l.taken {
		l.outputs = append(l.outputs, job.Output{Record: s.record, Result: s.result})
	}
	err := l.writer.Write(ctx, l.outputs)
	l.window.budget.release(creditOf(l.taken), len(l.taken))
	l.traces.written(l.name, l.taken, start, err)
	if err != nil {
		return l.failed("write", err)
	}
	l.touch(time.Now())
	l.position = l.taken[len(l.taken)-1].record.End
	err = l.pipeline.written(l.taken, time.Since(start))
	l.tellNotable()
	clear(l.outputs)
	for i, s := range l.taken {
		*s, l.taken[i] = slot{}, nil
	}
	if err != nil {
		return l.failed("translate", err)
	}
	return nil
}

// touch notes that something was written, or begins to be.
func (l *laneWriter) touch(now time.Time) {
	done := *l.progress.Load()
	if done.since.IsZero() {
		done.since = l.taken[0].admitted
	}
	done.touched = now
	l.progress.Store(&done)
}

// tellNotable tells whoever wants to know which of the outputs are out of the ordinary.
func (l *laneWriter) tellNotable() {
	tell := l.pipeline.config.Notable
	if tell == nil {
		return
	}
	for i := range l.outputs {
		if output := &l.outputs[i]; output.Result.Flags != 0 || output.Result.Err != nil {
			tell(l.name, output)
		}
	}
}

// written counts records that were written, and looks at how many of all have failed.
func (p *Pipeline) written(run []*slot, took time.Duration) error {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.stats.Write += took
	for _, done := range run {
		p.stats.add(done)
	}
	failed := p.stats.Flags[job.Failed.String()] + p.stats.Flags[job.Unreadable.String()]
	if limit := p.config.MaxFailed; limit > 0 && p.stats.Records >= failuresFrom && float64(failed) > limit*float64(p.stats.Records) {
		return fmt.Errorf("%w: %d of %d, and %.3g %% are allowed", ErrTooManyFailed, failed, p.stats.Records, 100*limit)
	}
	return nil
}

// failuresFrom is the number of records from which on a share of failures means something.
const failuresFrom = 1000

// add counts a record that was written.
func (s *Stats) add(done *slot) {
	s.Records++
	s.SourceBytes += int64(done.record.Size)
	s.SourceTokens += int64(done.result.SourceTokens)
	s.TargetTokens += int64(done.result.TargetTokens)
	switch {
	case done.translated:
		s.Translated++
		s.SourceWords += done.words
	case done.record.Err == nil:
		s.Empty++
	}
	for _, name := range done.result.Flags.Names() {
		s.Flags[name]++
	}
}

// commit makes what was written durable and tells the source. What the sink puts off is asked for again when the next
// commit is due, whether or not there is something new: a piece of a chain is created when it is old enough.
func (l *laneWriter) commit(ctx context.Context) error {
	start := time.Now()
	position, err := l.writer.Commit(ctx)
	l.traces.settled(position.Record, Span{start, time.Now()}, err)
	if err != nil {
		return l.failed("commit", err)
	}
	if position != l.progress.Load().position {
		if err := l.lane.Commit(ctx, position); err != nil {
			return l.failed("commit", err)
		}
	}
	l.settled(position)
	l.pipeline.count(func(s *Stats) { s.Commit += time.Since(start) })
	return nil
}

// settled notes that everything before a position is durable.
func (l *laneWriter) settled(position job.Position) {
	l.uncommitted, l.committed = position != l.position, time.Now()
	l.progress.Store(&progress{position: position, touched: l.committed})
}

// finish ends the lane: it publishes the output of a complete one, and commits what there is of another.
func (l *laneWriter) finish(ctx context.Context, reason error) error {
	if reason == nil {
		start := time.Now()
		err := l.writer.Finish(ctx)
		l.traces.settled(l.position.Record, Span{start, time.Now()}, err)
		if err != nil {
			return l.failed("commit", err)
		}
		if err := l.lane.Commit(ctx, l.position); err != nil {
			return l.failed("commit", err)
		}
		l.settled(l.position)
		l.pipeline.count(func(s *Stats) { s.Commit += time.Since(start); s.Lanes++ })
		return nil
	}
	if errors.Is(reason, consumer.ErrLaneLost) {
		return reason // what is not committed belongs to someone else now
	}
	if l.uncommitted {
		if err := l.commit(ctx); err != nil {
			return err
		}
	}
	var stage *StageError
	if errors.As(reason, &stage) {
		return reason
	}
	return reason // the context has ended
}

func (l *laneWriter) failed(stage string, err error) error {
	return &StageError{stage, l.name, err}
}

// countWords counts what stands between white space. It looks at eight bytes at a time as long as they are ASCII: a word
// begins where a byte is no space and the one before it is one.
func countWords(text string) int64 {
	const high = 0x8080808080808080
	words, inWord := int64(0), uint64(0) // inWord is 0x80 if the byte before is in a word
	at := 0
	for ; at+8 <= len(text); at += 8 {
		block := uint64(text[at]) | uint64(text[at+1])<<8 | uint64(text[at+2])<<16 | uint64(text[at+3])<<24 |
			uint64(text[at+4])<<32 | uint64(text[at+5])<<40 | uint64(text[at+6])<<48 | uint64(text[at+7])<<56
		if block&high != 0 {
			break
		}
		solid := solidBytes(block)
		words += int64(bits.OnesCount64(solid &^ (solid<<8 | inWord)))
		inWord = solid >> 56
	}
	return words + countRemainingWords(text[at:], inWord != 0)
}

// solidBytes sets the highest bit of each byte that is no white space, of eight that are ASCII. No sum carries over to the
// next byte.
func solidBytes(block uint64) uint64 {
	const each = 0x0101010101010101
	noBlank := block ^ ' '*each + 0x7f*each // the highest bit is set where a byte is not ' '
	fromTab := block + (0x80-'\t')*each     // where it is '\t' or more
	beyondReturn := block + (0x80-'\r'-1)*each
	return noBlank & (beyondReturn | ^fromTab) & (0x80 * each)
}

// countRemainingWords goes on where a text is no longer ASCII.
func countRemainingWords(text string, inWord bool) (words int64) {
	for _, r := range text {
		space := unicode.IsSpace(r)
		if !space && !inWord {
			words++
		}
		inWord = !space
	}
	return words
}
