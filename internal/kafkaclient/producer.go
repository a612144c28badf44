package kafkaclient

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/addpartitionstotxn"
	"github.com/segmentio/kafka-go/protocol/initproducerid"
	"github.com/segmentio/kafka-go/protocol/txnoffsetcommit"
)

// A Producer writes batches, one after the other, in transactions or without.
//
// With a transactional id there is one producer at a time: Init fences every other, and ends what it had begun. The
// order of calls is Init, then, for every transaction, Produce as often as need be, CommitOffset, and End. The first
// Produce begins the transaction.
//
// A call whose outcome is not known, for the broker did not answer in time, leaves the Producer in doubt: nothing
// but Init is allowed then. A batch that is still on its way could otherwise arrive in the next transaction.
type Producer struct {
	client  *Client
	id      string // transactional; "" for none
	timeout time.Duration

	producerID int64
	epoch      int16
	sequences  map[Partition]int32
	added      map[Partition]bool // partitions of the open transaction
	open       bool
	doubt      bool
}

// ErrDoubt is returned after a call whose outcome is not known, until Init is called.
var ErrDoubt = errors.New("it is not known whether the last call took effect")

// NewProducer returns a Producer with a transactional id. A transaction that is open for longer than timeout is
// aborted by the broker.
func (c *Client) NewProducer(transactionalID string, timeout time.Duration) *Producer {
	return &Producer{client: c, id: transactionalID, timeout: timeout, producerID: -1, epoch: -1}
}

// NewPlainProducer returns a Producer without transactions. A batch may be written twice if a broker takes too long
// to answer.
func (c *Client) NewPlainProducer() *Producer {
	return &Producer{client: c, producerID: -1, epoch: -1, sequences: map[Partition]int32{}}
}

// Init takes the transactional id over. When it returns, whatever another producer had begun under the id is
// committed or aborted, and the offsets of groups say which.
func (p *Producer) Init(ctx context.Context) error {
	return p.client.retry(ctx, "take over the transactional id "+p.id, p.client.config.Patience, func(ctx context.Context) error {
		message, err := p.client.transport.RoundTrip(ctx, p.client.kafka.Addr, &initproducerid.Request{
			TransactionalID: p.id, TransactionTimeoutMs: int32(p.timeout.Milliseconds()),
			ProducerID: -1, ProducerEpoch: -1, // 0 and 0 would be a producer to be recovered
		})
		if err != nil {
			return err
		}
		response, ok := message.(*initproducerid.Response)
		if !ok {
			return errMalformed
		}
		if response.ErrorCode != 0 {
			return kafka.Error(response.ErrorCode)
		}
		p.producerID, p.epoch = response.ProducerID, response.ProducerEpoch
		p.sequences, p.added = map[Partition]int32{}, map[Partition]bool{}
		p.open, p.doubt = false, false
		return nil
	})
}

// IsOpen says that there is a transaction that was begun and is not ended.
func (p *Producer) IsOpen() bool { return p.open }

// InDoubt says that the outcome of a call is not known.
func (p *Producer) InDoubt() bool { return p.doubt }

// settle marks the Producer as in doubt after an error that leaves the outcome open.
func (p *Producer) settle(err error) error {
	var code kafka.Error
	if err != nil && !errors.As(err, &code) || code == kafka.RequestTimedOut || code == kafka.NotEnoughReplicasAfterAppend {
		p.doubt = true
	}
	return err
}

// Produce writes a batch to a partition and waits until all replicas in sync have it. The Builder is not reset.
func (p *Producer) Produce(ctx context.Context, partition Partition, batch *Builder, codec Compression) error {
	if p.doubt {
		return ErrDoubt
	}
	if p.id != "" && !p.added[partition] {
		if err := p.addPartition(ctx, partition); err != nil {
			return err
		}
	}
	s := stamp{producerID: p.producerID, epoch: p.epoch, sequence: -1, inside: p.id != ""}
	if p.producerID >= 0 {
		s.sequence = p.sequences[partition]
	}
	data, err := batch.finish(codec, s)
	if err != nil {
		return err
	}
	if err := p.settle(p.send(ctx, partition, data)); err != nil {
		return err
	}
	p.sequences[partition] += int32(batch.Len()) // wraps around after 2^31-1, as brokers do
	if p.sequences[partition] < 0 {
		p.sequences[partition] &= 1<<31 - 1
	}
	return nil
}

// send resends the same bytes until they are acknowledged: brokers recognise them by their sequence number.
func (p *Producer) send(ctx context.Context, partition Partition, data []byte) error {
	operation := fmt.Sprintf("write to %s/%d", partition.Topic, partition.ID)
	return p.client.retry(ctx, operation, p.client.config.Patience, func(ctx context.Context) error {
		response, err := p.client.kafka.RawProduce(ctx, &kafka.RawProduceRequest{
			Topic: partition.Topic, Partition: partition.ID, RequiredAcks: kafka.RequireAll, TransactionalID: p.id,
			RawRecords: protocol.RawRecordSet{Reader: bytes.NewReader(data)},
		})
		if err != nil {
			return err
		}
		if errors.Is(response.Error, kafka.DuplicateSequenceNumber) {
			return nil // an earlier attempt had arrived
		}
		return response.Error
	})
}

func (p *Producer) addPartition(ctx context.Context, partition Partition) error {
	p.open = true // it may be, even if the call fails
	operation := fmt.Sprintf("add %s/%d to the transaction %s", partition.Topic, partition.ID, p.id)
	err := p.client.retry(ctx, operation, p.client.config.Patience, func(ctx context.Context) error {
		message, err := p.client.transport.RoundTrip(ctx, p.client.kafka.Addr, &addpartitionstotxn.Request{
			TransactionalID: p.id, ProducerID: p.producerID, ProducerEpoch: p.epoch,
			Topics: []addpartitionstotxn.RequestTopic{{Name: partition.Topic, Partitions: []int32{int32(partition.ID)}}},
		})
		if err != nil {
			return err
		}
		response, ok := message.(*addpartitionstotxn.Response)
		if !ok || len(response.Results) != 1 || len(response.Results[0].Results) != 1 {
			return errMalformed
		}
		if code := response.Results[0].Results[0].ErrorCode; code != 0 {
			return kafka.Error(code)
		}
		return nil
	})
	if err == nil {
		p.added[partition] = true
	}
	return p.settle(err)
}

// CommitOffset stores an offset of a group inside the transaction. The group takes it from a member of its present
// generation only; a group without members takes it from anyone, so that only the transactional id protects it.
//
// member is asked for before every attempt, for the generation changes when members come and go.
func (p *Producer) CommitOffset(ctx context.Context, member func() (Member, error), partition Partition, committed Committed) error {
	if p.doubt {
		return ErrDoubt
	}
	now, err := member()
	if err != nil {
		return err
	}
	if err := p.addOffsets(ctx, now.Group); err != nil {
		return err
	}
	operation := fmt.Sprintf("commit the offset of %s/%d in the transaction %s", partition.Topic, partition.ID, p.id)
	return p.settle(p.client.retry(ctx, operation, p.timeout/2, func(ctx context.Context) error {
		now, err := member()
		if err != nil {
			return fmt.Errorf("%w: %w", errPermanent, err)
		}
		return p.commitOffset(ctx, now, partition, committed)
	}))
}

func (p *Producer) addOffsets(ctx context.Context, group string) error {
	p.open = true
	return p.settle(p.client.retry(ctx, "add offsets to the transaction "+p.id, p.client.config.Patience, func(ctx context.Context) error {
		response, err := p.client.kafka.AddOffsetsToTxn(ctx, &kafka.AddOffsetsToTxnRequest{
			TransactionalID: p.id, ProducerID: int(p.producerID), ProducerEpoch: int(p.epoch), GroupID: group,
		})
		if err != nil {
			return err
		}
		return response.Error
	}))
}

func (p *Producer) commitOffset(ctx context.Context, member Member, partition Partition, committed Committed) error {
	message, err := p.client.transport.RoundTrip(ctx, p.client.kafka.Addr, &txnoffsetcommit.Request{
		TransactionalID: p.id, GroupID: member.Group, ProducerID: p.producerID, ProducerEpoch: p.epoch,
		GenerationID: int32(member.Generation), MemberID: member.ID, GroupInstanceID: member.Instance,
		Topics: []txnoffsetcommit.RequestTopic{{Name: partition.Topic, Partitions: []txnoffsetcommit.RequestPartition{{
			Partition: int32(partition.ID), CommittedOffset: committed.Offset, CommittedLeaderEpoch: -1, CommittedMetadata: committed.Metadata,
		}}}},
	})
	if err != nil {
		return err
	}
	response, ok := message.(*txnoffsetcommit.Response)
	if !ok || len(response.Topics) != 1 || len(response.Topics[0].Partitions) != 1 {
		return errMalformed
	}
	switch code := kafka.Error(response.Topics[0].Partitions[0].ErrorCode); code {
	case 0:
		return nil
	case kafka.IllegalGeneration, kafka.UnknownMemberId, kafka.RebalanceInProgress:
		return &staleMember{code} // the source may know more in a moment
	default:
		return code
	}
}

// A staleMember is what a group answers a member of a generation that is over. It is no kafka.Error, so that the call
// is repeated with what the source knows by then.
type staleMember struct{ code kafka.Error }

func (s *staleMember) Error() string { return s.code.Error() }

// End commits or aborts the transaction. Nothing may be on its way when it is committed, and nothing is: calls wait
// for their answers.
func (p *Producer) End(ctx context.Context, commit bool) error {
	if p.doubt {
		return ErrDoubt
	}
	operation := "abort the transaction " + p.id
	if commit {
		operation = "commit the transaction " + p.id
	}
	err := p.client.retry(ctx, operation, p.client.config.Patience, func(ctx context.Context) error {
		response, err := p.client.kafka.EndTxn(ctx, &kafka.EndTxnRequest{
			TransactionalID: p.id, ProducerID: int(p.producerID), ProducerEpoch: int(p.epoch), Committed: commit,
		})
		if err != nil {
			return err
		}
		if errors.Is(response.Error, kafka.Unknown) {
			return kafka.ProducerFenced // what brokers answer while another producer takes over
		}
		return response.Error
	})
	if err != nil {
		p.doubt = true // fenced after an attempt that was not answered: it may have been committed
		return err
	}
	p.open, p.added = false, map[Partition]bool{}
	return nil
}

// IsStaleMember says whether an offset was not taken because the group has another generation by now.
func IsStaleMember(err error) bool {
	var stale *staleMember
	return errors.As(err, &stale)
}
