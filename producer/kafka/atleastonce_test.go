package kafka_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/sluice-mt/sluice/internal/job"
	"github.com/sluice-mt/sluice/internal/kafkaclient"
	"github.com/sluice-mt/sluice/internal/kafkatest"
	"github.com/sluice-mt/sluice/producer"
	producerkafka "github.com/sluice-mt/sluice/producer/kafka"
)

func atLeastOnce(s *setup) {
	s.sink.Delivery = producerkafka.AtLeastOnce
	s.source.CommitOffsets = true
}

func TestAtLeastOnce(t *testing.T) {
	cluster := kafkatest.StartFake(t)
	s := newSetup(t, cluster, 2)
	atLeastOnce(s)
	for p := range 2 {
		cluster.Write(t, kafkatest.Numbers(s.in(), p, 0, 1000)...)
	}
	if err := s.run(t); err != nil {
		t.Fatal(err)
	}
	s.oracle(t, cluster, 2, 1000)
	if offsets := committedOffsets(t, cluster, s.source.Group, s.in(), 2); offsets[0] != 1000 || offsets[1] != 1000 {
		t.Errorf("the group is at %v", offsets)
	}
}

// What is written but not committed in the group is found at the end of the output.
func TestAtLeastOnceFindsWhatIsThere(t *testing.T) {
	for name, partitioning := range map[string]producerkafka.Partitioning{"SamePartition": producerkafka.SamePartition, "ByKey": producerkafka.ByKey} {
		t.Run(name, func(t *testing.T) {
			counts := writtenTwice(t, partitioning, func(*setup) {})
			if len(counts) != 2000 {
				t.Errorf("%d records", len(counts))
			}
			for value, n := range counts {
				if n != 1 {
					t.Errorf("%s is there %d times", value, n)
				}
			}
		})
	}
}

// Another job does not take it for its own. That duplicates are seen then shows that they would be.
func TestDuplicatesAreSeen(t *testing.T) {
	counts := writtenTwice(t, producerkafka.SamePartition, func(s *setup) { s.sink.Job = newName("job") })
	for value, n := range counts {
		if n != 2 {
			t.Errorf("%s is there %d times", value, n)
		}
	}
}

// writtenTwice runs a job whose offsets are not committed, and then another one, and counts what is written.
func writtenTwice(t *testing.T, partitioning producerkafka.Partitioning, change func(*setup)) map[string]int {
	cluster := kafkatest.StartFake(t)
	s := newSetup(t, cluster, 2)
	atLeastOnce(s)
	s.sink.Partitioning = partitioning
	s.pipeline.Grace = 100 * time.Millisecond
	s.pipeline.CommitEvery = time.Second // the first commit does not end, so everything has to be there by then
	s.source.Session = time.Second
	for p := range 2 {
		records := kafkatest.Numbers(s.in(), p, 0, 1000)
		for _, record := range records {
			record.Key = record.Value
		}
		cluster.Write(t, records...)
	}
	block := cluster.Fake.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.OffsetCommit}, Err: kerr.CoordinatorNotAvailable, Count: -1})
	w := s.start(t)
	for begin := time.Now(); cluster.End(t, s.sink.Topic, 0)+cluster.End(t, s.sink.Topic, 1) < 2000; time.Sleep(10 * time.Millisecond) {
		if time.Since(begin) > 20*time.Second {
			t.Fatal("nothing is written")
		}
	}
	w.kill()
	w.end(t)
	block.Remove()
	if offsets := committedOffsets(t, cluster, s.source.Group, s.in(), 2); offsets[0] != -1 || offsets[1] != -1 {
		t.Fatalf("the group is at %v", offsets)
	}
	change(s)
	if err := s.run(t); err != nil {
		t.Fatal(err)
	}
	counts := map[string]int{}
	for p := range 2 {
		for _, record := range cluster.Committed(t, s.sink.Topic, p) {
			counts[string(record.Value)]++
		}
	}
	return counts
}

// gated is a translator that holds everything back until it is opened.
type gated struct {
	mutex sync.Mutex
	open  bool
	held  []job.Segment
}

func (g *gated) Submit(segment job.Segment) {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	if g.open {
		segment.Done(translated(segment.Text))
		return
	}
	g.held = append(g.held, segment)
}

func (g *gated) Flush() {}

func (g *gated) release() {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	g.open = true
	for _, segment := range g.held {
		segment.Done(translated(segment.Text))
	}
	g.held = nil
}

// zombie runs a job whose first worker is expelled from the group without knowing it, and writes what it has once
// another worker has done the same work.
func zombie(t *testing.T, change func(*setup)) (s *setup, cluster *kafkatest.Cluster) {
	cluster = kafkatest.StartFake(t)
	s = newSetup(t, cluster, 1)
	s.source.Session = time.Second
	change(s)
	cluster.Write(t, kafkatest.Numbers(s.in(), 0, 0, 100)...)
	gate := &gated{}
	first := *s
	first.translator = gate
	old := first.start(t)
	for begin := time.Now(); ; time.Sleep(5 * time.Millisecond) {
		gate.mutex.Lock()
		held := len(gate.held)
		gate.mutex.Unlock()
		if held == 100 {
			break
		}
		if time.Since(begin) > 20*time.Second {
			t.Fatalf("the first worker has %d records", held)
		}
	}
	old.sourceNet.stalled.Store(true)
	next := s.start(t)
	if !s.awaitOffsets(t, cluster, 1, 100, 20*time.Second) {
		t.Fatal("the second worker does not take over")
	}
	if s.sink.Delivery == producerkafka.AtLeastOnce { // no broker stops the first one: its own clock has to
		for begin := time.Now(); ; time.Sleep(5 * time.Millisecond) {
			if _, _, has := old.source.Member(s.in() + "/0"); !has {
				break
			}
			if time.Since(begin) > 20*time.Second {
				t.Fatal("the first worker does not notice that its session has ended")
			}
		}
	}
	gate.release()
	time.Sleep(500 * time.Millisecond)
	old.sourceNet.stalled.Store(false)
	next.end(t)
	old.end(t)
	return s, cluster
}

func TestAZombieGivesUp(t *testing.T) {
	for name, change := range map[string]func(*setup){"ExactlyOnce": func(*setup) {}, "AtLeastOnce": atLeastOnce} {
		t.Run(name, func(t *testing.T) {
			s, cluster := zombie(t, change)
			s.oracle(t, cluster, 1, 100)
			if offsets := committedOffsets(t, cluster, s.source.Group, s.in(), 1); offsets[0] != 100 {
				t.Errorf("the group is at %v", offsets)
			}
		})
	}
}

// stale is a membership that knows only what was once.
type stale struct {
	member    kafkaclient.Member
	partition kafkaclient.Partition
}

func (s stale) Member(string) (kafkaclient.Member, kafkaclient.Partition, bool) {
	return s.member, s.partition, true
}

// One who does not even notice that its session has ended is stopped by the broker: by the generation of the group
// if nobody has taken the lane over yet, by the transactional id if someone has.
func TestTheBrokerStopsWhoDoesNotKnow(t *testing.T) {
	for _, taken := range []bool{false, true} {
		t.Run(fmt.Sprint("TakenOver=", taken), func(t *testing.T) {
			cluster := kafkatest.StartFake(t)
			s := newSetup(t, cluster, 1)
			cluster.Write(t, kafkatest.Numbers(s.in(), 0, 0, 1)...)
			w := s.start(t)
			if !s.awaitOffsets(t, cluster, 1, 1, 20*time.Second) {
				t.Fatal("nothing is committed")
			}
			ctx := kafkatest.Context(t)
			old, partition, ok := w.source.Member(s.in() + "/0")
			if !ok {
				t.Fatal("the lane is gone")
			}
			w.end(t)
			sink := s.sink
			sink.TransactionTimeout = 2 * time.Second
			sink.Membership = stale{old, partition}
			sink.Client = s.connect(t, nil)
			t.Cleanup(sink.Client.Close)
			zombie := producerkafka.New(sink)
			if err := zombie.Connect(ctx); err != nil {
				t.Fatal(err)
			}
			writer, position, err := zombie.Open(ctx, s.in()+"/0")
			if err != nil || position != (job.Position{Record: 1, Offset: 1}) {
				t.Fatalf("%+v, %v", position, err)
			}
			cluster.Write(t, kafkatest.Numbers(s.in(), 0, 1, 2)...)
			next := s.start(t) // the group has another generation from now on
			if taken && !s.awaitOffsets(t, cluster, 1, 2, 20*time.Second) {
				t.Fatal("the lane is not taken over")
			}
			if !taken {
				next.source.Leave(ctx)
			}
			run := []job.Output{{
				Record: job.Record{Seq: 1, Text: "x", End: job.Position{Record: 2, Offset: 2}},
				Result: translated("zombie"),
			}}
			err = writer.Write(ctx, run)
			if err == nil {
				_, err = writer.Commit(ctx)
			}
			if !errors.Is(err, producer.ErrFenced) {
				t.Errorf("%v", err)
			}
			if err := writer.Close(); err != nil {
				t.Error(err)
			}
			next.end(t)
			for _, record := range cluster.Committed(t, s.sink.Topic, 0) {
				if string(record.Value) == "Tzombie" {
					t.Error("what the zombie has written can be seen")
				}
			}
		})
	}
}
