package kafka

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"github.com/sluice-mt/sluice/consumer"
	"github.com/sluice-mt/sluice/internal/job"
	"github.com/sluice-mt/sluice/internal/kafkaclient"
)

// A lane is a partition, from when it was given to this member until it is lost or closed.
type lane struct {
	source    *Source
	partition kafkaclient.Partition
	name      string

	owned context.Context // ends when the lane is lost
	lose  context.CancelFunc
	ended atomic.Bool  // Read has said io.EOF
	lag   atomic.Int64 // see Source.Lag

	// What follows is used by the goroutine that reads.
	next     int64 // offset of the next record
	record   int64 // its number
	end      int64 // where to stop; -1 for nowhere
	batches  []byte
	filter   *kafkaclient.Filter
	inflater kafkaclient.Inflater
	decoded  []kafkaclient.Record
	trouble  time.Time // since when fetches have been failing
	pause    time.Duration
	damaged  int // fetches in a row whose batches could not be read
}

func newLane(s *Source, partition kafkaclient.Partition) *lane {
	owned, lose := context.WithCancel(context.Background())
	return &lane{source: s, partition: partition, name: partition.LaneName(), owned: owned, lose: lose, end: -1}
}

// Name returns topic/partition.
func (l *lane) Name() string { return l.name }

func (l *lane) goesOn() bool { return !l.ended.Load() }

// Start finds out at which offset to begin: where the sink says; or else where the group says, which another consumer
// may have told it; or else as configured.
func (l *lane) Start(ctx context.Context, pos job.Position) error {
	ctx, stop := l.whileOwned(ctx)
	defer stop()
	return l.lostOr(ctx, l.start(ctx, pos))
}

func (l *lane) start(ctx context.Context, pos job.Position) error {
	l.next, l.record = pos.Offset, pos.Record
	if pos == (job.Position{}) {
		if err := l.begin(ctx); err != nil {
			return err
		}
	}
	return l.findEnd(ctx)
}

// begin is for a lane of which the sink knows nothing.
func (l *lane) begin(ctx context.Context) error {
	client := l.source.config.Client
	committed, err := client.CommittedOffset(ctx, l.source.config.Group, l.partition)
	if err != nil {
		return err
	}
	if committed.Offset >= 0 {
		progress, _ := kafkaclient.ParseProgress(committed.Metadata)
		l.next, l.record = committed.Offset, progress.Record
		return nil
	}
	if l.source.config.Begin == Earliest {
		l.next, err = client.FirstOffset(ctx, l.partition)
		return err
	}
	if l.next, err = client.EndOffset(ctx, l.partition); err != nil {
		return err
	}
	// It is stored at once. Otherwise a restart before the first commit would skip what came in between.
	return l.source.commit(ctx, l, job.Position{Offset: l.next})
}

// findEnd looks up where a lane that is to stop stops.
func (l *lane) findEnd(ctx context.Context) error {
	if l.end >= 0 || !l.source.stopAtEnd.Load() {
		return nil
	}
	end, err := l.source.config.Client.EndOffset(ctx, l.partition)
	if err == nil {
		l.end = end
	}
	return err
}

// whileOwned returns a context that also ends when the lane is lost.
func (l *lane) whileOwned(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(l.owned, cancel)
	return ctx, func() { stop(); cancel() }
}

// lostOr returns consumer.ErrLaneLost once the lane is lost, whatever else went wrong for it.
func (l *lane) lostOr(_ context.Context, err error) error {
	if err != nil && l.owned.Err() != nil {
		return consumer.ErrLaneLost
	}
	return err
}

// Read returns the records of one batch.
func (l *lane) Read(ctx context.Context) ([]job.Record, error) {
	ctx, stop := l.whileOwned(ctx)
	defer stop()
	records, err := l.read(ctx)
	return records, l.lostOr(ctx, err)
}

func (l *lane) read(ctx context.Context) ([]job.Record, error) {
	for {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		for len(l.batches) > 0 {
			records, err := l.nextBatch()
			if err != nil || len(records) > 0 {
				return records, err
			}
		}
		if err := l.findEnd(ctx); err != nil {
			return nil, err
		}
		if l.end >= 0 && l.next >= l.end {
			l.ended.Store(true)
			return nil, io.EOF
		}
		if err := l.fetch(ctx); err != nil {
			return nil, err
		}
	}
}

// mostWait is how long a broker may hold a fetch back while there is nothing to read.
const mostWait = 500 * time.Millisecond

// fetch asks once. Trouble that may pass is no error until it has lasted too long.
func (l *lane) fetch(ctx context.Context) error {
	config := &l.source.config
	result, err := config.Client.Fetch(ctx, kafkaclient.FetchRequest{
		Partition: l.partition, Offset: l.next, MaxBytes: config.FetchBytes, Limit: config.FetchBytes + config.MaxBatch, MaxWait: mostWait,
	})
	if err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return l.troubled(ctx, err)
	}
	if !l.trouble.IsZero() {
		config.Client.Recovered("read "+l.name, l.trouble)
	}
	l.trouble, l.pause = time.Time{}, 0
	l.batches, l.filter = result.Batches, result.Filter()
	l.lag.Store(result.HighWatermark - l.next)
	return nil
}

// troubled decides what to do about a fetch that failed.
func (l *lane) troubled(ctx context.Context, cause error) error {
	client := l.source.config.Client
	err := client.Failed("read "+l.name, cause)
	if errors.Is(err, kafkaclient.ErrOffsetOutOfRange) {
		return l.outOfRange(ctx)
	}
	if l.trouble.IsZero() {
		l.trouble = time.Now()
	}
	if time.Since(l.trouble) > client.Patience(cause) {
		return err
	}
	client.Failing("read "+l.name, l.trouble, cause)
	l.pause = min(max(2*l.pause, 10*time.Millisecond), mostWait)
	select {
	case <-time.After(l.pause):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// outOfRange is for records that were deleted before they were read, and for a log that ends before where it had
// ended: a topic that was deleted and made anew, or a replica that took over without having everything.
func (l *lane) outOfRange(ctx context.Context) error {
	client := l.source.config.Client
	first, err := client.FirstOffset(ctx, l.partition)
	if err != nil {
		return err
	}
	end, err := client.EndOffset(ctx, l.partition)
	if err != nil {
		return err
	}
	if l.next >= first && l.next <= end {
		return l.troubled(ctx, errMoved) // it is in range now
	}
	if !l.source.config.SkipLost {
		return fmt.Errorf("kafka: lane %s continues at offset %d, and its log goes from %d to %d: records are lost, or the topic was made anew (the option to skip what is lost continues at the first record)",
			l.name, l.next, first, end)
	}
	l.source.config.Logger.Warn("kafka: records are lost", "lane", l.name, "continued", l.next, "first", first, "end", end)
	l.next = first
	return nil
}

// errMoved is trouble that has passed.
var errMoved = errors.New("the log has moved")

// nextBatch takes one batch and returns its records that count and were not read before.
func (l *lane) nextBatch() ([]job.Record, error) {
	batch, rest, err := kafkaclient.NextBatch(l.batches)
	if err != nil {
		return nil, l.unreadable(err)
	}
	l.damaged = 0
	l.batches = rest
	counts, err := l.filter.Counts(&batch)
	if err != nil {
		return nil, fmt.Errorf("kafka: lane %s: %w", l.name, err)
	}
	if batch.LastOffset < l.next {
		return nil, nil
	}
	var records []job.Record
	if counts {
		records, err = l.decode(&batch)
		if err != nil {
			return nil, err
		}
	}
	l.next = batch.LastOffset + 1
	return records, nil
}

// mostDamaged is how often a batch that cannot be read is fetched again.
const mostDamaged = 3

// unreadable drops what was fetched. The last batch of an answer may be cut off; when nothing came before it, or it
// is damaged, it is fetched again a few times.
func (l *lane) unreadable(err error) error {
	l.batches = nil
	l.damaged++
	if l.damaged > mostDamaged {
		return fmt.Errorf("kafka: lane %s, offset %d: %w", l.name, l.next, err)
	}
	return nil
}

// decode makes records of the messages of a batch. A batch that cannot be decoded is one record with Err.
func (l *lane) decode(batch *kafkaclient.Batch) ([]job.Record, error) {
	var err error
	l.decoded, err = batch.Records(l.decoded[:0], &l.inflater, l.source.config.MaxBatch)
	defer clear(l.decoded)
	if err != nil {
		lost := job.Record{
			Message: &job.Message{}, Size: 1, Flags: job.Unreadable,
			Err: fmt.Errorf("offsets %d to %d, a batch of %d records: %w", batch.FirstOffset, batch.LastOffset, batch.Count, err),
		}
		return []job.Record{l.number(lost, batch.LastOffset)}, nil
	}
	records := make([]job.Record, 0, len(l.decoded))
	kept := make([]job.Message, len(l.decoded))
	for i := range l.decoded {
		message := &l.decoded[i]
		if message.Offset < l.next {
			continue // a fetch begins with the whole batch that its offset lies in
		}
		if l.end >= 0 && message.Offset >= l.end {
			break
		}
		records = append(records, l.number(l.toRecord(message, &kept[i]), message.Offset))
	}
	return records, nil
}

// number gives a record its place in the lane.
func (l *lane) number(record job.Record, offset int64) job.Record {
	record.Seq = l.record
	l.record++
	record.End = job.Position{Record: l.record, Offset: offset + 1}
	return record
}

// toRecord copies what is kept of a message: its parts lie in a buffer of the whole batch.
func (l *lane) toRecord(message *kafkaclient.Record, kept *job.Message) job.Record {
	*kept = job.Message{Key: bytes.Clone(message.Key), Time: message.Time, Tombstone: message.Value == nil}
	record := job.Record{Message: kept, Size: 1 + len(message.Key) + len(message.Value)}
	if len(message.Headers) > 0 {
		kept.Headers = message.Headers
		for i := range message.Headers {
			header := &kept.Headers[i]
			header.Value = bytes.Clone(header.Value)
			record.Size += len(header.Key) + len(header.Value)
		}
	}
	if message.Value != nil {
		l.source.config.Values.Decode(message.Value, &record)
		record.Original = bytes.Clone(record.Original)
	}
	return record
}

// Commit stores the position in the group, if the sink does not.
func (l *lane) Commit(ctx context.Context, pos job.Position) error {
	if !l.source.config.CommitOffsets {
		return nil
	}
	return l.source.commit(ctx, l, pos)
}

// Close gives the lane back.
func (l *lane) Close() error {
	l.lose()
	l.source.closed(l)
	return nil
}
