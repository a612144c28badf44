// Package kafkatest gives tests brokers to talk to, and reads and writes topics with another client than the one that
// is tested.
package kafkatest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// A Cluster is brokers to prepare and to inspect. Every call connects anew, so that nothing of it remains when a test
// counts its goroutines.
type Cluster struct {
	Brokers []string
	Fake    *kfake.Cluster // nil where the brokers are in another process
	options []kgo.Opt
}

// fakeOptions are what all fake clusters have in common.
func fakeOptions(more ...kfake.Opt) []kfake.Opt {
	return append([]kfake.Opt{kfake.NumBrokers(1), kfake.GroupMinSessionTimeout(time.Second)}, more...)
}

// StartFake starts fake brokers inside the test's process, for tests that play tricks on them. They are stopped when
// the test ends.
func StartFake(t testing.TB, options ...kfake.Opt) *Cluster {
	t.Helper()
	fake, err := kfake.NewCluster(fakeOptions(options...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(fake.Close)
	c := Connect(fake.ListenAddrs())
	c.Fake = fake
	return c
}

// Connect returns the cluster of brokers that run already. Options say how to connect to them.
func Connect(brokers []string, options ...kgo.Opt) *Cluster {
	return &Cluster{Brokers: brokers, options: options}
}

// Context ends after a time that is enough for anything a test does.
func Context(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// do calls f with a client that is closed afterwards.
func (c *Cluster) do(t testing.TB, f func(context.Context, *kgo.Client), more ...kgo.Opt) {
	t.Helper()
	options := []kgo.Opt{
		kgo.SeedBrokers(c.Brokers...), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.UnknownTopicRetries(20),
		kgo.MetadataMinAge(20 * time.Millisecond), kgo.ProducerBatchMaxBytes(16 << 20),
	}
	client, err := kgo.NewClient(append(append(options, c.options...), more...)...)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	f(Context(t), client)
}

// CreateTopic creates a topic. Settings are pairs of name and value.
func (c *Cluster) CreateTopic(t testing.TB, topic string, partitions int, settings ...string) {
	t.Helper()
	request := kmsg.NewPtrCreateTopicsRequest()
	request.TimeoutMillis = 10000
	wanted := kmsg.NewCreateTopicsRequestTopic()
	wanted.Topic, wanted.NumPartitions, wanted.ReplicationFactor = topic, int32(partitions), -1
	for i := 0; i < len(settings); i += 2 {
		setting := kmsg.NewCreateTopicsRequestTopicConfig()
		setting.Name, setting.Value = settings[i], &settings[i+1]
		wanted.Configs = append(wanted.Configs, setting)
	}
	request.Topics = append(request.Topics, wanted)
	c.do(t, func(ctx context.Context, client *kgo.Client) {
		response, err := request.RequestWith(ctx, client)
		if err == nil {
			err = kerr.ErrorForCode(response.Topics[0].ErrorCode)
		}
		if err != nil {
			t.Fatalf("create topic %s: %v", topic, err)
		}
	})
}

// Request sends any request and returns the answer.
func (c *Cluster) Request(t testing.TB, request kmsg.Request) kmsg.Response {
	t.Helper()
	var response kmsg.Response
	c.do(t, func(ctx context.Context, client *kgo.Client) {
		var err error
		if response, err = client.Request(ctx, request); err != nil {
			t.Fatal(err)
		}
	})
	return response
}

// Write writes records and waits until all are there.
func (c *Cluster) Write(t testing.TB, records ...*kgo.Record) {
	t.Helper()
	c.WriteWith(t, nil, records...)
}

// WriteWith writes records as options say.
func (c *Cluster) WriteWith(t testing.TB, options []kgo.Opt, records ...*kgo.Record) {
	t.Helper()
	c.do(t, func(ctx context.Context, client *kgo.Client) {
		if err := client.ProduceSync(ctx, records...).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}, options...)
}

// WriteTransaction writes records in a transaction, which is committed or aborted.
func (c *Cluster) WriteTransaction(t testing.TB, id string, commit bool, records ...*kgo.Record) {
	t.Helper()
	c.do(t, func(ctx context.Context, client *kgo.Client) {
		if err := client.BeginTransaction(); err != nil {
			t.Fatal(err)
		}
		if err := client.ProduceSync(ctx, records...).FirstErr(); err != nil {
			t.Fatal(err)
		}
		if err := client.EndTransaction(ctx, kgo.TransactionEndTry(commit)); err != nil {
			t.Fatal(err)
		}
	}, kgo.TransactionalID(id))
}

// Texts makes a record of each text.
func Texts(topic string, partition int, texts ...string) []*kgo.Record {
	records := make([]*kgo.Record, len(texts))
	for i, text := range texts {
		records[i] = &kgo.Record{Topic: topic, Partition: int32(partition), Value: []byte(text)}
	}
	return records
}

// Numbers makes records of a partition whose values are partition:number.
func Numbers(topic string, partition, from, to int) []*kgo.Record {
	records := make([]*kgo.Record, 0, to-from)
	for i := from; i < to; i++ {
		records = append(records, &kgo.Record{Topic: topic, Partition: int32(partition), Value: fmt.Appendf(nil, "%d:%d", partition, i)})
	}
	return records
}

// Committed returns the committed records of a partition from its beginning to its present end. It waits a while for
// transactions that are being ended: brokers say that one is before readers see it.
func (c *Cluster) Committed(t testing.TB, topic string, partition int) []*kgo.Record {
	t.Helper()
	first, high := c.offset(t, topic, partition, atBeginning, 1), c.offset(t, topic, partition, atEnd, 0)
	end := c.End(t, topic, partition)
	for begin := time.Now(); end < high && time.Since(begin) < 3*time.Second; end = c.End(t, topic, partition) {
		time.Sleep(10 * time.Millisecond)
	}
	var records []*kgo.Record
	if first == end {
		return nil
	}
	start := map[string]map[int32]kgo.Offset{topic: {int32(partition): kgo.NewOffset().AtStart()}}
	c.do(t, func(ctx context.Context, client *kgo.Client) {
		for last := int64(-1); last < end-1; { // the client keeps control records, for the last one may be one
			fetches := client.PollFetches(ctx)
			if err := fetches.Err(); err != nil {
				t.Fatalf("read %s/%d up to %d, at %d: %v", topic, partition, end, last, err)
			}
			fetches.EachRecord(func(record *kgo.Record) {
				last = record.Offset
				if !record.Attrs.IsControl() {
					records = append(records, record)
				}
			})
		}
	}, kgo.ConsumePartitions(start), kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.KeepControlRecords(), kgo.FetchMaxWait(100*time.Millisecond))
	return records
}

// End returns the offset behind the last committed record of a partition.
func (c *Cluster) End(t testing.TB, topic string, partition int) int64 {
	t.Helper()
	return c.offset(t, topic, partition, atEnd, 1)
}

// Where to look in a log.
const (
	atBeginning = -2
	atEnd       = -1
)

// offset looks up an offset; with isolation 1 the end is before every transaction that is not decided.
func (c *Cluster) offset(t testing.TB, topic string, partition int, where int64, isolation int8) int64 {
	t.Helper()
	request := kmsg.NewPtrListOffsetsRequest()
	request.ReplicaID, request.IsolationLevel = -1, isolation
	wanted := kmsg.NewListOffsetsRequestTopic()
	wanted.Topic = topic
	p := kmsg.NewListOffsetsRequestTopicPartition()
	p.Partition, p.Timestamp, p.CurrentLeaderEpoch = int32(partition), where, -1
	wanted.Partitions = append(wanted.Partitions, p)
	request.Topics = append(request.Topics, wanted)
	return c.ask(t, request, func(response kmsg.Response) (int64, int16) {
		answer := response.(*kmsg.ListOffsetsResponse).Topics[0].Partitions[0]
		return answer.Offset, answer.ErrorCode
	})
}

// ask sends a request, and sends it again while the answer is an error that passes: brokers that a test plays tricks on
// give such answers to the test too. The function takes an offset, or the code of an error, out of an answer.
func (c *Cluster) ask(t testing.TB, request kmsg.Request, read func(kmsg.Response) (offset int64, code int16)) int64 {
	t.Helper()
	for begin := time.Now(); ; time.Sleep(20 * time.Millisecond) {
		offset, code := read(c.Request(t, request))
		err := kerr.ErrorForCode(code)
		if err == nil {
			return offset
		}
		passes := kerr.IsRetriable(err) || errors.Is(err, kerr.ConcurrentTransactions)
		if !passes || time.Since(begin) > 30*time.Second {
			t.Fatalf("%s: %v", kmsg.NameForKey(request.Key()), err)
		}
	}
}

// Values returns the values of records as texts.
func Values(records []*kgo.Record) []string {
	texts := make([]string, len(records))
	for i, record := range records {
		texts[i] = string(record.Value)
	}
	return texts
}

// GroupOffset returns what a group has stored for a partition, -1 for nothing.
func (c *Cluster) GroupOffset(t testing.TB, group, topic string, partition int) int64 {
	t.Helper()
	ofTopic := kmsg.NewOffsetFetchRequestTopic()
	ofTopic.Topic, ofTopic.Partitions = topic, []int32{int32(partition)}
	inGroup := kmsg.NewOffsetFetchRequestGroup()
	inGroup.Group = group
	groupTopic := kmsg.NewOffsetFetchRequestGroupTopic()
	groupTopic.Topic, groupTopic.Partitions = ofTopic.Topic, ofTopic.Partitions
	inGroup.Topics = append(inGroup.Topics, groupTopic)
	request := kmsg.NewPtrOffsetFetchRequest() // whose older versions ask for one group and newer ones for several
	request.Group, request.Topics, request.Groups = group, []kmsg.OffsetFetchRequestTopic{ofTopic}, []kmsg.OffsetFetchRequestGroup{inGroup}
	return c.ask(t, request, func(response kmsg.Response) (int64, int16) {
		offset, code := storedOffset(response.(*kmsg.OffsetFetchResponse))
		if code == kerr.GroupIDNotFound.Code {
			return -1, 0 // nobody has ever committed
		}
		return offset, code
	})
}

// storedOffset takes the one offset that was asked for out of an answer. An error stands for the whole answer, for the
// group or for the partition; fake brokers that refuse the whole may also leave out the partition and the error.
func storedOffset(response *kmsg.OffsetFetchResponse) (offset int64, code int16) {
	if response.ErrorCode != 0 {
		return 0, response.ErrorCode
	}
	if len(response.Groups) > 0 {
		group := response.Groups[0]
		if group.ErrorCode != 0 || len(group.Topics) == 0 {
			return 0, cmp.Or(group.ErrorCode, kerr.UnknownTopicOrPartition.Code)
		}
		partition := group.Topics[0].Partitions[0]
		return partition.Offset, partition.ErrorCode
	}
	if len(response.Topics) == 0 {
		return 0, kerr.UnknownTopicOrPartition.Code
	}
	partition := response.Topics[0].Partitions[0]
	return partition.Offset, partition.ErrorCode
}
