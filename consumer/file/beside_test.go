package file

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-mt/sluice/consumer"
	"github.com/sluice-mt/sluice/internal/job"
	"github.com/sluice-mt/sluice/internal/recordio"
)

// besideFiles writes inputs and returns a connected source that reads them side by side.
func besideFiles(t *testing.T, contents ...string) *Source {
	t.Helper()
	folder := t.TempDir()
	var paths []string
	for i, content := range contents {
		path := filepath.Join(folder, fmt.Sprintf("%d.txt", i))
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		paths = append(paths, path)
	}
	s := New(Config{Paths: paths, Beside: true, Records: recordio.Options{Format: recordio.Text}})
	if err := s.Connect(context.Background()); err != nil {
		t.Fatal(err)
	}
	return s
}

// readAll returns the records of the only lane from a position on, and how it ended.
func readAll(t *testing.T, s *Source, at job.Position) ([]job.Record, error) {
	t.Helper()
	lane, err := s.Next(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	defer lane.Close()
	if err := lane.Start(context.Background(), at); err != nil {
		t.Fatal(err)
	}
	var all []job.Record
	for {
		records, err := lane.Read(context.Background())
		all = append(all, records...)
		if err != nil {
			return all, err
		}
	}
}

func TestInputsSideBySide(t *testing.T) {
	s := besideFiles(t, "a\nb\n\nd\n", "1\n2\t2\n3\n4", "x\ny\nz\nw\n")
	all, err := readAll(t, s, job.Position{})
	if !errors.Is(err, consumer.ErrEndOfInput) && err != io.EOF {
		t.Fatal(err)
	}
	want := []string{"a\t1\tx", "b\t2 2\ty", "\t3\tz", "d\t4\tw"}
	if len(all) != len(want) {
		t.Fatalf("%d records, want %d", len(all), len(want))
	}
	for i, record := range all {
		if record.Text != want[i] || record.Seq != int64(i) {
			t.Errorf("record %d is %q with number %d, want %q", i, record.Text, record.Seq, want[i])
		}
		s.next = 0
		s.lanes[0] = newLane(s.lanes[0].name, s.inputs, s.config.Records)
		s.lanes[0].beside = true
		rest, _ := readAll(t, s, record.End)
		if len(rest) != len(want)-i-1 || len(rest) > 0 && rest[0].Text != want[i+1] {
			t.Errorf("from %+v on there are %d records", record.End, len(rest))
		}
	}
}

func TestInputsSideBySideOfUnequalLength(t *testing.T) {
	for _, contents := range [][]string{{"a\nb\n", "1\n"}, {"a\n", "1\n2\n"}, {"a\n", "1\n", ""}, {"", "1\n"}} {
		_, err := readAll(t, besideFiles(t, contents...), job.Position{})
		if err == nil || !strings.Contains(err.Error(), "has fewer lines than another") {
			t.Errorf("%q: %v", contents, err)
		}
	}
}

func TestOnlyTextIsReadSideBySide(t *testing.T) {
	s := New(Config{Paths: []string{"a", "b"}, Beside: true, Records: recordio.Options{Format: recordio.JSONL, Field: "text"}})
	if err := s.Connect(context.Background()); !errors.Is(err, errBeside) {
		t.Error(err)
	}
}
