package kafka

import (
	"context"
	"errors"
	"io"
	"sync"
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
		records += restOf(t, lane)
	}
}

// restOf reads a lane that was started to its end, commits it and closes it, and returns how many records there were.
func restOf(t *testing.T, lane consumer.Lane) (records int) {
	t.Helper()
	ctx := kafkatest.Context(t)
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
	return records
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

// Members that began at different times have seen different ends of a topic that grows. Each is done by its own, and neither
// waits for ever for what the other has left.
func TestStopAtEndOfATopicThatGrows(t *testing.T) {
	cluster := kafkatest.StartFake(t)
	topic := newName("in")
	cluster.CreateTopic(t, topic, 2)
	grow := func(from, to int) {
		for partition := range 2 {
			cluster.Write(t, kafkatest.Numbers(topic, partition, from, to)...)
		}
	}
	grow(0, 10)
	config := Config{
		Topics: []string{topic}, Group: newName("group"), StopAtEnd: true, CommitOffsets: true,
		Session: time.Second, Rebalance: 2 * time.Second,
	}
	members := []*process{opened(t, cluster, config), opened(t, cluster, config)}
	for deadline := time.Now().Add(20 * time.Second); len(members[0].held()[topic]) != 1 || len(members[1].held()[topic]) != 1; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the group was not divided")
		}
	}
	lanes := make([]consumer.Lane, len(members))
	for i, member := range members {
		lanes[i] = member.next(t, job.Position{})
	}
	grow(10, 15) // behind what both take for the end
	counts := make([]int, len(members))
	var group sync.WaitGroup
	for i, member := range members {
		group.Go(func() {
			counts[i] = restOf(t, lanes[i])
			counts[i] += toTheEnd(t, member)
			if err := member.Close(context.Background()); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	// Whoever left last was given what the other had left, and has another end for it.
	read := counts[0] + counts[1]
	if read < 20 {
		t.Errorf("%v records were read, and at least 20 were there when the members began", counts)
	}
	if n := toTheEnd(t, opened(t, cluster, config)); n != 30-read {
		t.Errorf("%d of 30 records were read, and %d after that", read, n)
	}
}
