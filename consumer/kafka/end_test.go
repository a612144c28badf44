package kafka

import (
	"context"
	"errors"
	"io"
	"testing"
	"time"

	"github.com/sluice-mt/sluice/consumer"
	"github.com/sluice-mt/sluice/internal/job"
	"github.com/sluice-mt/sluice/internal/kafkatest"
)

// toTheEnd reads every lane that a source gives to its end and commits it, and returns how many records there were.
func toTheEnd(t *testing.T, p *process) (records int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(kafkatest.Context(t), 60*time.Second)
	defer cancel()
	for {
		lane, err := p.Next(ctx)
		if errors.Is(err, consumer.ErrEndOfInput) {
			return records
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := lane.Start(ctx, job.Position{}); err != nil {
			t.Fatal(err)
		}
		for {
			batch, err := lane.Read(ctx)
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			records += len(batch)
			if err := lane.Commit(ctx, batch[len(batch)-1].End); err != nil {
				t.Fatal(err)
			}
		}
		if err := lane.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// A member that dies keeps its partitions until its session ends. Whoever stops at the end waits for that, and takes them over:
// otherwise they would be nobody's.
func TestStopAtEndWaitsForPartitionsOfTheDead(t *testing.T) {
	cluster := kafkatest.StartFake(t)
	topic := newName("in")
	cluster.CreateTopic(t, topic, 4)
	for partition := range 4 {
		cluster.Write(t, kafkatest.Numbers(topic, partition, 0, 10)...)
	}
	// Aborted records behind the last one that counts must not be waited for.
	cluster.WriteTransaction(t, topic, false, kafkatest.Texts(topic, 1, "aborted")...)
	config := Config{Topics: []string{topic}, Group: newName("group"), StopAtEnd: true, CommitOffsets: true, Rebalance: 6 * time.Second}

	dead := config
	dead.Instance = "dead" // a static member does not tell the group that it leaves
	first := opened(t, cluster, dead)
	first.next(t, job.Position{})
	second := opened(t, cluster, config)
	for deadline := time.Now().Add(20 * time.Second); len(first.held()[topic]) != 2; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the group was not divided")
		}
	}
	if err := first.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	if n := toTheEnd(t, second); n != 40 {
		t.Errorf("%d records of 40", n)
	}
	// Nothing is left for another.
	if n := toTheEnd(t, opened(t, cluster, config)); n != 0 {
		t.Errorf("%d records were read again", n)
	}
}
