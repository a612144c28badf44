package kafka_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	consumerkafka "github.com/sluice-mt/sluice/consumer/kafka"
	"github.com/sluice-mt/sluice/internal/job"
	"github.com/sluice-mt/sluice/internal/kafkaclient"
	"github.com/sluice-mt/sluice/internal/kafkatest"
	"github.com/sluice-mt/sluice/internal/recordio"
	"github.com/sluice-mt/sluice/pipeline"
	producerkafka "github.com/sluice-mt/sluice/producer/kafka"
)

// names gives every topic and group of a test a name of its own.
var names atomic.Int64

func newName(kind string) string { return fmt.Sprintf("%s-%d", kind, names.Add(1)) }

// echo is a translator that costs nothing: it puts a T before the text.
type echo struct{}

func (echo) Submit(segment job.Segment) { segment.Done(translated(segment.Text)) }
func (echo) Flush()                     {}

func translated(text string) job.Result {
	return job.Result{Hypotheses: []job.Hypothesis{{Text: "T" + text}}}
}

// restless is a translator that takes its time, and finishes in any order.
type restless struct{ most time.Duration }

func (r restless) Submit(segment job.Segment) {
	time.AfterFunc(rand.N(r.most), func() { segment.Done(translated(segment.Text)) })
}
func (restless) Flush() {}

// A network opens connections that can be cut, all at once, and held up.
type network struct {
	mutex   sync.Mutex
	dead    bool
	conns   map[net.Conn]bool
	stalled atomic.Bool
}

var errDead = errors.New("the process is dead")

func (n *network) dial(ctx context.Context, kind, address string) (net.Conn, error) {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	if n.dead {
		return nil, errDead
	}
	conn, err := (&net.Dialer{}).DialContext(ctx, kind, address)
	if err != nil {
		return nil, err
	}
	if n.conns == nil {
		n.conns = map[net.Conn]bool{}
	}
	n.conns[conn] = true
	return stalling{conn, n}, nil
}

// kill cuts everything, for good: nothing of the process reaches a broker any more.
func (n *network) kill() {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	n.dead = true
	for conn := range n.conns {
		conn.Close()
	}
}

// stalling is a connection on which writes wait while the network is held up.
type stalling struct {
	net.Conn
	network *network
}

func (s stalling) Write(data []byte) (int, error) {
	for s.network.stalled.Load() {
		time.Sleep(5 * time.Millisecond)
	}
	return s.Conn.Write(data)
}

// A worker is what a process does that runs a job from topic to topic.
type worker struct {
	sourceNet, sinkNet network
	source             *consumerkafka.Source
	stop               context.CancelFunc
	done               chan error
}

// A setup is what all workers of a job have in common.
type setup struct {
	brokers    []string
	source     consumerkafka.Config
	sink       producerkafka.Config
	pipeline   pipeline.Config
	translator pipeline.Translator
	client     kafkaclient.Config
	step       func(w *worker, name string) // see Sink.OnStep; may be nil
}

func newSetup(t testing.TB, cluster *kafkatest.Cluster, partitions int) *setup {
	t.Helper()
	codec, err := recordio.NewValue(recordio.ValueOptions{})
	if err != nil {
		t.Fatal(err)
	}
	s := &setup{
		brokers: cluster.Brokers,
		source: consumerkafka.Config{
			Topics: []string{newName("in")}, Group: newName("group"), Values: codec,
			Session: 6 * time.Second, Rebalance: 5 * time.Second,
		},
		sink:       producerkafka.Config{Job: newName("job"), Topic: newName("out"), Encoder: codec, TransactionTimeout: 20 * time.Second},
		pipeline:   pipeline.Config{CommitEvery: 50 * time.Millisecond, Shared: true, Grace: 5 * time.Second},
		translator: echo{},
		client:     kafkaclient.Config{RequestTimeout: 3 * time.Second},
	}
	cluster.CreateTopic(t, s.in(), partitions)
	cluster.CreateTopic(t, s.sink.Topic, partitions)
	return s
}

func (s *setup) in() string { return s.source.Topics[0] }

// start starts a worker. Source and sink have connections of their own, so that one can be held up without the other.
func (s *setup) start(t testing.TB) *worker {
	t.Helper()
	w := &worker{done: make(chan error, 1)}
	ctx, stop := context.WithCancel(context.Background())
	w.stop = stop
	source, sink := s.source, s.sink
	source.Client, sink.Client = s.connect(t, w.sourceNet.dial), s.connect(t, w.sinkNet.dial)
	w.source = consumerkafka.New(source)
	sink.Membership = w.source
	made := producerkafka.New(sink)
	if step := s.step; step != nil { // the setup may change while the worker runs
		made.OnStep(func(name string) { step(w, name) })
	}
	running := pipeline.New(s.pipeline, w.source, made, s.translator)
	go func() {
		w.done <- running.Run(ctx)
		source.Client.Close()
		sink.Client.Close()
	}()
	return w
}

func (s *setup) connect(t testing.TB, dial func(context.Context, string, string) (net.Conn, error)) *kafkaclient.Client {
	t.Helper()
	config := s.client
	config.Brokers, config.Dial = s.brokers, dial
	config.Topics = append([]string{s.sink.Topic}, s.source.Topics...)
	for _, topic := range []string{s.sink.DeadLetters, s.sink.Markers} {
		if topic != "" {
			config.Topics = append(config.Topics, topic)
		}
	}
	client, err := kafkaclient.New(config)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// kill ends a worker as SIGKILL would: from now on no broker hears of it.
func (w *worker) kill() {
	w.sourceNet.kill()
	w.sinkNet.kill()
	w.stop()
}

// end stops a worker and waits for it.
func (w *worker) end(t testing.TB) error {
	t.Helper()
	w.stop()
	select {
	case err := <-w.done:
		return err
	case <-time.After(time.Minute):
		t.Error("a worker does not stop")
		return nil
	}
}

// run runs a job to the present end of its input.
func (s *setup) run(t testing.TB) error {
	t.Helper()
	bounded := *s
	bounded.source.StopAtEnd = true
	w := bounded.start(t)
	defer w.stop()
	select {
	case err := <-w.done:
		return err
	case <-time.After(60 * time.Second):
		t.Fatal("the job does not end")
		return nil
	}
}

// awaitOffsets waits until the group has committed an offset in every partition that is at least so large.
func (s *setup) awaitOffsets(t testing.TB, cluster *kafkatest.Cluster, partitions int, least int64, patience time.Duration) bool {
	t.Helper()
	for begin := time.Now(); ; {
		offsets := committedOffsets(t, cluster, s.source.Group, s.in(), partitions)
		done := true
		for _, offset := range offsets {
			done = done && offset >= least
		}
		if done {
			return true
		}
		if time.Since(begin) > patience {
			t.Logf("the group is at %v, and not at %d", offsets, least)
			return false
		}
		time.Sleep(100 * time.Millisecond)
	}
}

func committedOffsets(t testing.TB, cluster *kafkatest.Cluster, group, topic string, partitions int) []int64 {
	t.Helper()
	offsets := make([]int64, partitions)
	for p := range offsets {
		offsets[p] = cluster.GroupOffset(t, group, topic, p)
	}
	return offsets
}

// oracle compares the committed output of every partition with what it must be: the translation of every record, once
// and in order.
func (s *setup) oracle(t testing.TB, cluster *kafkatest.Cluster, partitions, records int) {
	t.Helper()
	for p := range partitions {
		missing, repeated, misplaced := s.compare(t, cluster, p, records)
		if missing+repeated+misplaced > 0 {
			t.Errorf("partition %d: %d records are missing, %d are repeated, %d are out of order", p, missing, repeated, misplaced)
		}
	}
}

func (s *setup) compare(t testing.TB, cluster *kafkatest.Cluster, partition, records int) (missing, repeated, misplaced int) {
	t.Helper()
	seen := make([]int, records)
	last := -1
	for _, record := range cluster.Committed(t, s.sink.Topic, partition) {
		var p, i int
		if _, err := fmt.Sscanf(string(record.Value), "T%d:%d", &p, &i); err != nil || p != partition || i < 0 || i >= records {
			t.Fatalf("partition %d has the record %q", partition, record.Value)
		}
		if i < last {
			misplaced++
		}
		last = i
		seen[i]++
	}
	for _, n := range seen {
		if n == 0 {
			missing++
		} else {
			repeated += n - 1
		}
	}
	return missing, repeated, misplaced
}
