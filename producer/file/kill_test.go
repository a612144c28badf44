package file

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/parquet-go/parquet-go"

	"github.com/sluice-mt/sluice/consumer"
	source "github.com/sluice-mt/sluice/consumer/file"
	"github.com/sluice-mt/sluice/internal/compress"
	"github.com/sluice-mt/sluice/internal/job"
	"github.com/sluice-mt/sluice/internal/recordio"
	"github.com/sluice-mt/sluice/producer"
)

// A copyJob copies files through a Source and a Sink, with upper case for a translation. It is what the pipeline
// does, without its concurrency.
type copyJob struct {
	input, output string
	stdin         *os.File
	records       recordio.Options
	step          func(string)
	change        func(*Config)
	pause         time.Duration // after every run
	commitEvery   int           // runs
}

func (c *copyJob) run(ctx context.Context) error {
	from := source.New(source.Config{Paths: []string{c.input}, Records: c.records, Stdin: c.stdin})
	if err := from.Connect(ctx); err != nil {
		return err
	}
	config := Config{
		Path:     func(string) (string, error) { return c.output, nil },
		Encoder:  recordio.NewEncoder(c.records),
		Input:    from,
		MadeWith: map[string]string{"model": "upper case"},
	}
	if c.records.Format == recordio.Parquet {
		config.Assemble = recordio.AssembleParquet(c.records, func(string) string { return c.input })
	}
	if c.change != nil {
		c.change(&config)
	}
	to := New(config)
	if c.step != nil {
		to.step = c.step
	}
	if err := to.Connect(ctx); err != nil {
		return err
	}
	for {
		lane, err := from.Next(ctx)
		if errors.Is(err, consumer.ErrEndOfInput) {
			return nil
		}
		if err == nil {
			err = c.copyLane(ctx, lane, to)
		}
		if err != nil {
			return err
		}
	}
}

func (c *copyJob) copyLane(ctx context.Context, lane consumer.Lane, to *Sink) error {
	defer lane.Close()
	w, at, err := to.Open(ctx, lane.Name())
	if errors.Is(err, producer.ErrDone) {
		return nil
	}
	if err != nil {
		return err
	}
	return c.copyOpened(ctx, lane, w, at)
}

func (c *copyJob) copyOpened(ctx context.Context, lane consumer.Lane, w producer.Writer, at job.Position) error {
	defer w.Close()
	if err := lane.Start(ctx, at); err != nil {
		return err
	}
	runs := 0
	for {
		records, err := lane.Read(ctx)
		if err == io.EOF {
			return w.Finish(ctx)
		}
		if err != nil {
			return err
		}
		for len(records) > 0 {
			run := records[:min(50, len(records))]
			records = records[len(run):]
			if err := w.Write(ctx, translated(run)); err != nil {
				return err
			}
			time.Sleep(c.pause)
			if runs++; runs%max(1, c.commitEvery) == 0 {
				if _, err := w.Commit(ctx); err != nil {
					return err
				}
			}
		}
	}
}

func translated(records []job.Record) []job.Output {
	run := make([]job.Output, len(records))
	for i, record := range records {
		run[i].Record = record
		if record.Err == nil {
			run[i].Result.Hypotheses = []job.Hypothesis{{Text: strings.ToUpper(record.Text)}}
		}
	}
	return run
}

// TestMain lets the test binary be the process that is killed.
func TestMain(m *testing.M) {
	if input := os.Getenv("TEST_COPY_INPUT"); input != "" {
		os.Exit(copyProcess(input))
	}
	os.Exit(m.Run())
}

func copyProcess(input string) int {
	format, _ := strconv.Atoi(os.Getenv("TEST_COPY_FORMAT"))
	c := &copyJob{input: input, output: os.Getenv("TEST_COPY_OUTPUT"), records: recordio.Options{Format: recordio.Format(format)},
		pause: 200 * time.Microsecond, commitEvery: 20}
	if os.Getenv("TEST_COPY_OVERWRITE") != "" {
		c.change = func(config *Config) { config.Overwrite = true }
	}
	crash, left := os.Getenv("TEST_COPY_CRASH"), 0
	if crash != "" {
		name, count, _ := strings.Cut(crash, ":")
		crash = name
		left, _ = strconv.Atoi(count)
	}
	c.step = func(name string) {
		if name == crash {
			if left--; left <= 0 {
				syscall.Kill(os.Getpid(), syscall.SIGKILL)
				select {}
			}
		}
	}
	if err := c.run(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// process starts this binary as a copying process.
func process(input, output string, format recordio.Format, crash string) (*exec.Cmd, *bytes.Buffer) {
	command := exec.Command(os.Args[0])
	command.Env = append(os.Environ(), "TEST_COPY_INPUT="+input, "TEST_COPY_OUTPUT="+output,
		"TEST_COPY_FORMAT="+strconv.Itoa(int(format)), "TEST_COPY_CRASH="+crash)
	var messages bytes.Buffer
	command.Stderr = &messages
	return command, &messages
}

// A shape is a kind of input and output for which resuming is tested.
type shape struct {
	name          string
	records       recordio.Options
	input, output string // file names
}

var shapes = []shape{
	{"plain", recordio.Options{}, "in.txt", "out.txt"},
	{"gz", recordio.Options{}, "in.txt.gz", "out.txt.gz"},
	{"zst", recordio.Options{}, "in.txt.zst", "out.txt.zst"},
	{"bz2", recordio.Options{}, "in.txt", "out.txt.bz2"},
	{"xz", recordio.Options{}, "in.txt.xz", "out.txt.xz"},
	{"tsv", recordio.Options{Format: recordio.TSV}, "in.tsv", "out.tsv"},
	{"jsonl", recordio.Options{Format: recordio.JSONL}, "in.jsonl", "out.jsonl"},
	{"parquet", recordio.Options{Format: recordio.Parquet}, "in.parquet", "out.parquet"},
}

// write puts an input of n records of that shape into the folder.
func (s shape) write(t testing.TB, folder string, n int) string {
	t.Helper()
	random := rand.New(rand.NewPCG(1, 2))
	path := filepath.Join(folder, s.input)
	lines := make([]string, n)
	for i := range lines {
		words := make([]string, random.IntN(s.words()))
		for j := range words {
			words[j] = fmt.Sprintf("word%d", random.IntN(100000))
		}
		lines[i] = strings.Join(words, " ")
	}
	if s.records.Format == recordio.Parquet {
		writeParquet(t, path, lines)
		return path
	}
	for i, text := range lines {
		switch {
		case i%97 == 5 && s.records.Format != recordio.Text:
			lines[i] = "not a row or an object"
		case s.records.Format == recordio.TSV:
			lines[i] = fmt.Sprintf("%s\t%d", text, i)
		case s.records.Format == recordio.JSONL:
			lines[i] = fmt.Sprintf(`{"id":%d,"text":%q}`, i, text)
		}
	}
	writeCompressed(t, path, []byte(strings.Join(lines, "\n")+"\n"))
	return path
}

// words bounds the words of a line. Frames end after so many bytes, so for outputs of frames there must be more.
func (s shape) words() int {
	if compress.BySuffix(s.output) != compress.Plain || s.records.Format == recordio.Parquet {
		return 60
	}
	return 20
}

func writeParquet(t testing.TB, path string, texts []string) {
	t.Helper()
	type row struct {
		Number int64  `parquet:"number"`
		Text   string `parquet:"text,optional"`
		Also   string `parquet:"also,dict"`
	}
	rows := make([]row, len(texts))
	for i, text := range texts {
		rows[i] = row{int64(i), text, fmt.Sprint(i % 10)}
	}
	if err := parquet.WriteFile(path, rows, parquet.MaxRowsPerRowGroup(5000)); err != nil {
		t.Fatal(err)
	}
}

func writeCompressed(t testing.TB, path string, data []byte) {
	t.Helper()
	var packed bytes.Buffer
	w, err := compress.NewWriter(&packed, compress.BySuffix(path))
	if err != nil {
		t.Fatal(err)
	}
	for line := range bytes.Lines(data) {
		w.Write(line)
		w.Cut()
	}
	if err := w.Finish(true); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, packed.Bytes(), 0o666); err != nil {
		t.Fatal(err)
	}
}

// undisturbed gives the bytes that a job gives when it is left alone.
func undisturbed(t testing.TB, s shape, input string) []byte {
	t.Helper()
	folder := t.TempDir()
	c := copyJob{input: input, output: filepath.Join(folder, s.output), records: s.records, commitEvery: 7}
	if err := c.run(context.Background()); err != nil {
		t.Fatal(err)
	}
	expectOnly(t, folder, s.output)
	data, err := os.ReadFile(c.output)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// expectOnly checks which files are in a folder.
func expectOnly(t testing.TB, folder string, names ...string) {
	t.Helper()
	entries, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, entry := range entries {
		found = append(found, entry.Name())
	}
	if strings.Join(found, " ") != strings.Join(names, " ") {
		t.Errorf("the folder holds %q, want %q", found, names)
	}
}

// kills is how often a job is killed at random; the variable SLUICE_KILLS says otherwise.
func kills(t testing.TB) int {
	if text := os.Getenv("SLUICE_KILLS"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil {
			t.Fatalf("SLUICE_KILLS: %v", err)
		}
		return n
	}
	if testing.Short() {
		return 3
	}
	return 5
}

func TestAJobThatIsKilledAtRandomGivesTheSameBytes(t *testing.T) {
	for _, s := range shapes {
		t.Run(s.name, func(t *testing.T) {
			n := kills(t)
			input := s.write(t, t.TempDir(), 20000)
			want := undisturbed(t, s, input)
			killed, progressed, jobs := 0, 0, 0
			for ; killed < n; jobs++ {
				folder := t.TempDir()
				output := filepath.Join(folder, s.output)
				k, p := killUntilDone(t, s, input, output, min(10, n-killed), jobs)
				killed += k
				progressed += p
				got, err := os.ReadFile(output)
				if err != nil || !bytes.Equal(got, want) {
					t.Fatalf("job %d, after %d kills: %d bytes, want %d, or other ones, error %v", jobs, k, len(got), len(want), err)
				}
				expectOnly(t, folder, s.output)
			}
			t.Logf("%d jobs, %d kills, %d of them after progress", jobs, killed, progressed)
			if progressed == 0 {
				t.Error("no job was killed after progress")
			}
		})
	}
}

// killUntilDone kills n processes at random moments of their work and lets the next one finish. A process may also
// finish before it is killed.
func killUntilDone(t *testing.T, s shape, input, output string, n, job int) (killed, progressed int) {
	random := rand.New(rand.NewPCG(3, uint64(job)))
	checkpoint := output + CheckpointSuffix
	for killed < n {
		before, _ := os.ReadFile(checkpoint)
		command, messages := process(input, output, s.records.Format, "")
		if err := command.Start(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Duration(20+random.IntN(80)) * time.Millisecond)
		command.Process.Kill()
		if err := command.Wait(); err == nil {
			return killed, progressed
		} else if messages.Len() > 0 {
			t.Fatalf("after %d kills: %s", killed, messages)
		}
		killed++
		if after, _ := os.ReadFile(checkpoint); !bytes.Equal(before, after) {
			progressed++
		}
	}
	command, messages := process(input, output, s.records.Format, "")
	if err := command.Run(); err != nil {
		t.Fatalf("the last process: %v: %s", err, messages)
	}
	return killed, progressed
}
