package kafka

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/sluice-mt/sluice/consumer"
	"github.com/sluice-mt/sluice/internal/job"
	"github.com/sluice-mt/sluice/internal/kafkatest"
)

// opened is a source that is connected, and closed when the test ends.
func opened(t testing.TB, cluster *kafkatest.Cluster, config Config) *process {
	t.Helper()
	if config.Group == "" {
		config.Group = newName("group")
	}
	p := newProcess(t, cluster.Brokers, 1<<30, config)
	if err := p.Connect(kafkatest.Context(t)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close(context.Background()) })
	return p
}

func (p *process) next(t testing.TB, pos job.Position) consumer.Lane {
	t.Helper()
	ctx := kafkatest.Context(t)
	lane, err := p.Next(ctx)
	if err == nil {
		err = lane.Start(ctx, pos)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { lane.Close() })
	return lane
}

// readSome reads n records.
func readSome(t testing.TB, lane consumer.Lane, n int) []job.Record {
	t.Helper()
	ctx, cancel := context.WithTimeout(kafkatest.Context(t), 20*time.Second)
	defer cancel()
	var records []job.Record
	for len(records) < n {
		batch, err := lane.Read(ctx)
		if err != nil {
			t.Fatalf("after %d of %d records: %v", len(records), n, err)
		}
		records = append(records, batch...)
	}
	return records
}

// all reads to the end.
func all(t testing.TB, cluster *kafkatest.Cluster, config Config) ([]job.Record, error) {
	t.Helper()
	config.StopAtEnd = true
	lane := opened(t, cluster, config).next(t, job.Position{})
	var records []job.Record
	for {
		batch, err := lane.Read(kafkatest.Context(t))
		if err == io.EOF {
			return records, nil
		}
		if err != nil {
			return records, err
		}
		records = append(records, batch...)
	}
}

func texts(records []job.Record) []string {
	list := make([]string, len(records))
	for i := range records {
		list[i] = records[i].Text
	}
	return list
}

func TestAbortedRecordsAreNotRead(t *testing.T) {
	cluster := kafkatest.StartFake(t)
	testAborted(t, cluster)
}

func testAborted(t *testing.T, cluster *kafkatest.Cluster) {
	topic := newName("in")
	cluster.CreateTopic(t, topic, 1)
	cluster.WriteTransaction(t, topic, false, kafkatest.Texts(topic, 0, "aborted 1", "aborted 2")...)
	cluster.Write(t, kafkatest.Texts(topic, 0, "a")...)
	cluster.WriteTransaction(t, topic, true, kafkatest.Texts(topic, 0, "b", "c")...)
	cluster.WriteTransaction(t, topic, false, kafkatest.Texts(topic, 0, "aborted 3")...)
	cluster.WriteTransaction(t, topic, true, kafkatest.Texts(topic, 0, "d")...)
	cluster.WriteTransaction(t, topic, false, kafkatest.Texts(topic, 0, "aborted 4")...)
	time.Sleep(200 * time.Millisecond) // a real broker ends transactions a little later than it says
	records, err := all(t, cluster, Config{Topics: []string{topic}})
	if err != nil || !slices.Equal(texts(records), []string{"a", "b", "c", "d"}) {
		t.Errorf("%q, %v", texts(records), err)
	}
	for i, record := range records {
		if record.Seq != int64(i) {
			t.Errorf("record %d has number %d", i, record.Seq)
		}
	}
}

func TestCompactedTopicsAreReadToTheEnd(t *testing.T) {
	cluster := kafkatest.StartFake(t)
	topic := newName("in")
	cluster.CreateTopic(t, topic, 1, "cleanup.policy", "compact", "segment.ms", "1", "min.cleanable.dirty.ratio", "0", "delete.retention.ms", "0", "max.compaction.lag.ms", "1")
	for round := range 5 {
		for _, key := range []string{"a", "b", "c"} {
			cluster.Write(t, &kgo.Record{Topic: topic, Key: []byte(key), Value: []byte{byte('0' + round)}})
			time.Sleep(3 * time.Millisecond)
		}
	}
	cluster.Write(t, &kgo.Record{Topic: topic, Key: []byte("c")}) // a tombstone
	time.Sleep(20 * time.Millisecond)
	cluster.Fake.Compact()
	records, err := all(t, cluster, Config{Topics: []string{topic}})
	if err != nil {
		t.Fatal(err)
	}
	if len(records) == 0 || len(records) >= 16 {
		t.Fatalf("%d of 16 records: nothing was compacted", len(records))
	}
	last := map[string]string{}
	for i, record := range records {
		last[string(record.Message.Key)] = record.Text
		if record.Seq != int64(i) || i > 0 && record.End.Offset <= records[i-1].End.Offset {
			t.Errorf("record %d: %+v", i, record)
		}
	}
	if last["a"] != "4" || last["b"] != "4" {
		t.Errorf("%v", last)
	}
}

func TestLostRecordsAreNotPassedOverInSilence(t *testing.T) {
	cluster := kafkatest.StartFake(t)
	topic := newName("in")
	cluster.CreateTopic(t, topic, 1)
	cluster.Write(t, kafkatest.Texts(topic, 0, "0", "1", "2", "3", "4")...)
	if err := cluster.Fake.DeleteRecords(topic, 0, 3); err != nil {
		t.Fatal(err)
	}
	for _, at := range []int64{1, 9} { // before the log, and behind it
		pos := job.Position{Record: at, Offset: at}
		lane := opened(t, cluster, Config{Topics: []string{topic}}).next(t, pos)
		if _, err := lane.Read(kafkatest.Context(t)); err == nil || !strings.Contains(err.Error(), "its log goes from 3 to 5") {
			t.Errorf("at %d: %v", at, err)
		}
		lane = opened(t, cluster, Config{Topics: []string{topic}, SkipLost: true}).next(t, pos)
		if got := texts(readSome(t, lane, 2)); !slices.Equal(got, []string{"3", "4"}) {
			t.Errorf("at %d: %q", at, got)
		}
	}
	// A lane of which nothing is known begins where the log does.
	if records, err := all(t, cluster, Config{Topics: []string{topic}}); err != nil || !slices.Equal(texts(records), []string{"3", "4"}) {
		t.Errorf("%q, %v", texts(records), err)
	}
}

func TestWhereALaneBegins(t *testing.T) {
	cluster := kafkatest.StartFake(t)
	topic := newName("in")
	cluster.CreateTopic(t, topic, 1)
	cluster.Write(t, kafkatest.Texts(topic, 0, "0", "1", "2")...)

	// Latest is settled when the lane is first started, even if nothing is committed later.
	group := newName("group")
	p := opened(t, cluster, Config{Topics: []string{topic}, Group: group, Begin: Latest})
	p.next(t, job.Position{})
	p.Leave(context.Background())
	cluster.Write(t, kafkatest.Texts(topic, 0, "3")...)
	lane := opened(t, cluster, Config{Topics: []string{topic}, Group: group, Begin: Latest}).next(t, job.Position{})
	records := readSome(t, lane, 1)
	if got := texts(records); !slices.Equal(got, []string{"3"}) {
		t.Errorf("%q", got)
	}

	// What another consumer of the group has committed is where we go on.
	group = newName("group")
	p = opened(t, cluster, Config{Topics: []string{topic}, Group: group, CommitOffsets: true})
	lane = p.next(t, job.Position{})
	if err := lane.Commit(kafkatest.Context(t), job.Position{Record: 7, Offset: 2}); err != nil {
		t.Fatal(err)
	}
	p.Leave(context.Background())
	lane = opened(t, cluster, Config{Topics: []string{topic}, Group: group}).next(t, job.Position{})
	records = readSome(t, lane, 2)
	if got := texts(records); !slices.Equal(got, []string{"2", "3"}) || records[0].Seq != 7 || records[0].End != (job.Position{Record: 8, Offset: 3}) {
		t.Errorf("%q, %+v", got, records[0])
	}
}

func TestABatchThatIsTooLargeIsOneFailedRecord(t *testing.T) {
	cluster := kafkatest.StartFake(t)
	topic := newName("in")
	cluster.CreateTopic(t, topic, 1)
	bomb := &kgo.Record{Topic: topic, Value: make([]byte, 8<<20)}
	cluster.Write(t, kafkatest.Texts(topic, 0, "before")...)
	cluster.WriteWith(t, []kgo.Opt{kgo.ProducerBatchCompression(kgo.GzipCompression())}, bomb)
	cluster.Write(t, kafkatest.Texts(topic, 0, "behind")...)
	records, err := all(t, cluster, Config{Topics: []string{topic}, MaxBatch: 1 << 20})
	if err != nil || len(records) != 3 {
		t.Fatalf("%d records, %v", len(records), err)
	}
	if records[0].Text != "before" || records[2].Text != "behind" || records[1].Err == nil || records[1].Flags != job.Unreadable || records[1].End.Offset != 2 {
		t.Errorf("%+v", records)
	}
	if small := gzipSize(t, bomb.Value); small > 100_000 {
		t.Errorf("the bomb is no bomb: %d bytes", small)
	}
}

func gzipSize(t testing.TB, data []byte) int {
	t.Helper()
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	if _, err := w.Write(data); err != nil {
		t.Fatal(err)
	}
	w.Close()
	return out.Len()
}

func TestLargeRecordsAreRead(t *testing.T) {
	cluster := kafkatest.StartFake(t, kfake.BrokerConfigs(map[string]string{"message.max.bytes": "20000000"}))
	topic := newName("in")
	cluster.CreateTopic(t, topic, 1, "max.message.bytes", "20000000")
	large := strings.Repeat("x", 10<<20)
	cluster.Write(t, kafkatest.Texts(topic, 0, "small", large, "small")...)
	records, err := all(t, cluster, Config{Topics: []string{topic}, FetchBytes: 1000})
	if err != nil || len(records) != 3 || records[1].Text != large {
		t.Errorf("%d records, %v", len(records), err)
	}
}

// addPartitions makes a topic have so many partitions.
func addPartitions(t testing.TB, cluster *kafkatest.Cluster, topic string, count int32) {
	t.Helper()
	request := kmsg.NewPtrCreatePartitionsRequest()
	wanted := kmsg.NewCreatePartitionsRequestTopic()
	wanted.Topic, wanted.Count = topic, count
	request.Topics, request.TimeoutMillis = append(request.Topics, wanted), 5000
	cluster.Request(t, request)
}

func TestAddedPartitionsBecomeLanes(t *testing.T) {
	cluster := kafkatest.StartFake(t)
	topic := newName("in")
	cluster.CreateTopic(t, topic, 1)
	p := opened(t, cluster, Config{Topics: []string{topic}, Session: 2 * time.Second, Recheck: 100 * time.Millisecond})
	first := p.next(t, job.Position{})
	addPartitions(t, cluster, topic, 3)
	names := []string{p.next(t, job.Position{}).Name(), p.next(t, job.Position{}).Name()}
	slices.Sort(names)
	if !slices.Equal(names, []string{topic + "/1", topic + "/2"}) {
		t.Errorf("%q", names)
	}
	cluster.Write(t, kafkatest.Texts(topic, 0, "still here")...)
	if got := texts(readSome(t, first, 1)); got[0] != "still here" {
		t.Errorf("%q", got)
	}
}

// Whichever member divides the group, those who read other topics than it does get theirs, and the partitions that are added.
func TestMembersReadDifferentTopics(t *testing.T) {
	cluster := kafkatest.StartFake(t)
	group := newName("group")
	topics := []string{newName("a"), newName("b")}
	members := make([]*process, len(topics))
	for i, topic := range topics {
		cluster.CreateTopic(t, topic, 1)
		members[i] = opened(t, cluster, Config{Topics: []string{topic}, Group: group, Session: 2 * time.Second, Recheck: 100 * time.Millisecond})
	}
	for partition := range 2 {
		for i, topic := range topics {
			if partition > 0 {
				addPartitions(t, cluster, topic, int32(partition)+1)
			}
			if name, want := members[i].next(t, job.Position{}).Name(), fmt.Sprintf("%s/%d", topic, partition); name != want {
				t.Errorf("got %s, not %s", name, want)
			}
		}
	}
}

func TestATopicThatDisappearsIsAnError(t *testing.T) {
	cluster := kafkatest.StartFake(t)
	topic := newName("in")
	cluster.CreateTopic(t, topic, 1)
	cluster.Write(t, kafkatest.Texts(topic, 0, "a")...)
	p := opened(t, cluster, Config{Topics: []string{topic}})
	lane := p.next(t, job.Position{})
	readSome(t, lane, 1)
	if err := cluster.Fake.DeleteTopic(topic); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(kafkatest.Context(t), 15*time.Second)
	defer cancel()
	if _, err := lane.Read(ctx); err == nil || !strings.Contains(err.Error(), "does not exist") {
		t.Errorf("%v", err)
	}
}

func TestALaneMovesWithoutDisturbingTheOthers(t *testing.T) {
	cluster := kafkatest.StartFake(t)
	topic, group := newName("in"), newName("group")
	cluster.CreateTopic(t, topic, 4)
	config := Config{Topics: []string{topic}, Group: group, Session: 2 * time.Second}
	a := opened(t, cluster, config)
	lanes := map[string]consumer.Lane{}
	for range 4 {
		lane := a.next(t, job.Position{})
		lanes[lane.Name()] = lane
	}
	b := opened(t, cluster, config)
	moved := []string{b.next(t, job.Position{}).Name(), b.next(t, job.Position{}).Name()}
	for _, name := range moved { // the one who loses a lane may hear of it later than the one who gets it
		for begin := time.Now(); time.Since(begin) < 5*time.Second; time.Sleep(5 * time.Millisecond) {
			if _, _, ours := a.Member(name); !ours {
				break
			}
		}
	}
	for i := range 4 {
		cluster.Write(t, kafkatest.Texts(topic, i, "text")...)
	}
	for name, lane := range lanes {
		ctx, cancel := context.WithTimeout(kafkatest.Context(t), 10*time.Second)
		records, err := lane.Read(ctx)
		cancel()
		if slices.Contains(moved, name) {
			if !errors.Is(err, consumer.ErrLaneLost) {
				t.Errorf("lane %s has moved, and says %d records, %v", name, len(records), err)
			}
			if _, _, ours := a.Member(name); ours {
				t.Errorf("lane %s has moved, and a member may commit it", name)
			}
		} else if err != nil || len(records) != 1 {
			t.Errorf("lane %s has stayed, and says %d records, %v", name, len(records), err)
		}
	}
	b.Leave(context.Background())
	back := []string{a.next(t, job.Position{}).Name(), a.next(t, job.Position{}).Name()}
	slices.Sort(moved)
	slices.Sort(back)
	if !slices.Equal(moved, back) {
		t.Errorf("%q moved, and %q came back", moved, back)
	}
}

// A lane that the sink has given up comes again, but only once the group has confirmed that it is still ours.
func TestALaneThatIsClosedEarlyComesAgain(t *testing.T) {
	cluster := kafkatest.StartFake(t)
	topic := newName("in")
	cluster.CreateTopic(t, topic, 1)
	cluster.Write(t, kafkatest.Texts(topic, 0, "a", "b")...)
	p := opened(t, cluster, Config{Topics: []string{topic}, Session: 2 * time.Second})
	lane := p.next(t, job.Position{})
	records := readSome(t, lane, 2)
	block := cluster.Fake.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Heartbeat}, TopLevel: true, Count: -1, Err: kerr.CoordinatorNotAvailable})
	if err := lane.Close(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 500*time.Millisecond)
	defer cancel()
	if _, err := p.Next(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the lane comes again before the group has confirmed it: %v", err)
	}
	block.Remove()
	again := p.next(t, records[0].End)
	if got := texts(readSome(t, again, 1)); !slices.Equal(got, []string{"b"}) {
		t.Errorf("%q", got)
	}
}

// A static member keeps its place while it is away.
func TestAStaticMemberComesBack(t *testing.T) {
	cluster := kafkatest.StartFake(t)
	topic, group := newName("in"), newName("group")
	cluster.CreateTopic(t, topic, 2)
	config := func(instance string) Config {
		return Config{Topics: []string{topic}, Group: group, Instance: instance, Session: 10 * time.Second}
	}
	a := opened(t, cluster, config("a"))
	a.next(t, job.Position{})
	a.next(t, job.Position{})
	b := opened(t, cluster, config("b"))
	had := b.next(t, job.Position{}).Name()
	b.Leave(context.Background())
	time.Sleep(500 * time.Millisecond)
	if lanes := len(a.held()[topic]); lanes != 1 {
		t.Errorf("a member that is away has lost its lane: the other has %d", lanes)
	}
	b = opened(t, cluster, config("b"))
	if has := b.next(t, job.Position{}).Name(); has != had {
		t.Errorf("it had %s and has %s", had, has)
	}
}

func TestConfigurationIsChecked(t *testing.T) {
	client := opened(t, kafkatest.StartFake(t, kfake.SeedTopics(1, "t")), Config{Topics: []string{"t"}}).client
	for _, config := range []Config{
		{},
		{Client: client, Values: plain(t), Group: "g"},
		{Client: client, Values: plain(t), Topics: []string{"t"}},
	} {
		source := New(config)
		if err := source.Connect(kafkatest.Context(t)); err == nil {
			t.Errorf("%+v is taken", config)
		}
		source.Close(kafkatest.Context(t))
	}
}
