package file

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluice-mt/sluice/internal/deadletter"
	"github.com/sluice-mt/sluice/internal/job"
	"github.com/sluice-mt/sluice/internal/recordio"
	"github.com/sluice-mt/sluice/producer"
	"github.com/sluice-mt/sluice/producer/contract"
)

func chainConfig(folder, suffix string) ChainConfig {
	return ChainConfig{
		Folder: func(lane string) (string, error) { return filepath.Join(folder, "out", lane), nil },
		Suffix: suffix, Encoder: recordio.NewTextEncoder(), MadeWith: map[string]string{"model": "m1"},
	}
}

// chained returns the lines of all files of a lane.
func chained(t testing.TB, folder, lane string) []string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(folder, "out", lane, "0*"))
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(paths)
	lines := []string{}
	for _, path := range paths {
		lines = append(lines, readLines(t, path)...)
	}
	return lines
}

func TestContractOfChains(t *testing.T) {
	for _, suffix := range []string{".txt", ".gz"} {
		t.Run("suffix"+suffix, func(t *testing.T) {
			contract.RunTests(t, contract.Config{Incremental: true, Forgets: true, New: func(t testing.TB) contract.Place {
				folder := newFolder(t)
				return contract.Place{
					Sink:      func() producer.Sink { return NewChain(chainConfig(folder, suffix)) },
					Published: func(t testing.TB, lane string) []string { return chained(t, folder, lane) },
				}
			}})
		})
	}
}

// A chainJob writes numbered records to a chain, of which every seventh cannot be translated.
type chainJob struct {
	Folder  string
	Records int
	Commit  int    // records between commits
	Crash   string // step:n, at which the process is killed
}

const chainVariable = "TEST_CHAIN_JOB"

func (c *chainJob) run(step func(string)) error {
	config := chainConfig(c.Folder, ".gz")
	config.DeadLetters = func(lane string) (string, error) { return filepath.Join(c.Folder, "dead", lane), nil }
	sink := NewChain(config)
	sink.step = step
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	w, at, err := sink.Open(ctx, "topic/3")
	if err != nil {
		return err
	}
	for from := int(at.Record); from < c.Records; from += c.Commit {
		if err := w.Write(ctx, chainRun(from, min(c.Records, from+c.Commit))); err != nil {
			return errors.Join(err, w.Close())
		}
		if _, err := w.Commit(ctx); err != nil {
			return errors.Join(err, w.Close())
		}
	}
	return errors.Join(w.Finish(ctx), w.Close())
}

func chainRun(from, to int) []job.Output {
	var list []job.Output
	for i := from; i < to; i++ {
		text := fmt.Sprint("record ", i)
		output := job.Output{Record: job.Record{Seq: int64(i), Text: text, End: job.Position{Record: int64(i + 1), Offset: int64(i + 1)}}}
		output.Result.Hypotheses = []job.Hypothesis{{Text: text}}
		if i%7 == 3 {
			output.Result = job.Result{Err: errors.New("poison")}
		}
		list = append(list, output)
	}
	return list
}

// TestChainProcess is the process that is killed.
func TestChainProcess(t *testing.T) {
	text := os.Getenv(chainVariable)
	if text == "" {
		t.Skip("is run by another test")
	}
	var c chainJob
	if err := json.Unmarshal([]byte(text), &c); err != nil {
		t.Fatal(err)
	}
	counts := map[string]int{}
	err := c.run(func(name string) {
		counts[name]++
		if fmt.Sprintf("%s:%d", name, counts[name]) == c.Crash {
			self, _ := os.FindProcess(os.Getpid())
			_ = self.Kill()
			select {}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestAChainThatIsKilledBetweenAnyTwoEvents(t *testing.T) {
	var passed []string
	whole := chainJob{Folder: t.TempDir(), Records: 30, Commit: 8}
	if err := whole.run(func(name string) { passed = append(passed, name) }); err != nil {
		t.Fatal(err)
	}
	whole.check(t)
	seen := map[string]int{}
	for _, name := range passed {
		seen[name]++
		if seen[name] > 2 {
			continue // a third time is like the second
		}
		c := chainJob{Folder: t.TempDir(), Records: 30, Commit: 8, Crash: fmt.Sprintf("%s:%d", name, seen[name])}
		text, _ := json.Marshal(c)
		command := exec.Command(os.Args[0], "-test.run=^TestChainProcess$")
		command.Env = append(os.Environ(), chainVariable+"="+string(text))
		if output, err := command.CombinedOutput(); err == nil {
			t.Errorf("%s: the process was not killed: %s", c.Crash, output)
		}
		c.Commit = 5 // other cuts than before
		for range 2 {
			if err := c.run(func(string) {}); err != nil {
				t.Errorf("killed at %s: %v", c.Crash, err)
			}
		}
		c.check(t)
		if t.Failed() {
			t.Fatalf("killed at %s", c.Crash)
		}
	}
	t.Logf("%d different points", len(seen))
}

// check expects every record once, in order, in the files or among the dead letters, and nothing else.
func (c *chainJob) check(t *testing.T) {
	t.Helper()
	var want, dead, letters []string
	for i := range c.Records {
		if text := fmt.Sprint("record ", i); i%7 == 3 {
			dead = append(dead, text)
		} else {
			want = append(want, text)
		}
	}
	if got := chained(t, c.Folder, "topic/3"); !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	paths, _ := filepath.Glob(filepath.Join(c.Folder, "dead", "topic", "3", "0*"))
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for line := range bytes.Lines(data) {
			letter, err := deadletter.Parse(line)
			if err != nil {
				t.Fatal(err)
			}
			letters = append(letters, string(letter.Original))
		}
	}
	if !slices.Equal(letters, dead) {
		t.Errorf("dead letters %q", letters)
	}
	left, _ := filepath.Glob(filepath.Join(c.Folder, "*", "topic", "3", ".sluice", "*"))
	for _, path := range left {
		if name := filepath.Base(path); name != "lock" && !strings.HasPrefix(name, "0000000000") {
			t.Errorf("left behind: %s", path)
		}
	}
}

func TestChainsOfFilesThatCannotBeContinued(t *testing.T) {
	folder := t.TempDir()
	open := func(change func(*ChainConfig)) (producer.Writer, job.Position, error) {
		config := chainConfig(folder, ".txt")
		if change != nil {
			change(&config)
		}
		return NewChain(config).Open(context.Background(), "lane")
	}
	w, _, err := open(nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(w.Write(context.Background(), chainRun(0, 3)), w.Finish(context.Background()), w.Close()); err != nil {
		t.Fatal(err)
	}
	var changed *ChangedError
	if _, _, err := open(func(c *ChainConfig) { c.MadeWith = map[string]string{"model": "m2"} }); !errors.As(err, &changed) || !strings.Contains(err.Error(), "model was m1 and is now m2") {
		t.Errorf("another model: %v", err)
	}
	w, at, err := open(func(c *ChainConfig) { c.MadeWith, c.Continue = nil, true })
	if err != nil || at.Record != 3 {
		t.Fatalf("another model, as wanted: %+v, %v", at, err)
	}
	w.Close()
	// Readers may take files away, but nobody may put one in the way.
	if err := os.Remove(filepath.Join(folder, "out", "lane", "00000000000000000000.txt")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, "out", "lane", "00000000000000000003.txt"), []byte("foreign"), 0o666); err != nil {
		t.Fatal(err)
	}
	w, at, err = open(nil)
	if err != nil || at.Record != 3 {
		t.Fatalf("without its file: %+v, %v", at, err)
	}
	if err := errors.Join(w.Write(context.Background(), chainRun(3, 6)), w.Finish(context.Background())); !errors.Is(err, ErrExists) {
		t.Errorf("a file that is in the way: %v", err)
	}
	w.Close()
}

// Where locks do not reach, the link decides.
func TestTwoWritersOfAChainWithoutALock(t *testing.T) {
	folder := t.TempDir()
	sink := NewChain(chainConfig(folder, ".txt"))
	first, _, err := sink.Open(context.Background(), "lane")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(filepath.Join(folder, "out", "lane", ".sluice", "lock"), filepath.Join(folder, "lock")); err != nil {
		t.Fatal(err)
	}
	second, _, err := sink.Open(context.Background(), "lane")
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range []producer.Writer{first, second} {
		if err := w.Write(context.Background(), chainRun(0, 3)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := second.Commit(context.Background()); err != nil {
		t.Error(err)
	}
	if _, err := first.Commit(context.Background()); !errors.Is(err, producer.ErrFenced) {
		t.Errorf("the other one: %v", err)
	}
	if err := errors.Join(first.Close(), second.Close()); err != nil {
		t.Error(err)
	}
	if got := chained(t, folder, "lane"); len(got) != 3 {
		t.Errorf("%q", got)
	}
}

func FuzzParseChainEntry(f *testing.F) {
	f.Add([]byte(`{"version":1,"token":"0123456789abcdef0123456789abcdef","end":{"record":3,"input":0,"offset":30},"records":3,"made_with":{}}`), int64(7))
	f.Fuzz(func(t *testing.T, data []byte, start int64) {
		entry, err := parseChainEntry(data, start)
		if err == nil && (entry.End.Offset <= start || strings.ContainsAny(entry.Token, "/.\\")) {
			t.Errorf("%+v from %d", entry, start)
		}
	})
}
