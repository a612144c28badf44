package kafka

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/sluice-mt/sluice/internal/deadletter"
	"github.com/sluice-mt/sluice/internal/job"
	"github.com/sluice-mt/sluice/internal/kafkaclient"
	"github.com/sluice-mt/sluice/producer"
)

// The headers that are added to every output. They replace those of the same name that the record came with.
const (
	JobHeader    = "sluice-job"    // name of the job
	SourceHeader = "sluice-source" // lane@offset for a message, lane@number for any other record
	FlagsHeader  = "sluice-flags"  // what is to be known of the translation, joined by commas; missing if nothing is
	ReasonHeader = "sluice-reason" // of dead letters: why it is one
)

var errTooLarge = errors.New("the translated message is larger than the topic takes")

// message makes the message of an output, or its dead letter, and says where it goes.
func (w *writer) message(output *job.Output) (kafkaclient.Partition, error) {
	m := &w.scratch
	*m = kafkaclient.Record{Headers: m.Headers[:0], Value: w.value[:0]}
	carried := output.Record.Message
	if carried == nil {
		carried = &job.Message{}
	}
	m.Key, m.Time = carried.Key, carried.Time
	if m.Time.IsZero() || w.sink.config.StampNow {
		m.Time = time.Now()
	}
	failure := deadletter.Failed(output)
	w.addHeaders(carried, output)
	if failure == nil {
		if err := w.encode(output, carried.Tombstone); err != nil {
			return kafkaclient.Partition{}, err
		}
		if kafkaclient.SizeOf(m) <= w.sink.config.MaxMessage {
			return w.partitionFor(output, m.Key), nil
		}
		failure = fmt.Errorf("%w: %d bytes, and the limit is %d", errTooLarge, len(m.Value), w.sink.config.MaxMessage)
		failed := *output
		failed.Result.Err = failure
		output = &failed
	}
	return w.failed(output, failure)
}

// encode makes the value. A tombstone stays one.
func (w *writer) encode(output *job.Output, tombstone bool) error {
	if tombstone {
		w.scratch.Value = nil
		return nil
	}
	value, err := w.sink.config.Encoder.Append(w.value[:0], output)
	if err != nil {
		return fmt.Errorf("kafka: lane %s: %w", w.lane, err)
	}
	w.value = value
	if w.sink.config.TrimLineFeed {
		value = bytes.TrimSuffix(value, []byte("\n"))
	}
	w.scratch.Value = value
	if value == nil {
		w.scratch.Value = []byte{} // nil would be a tombstone
	}
	return nil
}

// failed makes what takes the place of an output that failed.
func (w *writer) failed(output *job.Output, reason error) (kafkaclient.Partition, error) {
	config, m := &w.sink.config, &w.scratch
	if config.DeadLetters != "" {
		m.Headers = append(m.Headers, job.Header{Key: ReasonHeader, Value: []byte(clip(reason.Error()))})
		return w.letterPartition(), w.letter(output)
	}
	if config.OnFailure == Stop {
		return kafkaclient.Partition{}, fmt.Errorf("kafka: %s: %w: %w", w.sourceOf(&output.Record), producer.ErrNoPlace, reason)
	}
	m.Value = []byte{}
	if kafkaclient.SizeOf(m) > config.MaxMessage {
		return kafkaclient.Partition{}, fmt.Errorf("kafka: %s: key and headers alone are larger than the topic takes: %w", w.sourceOf(&output.Record), reason)
	}
	return w.partitionFor(output, m.Key), nil
}

// letter makes the value of a dead letter. What makes it too large is left out: the original bytes first.
func (w *writer) letter(output *job.Output) error {
	letter := deadletter.Of(w.lane, output)
	letter.Time = w.scratch.Time
	for range 3 {
		value, err := deadletter.Append(w.value[:0], &letter)
		if err != nil {
			return err
		}
		w.value = value
		w.scratch.Value = bytes.TrimSuffix(value, []byte("\n"))
		if kafkaclient.SizeOf(&w.scratch) <= w.sink.config.MaxMessage {
			return nil
		}
		switch {
		case len(letter.Original) > 0:
			letter.Reason = fmt.Sprintf("%s (the original of %d bytes is left out: it is too large for a letter)", clip(letter.Reason), len(letter.Original))
			letter.Original = nil
		default:
			letter.Message, w.scratch.Key = nil, nil
			w.scratch.Headers = slices.DeleteFunc(w.scratch.Headers, func(h job.Header) bool { return !isOurs(h.Key) })
		}
	}
	return fmt.Errorf("kafka: the dead letter of %s is larger than the topic takes", w.sourceOf(&output.Record))
}

// mostReason is how much of a reason is kept where it could be of any length.
const mostReason = 1000

func clip(reason string) string {
	if len(reason) > mostReason {
		return reason[:mostReason] + "…"
	}
	return reason
}

func isOurs(key string) bool {
	return key == JobHeader || key == SourceHeader || key == FlagsHeader || key == ReasonHeader
}

// addHeaders carries the record's headers over and adds ours.
func (w *writer) addHeaders(carried *job.Message, output *job.Output) {
	m := &w.scratch
	for _, header := range carried.Headers {
		if !isOurs(header.Key) {
			m.Headers = append(m.Headers, header)
		}
	}
	w.source = w.appendSource(w.source[:0], &output.Record)
	m.Headers = append(m.Headers, job.Header{Key: JobHeader, Value: w.job}, job.Header{Key: SourceHeader, Value: w.source})
	if flags := output.Record.Flags | output.Result.Flags; flags != 0 {
		m.Headers = append(m.Headers, job.Header{Key: FlagsHeader, Value: []byte(flags.String())})
	}
}

// coordinate is what identifies a record within its lane, and grows: its offset if it is a message, its number
// otherwise.
func (w *writer) coordinate(record *job.Record) int64 {
	if w.place.pseudo {
		return record.Seq
	}
	return record.End.Offset - 1
}

func (w *writer) appendSource(dst []byte, record *job.Record) []byte {
	dst = append(append(dst, w.lane...), '@')
	return strconv.AppendInt(dst, w.coordinate(record), 10)
}

func (w *writer) sourceOf(record *job.Record) string { return string(w.appendSource(nil, record)) }

// parseSource reads the coordinate of a record of the lane from a header's value.
func (w *writer) parseSource(value []byte) (int64, bool) {
	rest, ok := bytes.CutPrefix(value, []byte(w.lane+"@"))
	if !ok {
		return 0, false
	}
	coordinate, err := strconv.ParseInt(string(rest), 10, 64)
	return coordinate, err == nil && coordinate >= 0
}
