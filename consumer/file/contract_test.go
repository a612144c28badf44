package file

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"

	"github.com/sluice-mt/sluice/consumer"
	"github.com/sluice-mt/sluice/consumer/contract"
	"github.com/sluice-mt/sluice/internal/compress"
	"github.com/sluice-mt/sluice/internal/recordio"
)

func TestContract(t *testing.T) {
	for _, suffix := range []string{".txt", ".gz", ".zst", ".bz2", ".xz"} {
		t.Run(suffix[1:], func(t *testing.T) {
			contract.RunTests(t, contract.Config{Live: livePipe, Store: func(t *testing.T, lanes [][]string) func() consumer.Source {
				folder := t.TempDir()
				for i, lane := range lanes {
					writeFile(t, filepath.Join(folder, fmt.Sprint("lane", i, suffix)), lineByLine(lane))
				}
				return func() consumer.Source { return New(Config{Paths: []string{folder}}) }
			}})
		})
	}
	t.Run("parquet", func(t *testing.T) {
		contract.RunTests(t, contract.Config{Store: func(t *testing.T, lanes [][]string) func() consumer.Source {
			folder := t.TempDir()
			for i, lane := range lanes {
				writeParquet(t, filepath.Join(folder, fmt.Sprint("lane", i)), lane)
			}
			return func() consumer.Source {
				return New(Config{Paths: []string{folder}, Records: recordio.Options{Format: recordio.Parquet}})
			}
		}})
	})
}

// A lane of the suite is several files joined into one, so that it has boundaries at which it can continue.
func TestContractOfJoinedFiles(t *testing.T) {
	contract.RunTests(t, contract.Config{Store: func(t *testing.T, lanes [][]string) func() consumer.Source {
		folder := t.TempDir()
		for i, lane := range lanes {
			for j := 0; j == 0 || j < len(lane); j += 1000 {
				part := lane[j:min(len(lane), j+1000)]
				writeFile(t, filepath.Join(folder, fmt.Sprint(i), fmt.Sprintf("part%d.gz", j/1000)), lineByLine(part))
			}
		}
		return func() consumer.Source { return &joinedFolders{folder: folder, n: len(lanes)} }
	}})
}

// joinedFolders is a source of numbered folders, each of them joined into one lane.
type joinedFolders struct {
	folder  string
	n, next int
}

func (j *joinedFolders) Connect(context.Context) error { return nil }

func (j *joinedFolders) Next(ctx context.Context) (consumer.Lane, error) {
	if j.next == j.n {
		return nil, consumer.ErrEndOfInput
	}
	source := New(Config{Paths: []string{filepath.Join(j.folder, fmt.Sprint(j.next))}, Join: true})
	if err := source.Connect(ctx); err != nil {
		return nil, err
	}
	lane, err := source.Next(ctx)
	if err == nil {
		j.next++
	}
	return lane, err
}

func (j *joinedFolders) Close(context.Context) error { return nil }

func lineByLine(lines []string) string {
	if len(lines) == 0 {
		return ""
	}
	return strings.Join(lines, "\n") + "\n"
}

// writeFile writes a file, compressed as its name says.
func writeFile(t testing.TB, path, data string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		t.Fatal(err)
	}
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	w, err := compress.NewWriter(file, compress.BySuffix(path))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(data) {
		w.Write([]byte(line))
		w.Cut()
	}
	if err := w.Finish(true); err != nil {
		t.Fatal(err)
	}
}

func writeParquet(t testing.TB, path string, texts []string) {
	t.Helper()
	type row struct {
		Text string `parquet:"text"`
	}
	rows := make([]row, len(texts))
	for i, text := range texts {
		rows[i].Text = text
	}
	if err := parquet.WriteFile(path, rows, parquet.MaxRowsPerRowGroup(700)); err != nil {
		t.Fatal(err)
	}
}

func livePipe(t *testing.T) (consumer.Source, func(string), func()) {
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { read.Close(); write.Close() })
	add := func(text string) {
		if _, err := write.WriteString(text + "\n"); err != nil {
			t.Error(err)
		}
	}
	return New(Config{Paths: []string{Stdin}, Stdin: read}), add, func() { write.Close() }
}
