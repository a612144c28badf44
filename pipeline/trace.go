package pipeline

import "time"

// A RunTrace says when a run passed through the stages: records of one lane that were written together.
type RunTrace struct {
	Lane     string
	From, To int64 // numbers of the first record, and of the one after the last
	Words    int64 // of the source, translated
	Bytes    int64 // as the source counts them
	Flagged  int   // records with a flag

	Fetched    Span // the read that returned the first record
	Translated Span // from the moment that the first record was admitted until all results were there
	Written    Span
	Committed  Span // of the commit that made it durable; zero if the lane ended before
	Err        error
}

// A Span is a stretch of time.
type Span struct{ Begin, End time.Time }

// mostTraces is how many runs of a lane are kept until they are committed. Those beyond are not traced.
const mostTraces = 4096

// laneTraces collects the traces of a lane's runs until their fate is known. It belongs to the goroutine that writes the
// lane. With no one to tell it does nothing.
type laneTraces struct {
	tell    func(*RunTrace)
	pending []RunTrace
}

// written notes a run.
func (t *laneTraces) written(lane string, run []*slot, begin time.Time, err error) {
	if t.tell == nil || len(t.pending) == mostTraces {
		return
	}
	first, last := run[0], run[len(run)-1]
	trace := RunTrace{
		Lane: lane, From: first.record.Seq, To: last.record.End.Record, Err: err,
		Fetched: *first.fetched, Translated: Span{first.admitted, first.completed}, Written: Span{begin, time.Now()},
	}
	for _, s := range run {
		trace.Words += s.words
		trace.Bytes += int64(s.record.Size)
		if s.result.Flags != 0 {
			trace.Flagged++
		}
		if s.completed.After(trace.Translated.End) {
			trace.Translated.End = s.completed
		}
	}
	t.pending = append(t.pending, trace)
}

// settled tells of the runs that a commit has made durable: those before a record. When it has failed they all are told of.
func (t *laneTraces) settled(before int64, committed Span, err error) {
	waiting := t.pending[:0]
	for i := range t.pending {
		trace := t.pending[i]
		if err == nil && trace.To > before {
			waiting = append(waiting, trace)
			continue
		}
		trace.Committed = committed
		if trace.Err == nil {
			trace.Err = err
		}
		t.tell(&trace)
	}
	t.pending = waiting
}
