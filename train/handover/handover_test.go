package handover

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sluice-mt/sluice/internal/jobfile"
	"github.com/sluice-mt/sluice/internal/s3client"
	"github.com/sluice-mt/sluice/internal/s3test"
	"github.com/sluice-mt/sluice/train/recipe"
)

// newStore returns a store of the test's own, and a translation of a table's second column, five lines, two an object.
func newStore(t *testing.T) (*Store, recipe.Translation) {
	t.Helper()
	fake := s3test.Fake(t)
	store := &Store{
		Client: fake.Client(t), Bucket: fake.Bucket(t), Prefix: "recipes/", Endpoint: fake.Endpoint, Lines: 2, Poll: time.Millisecond,
		Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
	}
	folder := t.TempDir()
	write := func(name, content string) string {
		path := filepath.Join(folder, name)
		if err := os.WriteFile(path, []byte(content), 0o666); err != nil {
			t.Fatal(err)
		}
		return path
	}
	return store, recipe.Translation{
		Models: []string{write("a.npz", "A"), write("b.npz", "B")}, Vocabularies: []string{write("v.spm", "V"), write("w.spm", "W")},
		Shortlist: write("lex.gz", "L"), Options: []jobfile.Option{{Name: "beam-size", Values: []string{"2"}}, {Name: "output-sampling", Values: []string{"topk", "${5}"}}},
		Input: write("in.tsv", "x\ta\nx\tb\nx\t\nx\td\nx\te\n"), Column: 2, NBest: true, Output: filepath.Join(folder, "out.zst"),
	}
}

// work plays a worker: it does what is pending, a list of two for each line.
func work(t *testing.T, ctx context.Context, s *Store, spoil func(part, text string) string) {
	for ctx.Err() == nil {
		pending, err := s.Pending(ctx)
		if err != nil {
			return // the test is over
		}
		for _, folder := range pending {
			for part := 0; ; part++ {
				text, _, err := s.Client.ReadAll(ctx, s.Bucket, folder+"in/"+partName(part), 100)
				if err != nil {
					break
				}
				var out strings.Builder
				for i, line := range strings.Split(strings.TrimSuffix(string(text), "\n"), "\n") {
					fmt.Fprintf(&out, "%d ||| %s1 ||| F0= 0 ||| 0\n%d ||| %s2 ||| F0= 0 ||| 0\n", i, line, i, line)
				}
				if _, err := s.Client.Put(ctx, s.Bucket, folder+"out/"+partName(part), []byte(spoil(partName(part), out.String())), s3client.Condition{}, nil); err != nil {
					break
				}
			}
		}
		time.Sleep(time.Millisecond)
	}
}

func unspoilt(_, text string) string { return text }

// TestTranslate hands a text over, interrupts, goes on, and expects the lists of all lines in their order, and the job and the
// files as a worker gets them.
func TestTranslate(t *testing.T) {
	s, task := newStore(t)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := s.Translate(ctx, task); !errors.Is(err, recipe.ErrInterrupted) {
		t.Fatalf("without workers: %v", err)
	}
	ctx, cancel = context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	go work(t, ctx, s, unspoilt)
	if _, err := s.Translate(ctx, task); err != nil {
		t.Fatal(err)
	}
	var want strings.Builder
	for i, line := range []string{"a", "b", "", "d", "e"} {
		fmt.Fprintf(&want, "%d ||| %s1 ||| F0= 0 ||| 0\n%d ||| %s2 ||| F0= 0 ||| 0\n", i, line, i, line)
	}
	h := &handed{Store: s, task: recipe.Translation{Input: task.Output}}
	var got strings.Builder
	if err := h.eachLine(func(line string) error { _, err := got.WriteString(line + "\n"); return err }); err != nil || got.String() != want.String() {
		t.Errorf("got %v\n%swant\n%s", err, got.String(), want.String())
	}
	folders, err := s.Pending(ctx)
	if err != nil || len(folders) != 0 {
		t.Errorf("%v is pending, %v", folders, err)
	}
	checkFetched(t, s, task)
}

func checkFetched(t *testing.T, s *Store, task recipe.Translation) {
	t.Helper()
	h := &handed{Store: s, task: task, files: append(append(append([]string(nil), task.Models...), task.Vocabularies...), task.Shortlist)}
	if err := h.name(); err != nil {
		t.Fatal(err)
	}
	local, err := s.Fetch(t.Context(), h.folder, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"0-a.npz": "A", "1-b.npz": "B", "2-v.spm": "V", "3-w.spm": "W", "4-lex.gz": "L"} {
		if got, err := os.ReadFile(filepath.Join(local, "files", name)); err != nil || string(got) != want {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	text, err := os.ReadFile(filepath.Join(local, "job.yml"))
	if err != nil {
		t.Fatal(err)
	}
	job, err := jobfile.Parse(text, func(name string) (string, bool) { return "", false })
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	options := map[string]string{}
	for _, o := range job.Translate {
		options[o.Name] = strings.Join(o.Values, " ")
	}
	for name, want := range map[string]string{
		"models": "files/0-a.npz files/1-b.npz", "vocabs": "files/2-v.spm files/3-w.spm", "shortlist": "files/4-lex.gz", "beam-size": "2", "output-sampling": "topk ${5}",
	} {
		if options[name] != want {
			t.Errorf("%s: %q, want %q", name, options[name], want)
		}
	}
	if !job.Records.NBest || job.Source.S3.Endpoint != s.Endpoint || !job.Sink.S3.PathStyle || job.Source.S3.Inputs[0] != s3client.URI(s.Bucket, h.folder+"in/") {
		t.Errorf("job %s", text)
	}
}

// TestFolders wants what depends on something else to be elsewhere.
func TestFolders(t *testing.T) {
	s, task := newStore(t)
	seen := map[string]string{}
	for name, change := range map[string]func(t *recipe.Translation){
		"nothing": func(*recipe.Translation) {}, "output": func(t *recipe.Translation) { t.Output = "" },
		"column": func(t *recipe.Translation) { t.Column = 1 }, "list": func(t *recipe.Translation) { t.NBest = false },
		"options": func(t *recipe.Translation) { t.Options = nil }, "models": func(t *recipe.Translation) { t.Models = t.Models[:1] },
		"order": func(t *recipe.Translation) { t.Models = []string{t.Models[1], t.Models[0]} }, "shortlist": func(t *recipe.Translation) { t.Shortlist = "" },
	} {
		changed := task
		change(&changed)
		h := &handed{Store: s, task: changed, files: append(append([]string(nil), changed.Models...), changed.Vocabularies...)}
		if changed.Shortlist != "" {
			h.files = append(h.files, changed.Shortlist)
		}
		if err := h.name(); err != nil {
			t.Fatal(err)
		}
		if other, found := seen[h.folder]; found && !strings.Contains("nothing output", name) {
			t.Errorf("%s and %s share a folder", name, other)
		}
		seen[h.folder] = name
	}
	if len(seen) != 7 {
		t.Errorf("%d folders: where the output lies does not matter, all else does", len(seen))
	}
}

// TestSpoilt wants outputs that are not complete to be found out.
func TestSpoilt(t *testing.T) {
	for name, spoil := range map[string]func(part, text string) string{
		"a line too few":    func(_, text string) string { return text[:strings.Index(text, "1 |||")+1] },
		"without the first": func(_, text string) string { return text[strings.Index(text, "\n1 |||")+1:] },
		"no list":           func(_, text string) string { return "Hello\n" + text },
		"empty":             func(string, string) string { return "" },
	} {
		s, task := newStore(t)
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		go work(t, ctx, s, func(part, text string) string {
			if part == partName(1) {
				return spoil(part, text)
			}
			return text
		})
		_, err := s.Translate(ctx, task)
		cancel()
		if !errors.Is(err, recipe.ErrFormat) || !strings.Contains(err.Error(), "000001.txt") {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := os.Stat(task.Output); err == nil {
			t.Errorf("%s: there is an output", name)
		}
	}
}
