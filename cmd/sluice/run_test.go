//go:build unix

package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sluice-mt/sluice/internal/deadletter"
	"github.com/sluice-mt/sluice/internal/jobfile"
	"github.com/sluice-mt/sluice/internal/kafkatest"
	"github.com/sluice-mt/sluice/internal/s3test"
	"github.com/sluice-mt/sluice/internal/sharedtest"
	"github.com/sluice-mt/sluice/pipeline"
	"github.com/sluice-mt/sluice/producer"
)

// A place is where lanes of numbered records lie, or where their outputs come to lie. Lane i of n holds the texts
// "lane i record 0", "lane i record 1" and so on; one in a hundred is poison.
type place interface {
	// settings are the job file's lines for the place, as its source or its sink.
	settings(t *testing.T, source bool) string
	fill(t *testing.T, lanes, records int)
	// read returns the outputs of a lane, and the dead letters of all lanes.
	read(t *testing.T, lane int) []string
	letters(t *testing.T) []deadletter.Letter
	// deadLetters is the setting for them.
	deadLetters() string
	// strays are what should not be there: unfinished uploads, partial files.
	strays(t *testing.T) []string
}

func recordText(lane, record int) string {
	if record%100 == 57 {
		return fmt.Sprintf("poison lane %d record %d", lane, record)
	}
	return fmt.Sprintf("lane %d record %d", lane, record)
}

// A topic is a place in Kafka.
type topic struct {
	cluster *kafkatest.Cluster
	name    string
}

func (p *topic) settings(t *testing.T, source bool) string {
	which := "topic: " + p.name
	if source {
		which = "topics: " + p.name + ", stop-at-end: true, session: 6s, rebalance: 6s"
	}
	return fmt.Sprintf("{kafka: {brokers: [%s], %s}}", strings.Join(p.cluster.Brokers, ", "), which)
}

func (p *topic) deadLetters() string { return p.name + ".failed" }

func (p *topic) create(t *testing.T, lanes int) {
	p.cluster.CreateTopic(t, p.name, lanes)
	p.cluster.CreateTopic(t, p.deadLetters(), lanes)
}

func (p *topic) fill(t *testing.T, lanes, records int) {
	for lane := range lanes {
		texts := make([]string, records)
		for i := range texts {
			texts[i] = recordText(lane, i)
		}
		p.cluster.Write(t, kafkatest.Texts(p.name, lane, texts...)...)
	}
}

// read looks for the lane in all partitions: a file or an object has one of the sink's choice.
func (p *topic) read(t *testing.T, lane int) (texts []string) {
	for partition := range pairLanes {
		for _, text := range kafkatest.Values(p.cluster.Committed(t, p.name, partition)) {
			if strings.HasPrefix(text, fmt.Sprintf("LANE %d ", lane)) {
				texts = append(texts, text)
			}
		}
	}
	return texts
}

func (p *topic) letters(t *testing.T) (letters []deadletter.Letter) {
	for lane := range pairLanes {
		for _, text := range kafkatest.Values(p.cluster.Committed(t, p.deadLetters(), lane)) {
			letters = append(letters, parseLetter(t, text))
		}
	}
	return letters
}

func (p *topic) strays(*testing.T) []string { return nil }

func parseLetter(t *testing.T, text string) deadletter.Letter {
	t.Helper()
	letter, err := deadletter.Parse([]byte(text))
	if err != nil {
		t.Fatalf("dead letter %q: %v", text, err)
	}
	return letter
}

// A bucket is a place in S3.
type bucket struct {
	store *s3test.Store
	name  string
	chain bool // outputs of topics
}

func (p *bucket) store3() string {
	return fmt.Sprintf("endpoint: %q, path-style: true, region: us-east-1, access-key: %q, secret-key: %q",
		p.store.Endpoint, p.store.AccessKey, p.store.SecretKey)
}

func (p *bucket) settings(t *testing.T, source bool) string {
	if source {
		return fmt.Sprintf("{s3: {inputs: s3://%s/in/, %s}}", p.name, p.store3())
	}
	return fmt.Sprintf("{s3: {prefix: s3://%s/out/, %s}}", p.name, p.store3())
}

func (p *bucket) deadLetters() string { return "s3://" + p.name + "/failed/" }

func (p *bucket) fill(t *testing.T, lanes, records int) {
	for lane := range lanes {
		p.store.Put(t, p.name, fmt.Sprintf("in/%d", lane), laneFile(lane, records))
	}
}

func laneFile(lane, records int) []byte {
	var content bytes.Buffer
	for i := range records {
		fmt.Fprintln(&content, recordText(lane, i))
	}
	return content.Bytes()
}

func (p *bucket) read(t *testing.T, lane int) (lines []string) {
	prefix := fmt.Sprintf("out/%d", lane)
	if p.chain {
		keys := p.store.Keys(t, p.name, "out/")
		i := slices.IndexFunc(keys, func(key string) bool { return strings.Contains(key, fmt.Sprintf("/%d/", lane)) })
		if i < 0 {
			return nil
		}
		prefix = keys[i][:strings.LastIndexByte(keys[i], '/')+1]
	}
	keys := p.store.Keys(t, p.name, prefix)
	slices.Sort(keys)
	for _, key := range keys {
		content, _ := p.store.Get(t, p.name, key)
		lines = append(lines, textLines(string(content))...)
	}
	return lines
}

func textLines(text string) []string {
	if text == "" {
		return nil
	}
	return strings.Split(strings.TrimSuffix(text, "\n"), "\n")
}

func (p *bucket) letters(t *testing.T) (letters []deadletter.Letter) {
	for _, key := range p.store.Keys(t, p.name, "failed/") {
		content, _ := p.store.Get(t, p.name, key)
		for _, line := range textLines(string(content)) {
			letters = append(letters, parseLetter(t, line))
		}
	}
	return letters
}

func (p *bucket) strays(t *testing.T) (strays []string) {
	for _, key := range p.store.Keys(t, p.name, "") {
		if !strings.HasPrefix(key, "in/") && !strings.HasPrefix(key, "out/") && !strings.HasPrefix(key, "failed/") || strings.Contains(key, "_sluice") {
			strays = append(strays, key)
		}
	}
	return strays
}

// A folder is a place in the file system.
type folder struct {
	path  string
	chain bool // outputs of topics
}

func (p *folder) settings(t *testing.T, source bool) string {
	if source {
		return fmt.Sprintf("{files: {paths: %s}}", filepath.Join(p.path, "in"))
	}
	return fmt.Sprintf("{files: {folder: %s}}", filepath.Join(p.path, "out"))
}

func (p *folder) deadLetters() string { return filepath.Join(p.path, "failed") }

func (p *folder) fill(t *testing.T, lanes, records int) {
	if err := os.MkdirAll(filepath.Join(p.path, "in"), 0o777); err != nil {
		t.Fatal(err)
	}
	for lane := range lanes {
		if err := os.WriteFile(filepath.Join(p.path, "in", strconv.Itoa(lane)), laneFile(lane, records), 0o666); err != nil {
			t.Fatal(err)
		}
	}
}

func (p *folder) read(t *testing.T, lane int) (lines []string) {
	pattern := filepath.Join(p.path, "out", strconv.Itoa(lane))
	if p.chain {
		pattern = filepath.Join(p.path, "out", "*", strconv.Itoa(lane), "*.txt")
	}
	for _, content := range filesOf(t, pattern) {
		lines = append(lines, textLines(content)...)
	}
	return lines
}

// filesOf returns the contents of files, in the order of their names.
func filesOf(t *testing.T, patterns ...string) (contents []string) {
	t.Helper()
	for _, pattern := range patterns {
		paths, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range paths {
			content, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			contents = append(contents, string(content))
		}
	}
	return contents
}

func (p *folder) letters(t *testing.T) (letters []deadletter.Letter) {
	for _, content := range filesOf(t, filepath.Join(p.path, "failed", "*.jsonl"), filepath.Join(p.path, "failed", "*", "*", "*.jsonl")) {
		for _, line := range textLines(content) {
			letters = append(letters, parseLetter(t, line))
		}
	}
	return letters
}

func (p *folder) strays(t *testing.T) (strays []string) {
	for _, pattern := range []string{"*.partial", "*.checkpoint"} {
		found, err := filepath.Glob(filepath.Join(p.path, "out", pattern))
		if err != nil {
			t.Fatal(err)
		}
		strays = append(strays, found...)
	}
	return strays
}

const (
	pairLanes   = 4
	pairRecords = 10000
)

// TestPairs kills jobs between every two kinds of places at random moments, several workers at a time, until they get through.
// Every record is then in the output once, in the order of its lane, or a dead letter.
func TestPairs(t *testing.T) {
	testPairs(t, places{cluster: kafkatest.StartFake(t), store: s3test.Fake(t)}, func(pair) bool { return true })
}

// TestPairsOnRealServers does the same with Apache Kafka and a store that keeps objects as files.
func TestPairsOnRealServers(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	real := kafkatest.StartReal(t, 1)
	testPairs(t, places{cluster: real.Cluster, store: s3test.Gateway(t)}, func(p pair) bool {
		return p.source != inFolder || p.sink != inFolder // which has been tested with the others
	})
}

// The exit code says whether to start the job again. What a person has to look at first is 2.
func TestEndsOfJobs(t *testing.T) {
	stage := func(name string, err error) error {
		return &pipeline.StageError{Stage: name, Lane: "topic/0", Err: err}
	}
	j := &streamingJob{job: &jobfile.Job{}}
	for _, test := range []struct {
		err     error
		endless bool
		code    int
	}{
		{nil, false, exitOK},
		{pipeline.ErrStalled, true, exitFailure},
		{pipeline.ErrTooManyFailed, true, exitFailure},
		{pipeline.ErrInterrupted, true, exitOK},
		{pipeline.ErrInterrupted, false, exitInterrupted},
		{stage("read", io.ErrUnexpectedEOF), false, exitInput},
		{stage("write", io.ErrShortWrite), false, exitOutput},
		{stage("commit", io.ErrShortWrite), false, exitOutput},
		{stage("write", fmt.Errorf("topic/0@5: %w", producer.ErrNoPlace)), true, exitUsage},
		{stage("write", &producer.ChangedError{Output: "a"}), true, exitUsage},
	} {
		if code := exitCode(j.explain(test.err, test.endless)); code != test.code {
			t.Errorf("%v, endless %v: exit code %d, want %d", test.err, test.endless, code, test.code)
		}
	}
}

// The kinds of places.
const (
	inTopic = iota
	inBucket
	inFolder
)

var kindNames = []string{"topic", "objects", "files"}

type pair struct{ source, sink int }

// places makes places on servers.
type places struct {
	cluster *kafkatest.Cluster
	store   *s3test.Store
	topics  int
}

// make makes a place of a kind. chain says that it is for the outputs of topics.
func (p *places) make(t *testing.T, kind int, chain bool) place {
	switch kind {
	case inTopic:
		p.topics++
		made := &topic{p.cluster, fmt.Sprintf("pair-%d", p.topics)}
		made.create(t, pairLanes)
		return made
	case inBucket:
		return &bucket{p.store, p.store.Bucket(t), chain}
	default:
		return &folder{t.TempDir(), chain}
	}
}

func testPairs(t *testing.T, places places, wanted func(pair) bool) {
	for source := range kindNames {
		for sink := range kindNames {
			if wanted(pair{source, sink}) {
				t.Run(kindNames[source]+" to "+kindNames[sink], func(t *testing.T) {
					testPair(t, places.make(t, source, false), places.make(t, sink, source == inTopic))
				})
			}
		}
	}
}

func testPair(t *testing.T, source, sink place) {
	source.fill(t, pairLanes, pairRecords)
	path := filepath.Join(t.TempDir(), "job.yml")
	text := fmt.Sprintf("name: pair\nsource: %s\nsink: %s\ndead-letters: %s\ntranslate: {models: %s}\ncommit-every: 20ms\nlanes: 2\n",
		source.settings(t, true), sink.settings(t, false), sink.deadLetters(), filepath.Join(sharedtest.Root(), "models", "ende-tiny"))
	if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	kills := runKilled(t, path, 5)
	checkPlace(t, sink, pairLanes, pairRecords)
	t.Logf("%d kills", kills)
}

// runKilled runs workers of a job, killing one now and then, until each of them has got through.
func runKilled(t *testing.T, path string, kills int) int {
	t.Helper()
	const workers = 2
	type end struct {
		worker int
		killed bool
		err    error
	}
	ends := make(chan end)
	messages, err := os.Create(path + ".log")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		messages.Close()
		if content, err := os.ReadFile(messages.Name()); t.Failed() && err == nil {
			t.Logf("what the workers said:\n%s", content)
		}
	})
	begin := func(worker int, patience time.Duration) {
		go func() {
			command := exec.Command("sluice-echo", "run", path)
			command.Stderr = messages
			killed, err := runAtMost(command, patience)
			ends <- end{worker, killed, err}
		}()
	}
	// The fake brokers keep a member that died between joining and syncing until the group is divided again, which nothing
	// makes it do: a newcomer is what they need then.
	const newcomers = 4
	killed := 0
	patience := func() time.Duration {
		if killed >= kills {
			return 30 * time.Second
		}
		return 100*time.Millisecond + time.Duration(rand.Int64N(int64(900*time.Millisecond)))
	}
	for worker := range workers {
		begin(worker, patience())
	}
	var failed error
	for through := 0; through < workers; {
		e := <-ends
		switch {
		case e.killed && killed < kills+workers+newcomers:
			killed++
			begin(e.worker, patience())
			continue
		case e.killed:
			failed = errors.Join(failed, fmt.Errorf("worker %d does not come to an end", e.worker))
		case e.err != nil:
			failed = errors.Join(failed, fmt.Errorf("worker %d: %w", e.worker, e.err))
		}
		through++
	}
	if failed != nil {
		t.Fatal(failed)
	}
	if content, err := os.ReadFile(messages.Name()); err != nil || bytes.Contains(content, []byte("is left to the member that has it")) {
		begin(workers, time.Minute) // they took such a dead member for one that is alive
		if e := <-ends; e.err != nil || e.killed {
			t.Fatalf("the worker that came last: %v", e.err)
		}
	}
	return killed
}

// checkPlace is the oracle.
func checkPlace(t *testing.T, sink place, lanes, records int) {
	t.Helper()
	failed := map[string]int{}
	for _, letter := range sink.letters(t) {
		failed[string(letter.Original)]++
	}
	for lane := range lanes {
		got := sink.read(t, lane)
		var want []string
		for i := range records {
			text := recordText(lane, i)
			switch poison := strings.Contains(text, "poison"); {
			case poison:
				if failed[text] != 1 {
					t.Errorf("%q is a dead letter %d times", text, failed[text])
				}
				delete(failed, text)
			default:
				want = append(want, strings.ToUpper(text))
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("lane %d: %s", lane, firstDifference(got, want))
		}
	}
	for text, n := range failed {
		t.Errorf("%q is a dead letter %d times, and should be none", text, n)
	}
	if strays := sink.strays(t); len(strays) > 0 {
		t.Errorf("left over: %q", strays)
	}
}

func firstDifference(got, want []string) string {
	for i := range min(len(got), len(want)) {
		if got[i] != want[i] {
			return fmt.Sprintf("output %d is %q instead of %q (%d outputs, %d expected)", i, got[i], want[i], len(got), len(want))
		}
	}
	return fmt.Sprintf("%d outputs, %d expected", len(got), len(want))
}
