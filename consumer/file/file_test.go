package file

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sluice-mt/sluice/consumer"
	"github.com/sluice-mt/sluice/internal/compress"
	"github.com/sluice-mt/sluice/internal/job"
	"github.com/sluice-mt/sluice/internal/recordio"
)

// tree makes a folder of files that hold their own path.
func tree(t *testing.T, paths ...string) string {
	t.Helper()
	root := t.TempDir()
	for _, path := range paths {
		writeFile(t, filepath.Join(root, path), path+"\n")
	}
	return root
}

// names returns the lanes of a source, below root.
func names(t *testing.T, root string, config Config) ([]string, *Source, error) {
	t.Helper()
	source := New(config)
	if err := source.Connect(context.Background()); err != nil {
		return nil, nil, err
	}
	var list []string
	for {
		lane, err := source.Next(context.Background())
		if errors.Is(err, consumer.ErrEndOfInput) {
			return list, source, nil
		}
		if err != nil {
			t.Fatal(err)
		}
		name, err := filepath.Rel(root, lane.Name())
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, name)
	}
}

func TestWhichFilesAreRead(t *testing.T) {
	root := tree(t, "a/2.txt", "a/1.txt", "a/.hidden", "a/.git/x", "a/sub/3.gz", "a/out/done.txt", "b/1.txt", "c.txt", "[x].txt")
	if err := os.Symlink(filepath.Join(root, "c.txt"), filepath.Join(root, "a/link.txt")); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(filepath.Join(root, "a/fifo"), 0o666); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		paths     []string
		exclude   string
		want      string
		relatives string
	}{
		{[]string{"c.txt"}, "", "c.txt", "c.txt"},
		{[]string{"c.txt", "a/2.txt"}, "", "c.txt a/2.txt", "c.txt 2.txt"},
		{[]string{"a"}, "a/out", "a/1.txt a/2.txt a/link.txt a/sub/3.gz", "1.txt 2.txt link.txt sub/3.gz"},
		{[]string{"a/"}, "a/out", "a/1.txt a/2.txt a/link.txt a/sub/3.gz", "1.txt 2.txt link.txt sub/3.gz"},
		{[]string{"?/1.txt"}, "", "a/1.txt b/1.txt", "a/1.txt b/1.txt"},
		{[]string{"a/*.txt"}, "", "a/1.txt a/2.txt a/link.txt", "1.txt 2.txt link.txt"},
		{[]string{"[ab]"}, "a/out", "a/1.txt a/2.txt a/link.txt a/sub/3.gz b/1.txt", "a/1.txt a/2.txt a/link.txt a/sub/3.gz b/1.txt"},
		{[]string{"a/sub", "b"}, "", "a/sub/3.gz b/1.txt", "sub/3.gz b/1.txt"},
		{[]string{"[x].txt"}, "", "[x].txt", "[x].txt"},
	} {
		config := Config{}
		for _, path := range c.paths {
			config.Paths = append(config.Paths, filepath.Join(root, path))
		}
		if c.exclude != "" {
			config.Exclude = []string{filepath.Join(root, c.exclude)}
		}
		got, source, err := names(t, root, config)
		if err != nil || strings.Join(got, " ") != c.want {
			t.Errorf("%q: %q, error %v, want %s", c.paths, got, err, c.want)
			continue
		}
		var relatives []string
		for _, name := range got {
			relative, err := source.Relative(filepath.Join(root, name))
			if err != nil {
				t.Error(err)
			}
			relatives = append(relatives, relative)
		}
		if strings.Join(relatives, " ") != c.relatives {
			t.Errorf("%q: %q in the output folder, want %s", c.paths, relatives, c.relatives)
		}
	}
}

func TestPathsThatCannotBeRead(t *testing.T) {
	root := tree(t, "a/1.txt", "b/1.txt")
	for _, c := range []struct {
		paths []string
		want  string
	}{
		{[]string{"nothing"}, "no such file"},
		{[]string{"*.md"}, "no file matches"},
		{[]string{"["}, "syntax error in pattern"},
		{[]string{"a/1.txt", "b/1.txt"}, "would have the same name in the output folder, 1.txt"},
		{[]string{"a/1.txt", "a/1.txt"}, "would have the same name"},
	} {
		var paths []string
		for _, path := range c.paths {
			paths = append(paths, filepath.Join(root, path))
		}
		if _, _, err := names(t, root, Config{Paths: paths}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: error %v, want %q", c.paths, err, c.want)
		}
	}
	if _, _, err := names(t, root, Config{Paths: []string{root}, Records: recordio.Options{Field: "x"}}); err == nil {
		t.Error("options that make no sense: no error")
	}
}

func TestAFolderWithoutPermission(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("root may read everything")
	}
	root := tree(t, "a/1.txt", "b/1.txt")
	if err := os.Chmod(filepath.Join(root, "a"), 0); err != nil {
		t.Fatal(err)
	}
	defer os.Chmod(filepath.Join(root, "a"), 0o777)
	_, _, err := names(t, root, Config{Paths: []string{root}})
	if !errors.Is(err, os.ErrPermission) || !strings.Contains(err.Error(), filepath.Join(root, "a")) {
		t.Errorf("error %v", err)
	}
}

// only returns the one lane of a source, started.
func only(t *testing.T, config Config, at job.Position) (*Source, consumer.Lane) {
	t.Helper()
	source := New(config)
	if err := source.Connect(context.Background()); err != nil {
		t.Fatal(err)
	}
	lane, err := source.Next(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	if err := lane.Start(context.Background(), at); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { lane.Close() })
	return source, lane
}

func readLane(lane consumer.Lane) (texts []string, err error) {
	for {
		records, err := lane.Read(context.Background())
		for _, record := range records {
			texts = append(texts, record.Text)
		}
		if err == io.EOF {
			return texts, nil
		}
		if err != nil {
			return texts, err
		}
	}
}

func TestErrorsNameFileLineAndByte(t *testing.T) {
	root := t.TempDir()
	gz := filepath.Join(root, "cut.gz")
	writeFile(t, gz, strings.Repeat("a line of text\n", 100_000))
	data, err := os.ReadFile(gz)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(gz, data[:len(data)-5], 0o666); err != nil {
		t.Fatal(err)
	}
	_, lane := only(t, Config{Paths: []string{gz}}, job.Position{})
	texts, err := readLane(lane)
	var damage *compress.Error
	var place *recordio.Error
	if !errors.As(err, &damage) || !errors.As(err, &place) || place.Input != gz || place.Line != int64(len(texts)+1) {
		t.Errorf("error %v after %d lines", err, len(texts))
	}
	if want := fmt.Sprintf("%s, line %d, byte %d: gzip data, compressed byte %d: the file is cut short", gz, len(texts)+1, 15*len(texts), len(data)-5); err == nil || err.Error() != want {
		t.Errorf("error %v, want %s", err, want)
	}
}

func TestContinuingAtAWrongPlaceIsAnError(t *testing.T) {
	root := t.TempDir()
	for _, name := range []string{"a.txt", "a.gz", "a.zst"} {
		path := filepath.Join(root, name)
		writeFile(t, path, "one\ntwo\nthree")
		for offset, want := range map[int64]string{3: "no line begins there", 5: "no line begins there", 14: "the input ends at byte 13", 1000: "the input ends at byte 13"} {
			_, lane := only(t, Config{Paths: []string{path}}, job.Position{Record: 1, Offset: offset})
			if texts, err := readLane(lane); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s at %d: %q, error %v, want %q", name, offset, texts, err, want)
			}
		}
		_, lane := only(t, Config{Paths: []string{path}}, job.Position{Record: 3, Offset: 13})
		if texts, err := readLane(lane); len(texts) > 0 || err != nil {
			t.Errorf("%s at its end: %q, error %v", name, texts, err)
		}
	}
}

func TestAPositionOutsideTheLaneIsAnError(t *testing.T) {
	root := tree(t, "a")
	source := New(Config{Paths: []string{root}})
	if err := source.Connect(context.Background()); err != nil {
		t.Fatal(err)
	}
	lane, _ := source.Next(context.Background())
	for _, at := range []job.Position{{Input: 2}, {Input: -1}, {Offset: -1}, {Record: -1}} {
		if err := lane.Start(context.Background(), at); err == nil {
			t.Errorf("%+v: no error", at)
		}
	}
}

func TestAFileThatChangesIsNoticed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.txt")
	writeFile(t, path, strings.Repeat("a line\n", 1_000_000))
	_, lane := only(t, Config{Paths: []string{path}}, job.Position{})
	if _, err := lane.Read(context.Background()); err != nil {
		t.Fatal(err)
	}
	file, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	file.WriteString("one more\n")
	if _, err := readLane(lane); err == nil || !strings.Contains(err.Error(), "was changed while it was read") {
		t.Errorf("error %v", err)
	}
}

func TestAFileThatChangesAfterItWasIdentifiedIsNoticed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.txt")
	writeFile(t, path, "a line\n")
	source := New(Config{Paths: []string{path}})
	if err := source.Connect(context.Background()); err != nil {
		t.Fatal(err)
	}
	if _, err := source.Identity(path); err != nil {
		t.Fatal(err)
	}
	writeFile(t, path, "another line\n")
	lane, err := source.Next(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	defer lane.Close()
	if err := lane.Start(context.Background(), job.Position{}); err != nil {
		t.Fatal(err)
	}
	if _, err := readLane(lane); err == nil || !strings.Contains(err.Error(), "was changed while it was in use") {
		t.Errorf("error %v", err)
	}
}

// stdin returns a pipe that holds data and then ends.
func stdin(t *testing.T, data string) *os.File {
	t.Helper()
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { read.Close() })
	go func() {
		io.WriteString(write, data)
		write.Close()
	}()
	return read
}

func TestStandardInputThatIsAFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.gz")
	writeFile(t, path, "one\ntwo\n")
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	source, lane := only(t, Config{Stdin: file}, job.Position{Record: 1, Offset: 4})
	if texts, err := readLane(lane); err != nil || !slices.Equal(texts, []string{"two"}) {
		t.Errorf("%q, error %v", texts, err)
	}
	info, err := file.Stat()
	if done, total := source.Progress(); err != nil || done != info.Size() || total != info.Size() {
		t.Errorf("read %d bytes of %d, want %d, error %v", done, total, info.Size(), err)
	}
}

func TestALaneThatIsPassedOverCountsAsRead(t *testing.T) {
	root := tree(t, "a.txt", "long name.txt")
	source, started := only(t, Config{Paths: []string{root}}, job.Position{})
	passedOver, err := source.Next(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := readLane(started); err != nil {
		t.Fatal(err)
	}
	if done, total := source.Progress(); done != 6 || total != 20 {
		t.Errorf("%d of %d", done, total)
	}
	if err := passedOver.Close(); err != nil {
		t.Fatal(err)
	}
	if done, total := source.Progress(); done != 20 || total != 20 {
		t.Errorf("%d of %d", done, total)
	}
}

func TestAPipeIsRecognised(t *testing.T) {
	long := strings.Repeat("0123456789abcde\n", 10_000)
	for name, data := range map[string]string{"short": "one\ntwo\nthree\n", "long": long} {
		source, lane := only(t, Config{Stdin: stdin(t, data)}, job.Position{})
		texts, err := readLane(lane)
		if err != nil {
			t.Fatal(err)
		}
		identity, err := source.Identity(Stdin)
		if err != nil {
			t.Fatal(err)
		}
		for again, same := range map[string]bool{data: true, "other" + data: false, "": false, data[:len(data)/2]: name == "long"} {
			second := New(Config{Stdin: stdin(t, again)})
			if err := second.Connect(context.Background()); err != nil {
				t.Fatal(err)
			}
			changes, err := second.Changes(Stdin, identity)
			if err != nil || (len(changes) == 0) != same {
				t.Errorf("%s, %d bytes: changes %q, error %v", name, len(again), changes, err)
			}
			lane, err := second.Next(context.Background())
			if err != nil {
				t.Fatal(err)
			}
			if err := lane.Start(context.Background(), job.Position{Record: 1, Offset: int64(len(texts[0]) + 1)}); err != nil {
				t.Fatal(err)
			}
			if again == data {
				if rest, err := readLane(lane); err != nil || !slices.Equal(rest, texts[1:]) {
					t.Errorf("%s: %d lines after the first, error %v", name, len(rest), err)
				}
			}
			lane.Close()
		}
	}
}

func TestANamedPipe(t *testing.T) {
	path := filepath.Join(t.TempDir(), "fifo")
	if err := syscall.Mkfifo(path, 0o666); err != nil {
		t.Fatal(err)
	}
	go func() {
		write, err := os.OpenFile(path, os.O_WRONLY, 0)
		if err != nil {
			t.Error(err)
			return
		}
		defer write.Close()
		io.WriteString(write, "one\ntwo\n")
	}()
	_, lane := only(t, Config{Paths: []string{path}}, job.Position{})
	if texts, err := readLane(lane); err != nil || !slices.Equal(texts, []string{"one", "two"}) {
		t.Errorf("%q, error %v", texts, err)
	}
}

func TestANamedPipeThatNobodyOpensDoesNotHoldUpClose(t *testing.T) {
	path := filepath.Join(t.TempDir(), "fifo")
	if err := syscall.Mkfifo(path, 0o666); err != nil {
		t.Fatal(err)
	}
	_, lane := only(t, Config{Paths: []string{path}}, job.Position{})
	time.Sleep(20 * time.Millisecond)
	if err := lane.Close(); err != nil {
		t.Error(err)
	}
	write, err := os.OpenFile(path, os.O_WRONLY|syscall.O_NONBLOCK, 0) // lets the reader go
	if err == nil {
		write.Close()
	}
}

func TestJoinedInputs(t *testing.T) {
	root := t.TempDir()
	writeFile(t, filepath.Join(root, "1.tsv"), "a\tb\n1\tx")
	writeFile(t, filepath.Join(root, "2.tsv.gz"), "a\tb\n")
	writeFile(t, filepath.Join(root, "3.tsv"), "a\tb\n2\ty\n3\tz\n")
	writeFile(t, filepath.Join(root, "4.tsv"), "")
	config := Config{Paths: []string{root}, Join: true, Records: recordio.Options{Format: recordio.TSV, Field: "b", Header: true}}
	source, lane := only(t, config, job.Position{})
	texts, err := readLane(lane)
	if want := []string{"", "x", "y", "z"}; err != nil || !slices.Equal(texts, want) {
		t.Errorf("%q, error %v, want %q", texts, err, want)
	}
	if source.Lanes() != 1 || lane.Name() != filepath.Join(root, "1.tsv")+" and 3 more" {
		t.Errorf("%d lanes, the first is %s", source.Lanes(), lane.Name())
	}
	if _, err := source.Relative(lane.Name()); err != nil {
		t.Error(err)
	}
}

func TestIdentityOfManyInputs(t *testing.T) {
	root := t.TempDir()
	for i := range mostNamed + 10 {
		writeFile(t, filepath.Join(root, fmt.Sprint(i)), "x\n")
	}
	connect := func() (*Source, string) {
		source := New(Config{Paths: []string{root}, Join: true})
		if err := source.Connect(context.Background()); err != nil {
			t.Fatal(err)
		}
		return source, source.lanes[0].name
	}
	source, name := connect()
	identity, err := source.Identity(name)
	if err != nil || len(identity) > 1000 {
		t.Fatalf("%d bytes, error %v", len(identity), err)
	}
	source, name = connect()
	if changes, err := source.Changes(name, identity); err != nil || len(changes) > 0 {
		t.Errorf("%q, error %v", changes, err)
	}
	writeFile(t, filepath.Join(root, "5"), "y\n")
	source, name = connect()
	if changes, err := source.Changes(name, identity); err != nil || len(changes) != 1 {
		t.Errorf("after a change: %q, error %v", changes, err)
	}
	os.Remove(filepath.Join(root, "5"))
	source, name = connect()
	if changes, err := source.Changes(name, identity); err != nil || !strings.Contains(fmt.Sprint(changes), "there were 74 inputs and are now 73") {
		t.Errorf("with one less: %q, error %v", changes, err)
	}
}

func TestAStoredIdentityThatMakesNoSense(t *testing.T) {
	root := tree(t, "a")
	source := New(Config{Paths: []string{root}})
	if err := source.Connect(context.Background()); err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(root, "a")
	for _, stored := range []string{"", "{}", "[]", "null", `[{"hashed":-5}]`, `[{"hashed":99999999999}]`, `[{},{}]`} {
		if changes, err := source.Changes(name, []byte(stored)); err == nil && len(changes) == 0 {
			t.Errorf("%s: neither changes nor an error", stored)
		}
	}
	if _, err := source.Identity("b"); err == nil {
		t.Error("a lane that is not there: no error")
	}
}

// A line of 100 MB in a file, between two others.
func TestALineOf100MB(t *testing.T) {
	if testing.Short() {
		t.Skip("writes 100 MB")
	}
	path := filepath.Join(t.TempDir(), "a.gz")
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	w, err := compress.NewWriter(file, compress.Gzip)
	if err != nil {
		t.Fatal(err)
	}
	w.Write([]byte("first\n"))
	for range 100 {
		w.Write(bytes.Repeat([]byte("x"), 1<<20))
		w.Cut()
	}
	w.Write([]byte("\nlast\n"))
	if err := errors.Join(w.Finish(true), file.Close()); err != nil {
		t.Fatal(err)
	}
	_, lane := only(t, Config{Paths: []string{path}}, job.Position{})
	texts, err := readLane(lane)
	if err != nil || !slices.Equal(texts, []string{"first", "", "last"}) {
		t.Errorf("%d lines, error %v", len(texts), err)
	}
}
