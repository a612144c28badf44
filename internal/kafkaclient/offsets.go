package kafkaclient

import (
	"context"
	"errors"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol/listoffsets"
	"github.com/segmentio/kafka-go/protocol/offsetcommit"
	"github.com/segmentio/kafka-go/protocol/offsetfetch"
)

// A Member is who takes part in a consumer group, and since when.
type Member struct {
	Group      string
	ID         string // "" for nobody: a group that has no members
	Instance   string // for static membership; "" for none
	Generation int    // -1 with an empty ID
}

// A Committed offset is what a group has stored for a partition.
type Committed struct {
	Offset   int64 // -1 if there is none
	Metadata string
}

// CommittedOffset returns what a group has stored for a partition.
func (c *Client) CommittedOffset(ctx context.Context, group string, partition Partition) (Committed, error) {
	committed := Committed{Offset: -1}
	err := c.retry(ctx, "read the offset of group "+group, c.config.Patience, func(ctx context.Context) error {
		message, err := c.transport.RoundTrip(ctx, c.kafka.Addr, &offsetfetch.Request{
			GroupID: group,
			Topics:  []offsetfetch.RequestTopic{{Name: partition.Topic, PartitionIndexes: []int32{int32(partition.ID)}}},
		})
		if err != nil {
			return err
		}
		response, ok := message.(*offsetfetch.Response)
		if ok && kafka.Error(response.ErrorCode) == kafka.GroupIdNotFound {
			return nil // nobody has ever committed
		}
		if ok && response.ErrorCode != 0 {
			return kafka.Error(response.ErrorCode)
		}
		if !ok || len(response.Topics) != 1 || len(response.Topics[0].Partitions) != 1 {
			return errMalformed
		}
		found := response.Topics[0].Partitions[0]
		if found.ErrorCode != 0 {
			return kafka.Error(found.ErrorCode)
		}
		committed = Committed{Offset: found.CommittedOffset, Metadata: found.Metadata}
		return nil
	})
	return committed, err
}

// CommitOffset stores an offset outside of any transaction. The group takes it from a member of its present
// generation only.
func (c *Client) CommitOffset(ctx context.Context, member Member, partition Partition, committed Committed) error {
	return c.retry(ctx, "commit an offset of group "+member.Group, c.config.Patience, func(ctx context.Context) error {
		message, err := c.transport.RoundTrip(ctx, c.kafka.Addr, &offsetcommit.Request{
			GroupID: member.Group, GenerationID: int32(member.Generation), MemberID: member.ID, GroupInstanceID: member.Instance,
			RetentionTimeMs: -1,
			Topics: []offsetcommit.RequestTopic{{Name: partition.Topic, Partitions: []offsetcommit.RequestPartition{{
				PartitionIndex: int32(partition.ID), CommittedOffset: committed.Offset, CommittedLeaderEpoch: -1, CommittedMetadata: committed.Metadata,
			}}}},
		})
		if err != nil {
			return err
		}
		response, ok := message.(*offsetcommit.Response)
		if !ok || len(response.Topics) != 1 || len(response.Topics[0].Partitions) != 1 {
			return errMalformed
		}
		if code := response.Topics[0].Partitions[0].ErrorCode; code != 0 {
			return kafka.Error(code)
		}
		return nil
	})
}

// Where to look in a log.
const (
	atBeginning = -2
	atEnd       = -1
)

// FirstOffset returns the first offset of a partition that there still is.
func (c *Client) FirstOffset(ctx context.Context, partition Partition) (int64, error) {
	return c.offset(ctx, partition, atBeginning)
}

// EndOffset returns the offset behind the last record of a partition that counts, and before every transaction that
// is not decided yet.
func (c *Client) EndOffset(ctx context.Context, partition Partition) (int64, error) {
	return c.offset(ctx, partition, atEnd)
}

func (c *Client) offset(ctx context.Context, partition Partition, where int64) (int64, error) {
	offset := int64(-1)
	err := c.retry(ctx, "look up the offsets of "+partition.Topic, c.config.Patience, func(ctx context.Context) error {
		message, err := c.transport.RoundTrip(ctx, c.kafka.Addr, &listoffsets.Request{
			ReplicaID: -1, IsolationLevel: 1,
			Topics: []listoffsets.RequestTopic{{Topic: partition.Topic, Partitions: []listoffsets.RequestPartition{{
				Partition: int32(partition.ID), CurrentLeaderEpoch: -1, Timestamp: where,
			}}}},
		})
		if err != nil {
			return err
		}
		response, ok := message.(*listoffsets.Response)
		if !ok || len(response.Topics) != 1 || len(response.Topics[0].Partitions) != 1 {
			return errMalformed
		}
		found := response.Topics[0].Partitions[0]
		if found.ErrorCode != 0 {
			return kafka.Error(found.ErrorCode)
		}
		offset = found.Offset
		return nil
	})
	return offset, err
}

// IsStale says whether a group did not take an offset because it is being divided anew, or has been.
func IsStale(err error) bool {
	return errors.Is(err, kafka.IllegalGeneration) || errors.Is(err, kafka.UnknownMemberId) || errors.Is(err, kafka.RebalanceInProgress)
}
