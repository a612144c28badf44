package kafka

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sluice-mt/sluice/internal/job"
	"github.com/sluice-mt/sluice/internal/kafkaclient"
)

const (
	// mostTail is how far back the end of a partition is searched for outputs of a lane. A lane commits far more
	// often than others can write as much as that in between.
	mostTail = 1 << 17

	firstTail = 256

	scanBytes = 1 << 20
	scanBatch = 64 << 20
	scanWait  = 500 * time.Millisecond
)

// readTails finds out which outputs of the lane are written already though they were not committed.
func (w *writer) readTails(ctx context.Context) error {
	w.skip = map[kafkaclient.Partition]int64{}
	for _, topic := range []string{w.sink.config.Topic, w.sink.config.DeadLetters} {
		if topic == "" {
			continue
		}
		for id := range w.sink.partitions[topic] {
			partition := kafkaclient.Partition{Topic: topic, ID: id}
			if !w.mayHold(partition) {
				continue
			}
			if err := w.readTail(ctx, partition); err != nil {
				return err
			}
		}
	}
	return nil
}

// mayHold says whether outputs of the lane may go to a partition.
func (w *writer) mayHold(partition kafkaclient.Partition) bool {
	if partition.Topic == w.sink.config.DeadLetters {
		return partition == w.letterPartition()
	}
	return w.sink.config.Partitioning == ByKey || partition.ID == w.home
}

// readTail looks for the last output of the lane in a partition, in windows that grow backwards from its end.
func (w *writer) readTail(ctx context.Context, partition kafkaclient.Partition) error {
	first, end, err := w.extent(ctx, partition)
	if err != nil {
		return err
	}
	for window := int64(firstTail); ; window *= 8 {
		from := max(first, end-window)
		found := int64(-1)
		err := w.scan(ctx, partition, from, func(record *kafkaclient.Record) error {
			if coordinate, ok := w.isOurs(record); ok {
				found = max(found, coordinate)
			}
			return nil
		})
		if err != nil {
			return err
		}
		if found >= 0 {
			w.skip[partition] = found
			return nil
		}
		if from == first || window >= mostTail {
			return nil
		}
	}
}

// isOurs returns the coordinate of a record that this job has written for the lane.
func (w *writer) isOurs(record *kafkaclient.Record) (int64, bool) {
	if header(record.Headers, JobHeader) != w.sink.config.Job {
		return 0, false
	}
	return w.parseSource([]byte(header(record.Headers, SourceHeader)))
}

func header(headers []job.Header, key string) string {
	for _, h := range headers {
		if h.Key == key {
			return string(h.Value)
		}
	}
	return ""
}

// extent returns the first offset of a partition and the one behind its last record.
func (w *writer) extent(ctx context.Context, partition kafkaclient.Partition) (first, end int64, err error) {
	if first, err = w.sink.config.Client.FirstOffset(ctx, partition); err != nil {
		return 0, 0, err
	}
	end, err = w.sink.config.Client.EndOffset(ctx, partition)
	return first, end, err
}

// scan shows every committed record from an offset to the present end of a partition. The offset may lie before the
// first record.
func (w *writer) scan(ctx context.Context, partition kafkaclient.Partition, from int64, see func(*kafkaclient.Record) error) error {
	client := w.sink.config.Client
	first, end, err := w.extent(ctx, partition)
	if err != nil {
		return err
	}
	s := scanner{next: max(from, first), see: see}
	begin := time.Now()
	for s.next < end {
		result, err := client.Fetch(ctx, kafkaclient.FetchRequest{Partition: partition, Offset: s.next, MaxBytes: scanBytes, Limit: scanBytes + scanBatch, MaxWait: scanWait})
		if err == nil {
			if err := s.batches(&result); err != nil {
				return fmt.Errorf("kafka: read %s: %w", partition.LaneName(), err)
			}
			begin = time.Now()
			continue
		}
		if ctx.Err() != nil || time.Since(begin) > client.Patience(err) {
			return errors.Join(ctx.Err(), client.Failed("read "+partition.LaneName(), err))
		}
		time.Sleep(scanWait / 10)
	}
	return nil
}

type scanner struct {
	next     int64
	see      func(*kafkaclient.Record) error
	inflater kafkaclient.Inflater
	records  []kafkaclient.Record
}

// batches shows the records of one answer.
func (s *scanner) batches(result *kafkaclient.FetchResult) error {
	filter := result.Filter()
	for data := result.Batches; len(data) > 0; {
		batch, rest, err := kafkaclient.NextBatch(data)
		if err != nil {
			if len(data) < len(result.Batches) {
				return nil // cut off, or damaged: it is fetched again
			}
			return err
		}
		data = rest
		counts, err := filter.Counts(&batch)
		if err != nil {
			return err
		}
		if counts {
			if s.records, err = batch.Records(s.records[:0], &s.inflater, scanBatch); err != nil {
				return err
			}
			for i := range s.records {
				if s.records[i].Offset < s.next {
					continue
				}
				if err := s.see(&s.records[i]); err != nil {
					return err
				}
			}
		}
		s.next = max(s.next, batch.LastOffset+1)
	}
	return nil
}
