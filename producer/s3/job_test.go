package s3

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	source "github.com/sluice-mt/sluice/consumer/s3"
	"github.com/sluice-mt/sluice/internal/deadletter"
	"github.com/sluice-mt/sluice/internal/job"
	"github.com/sluice-mt/sluice/internal/recordio"
	"github.com/sluice-mt/sluice/internal/s3client"
	"github.com/sluice-mt/sluice/internal/s3test"
	"github.com/sluice-mt/sluice/pipeline"
)

// A copyJob carries the objects below in/ of a bucket to out/ and dead/, in capitals. It can be run in a process of
// its own, which is killed at some step.
type copyJob struct {
	Endpoint string
	Bucket   string
	Chain    string // suffix of a chain; "" is no chain
	Age      time.Duration
	Split    int64
	PartSize int64
	Letters  bool
	Crash    string // step:n, at which the process is killed
	Attempts int

	step func(string)
}

// poison is a text that cannot be translated.
const poison = "poison"

// capitals is a translator that costs nothing.
type capitals struct{}

func (capitals) Submit(segment job.Segment) {
	if strings.Contains(segment.Text, poison) {
		segment.Done(job.Result{Err: errors.New("it is poison")})
		return
	}
	segment.Done(job.Result{Hypotheses: []job.Hypothesis{{Text: strings.ToUpper(segment.Text)}}})
}

func (capitals) Flush() {}

func (c *copyJob) client(ctx context.Context) (*s3client.Client, error) {
	store := s3test.Store{Endpoint: c.Endpoint, AccessKey: "testuser", SecretKey: "secretsecret"}
	config := store.Config()
	config.Attempts, config.MaxBackoff = c.Attempts, 10*time.Millisecond
	return s3client.New(ctx, config)
}

func (c *copyJob) newSource(client *s3client.Client) *source.Source {
	return source.New(source.Config{Client: client, Inputs: []string{"s3://" + c.Bucket + "/in/"}, Split: c.Split})
}

func (c *copyJob) newSink(client *s3client.Client, from *source.Source) *Sink {
	config := Config{
		Client: client, Job: "copy", Output: "s3://" + c.Bucket + "/out/", Key: from.Relative, Encoder: recordio.NewTextEncoder(),
		Input: from, MadeWith: map[string]string{"case": "upper"}, PartSize: c.PartSize,
	}
	if c.Letters {
		config.DeadLetters = "s3://" + c.Bucket + "/dead/"
	}
	if c.Chain != "" {
		config.Chain = &Chain{Suffix: c.Chain, Bytes: 60_000, Age: c.Age}
	}
	if c.Split > 0 {
		config.Range = func(lane string) (Range, error) { r, err := from.Range(lane); return Range(r), err }
	}
	sink := unprobed(config)
	sink.least = min(sink.least, sink.config.PartSize)
	if c.step != nil {
		sink.step = c.step
	}
	return sink
}

// run carries everything over.
func (c *copyJob) run(ctx context.Context) error { return c.runWith(ctx, time.Nanosecond) }

// runBeside does the same, and leaves alone the uploads of other workers.
func (c *copyJob) runBeside(ctx context.Context) error { return c.runWith(ctx, time.Hour) }

func (c *copyJob) runWith(ctx context.Context, abandoned time.Duration) error {
	client, err := c.client(ctx)
	if err != nil {
		return err
	}
	defer client.Close()
	from := c.newSource(client)
	sink := c.newSink(client, from)
	sink.config.Abandoned = abandoned
	return pipeline.New(pipeline.Config{CommitEvery: time.Millisecond, RunRecords: 300, Lanes: 4}, from, sink, capitals{}).Run(ctx)
}

const jobVariable = "TEST_S3_JOB"

func TestMain(m *testing.M) {
	if text := os.Getenv(jobVariable); text != "" {
		os.Exit(runProcess(text))
	}
	os.Exit(m.Run())
}

// runProcess runs a job as a process of its own.
func runProcess(text string) int {
	var c copyJob
	if err := json.Unmarshal([]byte(text), &c); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	if c.Crash != "" {
		c.step = killAt(c.Crash)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := c.run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// killAt returns a function that ends the process at the nth time of a step, without any tidying.
func killAt(crash string) func(string) {
	passed := make(chan map[string]int, 1)
	passed <- map[string]int{}
	return func(name string) {
		counts := <-passed
		counts[name]++
		if fmt.Sprintf("%s:%d", name, counts[name]) == crash {
			self, _ := os.FindProcess(os.Getpid())
			_ = self.Kill()
			select {}
		}
		passed <- counts
	}
}

// process returns the job as a process that can be started.
func (c *copyJob) process(t testing.TB) (*exec.Cmd, *bytes.Buffer) {
	t.Helper()
	text, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	command := exec.Command(os.Args[0])
	command.Env = append(os.Environ(), jobVariable+"="+string(text))
	var messages bytes.Buffer
	command.Stdout, command.Stderr = &messages, &messages
	return command, &messages
}

// A world is the objects that a job reads, and what must come of them.
type world struct {
	store  *s3test.Store
	bucket string
	inputs map[string][]string // by key below in/
}

// newWorld stores objects of so many lines. Each line tells which it is; some are poison if the job has dead letters.
func newWorld(t testing.TB, store *s3test.Store, letters bool, lines ...int) *world {
	t.Helper()
	w := &world{store: store, bucket: store.Bucket(t), inputs: map[string][]string{}}
	for i, n := range lines {
		var list []string
		for j := range n {
			line := fmt.Sprintf("object %d line %d %s", i, j, strings.Repeat("abc ", j*7919%40))
			if letters && j%97 == 13 {
				line = fmt.Sprintf("%s %d %d", poison, i, j)
			}
			list = append(list, line)
		}
		key := fmt.Sprintf("folder/object %d.txt", i)
		w.inputs[key] = list
		store.Put(t, w.bucket, "in/"+key, []byte(strings.Join(append(list, ""), "\n")))
	}
	return w
}

// check looks at everything that is in the bucket: each record must be there once and in order, either in the output
// or among the dead letters, and nothing else may be there.
func (w *world) check(t testing.TB, c *copyJob) {
	t.Helper()
	keys := w.store.Keys(t, w.bucket, "")
	letters := w.lettersByLane(t, keys)
	expected := map[string]bool{}
	for key, lines := range w.inputs {
		expected["in/"+key] = true
		var want, dead []string
		for _, line := range lines {
			if c.Letters && strings.Contains(line, poison) {
				dead = append(dead, line)
			} else {
				want = append(want, strings.ToUpper(line))
			}
		}
		var got []string
		for _, output := range keys {
			if output == "out/"+key || strings.HasPrefix(output, "out/"+key+"/") {
				expected[output] = true
				data, _ := w.store.Get(t, w.bucket, output)
				got = append(got, linesOf(t, data)...)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: %d lines, want %d, or other ones", key, len(got), len(want))
		}
		if !slices.Equal(letters[key], dead) {
			t.Errorf("%s: %d dead letters, want %d, or other ones: %.300q", key, len(letters[key]), len(dead), letters[key])
		}
	}
	for _, key := range keys {
		if !expected[key] && !strings.HasPrefix(key, "dead/") {
			t.Errorf("%s is not expected", key)
		}
	}
	if n := w.store.Uploads(t, w.bucket, ""); n > 0 {
		t.Errorf("%d uploads are open", n)
	}
}

// lettersByLane reads all dead letters, by the key of their input.
func (w *world) lettersByLane(t testing.TB, keys []string) map[string][]string {
	t.Helper()
	letters := map[string][]string{}
	for _, key := range keys {
		if !strings.HasPrefix(key, "dead/") {
			continue
		}
		data, _ := w.store.Get(t, w.bucket, key)
		for line := range bytes.Lines(data) {
			letter, err := deadletter.Parse(line)
			if err != nil {
				t.Fatalf("%s: %v", key, err)
			}
			lane, _, _ := strings.Cut(strings.TrimPrefix(letter.Lane, "s3://"+w.bucket+"/in/"), "[")
			letters[lane] = append(letters[lane], string(letter.Original))
		}
	}
	return letters
}

func withTimeout(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	t.Cleanup(cancel)
	return ctx
}
