package kafkatest

import (
	"context"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Brokers that refuse for a while what a test asks for itself do not make the test fail.
func TestAskedAgain(t *testing.T) {
	t.Parallel()
	cluster := StartFake(t)
	cluster.CreateTopic(t, "asked", 1)
	cluster.Write(t, Texts("asked", 0, "a", "b")...)
	read(t, cluster, "group", "asked", 2)
	passing := []*kerr.Error{kerr.NotCoordinator, kerr.CoordinatorLoadInProgress, kerr.ConcurrentTransactions}
	for _, whole := range []bool{false, true} {
		for _, refusal := range passing {
			cluster.Fake.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.OffsetFetch}, Err: refusal, Count: 2, TopLevel: whole})
			if offset := cluster.GroupOffset(t, "group", "asked", 0); offset != 2 {
				t.Errorf("after %v, whole answer %v, the group is at %d", refusal, whole, offset)
			}
		}
	}
	cluster.Fake.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.ListOffsets}, Err: kerr.NotLeaderForPartition, Count: 2})
	if end := cluster.End(t, "asked", 0); end != 2 {
		t.Errorf("the topic ends at %d", end)
	}
	if offset := cluster.GroupOffset(t, "nobody", "asked", 0); offset != -1 {
		t.Errorf("a group that never was is at %d", offset)
	}
}

// read consumes records of a topic as a member of a group, and commits that.
func read(t *testing.T, cluster *Cluster, group, topic string, records int) {
	t.Helper()
	cluster.do(t, func(ctx context.Context, client *kgo.Client) {
		for read := 0; read < records; {
			fetches := client.PollRecords(ctx, records-read)
			if err := fetches.Err(); err != nil {
				t.Fatal(err)
			}
			read += fetches.NumRecords()
		}
		if err := client.CommitUncommittedOffsets(ctx); err != nil {
			t.Fatal(err)
		}
	}, kgo.ConsumerGroup(group), kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.DisableAutoCommit())
}
