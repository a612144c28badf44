package kafka

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/sluice-mt/sluice/internal/job"
	"github.com/sluice-mt/sluice/internal/kafkaclient"
	"github.com/sluice-mt/sluice/internal/kafkatest"
	"github.com/sluice-mt/sluice/producer"
)

// input is what a source of files knows of them.
type input struct{ identity string }

func (i *input) Identity(string) (json.RawMessage, error) { return json.RawMessage(i.identity), nil }

func (i *input) Changes(_ string, stored json.RawMessage) ([]string, error) {
	if string(stored) == i.identity {
		return nil, nil
	}
	return []string{"the file has changed"}, nil
}

// file is a job that writes lanes of files to a topic.
type file struct {
	t       *testing.T
	cluster *kafkatest.Cluster
	config  Config
	input   *input
}

func newFile(t *testing.T) *file {
	f := &file{t: t, cluster: kafkatest.StartFake(t), input: &input{identity: `[{"path":"a","size":5}]`}}
	f.config = Config{Topic: newName("out"), Job: newName("job"), Markers: newName("markers"), Input: f.input}
	f.cluster.CreateTopic(t, f.config.Topic, 2)
	f.cluster.CreateTopic(t, f.config.Markers, 2, "cleanup.policy", "compact")
	return f
}

// open opens a lane in a process of its own.
func (f *file) open() (*process, producer.Writer, job.Position, error) {
	f.t.Helper()
	p := newProcess(f.t, f.cluster.Brokers, f.config)
	ctx := kafkatest.Context(f.t)
	if err := p.Connect(ctx); err != nil {
		f.t.Fatal(err)
	}
	writer, position, err := p.Open(ctx, "a.txt")
	return p, writer, position, err
}

// write writes some records of a lane and commits them; complete says that they are the last ones.
func (f *file) write(from, to int, complete bool) {
	f.t.Helper()
	p, writer, position, err := f.open()
	if err != nil || position.Record != int64(from) {
		f.t.Fatalf("%+v, %v", position, err)
	}
	ctx := kafkatest.Context(f.t)
	var run []job.Output
	for i := from; i < to; i++ {
		run = append(run, job.Output{
			Record: job.Record{Seq: int64(i), End: job.Position{Record: int64(i + 1), Offset: int64(10 * i)}},
			Result: job.Result{Hypotheses: []job.Hypothesis{{Text: fmt.Sprint(i)}}},
		})
	}
	if err := writer.Write(ctx, run); err != nil {
		f.t.Fatal(err)
	}
	if complete {
		err = writer.Finish(ctx)
	} else {
		_, err = writer.Commit(ctx)
	}
	if err := errors.Join(err, writer.Close(), p.Close(ctx)); err != nil {
		f.t.Fatal(err)
	}
}

// forget makes the brokers forget the offsets of the job's lanes, as they do some days after the last commit.
func (f *file) forget() {
	f.t.Helper()
	name, err := newProcess(f.t, f.cluster.Brokers, f.config).placeOf("a.txt")
	if err != nil {
		f.t.Fatal(err)
	}
	request := kmsg.NewPtrDeleteGroupsRequest()
	request.Groups = []string{name.group}
	answer := f.cluster.Request(f.t, request).(*kmsg.DeleteGroupsResponse)
	if code := answer.Groups[0].ErrorCode; code != 0 {
		f.t.Fatalf("the group is not deleted: %d", code)
	}
}

func (f *file) expectError(want string) {
	f.t.Helper()
	p, _, _, err := f.open()
	p.Close(context.Background())
	if err == nil || !strings.Contains(err.Error(), want) {
		f.t.Errorf("%v, want %s", err, want)
	}
}

func TestACompleteLaneIsRememberedWithoutOffsets(t *testing.T) {
	f := newFile(t)
	f.write(0, 10, true)
	f.forget()
	p, _, _, err := f.open()
	p.Close(context.Background())
	if !errors.Is(err, producer.ErrDone) {
		t.Errorf("%v", err)
	}
	f.input.identity = `[{"path":"a","size":6}]`
	f.expectError("the file has changed")
}

func TestALaneThatWasBegunIsNotBegunAgain(t *testing.T) {
	f := newFile(t)
	f.write(0, 10, false)
	f.write(10, 20, false)
	f.forget()
	f.expectError("the brokers have forgotten how far it came")
}

func TestALaneIsContinuedOnItsInputOnly(t *testing.T) {
	f := newFile(t)
	f.write(0, 10, false)
	before := f.input.identity
	f.input.identity = `[{"path":"a","size":6}]`
	f.expectError("the file has changed")
	f.input.identity = before
	f.config.MadeWith = map[string]string{"model": "b"}
	f.write(10, 20, false) // it was not said before what it is made with
	f.config.MadeWith = map[string]string{"model": "c"}
	f.expectError("model was b and is now c")
}

// The identity of many files is too long for the metadata of an offset.
func TestALongIdentityIsStoredAsAHash(t *testing.T) {
	f := newFile(t)
	f.input.identity = `["` + strings.Repeat("x", 10_000) + `"]`
	f.write(0, 10, false)
	f.write(10, 20, true)
	p, _, _, err := f.open()
	p.Close(context.Background())
	if !errors.Is(err, producer.ErrDone) {
		t.Errorf("%v", err)
	}
	f.input.identity = `["` + strings.Repeat("x", 10_001) + `"]`
	f.expectError("one of its many inputs was changed")
}

func TestSinkConfigurationIsChecked(t *testing.T) {
	f := newFile(t)
	client := newClient(t, f.cluster.Brokers)
	t.Cleanup(client.Close)
	encoder := newProcess(t, f.cluster.Brokers, f.config).config.Encoder
	for reason, config := range map[string]Config{
		"must be set":         {},
		"needs a name":        {Client: client, Encoder: encoder, Topic: "t"},
		"no topic":            {Client: client, Encoder: encoder, Job: "j"},
		"topics of their own": {Client: client, Encoder: encoder, Job: "j", Topic: "t", DeadLetters: "t"},
		"at-least-once":       {Client: client, Encoder: encoder, Job: "j", Topic: "t", Delivery: AtLeastOnce},
	} {
		if err := New(config).Connect(kafkatest.Context(t)); err == nil || !strings.Contains(err.Error(), reason) {
			t.Errorf("%v, want %s", err, reason)
		}
	}
}

// cut is a connection that breaks when it is asked to end a transaction: before the request goes out, or behind it.
type cut struct {
	net.Conn
	arrives bool
	broken  atomic.Bool
}

const keyOfEndTxn = 26 // in the header of a request, behind its size

func (c *cut) Write(data []byte) (int, error) {
	if len(data) < 6 || binary.BigEndian.Uint16(data[4:]) != keyOfEndTxn {
		return c.Conn.Write(data)
	}
	c.broken.Store(true)
	if !c.arrives {
		return 0, io.ErrClosedPipe
	}
	return c.Conn.Write(data)
}

func (c *cut) Read(data []byte) (int, error) {
	n, err := c.Conn.Read(data)
	if c.broken.Load() {
		return 0, io.ErrUnexpectedEOF // the answer has come, and is lost
	}
	return n, err
}

func cutting(t *testing.T, brokers []string, arrives bool) *kafkaclient.Client {
	t.Helper()
	client, err := kafkaclient.New(kafkaclient.Config{
		Brokers: brokers, RequestTimeout: 2 * time.Second, Patience: time.Second,
		Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
			return &cut{Conn: conn, arrives: arrives}, err
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

// A transaction whose end is not confirmed may have been committed. Taking the id over tells.
func TestAnEndThatIsNotConfirmed(t *testing.T) {
	for _, arrives := range []bool{true, false} {
		t.Run(fmt.Sprint("Arrives=", arrives), func(t *testing.T) {
			f := newFile(t)
			ctx := kafkatest.Context(t)
			p := newProcess(t, f.cluster.Brokers, f.config)
			p.config.Client = cutting(t, f.cluster.Brokers, arrives)
			if err := p.Connect(ctx); err != nil {
				t.Fatal(err)
			}
			writer, _, err := p.Open(ctx, "a.txt")
			if err != nil {
				t.Fatal(err)
			}
			run := []job.Output{{Record: job.Record{End: job.Position{Record: 1}}, Result: job.Result{Hypotheses: []job.Hypothesis{{Text: "x"}}}}}
			if err := writer.Write(ctx, run); err != nil {
				t.Fatal(err)
			}
			position, err := writer.Commit(ctx)
			if arrives {
				if err != nil || position.Record != 1 {
					t.Errorf("it was committed: %+v, %v", position, err)
				}
			} else if err == nil {
				t.Errorf("it was not committed: %+v", position)
			}
			if err := writer.Close(); err != nil {
				t.Error(err)
			}
			got := 0
			for partition := range 2 {
				got += len(f.cluster.Committed(t, f.config.Topic, partition))
			}
			if want := map[bool]int{true: 1}[arrives]; got != want {
				t.Errorf("%d records can be seen, want %d", got, want)
			}
		})
	}
}
