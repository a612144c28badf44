package shortlist_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/sluice-mt/sluice/internal/sharedtest"
	"github.com/sluice-mt/sluice/translator/shortlist"
)

func cachedFiles(t *testing.T, folder string) []string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(folder, ".*"))
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func writeText(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func openBoth(t *testing.T, path string, options shortlist.Options) []int32 {
	t.Helper()
	list, err := shortlist.OpenCached(path, options)
	if err != nil {
		t.Fatal(err)
	}
	plain, err := shortlist.Open(path, options)
	if err != nil {
		t.Fatal(err)
	}
	got, want := list.Candidates([]int32{1, 2}, nil), plain.Candidates([]int32{1, 2}, nil)
	if !slices.Equal(got, want) || list.Parameters() != plain.Parameters() {
		t.Errorf("cached %v, %+v; not cached %v, %+v", got, list.Parameters(), want, plain.Parameters())
	}
	return got
}

func TestCacheIsNeverStale(t *testing.T) {
	folder := t.TempDir()
	path := filepath.Join(folder, "lex.s2t")
	text := "t90 s1 .5\nt91 s1 .4\nt92 s1 .3\nt50 s2 1\n"
	writeText(t, path, text)
	options := smallOptions()
	options.Source = numbered("s", 3)
	first := openBoth(t, path, options)
	if again := openBoth(t, path, options); !slices.Equal(first, again) || len(cachedFiles(t, folder)) != 1 {
		t.Errorf("%v and %v, files %v", first, again, cachedFiles(t, folder))
	}
	writeText(t, path, "t90 s1 .5\nt91 s1 .4\nt92 s1 .3\nt51 s2 1\n") // same size, perhaps same time
	if changed := openBoth(t, path, options); slices.Contains(changed, 50) || !slices.Contains(changed, 51) {
		t.Errorf("after a change of the text: %v", changed)
	}
	options.Threshold = 0.45
	if changed := openBoth(t, path, options); slices.Contains(changed, 91) {
		t.Errorf("after a change of the threshold: %v", changed)
	}
	options.Target = append(words{"new"}, numbered("t", 99)...)
	if changed := openBoth(t, path, options); !slices.Contains(changed, 91) { // all ids move by one
		t.Errorf("after a change of the vocabulary: %v", changed)
	}
}

// What was kept of an earlier text goes away, and nothing else does.
func TestStaleCachesAreRemoved(t *testing.T) {
	folder := t.TempDir()
	path := filepath.Join(folder, "lex.s2t")
	writeText(t, path, "t90 s1 .5\nt91 s1 .4\n")
	options := smallOptions()
	openBoth(t, path, options)
	old := cachedFiles(t, folder)
	others := []string{".lex.s2t", ".lex.s2t.notes", ".lex.s2t.0123456789abcdef01234567.txt", ".lex.s2t.xyz3456789abcdef01234567.shortlist",
		".lex.s2t.gz.0123456789abcdef01234567.shortlist", "lex.s2t.0123456789abcdef01234567.shortlist"}
	for _, name := range append(others, filepath.Base(old[0])+".17.tmp") {
		writeText(t, filepath.Join(folder, name), "x")
	}
	entries, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		if hourAgo := time.Now().Add(-time.Hour); os.Chtimes(filepath.Join(folder, entry.Name()), hourAgo, hourAgo) != nil {
			t.Fatal("cannot set times")
		}
	}
	writeText(t, path, "t90 s1 .5\nt92 s1 .4\n")
	openBoth(t, path, options)
	for _, name := range append([]string{old[0], old[0] + ".17.tmp"}, others...) {
		_, err := os.Stat(filepath.Join(folder, filepath.Base(name)))
		if isOther := slices.Contains(others, name); isOther != (err == nil) {
			t.Errorf("%s: %v", name, err)
		}
	}
	options.Threshold = 0.45
	before := len(cachedFiles(t, folder))
	openBoth(t, path, options)
	if after := len(cachedFiles(t, folder)); after != before+1 {
		t.Errorf("another threshold turns %d files into %d", before, after)
	}
}

func TestDamagedCacheIsPassedOver(t *testing.T) {
	folder := t.TempDir()
	path := filepath.Join(folder, "lex.s2t")
	writeText(t, path, "t90 s1 .5\nt91 s4 .4\n")
	openBoth(t, path, smallOptions())
	cached := cachedFiles(t, folder)
	if len(cached) != 1 {
		t.Fatalf("cached files: %v", cached)
	}
	good, err := os.ReadFile(cached[0])
	if err != nil {
		t.Fatal(err)
	}
	for n := range good {
		writeText(t, cached[0], string(good[:n]))
		openBoth(t, path, smallOptions())
	}
	if mended, err := os.ReadFile(cached[0]); err != nil || !slices.Equal(mended, good) {
		t.Errorf("the damaged file was not replaced: %v", err)
	}
	if found := cachedFiles(t, folder); len(found) != 1 {
		t.Errorf("left over: %v", found)
	}
}

func TestCacheThatCannotBeWritten(t *testing.T) {
	folder := t.TempDir()
	path := filepath.Join(folder, "lex.s2t")
	writeText(t, path, "t90 s1 .5\n")
	if err := os.Chmod(folder, 0o500); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.Chmod(folder, 0o700) })
	openBoth(t, path, smallOptions())
}

func TestBinaryIsNotCached(t *testing.T) {
	folder := t.TempDir()
	path := filepath.Join(folder, "lex.bin")
	writeText(t, path, string(smallBinary(t)))
	openBoth(t, path, smallOptions())
	if found := cachedFiles(t, folder); len(found) != 0 {
		t.Errorf("cached: %v", found)
	}
}

func TestInspect(t *testing.T) {
	got := smallList(t).Inspect()
	want := shortlist.Statistics{First: 3, Best: 2, Sources: 5, Targets: 100, Entries: 3, WithEntries: 2, Full: 1,
		MostEntries: 2, DistinctIDs: 6, BinaryBytes: len(smallBinary(t)), MeanPerPiece: 1.5}
	if got != want {
		t.Errorf("got %+v\nwant %+v", got, want)
	}
	if mean := smallList(t).MeanCandidates([][]int32{{1}, {2, 1}, {}}); mean != 8 {
		t.Errorf("%v candidates on average, want 8", mean)
	}
}

func BenchmarkOpenCached(b *testing.B) {
	options := demoOptions(b)
	data, err := os.ReadFile(sharedtest.Path(b, "models/ende-tiny/lex.s2t.gz"))
	if err != nil {
		b.Fatal(err)
	}
	path := filepath.Join(b.TempDir(), "lex.s2t.gz")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		b.Fatal(err)
	}
	for range 2 {
		if _, err := shortlist.OpenCached(path, options); err != nil {
			b.Fatal(err)
		}
	}
	for b.Loop() {
		if _, err := shortlist.OpenCached(path, options); err != nil {
			b.Fatal(err)
		}
	}
}
