package kafka_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/sluice-mt/sluice/internal/kafkaclient"
	"github.com/sluice-mt/sluice/internal/kafkatest"
)

func TestRealKafka(t *testing.T) {
	if testing.Short() {
		t.Skip("starts Kafka")
	}
	brokers := kafkatest.StartReal(t, 1)
	t.Run("TopicToTopic", func(t *testing.T) { testCodecs(t, brokers.Cluster) })
	t.Run("WorkersComeAndGo", func(t *testing.T) { testComeAndGo(t, brokers.Cluster) })
	t.Run("Compacted", func(t *testing.T) { testCompacted(t, brokers.Cluster) })
	t.Run("TLSAndSASL", func(t *testing.T) {
		allow(t, brokers.Cluster, "sluice", "job-", "group-", "in-", "out-")
		testSecure(t, brokers.Cluster, brokers.Secure, brokers.TLS(t), "sluice", "secret")
	})
	t.Run("NotAllowed", func(t *testing.T) { testNotAllowed(t, brokers) })
}

// allow gives a user what a job needs: its topics, its group and its transactional ids, all by prefix.
func allow(t *testing.T, cluster *kafkatest.Cluster, user, jobs, groups, in, out string) {
	t.Helper()
	request := kmsg.NewPtrCreateACLsRequest()
	for _, rule := range []struct {
		resource  kmsg.ACLResourceType
		prefix    string
		operation kmsg.ACLOperation
	}{
		{kmsg.ACLResourceTypeTopic, in, kmsg.ACLOperationRead},
		{kmsg.ACLResourceTypeTopic, out, kmsg.ACLOperationWrite},
		{kmsg.ACLResourceTypeGroup, groups, kmsg.ACLOperationRead},
		{kmsg.ACLResourceTypeTransactionalId, jobs, kmsg.ACLOperationWrite},
	} {
		creation := kmsg.NewCreateACLsRequestCreation()
		creation.ResourceType, creation.ResourceName, creation.ResourcePatternType = rule.resource, rule.prefix, kmsg.ACLResourcePatternTypePrefixed
		creation.Principal, creation.Host = "User:"+user, "*"
		creation.Operation, creation.PermissionType = rule.operation, kmsg.ACLPermissionTypeAllow
		request.Creations = append(request.Creations, creation)
	}
	for _, result := range cluster.Request(t, request).(*kmsg.CreateACLsResponse).Results {
		if err := kerr.ErrorForCode(result.ErrorCode); err != nil {
			t.Fatal(err)
		}
	}
	time.Sleep(200 * time.Millisecond) // brokers hear of it from the controller
}

// Someone who is known but allowed nothing is told so, and at once.
func testNotAllowed(t *testing.T, brokers *kafkatest.Real) {
	s := newSetup(t, brokers.Cluster, 1)
	s.brokers = brokers.Secure
	s.client.TLS = brokers.TLS(t)
	s.client.SASL = kafkaclient.SASL{Mechanism: "PLAIN", User: "nobody", Password: "secret"}
	begin := time.Now()
	err := s.run(t)
	if err == nil || !strings.Contains(err.Error(), "Authorization Failed") || time.Since(begin) > 20*time.Second {
		t.Errorf("after %v: %v", time.Since(begin), err)
	}
}

func testCompacted(t *testing.T, cluster *kafkatest.Cluster) {
	s := newSetup(t, cluster, 1)
	s.source.Topics = []string{newName("compacted")}
	cluster.CreateTopic(t, s.in(), 1, "cleanup.policy", "compact", "segment.ms", "50", "min.cleanable.dirty.ratio", "0.01", "max.compaction.lag.ms", "50", "delete.retention.ms", "0")
	const keys, rounds = 5, 20
	written := 0
	for begin := time.Now(); ; time.Sleep(60 * time.Millisecond) { // until the cleaner has been there
		var records []*kgo.Record
		for key := range keys {
			records = append(records, &kgo.Record{Topic: s.in(), Key: fmt.Append(nil, key), Value: fmt.Appendf(nil, "%d:%d", key, written/keys)})
		}
		cluster.Write(t, records...)
		written += keys
		if written >= keys*rounds && len(cluster.Committed(t, s.in(), 0)) < written/2 {
			break
		}
		if time.Since(begin) > 40*time.Second {
			t.Skip("the log cleaner takes its time")
		}
	}
	if err := s.run(t); err != nil {
		t.Fatal(err)
	}
	last := map[string]string{}
	out := cluster.Committed(t, s.sink.Topic, 0)
	for _, record := range out {
		last[string(record.Key)] = string(record.Value)
	}
	for key := range keys {
		if want := fmt.Sprintf("T%d:%d", key, written/keys-1); last[fmt.Sprint(key)] != want {
			t.Errorf("key %d is %s, want %s", key, last[fmt.Sprint(key)], want)
		}
	}
	t.Logf("%d of %d records were left", len(out), written)
}

// Workers and brokers are killed and stand still, and the output is every record once and in order.
func TestChaosOfRealKafka(t *testing.T) {
	if testing.Short() {
		t.Skip("starts Kafka")
	}
	brokers := kafkatest.StartReal(t, 3)
	c := &chaos{setup: newSetup(t, brokers.Cluster, chaosPartitions), cluster: brokers.Cluster, random: rand.New(rand.NewPCG(1, 1)), counts: map[string]int{}}
	c.prepare(t, 3000)
	for begin := time.Now(); time.Since(begin) < 40*time.Second; {
		time.Sleep(time.Duration(300+c.random.IntN(700)) * time.Millisecond)
		if c.random.IntN(8) > 0 {
			c.toWorkers(t, c.random.IntN(3))
			continue
		}
		node := 1 + c.random.IntN(3)
		if c.random.IntN(3) == 0 {
			c.counts["brokers stopped"]++
			brokers.Kill(t, node, "STOP")
			time.Sleep(4 * time.Second) // longer than the controller waits for it
			brokers.Kill(t, node, "CONT")
		} else {
			c.counts["brokers killed"]++
			brokers.Kill(t, node, "KILL")
			brokers.Up(t, node)
		}
	}
	c.settle(t)
}
