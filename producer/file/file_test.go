package file

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	source "github.com/sluice-mt/sluice/consumer/file"
	"github.com/sluice-mt/sluice/internal/job"
	"github.com/sluice-mt/sluice/internal/recordio"
	"github.com/sluice-mt/sluice/producer"
)

var errStop = errors.New("stop here")

// stopAt ends a job at an event, as if the process had been told to stop.
func stopAt(name string, count int) func(string) {
	return func(passed string) {
		if passed == name {
			if count--; count == 0 {
				panic(errStop)
			}
		}
	}
}

// interrupted runs a job until it stops at an event.
func interrupted(t *testing.T, c copyJob, step func(string)) {
	t.Helper()
	defer func() {
		if reason := recover(); reason != errStop {
			t.Fatalf("the job was not interrupted: %v", reason)
		}
	}()
	c.step = step
	t.Fatalf("the job ended by itself: %v", c.run(context.Background()))
}

// half makes a job that was interrupted in the middle.
func half(t *testing.T) (copyJob, string) {
	t.Helper()
	s := shapes[0]
	folder := t.TempDir()
	c := copyJob{input: s.write(t, t.TempDir(), 2000), output: filepath.Join(folder, s.output), commitEvery: 5}
	interrupted(t, c, stopAt("committed", 3))
	expectOnly(t, folder, s.output+CheckpointSuffix, s.output+PartialSuffix)
	return c, folder
}

func TestAChangedJobIsRefused(t *testing.T) {
	for name, test := range map[string]struct {
		change func(t *testing.T, c *copyJob)
		want   []string
	}{
		"model": {func(t *testing.T, c *copyJob) {
			c.change = func(config *Config) { config.MadeWith = map[string]string{"model": "lower case", "beam": "4"} }
		}, []string{"beam was not set and is now 4", "model was upper case and is now lower case", "overwrite it"}},
		"size": {func(t *testing.T, c *copyJob) {
			file, err := os.OpenFile(c.input, os.O_APPEND|os.O_WRONLY, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer file.Close()
			file.WriteString("more\n")
		}, []string{"in.txt had ", " bytes and has now "}},
		"time": {func(t *testing.T, c *copyJob) {
			os.Chtimes(c.input, time.Time{}, time.Unix(1_000_000_000, 0))
		}, []string{"was last changed at 2001-09-09T01:46:40Z, and at "}},
		"content": {func(t *testing.T, c *copyJob) {
			info, _ := os.Stat(c.input)
			data, _ := os.ReadFile(c.input)
			data[100] ^= 1
			os.WriteFile(c.input, data, 0)
			os.Chtimes(c.input, time.Time{}, info.ModTime())
		}, []string{"begins with other bytes"}},
		"partial file cut":   {func(t *testing.T, c *copyJob) { os.Truncate(c.output+PartialSuffix, 10) }, []string{"has 10 bytes, and", "says that it had"}},
		"partial file gone":  {func(t *testing.T, c *copyJob) { os.Remove(c.output + PartialSuffix) }, []string{"has 0 bytes, and"}},
		"checkpoint gone":    {func(t *testing.T, c *copyJob) { os.Remove(c.output + CheckpointSuffix) }, []string{"has data but no checkpoint"}},
		"checkpoint damaged": {func(t *testing.T, c *copyJob) { os.WriteFile(c.output+CheckpointSuffix, []byte("{"), 0o666) }, []string{"not a checkpoint"}},
		"newer checkpoint": {func(t *testing.T, c *copyJob) {
			os.WriteFile(c.output+CheckpointSuffix, []byte(`{"version":9}`), 0o666)
		}, []string{"version 9"}},
		"output appeared": {func(t *testing.T, c *copyJob) { os.WriteFile(c.output, []byte("x"), 0o666) }, []string{"exists already", "overwrite it"}},
	} {
		t.Run(name, func(t *testing.T) {
			c, folder := half(t)
			test.change(t, &c)
			before := snapshot(t, folder)
			err := c.run(context.Background())
			if err == nil {
				t.Fatal("no error")
			}
			for _, want := range test.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("error %v, want %q", err, want)
				}
			}
			if after := snapshot(t, folder); after != before {
				t.Errorf("the files were changed from\n%s to\n%s", before, after)
			}
			c.change = func(config *Config) { config.Overwrite = true }
			if err := c.run(context.Background()); err != nil {
				t.Fatal(err)
			}
			expectOnly(t, folder, "out.txt")
		})
	}
}

// snapshot lists the names and contents of a folder.
func snapshot(t *testing.T, folder string) string {
	t.Helper()
	var text strings.Builder
	err := filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		text.WriteString(path + ": " + string(data[:min(len(data), 500)]) + "\n")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return text.String()
}

func TestAnOutputThatExistsIsNotOverwritten(t *testing.T) {
	s := shapes[0]
	folder := t.TempDir()
	c := copyJob{input: s.write(t, t.TempDir(), 100), output: filepath.Join(folder, s.output)}
	if err := os.WriteFile(c.output, []byte("precious"), 0o666); err != nil {
		t.Fatal(err)
	}
	if err := c.run(context.Background()); !errors.Is(err, ErrExists) {
		t.Errorf("error %v", err)
	}
	expectOnly(t, folder, s.output)
	c.change = func(config *Config) { config.Overwrite = true }
	interrupted(t, c, stopAt("committed", 1))
	if data, _ := os.ReadFile(c.output); string(data) != "precious" {
		t.Errorf("the old output is %q before the new one is complete", data)
	}
	c.change = nil // the checkpoint knows that the output is to be replaced
	if err := c.run(context.Background()); err != nil {
		t.Fatal(err)
	}
	expectOnly(t, folder, s.output)
}

func TestAnOutputThatAppearsMeanwhileIsNotOverwritten(t *testing.T) {
	s := shapes[0]
	c := copyJob{input: s.write(t, t.TempDir(), 100), output: filepath.Join(t.TempDir(), s.output)}
	c.step = func(name string) {
		if name == "data synced" {
			os.WriteFile(c.output, []byte("precious"), 0o666)
		}
	}
	if err := c.run(context.Background()); !errors.Is(err, fs.ErrExist) {
		t.Errorf("error %v", err)
	}
	if data, _ := os.ReadFile(c.output); string(data) != "precious" {
		t.Errorf("the output is %q", data)
	}
}

func TestALaneOfWhichNothingWasCommittedLeavesNothing(t *testing.T) {
	folder := t.TempDir()
	sink := New(folderConfig(folder, ""))
	ctx := context.Background()
	if err := sink.Connect(ctx); err != nil {
		t.Fatal(err)
	}
	w, _, err := sink.Open(ctx, "lane")
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Write(ctx, []job.Output{{Record: job.Record{End: job.Position{Record: 1}}}}); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	expectOnly(t, folder)
}

// A folder of files is translated again, after changes.
func TestCompleteOutputsArePassedOver(t *testing.T) {
	in, out := t.TempDir(), t.TempDir()
	for _, name := range []string{"a.txt", "b.txt"} {
		if err := os.WriteFile(filepath.Join(in, name), []byte(name+"\n"), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	run := func(model string) map[string]error {
		from := source.New(source.Config{Paths: []string{in}})
		config := folderConfig(out, "")
		config.Path = func(lane string) (string, error) {
			relative, err := from.Relative(lane)
			return filepath.Join(out, relative), err
		}
		config.Input = from
		config.MadeWith = map[string]string{"model": model}
		return copyFolder(t, from, New(config))
	}
	for lane, err := range run("one") {
		if err != nil {
			t.Errorf("first time, %s: %v", lane, err)
		}
	}
	for lane, err := range run("one") {
		if !errors.Is(err, producer.ErrDone) {
			t.Errorf("second time, %s: %v", lane, err)
		}
	}
	var changed *ChangedError
	for lane, err := range run("two") {
		if !errors.As(err, &changed) {
			t.Errorf("with another model, %s: %v", lane, err)
		}
	}
	appendTo(t, filepath.Join(in, "a.txt"), "more\n")
	appendTo(t, filepath.Join(out, LedgerName), `{"output":"b.t`) // as if cut short by a crash
	appendTo(t, filepath.Join(out, "b.txt"), "edited\n")
	for lane, err := range run("one") {
		if strings.HasSuffix(lane, "a.txt") && !errors.As(err, &changed) || strings.HasSuffix(lane, "b.txt") && !errors.Is(err, ErrExists) {
			t.Errorf("after changes, %s: %v", lane, err)
		}
	}
	expectOnly(t, out, LedgerName, "a.txt", "b.txt")
}

func appendTo(t *testing.T, path, text string) {
	t.Helper()
	file, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if _, err := file.WriteString(text); err != nil {
		t.Fatal(err)
	}
}

// copyFolder copies every lane and returns what became of each.
func copyFolder(t *testing.T, from *source.Source, to *Sink) map[string]error {
	t.Helper()
	ctx := context.Background()
	if err := errors.Join(from.Connect(ctx), to.Connect(ctx)); err != nil {
		t.Fatal(err)
	}
	results := map[string]error{}
	for {
		lane, err := from.Next(ctx)
		if err != nil {
			return results
		}
		w, at, err := to.Open(ctx, lane.Name())
		if err == nil {
			err = new(copyJob).copyOpened(ctx, lane, w, at)
		}
		results[lane.Name()] = errors.Join(err, lane.Close())
	}
}

func TestALedgerLineThatWasCutShortCostsOneLine(t *testing.T) {
	folder := t.TempDir()
	path := filepath.Join(folder, LedgerName)
	if err := os.WriteFile(path, []byte("{\"output\":\"a\",\"size\":1}\n{\"output\":\"b\",\"si"), 0o666); err != nil {
		t.Fatal(err)
	}
	l, err := openLedger(folder)
	if err != nil {
		t.Fatal(err)
	}
	if err := l.add(filepath.Join(folder, "c"), finished{Size: 3}); err != nil {
		t.Fatal(err)
	}
	l, err = openLedger(folder)
	if err != nil || len(l.done) != 2 || l.done["a"].Size != 1 || l.done["c"].Size != 3 {
		t.Errorf("%v, error %v", l.done, err)
	}
}

func TestStandardOutput(t *testing.T) {
	var out bytes.Buffer
	s := shapes[0]
	c := copyJob{input: s.write(t, t.TempDir(), 100), output: Stdout, change: func(config *Config) { config.Stdout = &out }}
	if err := c.run(context.Background()); err != nil {
		t.Fatal(err)
	}
	if want := undisturbed(t, s, c.input); !bytes.Equal(out.Bytes(), want) {
		t.Errorf("%d bytes, want %d", out.Len(), len(want))
	}
}

func TestAPipeThatNobodyReads(t *testing.T) {
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	read.Close()
	defer write.Close()
	s := shapes[0]
	c := copyJob{input: s.write(t, t.TempDir(), 100), output: Stdout, change: func(config *Config) { config.Stdout = write }}
	if err := c.run(context.Background()); !errors.Is(err, ErrClosedPipe) {
		t.Errorf("error %v", err)
	}
}

func TestADeviceIsWrittenToAsItIs(t *testing.T) {
	s := shapes[0]
	c := copyJob{input: s.write(t, t.TempDir(), 100), output: os.DevNull}
	if err := c.run(context.Background()); err != nil {
		t.Error(err)
	}
	if exists(os.DevNull + PartialSuffix) {
		t.Error("there is a partial file beside the device")
	}
	c.output = t.TempDir()
	if err := c.run(context.Background()); err == nil || !strings.Contains(err.Error(), "is a folder") {
		t.Errorf("a folder for output: %v", err)
	}
}

func FuzzCheckpoint(f *testing.F) {
	f.Add([]byte(`{"version":1,"position":{"record":5,"input":0,"offset":70},"length":100,"made_with":{"a":"b"}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := parseCheckpoint(data)
		if err != nil {
			return
		}
		path := filepath.Join(t.TempDir(), "x")
		if err := c.save(path, false, func(string) {}); err != nil {
			t.Fatal(err)
		}
		again, _, err := loadCheckpoint(path)
		if err != nil || again.Position != c.Position || again.Length != c.Length {
			t.Errorf("%+v became %+v, error %v", c, again, err)
		}
	})
}

// An output of a folder keeps its place in the tree.
func TestFoldersAreMade(t *testing.T) {
	folder := t.TempDir()
	config := folderConfig(folder, ".gz")
	config.Encoder = recordio.NewReportEncoder()
	sink := New(config)
	ctx := context.Background()
	if err := sink.Connect(ctx); err != nil {
		t.Fatal(err)
	}
	w, _, err := sink.Open(ctx, "a/b/c.txt")
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(w.Write(ctx, []job.Output{{}}), w.Finish(ctx), w.Close()); err != nil {
		t.Fatal(err)
	}
	lines := readLines(t, filepath.Join(folder, "a", "b", "c.txt.gz"))
	if len(lines) != 1 || !strings.HasPrefix(lines[0], `{"id":0,`) {
		t.Errorf("%q", lines)
	}
}

// Two processes share a folder: what the other has completed since this one was started is passed over.
func TestWhatAnotherProcessCompletedIsPassedOver(t *testing.T) {
	folder := t.TempDir()
	begin := func() *Sink {
		s := New(Config{
			Path:    func(lane string) (string, error) { return filepath.Join(folder, lane), nil },
			Encoder: recordio.NewTextEncoder(), Folder: folder, MadeWith: map[string]string{"model": "m"},
		})
		if err := s.Connect(context.Background()); err != nil {
			t.Fatal(err)
		}
		return s
	}
	first, second := begin(), begin()
	writer, _, err := first.Open(context.Background(), "lane")
	if err != nil {
		t.Fatal(err)
	}
	if err := writer.Finish(context.Background()); err != nil {
		t.Fatal(err)
	}
	if err := writer.Close(); err != nil {
		t.Fatal(err)
	}
	if _, _, err := second.Open(context.Background(), "lane"); !errors.Is(err, producer.ErrDone) {
		t.Errorf("%v, want ErrDone", err)
	}
}
