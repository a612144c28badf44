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
//
// But it must not wait for ever either. Members that have begun at different times have seen different ends of a topic that
// grows: one may be done, by its end, with a partition that is not done by the end of another, and the other way round. So it
// waits as long as the partitions of others get on, and after that for as long as it can take until the group notices a dead
// member. Whoever has them then is alive, and they are its business.

// recheckOthers is how often the partitions of others are looked at.
const recheckOthers = 500 * time.Millisecond

// finished waits until nothing is left to do for anybody, or something changes. It returns consumer.ErrEndOfInput, or nil
// if it is worth looking again.
func (s *Source) finished(ctx context.Context, changed <-chan struct{}) error {
	left, err := s.othersLeft(ctx)
	if err != nil {
		return err
	}
	if left == nil {
		return consumer.ErrEndOfInput
	}
	if s.atRest(left) > s.config.Session+s.config.Rebalance {
		s.config.Logger.Info("kafka: a partition is left to the member that has it, which is alive", "group", s.config.Group,
			"lane", left.partition.LaneName(), "committed", left.committed)
		return consumer.ErrEndOfInput
	}
	select {
	case <-changed:
	case <-time.After(recheckOthers):
	case <-ctx.Done():
	}
	return nil
}

// A rest is a partition of another member with records that the group has not stored as done.
type rest struct {
	partition kafkaclient.Partition
	committed int64
}

// waiting is what a source waits for, in which generation of the group, and since when.
type waiting struct {
	rest
	generation int
	since      time.Time
}

// atRest returns for how long a rest has been the same, in the same generation of the group.
func (s *Source) atRest(left *rest) time.Duration {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	now := waiting{*left, s.member.Generation, s.waiting.since}
	if now != s.waiting {
		now.since = time.Now()
		s.waiting = now
	}
	return time.Since(now.since)
}

// othersLeft returns a partition of another member that is not done, nil if there is none.
func (s *Source) othersLeft(ctx context.Context) (*rest, error) {
	for _, topic := range s.config.Topics {
		count, err := s.config.Client.Partitions(ctx, topic)
		if err != nil {
			return nil, err
		}
		for id := range count {
			partition := kafkaclient.Partition{Topic: topic, ID: id}
			if _, _, ours := s.Member(partition.LaneName()); ours {
				continue
			}
			if left, err := s.left(ctx, partition); left != nil || err != nil {
				return left, err
			}
		}
	}
	return nil, nil
}

// left returns what there is between what the group has stored for a partition and the partition's end, nil if that is no
// record.
func (s *Source) left(ctx context.Context, partition kafkaclient.Partition) (*rest, error) {
	look := newLane(s, partition)
	defer look.lose()
	committed, err := s.config.Client.CommittedOffset(ctx, s.config.Group, partition)
	if err != nil {
		return nil, err
	}
	switch {
	case committed.Offset >= 0:
		look.next = committed.Offset
	case s.config.Begin == Latest:
		return nil, nil
	default:
		if look.next, err = s.config.Client.FirstOffset(ctx, partition); err != nil {
			return nil, err
		}
	}
	s.mutex.Lock()
	end, known := s.ends[partition]
	s.mutex.Unlock()
	if !known {
		if end, err = s.config.Client.EndOffset(ctx, partition); err != nil {
			return nil, err
		}
		s.mutex.Lock()
		s.ends[partition] = end
		s.mutex.Unlock()
	}
	look.end = end
	records, err := look.read(ctx) // of which nothing is kept; markers of transactions and gaps are no records
	if errors.Is(err, io.EOF) {
		return nil, nil
	}
	if len(records) == 0 || err != nil {
		return nil, err
	}
	return &rest{partition, committed.Offset}, nil
}
