package kafkaclient

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/fetch"
)

// A FetchRequest asks for batches of one partition.
type FetchRequest struct {
	Partition Partition
	Offset    int64         // of the first record that is wanted; the first batch may begin before it
	MaxBytes  int           // how much the broker sends; a first batch that is larger is sent all the same
	Limit     int           // the longest answer that is read, in bytes
	MaxWait   time.Duration // how long the broker waits for a first record
}

// A FetchResult is what a broker has of one partition.
type FetchResult struct {
	HighWatermark int64 // the offset behind the last record that is safe
	LastStable    int64 // the offset before which every transaction is decided
	LogStart      int64 // the first offset that there is
	Batches       []byte
	aborted       []aborted
}

// aborted tells of a transaction that was aborted.
type aborted struct{ producerID, firstOffset int64 }

// Fetch asks once for committed records, without trying again: the caller knows better how long it can wait. An
// answer without batches is no error.
func (c *Client) Fetch(ctx context.Context, request FetchRequest) (FetchResult, error) {
	ctx, cancel := context.WithTimeout(ctx, c.config.RequestTimeout+request.MaxWait)
	defer cancel()
	message, err := c.transport.RoundTrip(ctx, c.kafka.Addr, &fetchExchange{request: request, clientID: c.config.ClientID})
	if err != nil {
		return FetchResult{}, err
	}
	answer, ok := message.(*fetchAnswer)
	if !ok {
		return FetchResult{}, errMalformed
	}
	if answer.code != 0 {
		return FetchResult{}, kafka.Error(answer.code)
	}
	return answer.result, nil
}

// Patience says how long a fetch that failed in this way is to be repeated, 0 if it is not to be.
func (c *Client) Patience(err error) time.Duration {
	switch {
	case !isTransient(err):
		return 0
	case isMissing(err):
		return min(c.config.Patience, c.config.TopicPatience)
	default:
		return c.config.Patience
	}
}

// Failed says what failed, as the other calls do.
func (c *Client) Failed(operation string, err error) error { return c.failed(operation, err) }

// A fetchExchange is a fetch whose answer is read here: kafka-go would inflate all of it at once, without a bound,
// and does not tell where a batch that compaction has emptied ends.
type fetchExchange struct {
	request  FetchRequest
	clientID string
	version  int16
}

func (f *fetchExchange) ApiKey() protocol.ApiKey { return protocol.Fetch }

// Prepare is told the version that was agreed with the broker.
func (f *fetchExchange) Prepare(version int16) { f.version = version }

// Required makes the transport leave the exchange to RawExchange.
func (f *fetchExchange) Required(map[protocol.ApiKey]int16) bool { return true }

// Broker returns the leader of the partition.
func (f *fetchExchange) Broker(cluster protocol.Cluster) (protocol.Broker, error) {
	return f.message().Broker(cluster)
}

func (f *fetchExchange) message() *fetch.Request {
	r := &f.request
	return &fetch.Request{
		ReplicaID: -1, MaxWaitTime: int32(r.MaxWait.Milliseconds()), MinBytes: 1, MaxBytes: int32(r.MaxBytes),
		IsolationLevel: 1, SessionEpoch: -1,
		Topics: []fetch.RequestTopic{{Topic: r.Partition.Topic, Partitions: []fetch.RequestPartition{{
			Partition: int32(r.Partition.ID), CurrentLeaderEpoch: -1, FetchOffset: r.Offset, LogStartOffset: -1,
			PartitionMaxBytes: int32(r.MaxBytes),
		}}}},
	}
}

// leastFetchVersion is the first with transactions.
const leastFetchVersion = 4

// RawExchange sends the request and reads the answer.
func (f *fetchExchange) RawExchange(connection io.ReadWriter) (protocol.Message, error) {
	if f.version < leastFetchVersion {
		return nil, fmt.Errorf("the broker is older than Kafka 0.11: %w", errPermanent)
	}
	data, err := exchange(connection, f.version, f.clientID, f.message(), f.request.Limit)
	if err != nil {
		return nil, err
	}
	return parseFetch(data, f.version, f.request.Partition)
}

// A fetchAnswer is a broker's answer about one partition.
type fetchAnswer struct {
	code   int16
	result FetchResult
}

func (*fetchAnswer) ApiKey() protocol.ApiKey { return protocol.Fetch }

// parseFetch reads the versions 4 to 11 of a fetch response
// (https://kafka.apache.org/protocol.html#The_Messages_Fetch).
func parseFetch(data []byte, version int16, wanted Partition) (*fetchAnswer, error) {
	p := parser{data: data}
	p.int32() // how long the broker throttled the request
	if version >= 7 {
		if code := p.int16(); code != 0 {
			return &fetchAnswer{code: code}, nil
		}
		p.int32() // session
	}
	if topics := p.int32(); topics != 1 {
		return nil, errMalformed
	}
	topic := string(p.bytes(int64(p.int16())))
	if partitions := p.int32(); partitions != 1 {
		return nil, errMalformed
	}
	id := p.int32()
	answer := &fetchAnswer{code: p.int16()}
	answer.result.HighWatermark, answer.result.LastStable = p.int64(), p.int64()
	if version >= 5 {
		answer.result.LogStart = p.int64()
	}
	for range p.count(16) {
		answer.result.aborted = append(answer.result.aborted, aborted{p.int64(), p.int64()})
	}
	if version >= 11 {
		p.int32() // the replica that the broker would rather have asked
	}
	if n := p.int32(); n > 0 {
		answer.result.Batches = p.bytes(int64(n))
	}
	if p.bad || topic != wanted.Topic || int(id) != wanted.ID {
		return nil, errMalformed
	}
	return answer, nil
}

// A Filter leaves out what does not count: markers, and batches of transactions that were aborted. It is for the
// batches of one answer, which it is shown in order.
type Filter struct {
	aborted []aborted
	active  map[int64]bool // producers whose transaction here is one that was aborted
}

// Filter returns the Filter for the batches of an answer.
func (r *FetchResult) Filter() *Filter {
	list := slices.Clone(r.aborted)
	slices.SortFunc(list, func(a, b aborted) int { return cmp.Compare(a.firstOffset, b.firstOffset) })
	return &Filter{aborted: list, active: map[int64]bool{}}
}

// Counts says whether the records of a batch count.
func (f *Filter) Counts(batch *Batch) (bool, error) {
	for len(f.aborted) > 0 && f.aborted[0].firstOffset <= batch.LastOffset {
		f.active[f.aborted[0].producerID] = true
		f.aborted = f.aborted[1:]
	}
	if batch.IsControl() {
		abort, err := batch.EndsInAbort()
		if abort {
			delete(f.active, batch.ProducerID)
		}
		return false, err
	}
	return !batch.IsTransactional() || !f.active[batch.ProducerID], nil
}
