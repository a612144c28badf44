package kafka_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/sluice-mt/sluice/internal/deadletter"
	"github.com/sluice-mt/sluice/internal/job"
	"github.com/sluice-mt/sluice/internal/kafkatest"
	"github.com/sluice-mt/sluice/internal/recordio"
	"github.com/sluice-mt/sluice/producer"
	producerkafka "github.com/sluice-mt/sluice/producer/kafka"
)

func headers(record *kgo.Record) map[string]string {
	found := map[string]string{}
	for _, h := range record.Headers {
		found[h.Key] += string(h.Value)
	}
	return found
}

func TestWhatIsBesideTheValueIsCarriedOver(t *testing.T) {
	cluster := kafkatest.StartFake(t)
	s := newSetup(t, cluster, 2)
	at := time.UnixMilli(1700000000123)
	in := []*kgo.Record{
		{Key: []byte("key"), Value: []byte("one"), Timestamp: at, Headers: []kgo.RecordHeader{{Key: "a", Value: []byte("1")}, {Key: "a", Value: []byte("2")}, {Key: "none"}, {Key: producerkafka.SourceHeader, Value: []byte("older@5")}}},
		{Key: []byte{}, Value: []byte("two"), Timestamp: at.Add(time.Second)},
		{Value: []byte{}, Timestamp: at},
		{Key: []byte("gone"), Timestamp: at}, // a tombstone
		{Value: []byte("bad \xff"), Timestamp: at},
	}
	for _, record := range in {
		record.Topic, record.Partition = s.in(), 1
	}
	cluster.Write(t, in...)
	if err := s.run(t); err != nil {
		t.Fatal(err)
	}
	if other := cluster.Committed(t, s.sink.Topic, 0); len(other) != 0 {
		t.Errorf("%d records went to another partition", len(other))
	}
	out := cluster.Committed(t, s.sink.Topic, 1)
	if len(out) != len(in) {
		t.Fatalf("%d records", len(out))
	}
	for i, want := range []string{"Tone", "Ttwo", "", "", "Tbad \ufffd"} {
		if string(out[i].Value) != want || (out[i].Value == nil) != (in[i].Value == nil) {
			t.Errorf("record %d: value %q", i, out[i].Value)
		}
		if string(out[i].Key) != string(in[i].Key) || (out[i].Key == nil) != (in[i].Key == nil) || !out[i].Timestamp.Equal(in[i].Timestamp) {
			t.Errorf("record %d: key %q, time %v", i, out[i].Key, out[i].Timestamp)
		}
		got := headers(out[i])
		if got[producerkafka.JobHeader] != s.sink.Job || got[producerkafka.SourceHeader] != fmt.Sprintf("%s/1@%d", s.in(), i) {
			t.Errorf("record %d: %v", i, got)
		}
	}
	if got := headers(out[0]); got["a"] != "12" {
		t.Errorf("%v", got)
	}
	if _, none := headers(out[0])["none"]; !none {
		t.Error("a header without value is lost")
	}
	if got := headers(out[4])[producerkafka.FlagsHeader]; got != "invalid-text" {
		t.Errorf("the flags are %q", got)
	}
}

// stubborn is a translator that refuses some texts.
type stubborn struct{}

var errStubborn = errors.New("no such language")

func (stubborn) Submit(segment job.Segment) {
	if strings.Contains(segment.Text, "bad") {
		segment.Done(job.Result{Flags: job.Failed, Err: errStubborn})
		return
	}
	segment.Done(translated(segment.Text))
}
func (stubborn) Flush() {}

func TestWhatFailsBecomesADeadLetter(t *testing.T) {
	cluster := kafkatest.StartFake(t)
	s := newSetup(t, cluster, 1)
	s.translator = stubborn{}
	s.sink.DeadLetters = newName("dead")
	s.sink.MaxMessage = 3000
	s.sink.Encoder = encodeFunc(func(dst []byte, output *job.Output) ([]byte, error) {
		return append(dst, strings.ReplaceAll(output.Result.Text(), "long", strings.Repeat("long", 1000))...), nil
	})
	cluster.CreateTopic(t, s.sink.DeadLetters, 1)
	cluster.Write(t,
		&kgo.Record{Topic: s.in(), Key: []byte("k"), Value: []byte("bad one"), Headers: []kgo.RecordHeader{{Key: "h", Value: []byte("x")}}},
		&kgo.Record{Topic: s.in(), Value: []byte("good")},
		&kgo.Record{Topic: s.in(), Value: []byte("too long")},
		&kgo.Record{Topic: s.in(), Key: []byte("key"), Value: []byte("bad and big" + strings.Repeat("x", 5000))},
	)
	if err := s.run(t); err != nil {
		t.Fatal(err)
	}
	if got := kafkatest.Values(cluster.Committed(t, s.sink.Topic, 0)); !slices.Equal(got, []string{"Tgood"}) {
		t.Errorf("%q", got)
	}
	dead := cluster.Committed(t, s.sink.DeadLetters, 0)
	if len(dead) != 3 {
		t.Fatalf("%d dead letters", len(dead))
	}
	letters := make([]deadletter.Letter, 3)
	for i, record := range dead {
		var err error
		if letters[i], err = deadletter.Parse(record.Value); err != nil {
			t.Fatal(err)
		}
		if letters[i].Lane != s.in()+"/0" {
			t.Errorf("%+v", letters[i])
		}
	}
	first := letters[0]
	if string(first.Original) != "bad one" || first.Reason != errStubborn.Error() || first.Record != 0 || first.Position.Offset != 1 || string(first.Message.Key) != "k" {
		t.Errorf("%+v", first)
	}
	if got := headers(dead[0]); string(dead[0].Key) != "k" || got["h"] != "x" || got[producerkafka.ReasonHeader] != errStubborn.Error() || got[producerkafka.SourceHeader] != s.in()+"/0@0" {
		t.Errorf("%q, %v", dead[0].Key, got)
	}
	if second := letters[1]; string(second.Original) != "too long" || !strings.Contains(second.Reason, "larger than the topic takes") {
		t.Errorf("%+v", second)
	}
	if third := letters[2]; len(third.Original) != 0 || !strings.Contains(third.Reason, "5011 bytes is left out") || third.Position.Offset != 4 {
		t.Errorf("%+v", third)
	}
}

// A topic says itself how large its messages may be.
func TestTheTopicSaysWhatIsTooLarge(t *testing.T) {
	cluster := kafkatest.StartFake(t)
	s := newSetup(t, cluster, 1)
	s.sink.Topic, s.sink.DeadLetters = newName("small"), newName("dead")
	cluster.CreateTopic(t, s.sink.Topic, 1, "max.message.bytes", "2000")
	cluster.CreateTopic(t, s.sink.DeadLetters, 1)
	fits, large := strings.Repeat("x", 1500), strings.Repeat("y", 3000)
	cluster.Write(t, kafkatest.Texts(s.in(), 0, fits, fits, large, fits)...)
	if err := s.run(t); err != nil {
		t.Fatal(err)
	}
	if got := kafkatest.Values(cluster.Committed(t, s.sink.Topic, 0)); !slices.Equal(got, []string{"T" + fits, "T" + fits, "T" + fits}) {
		t.Errorf("%d records", len(got))
	}
	if got := cluster.Committed(t, s.sink.DeadLetters, 0); len(got) != 1 || !strings.Contains(headers(got[0])[producerkafka.ReasonHeader], "the limit is 2000") {
		t.Errorf("%d dead letters", len(got))
	}
}

type encodeFunc func(dst []byte, output *job.Output) ([]byte, error)

func (f encodeFunc) Append(dst []byte, output *job.Output) ([]byte, error) { return f(dst, output) }

func TestWithoutDeadLettersWhatFailsStopsTheJob(t *testing.T) {
	cluster := kafkatest.StartFake(t)
	s := newSetup(t, cluster, 1)
	s.translator = stubborn{}
	cluster.Write(t, kafkatest.Texts(s.in(), 0, "good", "bad", "good")...)
	if err := s.run(t); !errors.Is(err, errStubborn) || !errors.Is(err, producer.ErrNoPlace) || !strings.Contains(err.Error(), s.in()+"/0@1") {
		t.Errorf("%v", err)
	}
	s.sink.OnFailure = producerkafka.WriteEmpty
	if err := s.run(t); err != nil {
		t.Fatal(err)
	}
	out := cluster.Committed(t, s.sink.Topic, 0)
	if got := kafkatest.Values(out); !slices.Equal(got, []string{"Tgood", "", "Tgood"}) || out[1].Value == nil {
		t.Errorf("%q", got)
	}
}

func TestPartitionsAreChosen(t *testing.T) {
	cluster := kafkatest.StartFake(t)
	t.Run("ByKey", func(t *testing.T) {
		s := newSetup(t, cluster, 3)
		s.sink.Partitioning = producerkafka.ByKey
		var in []*kgo.Record
		for i := range 100 {
			in = append(in, &kgo.Record{Topic: s.in(), Partition: int32(i % 3), Key: fmt.Appendf(nil, "key %d", i), Value: []byte("x")})
		}
		in = append(in, &kgo.Record{Topic: s.in(), Partition: 2, Value: []byte("without key")})
		cluster.Write(t, in...)
		if err := s.run(t); err != nil {
			t.Fatal(err)
		}
		// A producer of another make that chooses by key agrees.
		topic := newName("chosen")
		cluster.CreateTopic(t, topic, 3)
		for _, record := range in[:100] {
			record.Topic = topic
			record.Headers = nil
		}
		cluster.WriteWith(t, []kgo.Opt{kgo.RecordPartitioner(kgo.StickyKeyPartitioner(nil))}, in[:100]...)
		for p := range 3 {
			want, got := map[string]bool{}, map[string]bool{}
			for _, record := range cluster.Committed(t, topic, p) {
				want[string(record.Key)] = true
			}
			for _, record := range cluster.Committed(t, s.sink.Topic, p) {
				if record.Key == nil {
					if p != 2 {
						t.Errorf("a record without key went from partition 2 to %d", p)
					}
					continue
				}
				got[string(record.Key)] = true
			}
			if !maps.Equal(got, want) || len(got) == 0 {
				t.Errorf("partition %d has %d keys, want %d, or other ones", p, len(got), len(want))
			}
		}
	})
	t.Run("Fixed", func(t *testing.T) {
		s := newSetup(t, cluster, 2)
		s.sink.Partitioning, s.sink.Partition = producerkafka.FixedPartition, 1
		cluster.Write(t, kafkatest.Texts(s.in(), 0, "a", "b")...)
		if err := s.run(t); err != nil {
			t.Fatal(err)
		}
		if got := kafkatest.Values(cluster.Committed(t, s.sink.Topic, 1)); !slices.Equal(got, []string{"Ta", "Tb"}) {
			t.Errorf("%q", got)
		}
		s.sink.Partition = 2
		if err := s.run(t); err == nil || !strings.Contains(err.Error(), "no partition 2") {
			t.Errorf("%v", err)
		}
	})
	t.Run("TooFew", func(t *testing.T) {
		s := newSetup(t, cluster, 2)
		s.sink.Topic = newName("narrow")
		cluster.CreateTopic(t, s.sink.Topic, 1)
		if err := s.run(t); err == nil || !strings.Contains(err.Error(), "no partition of the same number") {
			t.Errorf("%v", err)
		}
	})
}

func TestJSONValues(t *testing.T) {
	cluster := kafkatest.StartFake(t)
	s := newSetup(t, cluster, 1)
	codec, err := recordio.NewValue(recordio.ValueOptions{Format: recordio.JSONL, Field: "msg"})
	if err != nil {
		t.Fatal(err)
	}
	s.source.Values, s.sink.Encoder = codec, codec
	s.sink.DeadLetters = newName("dead")
	cluster.CreateTopic(t, s.sink.DeadLetters, 1)
	cluster.Write(t, kafkatest.Texts(s.in(), 0, `{"msg": "hallo", "n": 1.0}`, `{"msg": 5}`)...)
	if err := s.run(t); err != nil {
		t.Fatal(err)
	}
	if got := kafkatest.Values(cluster.Committed(t, s.sink.Topic, 0)); !slices.Equal(got, []string{`{"msg": "hallo", "n": 1.0, "translation": "Thallo"}`}) {
		t.Errorf("%q", got)
	}
	letter, err := deadletter.Parse(cluster.Committed(t, s.sink.DeadLetters, 0)[0].Value)
	if err != nil || string(letter.Original) != `{"msg": 5}` || letter.Flags != job.Unreadable {
		t.Errorf("%+v, %v", letter, err)
	}
}

func TestAnotherModelIsNotMixedIn(t *testing.T) {
	cluster := kafkatest.StartFake(t)
	s := newSetup(t, cluster, 1)
	s.sink.MadeWith = map[string]string{"model": "a", "beam": "6"}
	cluster.Write(t, kafkatest.Texts(s.in(), 0, "a")...)
	if err := s.run(t); err != nil {
		t.Fatal(err)
	}
	s.sink.MadeWith = map[string]string{"model": "b", "beam": "6"}
	cluster.Write(t, kafkatest.Texts(s.in(), 0, "b")...)
	var changed *producer.ChangedError // or the program would be started again and again
	if err := s.run(t); !errors.As(err, &changed) || !strings.Contains(err.Error(), "model was a and is now b") {
		t.Errorf("%v", err)
	}
	s.sink.AcceptChanges = true
	if err := s.run(t); err != nil {
		t.Fatal(err)
	}
	if got := kafkatest.Values(cluster.Committed(t, s.sink.Topic, 0)); !slices.Equal(got, []string{"Ta", "Tb"}) {
		t.Errorf("%q", got)
	}
}

func TestTopicsAreNotCreated(t *testing.T) {
	cluster := kafkatest.StartFake(t)
	s := newSetup(t, cluster, 1)
	s.client.TopicPatience = 500 * time.Millisecond
	s.source.Topics = []string{"no-such-topic"}
	if err := s.run(t); err == nil || !strings.Contains(err.Error(), "no-such-topic") {
		t.Errorf("%v", err)
	}
	if cluster.Fake.TopicInfo("no-such-topic") != nil {
		t.Error("the topic was created")
	}
}
