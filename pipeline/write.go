package pipeline

import (
	"context"
	"errors"
	"time"
	"unicode"
	"unicode/utf8"

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
	uncommitted bool
	committed   time.Time // when the last commit was
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
	l.outputs = l.outputs[:0]
	for _, s := range l.taken {
		l.outputs = append(l.outputs, job.Output{Record: s.record, Result: s.result})
	}
	if err := l.writer.Write(ctx, l.outputs); err != nil {
		return l.failed("write", err)
	}
	l.uncommitted, l.position = true, l.taken[len(l.taken)-1].record.End
	l.pipeline.count(func(s *Stats) {
		s.Write += time.Since(start)
		for _, done := range l.taken {
			s.add(done)
		}
	})
	l.window.release(l.taken)
	clear(l.outputs)
	clear(l.taken)
	return nil
}

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

// commit makes what was written durable and tells the source.
func (l *laneWriter) commit(ctx context.Context) error {
	start := time.Now()
	position, err := l.writer.Commit(ctx)
	if err != nil {
		return l.failed("commit", err)
	}
	if err := l.lane.Commit(ctx, position); err != nil {
		return l.failed("commit", err)
	}
	l.uncommitted, l.committed = false, time.Now()
	l.pipeline.count(func(s *Stats) { s.Commit += time.Since(start) })
	return nil
}

// finish ends the lane: it publishes the output of a complete one, and commits what there is of another.
func (l *laneWriter) finish(ctx context.Context, reason error) error {
	if reason == nil {
		start := time.Now()
		if err := l.writer.Finish(ctx); err != nil {
			return l.failed("commit", err)
		}
		if err := l.lane.Commit(ctx, l.position); err != nil {
			return l.failed("commit", err)
		}
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

// countWords counts what stands between white space.
func countWords(text string) int64 {
	words, inWord := int64(0), false
	for _, r := range text {
		space := r < utf8.RuneSelf && (r == ' ' || r >= '\t' && r <= '\r') || r >= utf8.RuneSelf && unicode.IsSpace(r)
		if !space && !inWord {
			words++
		}
		inWord = !space
	}
	return words
}
