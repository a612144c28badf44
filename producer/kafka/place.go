package kafka

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"

	"github.com/segmentio/kafka-go"

	"github.com/sluice-mt/sluice/internal/job"
	"github.com/sluice-mt/sluice/internal/kafkaclient"
	"github.com/sluice-mt/sluice/producer"
)

// A place is where it is stored how far a lane has come.
type place struct {
	partition kafkaclient.Partition // that the offset is of
	pseudo    bool                  // the group is one that nobody joins
	group     string
	id        string // transactional
}

// placeOf returns the place of a lane.
func (s *Sink) placeOf(lane string) (place, error) {
	if s.config.Membership != nil {
		member, partition, ok := s.config.Membership.Member(lane)
		if !ok {
			return place{}, fmt.Errorf("kafka: lane %s: %w", lane, producer.ErrFenced)
		}
		return place{partition: partition, group: member.Group, id: s.config.Job + "/" + lane}, nil
	}
	name := s.config.Job + "/" + hex.EncodeToString(laneHash(lane))
	return place{partition: kafkaclient.Partition{Topic: s.config.Topic}, pseudo: true, group: name, id: name}, nil
}

// member returns as whom the offset of a lane is committed.
func (w *writer) member() (kafkaclient.Member, error) {
	if w.place.pseudo {
		return kafkaclient.Member{Group: w.place.group, Generation: -1}, nil
	}
	member, _, ok := w.sink.config.Membership.Member(w.lane)
	if !ok {
		return kafkaclient.Member{}, fmt.Errorf("lane %s was given to another member: %w", w.lane, producer.ErrFenced)
	}
	if member.ID == "" || member.Generation < 0 { // a group takes that from anyone
		return kafkaclient.Member{}, fmt.Errorf("lane %s has no member: %w", w.lane, producer.ErrFenced)
	}
	return member, nil
}

// homeOf returns the number of the partition that a lane's outputs go to, unless their keys say otherwise.
func (s *Sink) homeOf(lane string) (int, error) {
	count := s.partitions[s.config.Topic]
	if s.config.Partitioning == FixedPartition {
		return s.config.Partition, nil
	}
	if s.config.Membership == nil {
		return int(binary.BigEndian.Uint64(laneHash(lane)) % uint64(count)), nil
	}
	_, partition, ok := s.config.Membership.Member(lane)
	if !ok {
		return 0, fmt.Errorf("kafka: lane %s: %w", lane, producer.ErrFenced)
	}
	if partition.ID < count {
		return partition.ID, nil
	}
	if s.config.Partitioning == ByKey {
		return partition.ID % count, nil
	}
	return 0, fmt.Errorf("kafka: lane %s has no partition of the same number in %s, which has %d: add partitions, or choose them by key", lane, s.config.Topic, count)
}

// partitionFor returns the partition of an output.
func (w *writer) partitionFor(output *job.Output, key []byte) kafkaclient.Partition {
	id := w.home
	if w.sink.config.Partitioning == ByKey {
		if key != nil {
			id = byKey(key, w.sink.numbers)
		} else if placer, ok := w.sink.config.Encoder.(Placer); ok {
			if chosen, known := placer.PartitionOf(output); known {
				id = chosen % len(w.sink.numbers)
			}
		}
	}
	return kafkaclient.Partition{Topic: w.sink.config.Topic, ID: id}
}

// byKey is the choice of Kafka's producer in Java: murmur2 of the key.
func byKey(key []byte, partitions []int) int {
	return kafka.Murmur2Balancer{}.Balance(kafka.Message{Key: key}, partitions...)
}

// numbers returns the numbers of so many partitions.
func numbers(count int) []int {
	list := make([]int, count)
	for i := range list {
		list[i] = i
	}
	return list
}

// letterPartition returns the partition of the dead letters of a lane.
func (w *writer) letterPartition() kafkaclient.Partition {
	topic := w.sink.config.DeadLetters
	return kafkaclient.Partition{Topic: topic, ID: w.home % w.sink.partitions[topic]}
}
