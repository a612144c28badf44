package kafka

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/sluice-mt/sluice/consumer"
	"github.com/sluice-mt/sluice/internal/kafkaclient"
)

// A source that stops at the end must not leave while a partition of another member is not done: that member may be dead
// already, and the group, which has not noticed, would give its partitions to nobody.

// recheckOthers is how often the partitions of others are looked at.
const recheckOthers = 500 * time.Millisecond

// finished waits until nothing is left to do for anybody, or something changes. It returns consumer.ErrEndOfInput, or nil
// if it is worth looking again.
func (s *Source) finished(ctx context.Context, changed <-chan struct{}) error {
	left, err := s.othersLeft(ctx)
	if err != nil {
		return err
	}
	if !left {
		return consumer.ErrEndOfInput
	}
	select {
	case <-changed:
	case <-time.After(recheckOthers):
	case <-ctx.Done():
	}
	return nil
}

// othersLeft says whether there are records in partitions of other members that the group has not stored as done.
func (s *Source) othersLeft(ctx context.Context) (bool, error) {
	for _, topic := range s.config.Topics {
		count, err := s.config.Client.Partitions(ctx, topic)
		if err != nil {
			return false, err
		}
		for id := range count {
			partition := kafkaclient.Partition{Topic: topic, ID: id}
			if _, _, ours := s.Member(partition.LaneName()); ours {
				continue
			}
			if left, err := s.left(ctx, partition); left || err != nil {
				return left, err
			}
		}
	}
	return false, nil
}

// left says whether there is a record between what the group has stored for a partition and the partition's end.
func (s *Source) left(ctx context.Context, partition kafkaclient.Partition) (bool, error) {
	look := newLane(s, partition)
	defer look.lose()
	committed, err := s.config.Client.CommittedOffset(ctx, s.config.Group, partition)
	if err != nil {
		return false, err
	}
	switch {
	case committed.Offset >= 0:
		look.next = committed.Offset
	case s.config.Begin == Latest:
		return false, nil
	default:
		if look.next, err = s.config.Client.FirstOffset(ctx, partition); err != nil {
			return false, err
		}
	}
	s.mutex.Lock()
	end, known := s.ends[partition]
	s.mutex.Unlock()
	if !known {
		if end, err = s.config.Client.EndOffset(ctx, partition); err != nil {
			return false, err
		}
		s.mutex.Lock()
		s.ends[partition] = end
		s.mutex.Unlock()
	}
	look.end = end
	records, err := look.read(ctx) // of which nothing is kept; markers of transactions and gaps are no records
	if errors.Is(err, io.EOF) {
		return false, nil
	}
	return len(records) > 0, err
}
