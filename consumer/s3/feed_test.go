package s3

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"go.uber.org/goleak"

	"github.com/sluice-mt/sluice/internal/job"
	"github.com/sluice-mt/sluice/internal/s3client"
	"github.com/sluice-mt/sluice/internal/s3test"
)

// fakeQueue does what SQS does with messages: it gives each to one receiver, hides it for a while, and gives it again
// unless it is deleted.
type fakeQueue struct {
	mutex    sync.Mutex
	messages []*fakeMessage
	extended int
	failing  int // so many requests for messages fail first
}

type fakeMessage struct {
	body    string
	visible time.Time
	given   int
	deleted bool
}

func (q *fakeQueue) send(body string) *fakeMessage {
	q.mutex.Lock()
	defer q.mutex.Unlock()
	m := &fakeMessage{body: body}
	q.messages = append(q.messages, m)
	return m
}

func (q *fakeQueue) state(m *fakeMessage) (given int, deleted bool) {
	q.mutex.Lock()
	defer q.mutex.Unlock()
	return m.given, m.deleted
}

func (q *fakeQueue) ReceiveMessage(ctx context.Context, in *sqs.ReceiveMessageInput, _ ...func(*sqs.Options)) (*sqs.ReceiveMessageOutput, error) {
	for {
		q.mutex.Lock()
		if q.failing > 0 {
			q.failing--
			q.mutex.Unlock()
			return nil, errors.New("the queue has a cold")
		}
		out := &sqs.ReceiveMessageOutput{}
		for i, m := range q.messages {
			if !m.deleted && time.Now().After(m.visible) && len(out.Messages) < int(in.MaxNumberOfMessages) {
				m.visible = time.Now().Add(time.Duration(in.VisibilityTimeout) * time.Second)
				m.given++
				out.Messages = append(out.Messages, types.Message{Body: aws.String(m.body), ReceiptHandle: aws.String(fmt.Sprint(i))})
			}
		}
		q.mutex.Unlock()
		if len(out.Messages) > 0 {
			return out, nil
		}
		select {
		case <-time.After(2 * time.Millisecond):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func (q *fakeQueue) find(handle *string) *fakeMessage {
	var i int
	fmt.Sscan(*handle, &i)
	return q.messages[i]
}

func (q *fakeQueue) ChangeMessageVisibility(_ context.Context, in *sqs.ChangeMessageVisibilityInput, _ ...func(*sqs.Options)) (*sqs.ChangeMessageVisibilityOutput, error) {
	q.mutex.Lock()
	defer q.mutex.Unlock()
	q.find(in.ReceiptHandle).visible = time.Now().Add(time.Duration(in.VisibilityTimeout) * time.Second)
	q.extended++
	return &sqs.ChangeMessageVisibilityOutput{}, nil
}

func (q *fakeQueue) DeleteMessage(_ context.Context, in *sqs.DeleteMessageInput, _ ...func(*sqs.Options)) (*sqs.DeleteMessageOutput, error) {
	q.mutex.Lock()
	defer q.mutex.Unlock()
	q.find(in.ReceiptHandle).deleted = true
	return &sqs.DeleteMessageOutput{}, nil
}

// Receive makes the queue a Feed for tests that do not use it.
func (q *fakeQueue) Receive(context.Context) ([]Notice, error) { return nil, errors.New("not used") }

// created is a notification of new objects as S3 sends it.
func created(bucket string, keys ...string) string {
	var records []string
	for _, key := range keys {
		records = append(records, fmt.Sprintf(`{"eventName":"ObjectCreated:Put","s3":{"bucket":{"name":%q},"object":{"key":%q,"size":1}}}`, bucket, url.QueryEscape(key)))
	}
	return `{"Records":[` + strings.Join(records, ",") + `]}`
}

// fed returns a source that a queue feeds.
func fed(t *testing.T, store *s3test.Store, queue *fakeQueue, batch int, inputs ...string) *Source {
	t.Helper()
	feed := &Queue{config: SQS{URL: "q", Visibility: 2 * time.Second, Batch: batch}, api: queue}
	source := New(Config{Client: store.Client(t), Feed: feed, Inputs: inputs})
	if err := source.Connect(withTimeout(t)); err != nil {
		t.Fatal(err)
	}
	return source
}

func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !holds(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s, which does not come true", what)
		}
	}
}

// carry does with a lane what the pipeline does, and says whether it reaches the sink.
func carry(t *testing.T, source *Source, complete bool) string {
	t.Helper()
	l, err := source.Next(withTimeout(t))
	if err != nil {
		t.Fatal(err)
	}
	name := l.Name()
	if _, err := readAll(t, l); err == nil {
		t.Error("the lane has no end")
	}
	if complete {
		if err := l.Commit(withTimeout(t), l.(*lane).read); err != nil {
			t.Error(err)
		}
	} else if err := l.Commit(withTimeout(t), job.Position{}); err != nil {
		t.Error(err)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	return name
}

func TestAMessageIsDeletedWhenAllItTellsOfIsInTheSink(t *testing.T) {
	before := goleak.IgnoreCurrent()
	t.Cleanup(func() { goleak.VerifyNone(t, before) })
	store := s3test.Fake(t)
	bucket := store.Bucket(t)
	keys := []string{"in/a b+c.txt", "in/ü %.txt"}
	for _, key := range keys {
		store.Put(t, bucket, key, []byte("1\n2\n"))
	}
	queue := &fakeQueue{failing: 1}
	try := queue.send(`{"Service":"Amazon S3","Event":"s3:TestEvent","Bucket":"b"}`)
	both := queue.send(created(bucket, keys...))
	foreign := queue.send(created(bucket, "elsewhere/x"))
	store.Put(t, bucket, "elsewhere/x", []byte("x\n"))
	source := fed(t, store, queue, 10, "s3://"+bucket+"/in/")
	defer source.Close(context.Background())
	var names []string
	names = append(names, carry(t, source, true))
	if _, deleted := queue.state(both); deleted {
		t.Error("the message was deleted before its second object was in the sink")
	}
	names = append(names, carry(t, source, true))
	eventually(t, "the message is deleted", func() bool { _, deleted := queue.state(both); return deleted })
	eventually(t, "the message that tries out the queue is deleted", func() bool { _, deleted := queue.state(try); return deleted })
	eventually(t, "the message about an object that does not count is deleted", func() bool { _, deleted := queue.state(foreign); return deleted })
	for i, name := range names {
		if name != "s3://"+bucket+"/"+keys[i] {
			t.Errorf("lane %s, want %s", name, keys[i])
		}
	}
}

func TestAMessageThatWasNotCarriedComesAgain(t *testing.T) {
	store := s3test.Fake(t)
	bucket := store.Bucket(t)
	store.Put(t, bucket, "key", []byte("1\n2\n"))
	queue := &fakeQueue{}
	message := queue.send(created(bucket, "key"))
	source := fed(t, store, queue, 1)
	defer source.Close(context.Background())
	carry(t, source, false)
	if given, deleted := queue.state(message); given != 1 || deleted {
		t.Errorf("given %d times, deleted %v", given, deleted)
	}
	carry(t, source, true) // after it was hidden for two seconds
	eventually(t, "it is deleted", func() bool { _, deleted := queue.state(message); return deleted })
}

// What takes longer than a message is hidden keeps it hidden.
func TestAMessageIsKeptWhileItsObjectsAreRead(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	store := s3test.Fake(t)
	bucket := store.Bucket(t)
	store.Put(t, bucket, "key", []byte("1\n"))
	queue := &fakeQueue{}
	message := queue.send(created(bucket, "key"))
	source := fed(t, store, queue, 1)
	l, err := source.Next(withTimeout(t))
	if err != nil {
		t.Fatal(err)
	}
	time.Sleep(3500 * time.Millisecond)
	if given, deleted := queue.state(message); given != 1 || deleted || queue.extended < 2 {
		t.Errorf("given %d times, deleted %v, extended %d times", given, deleted, queue.extended)
	}
	l.(*lane).PassedOver()
	l.Close()
	source.Close(context.Background())
	if _, deleted := queue.state(message); !deleted {
		t.Error("a message whose output was there already is not deleted")
	}
}

func TestMessagesThatCannotBeFollowedAreLeft(t *testing.T) {
	store := s3test.Fake(t)
	bucket := store.Bucket(t)
	store.Put(t, bucket, "key", []byte("1\n"))
	queue := &fakeQueue{}
	odd := queue.send("nonsense")
	gone := queue.send(created(bucket, "gone"))
	good := queue.send(created(bucket, "key"))
	source := fed(t, store, queue, 1)
	carry(t, source, true)
	eventually(t, "the good one is deleted", func() bool { _, deleted := queue.state(good); return deleted })
	source.Close(context.Background())
	for _, m := range []*fakeMessage{odd, gone} {
		if given, deleted := queue.state(m); deleted || given != 1 {
			t.Errorf("%s: given %d times, deleted %v", m.body, given, deleted)
		}
	}
}

func TestSettingsOfAQueue(t *testing.T) {
	client := s3client.Config{Region: "eu-central-1", AccessKey: "a", SecretKey: "b"}
	if _, err := NewQueue(context.Background(), client, SQS{URL: "https://sqs/q"}); err != nil {
		t.Fatal(err)
	}
	for _, bad := range []SQS{{}, {URL: "q", Visibility: time.Second}, {URL: "q", Wait: time.Minute}, {URL: "q", Batch: 11}} {
		if _, err := NewQueue(context.Background(), client, bad); err == nil {
			t.Errorf("%+v was accepted", bad)
		}
	}
}

func TestEventsOfAllKinds(t *testing.T) {
	put := created("b", "a b+ü%/c.txt")
	for _, test := range []struct {
		body string
		want []Event
	}{
		{put, []Event{{"b", "a b+ü%/c.txt"}}},
		{created("b", "1", "2"), []Event{{"b", "1"}, {"b", "2"}}},
		{fmt.Sprintf(`{"Type":"Notification","MessageId":"x","Message":%q}`, put), []Event{{"b", "a b+ü%/c.txt"}}},
		{`{"EventName":"s3:ObjectCreated:Put","Key":"b/k","Records":[{"eventName":"s3:ObjectCreated:Put","s3":{"bucket":{"name":"b"},"object":{"key":"k+1"}}}]}`, []Event{{"b", "k 1"}}},
		{`{"Records":[{"eventName":"ObjectRemoved:Delete","s3":{"bucket":{"name":"b"},"object":{"key":"k"}}}]}`, nil},
		{`{"Service":"Amazon S3","Event":"s3:TestEvent","Bucket":"b"}`, nil},
		{`{"detail-type":"Object Created","source":"aws.s3","detail":{"bucket":{"name":"b"},"object":{"key":"a+b c"}}}`, []Event{{"b", "a+b c"}}},
		{`{"detail-type":"Object Deleted","detail":{"bucket":{"name":"b"},"object":{"key":"k"}}}`, nil},
	} {
		if got, err := ParseEvents([]byte(test.body)); err != nil || !slices.Equal(got, test.want) {
			t.Errorf("%s: %v, %v, want %v", test.body, got, err, test.want)
		}
	}
	for _, bad := range []string{"", "x", "[]", "{}", `{"Records":[{"eventName":"ObjectCreated:Put"}]}`, strings.Replace(put, "a+b", "%zz", 1), `{"Type":"Notification","Message":"x"}`, `{"detail-type":"Object Created"}`} {
		if got, err := ParseEvents([]byte(bad)); err == nil {
			t.Errorf("%s was read as %v", bad, got)
		}
	}
}

func FuzzParseEvents(f *testing.F) {
	f.Add([]byte(created("b", "a b+ü%/c.txt", "2")))
	f.Add([]byte(`{"Type":"Notification","Message":"{\"Records\":[]}"}`))
	f.Add([]byte(`{"detail-type":"Object Created","detail":{"bucket":{"name":"b"},"object":{"key":"a+b c"}}}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		events, err := ParseEvents(body)
		for _, event := range events {
			if err != nil || event.Bucket == "" || event.Key == "" {
				t.Errorf("%q: %+v, %v", body, event, err)
			}
		}
	})
}

func FuzzParseManifest(f *testing.F) {
	f.Add([]byte("s3://b/k\ns3://b/a b+ü\r\n\n"))
	f.Add([]byte(`{"entries":[{"url":"s3://b/k","mandatory":true}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		names, err := ParseManifest(strings.NewReader(string(data)))
		if err == nil && len(names) == 0 && strings.HasPrefix(strings.TrimSpace(string(data)), "{") {
			t.Errorf("%q has no entries", data)
		}
		for _, name := range names {
			if _, key, err := s3client.ParseURI(name); err != nil || key == "" || !strings.Contains(string(data), "s3") {
				t.Errorf("%q: %q, %v", data, name, err)
			}
		}
	})
}

func TestManifestsThatAreNone(t *testing.T) {
	for _, bad := range []string{"", "\n \n", "{", "{}", `{"entries":[]}`, `{"entries":[{"url":"x"}]}`, "s3://b/k\nfile.txt", "s3://b"} {
		if names, err := ParseManifest(strings.NewReader(bad)); err == nil {
			t.Errorf("%q was read as %q", bad, names)
		}
	}
}
