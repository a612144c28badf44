package file

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-mt/sluice/internal/compress"
	"github.com/sluice-mt/sluice/internal/recordio"
	"github.com/sluice-mt/sluice/producer"
	"github.com/sluice-mt/sluice/producer/contract"
)

func TestContract(t *testing.T) {
	for _, suffix := range []string{"", ".gz", ".zst"} {
		t.Run("plain"+suffix, func(t *testing.T) {
			contract.RunTests(t, contract.Config{New: func(t testing.TB) contract.Place {
				folder := newFolder(t)
				return contract.Place{
					Sink:      func() producer.Sink { return New(folderConfig(folder, suffix)) },
					Published: func(t testing.TB, lane string) []string { return readLines(t, filepath.Join(folder, lane+suffix)) },
				}
			}})
		})
	}
}

// newFolder makes a folder that is removed at the end of the test. A property test makes many of them, which
// t.TempDir would number in one folder.
func newFolder(t testing.TB) string {
	folder, err := os.MkdirTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	return folder
}

func folderConfig(folder, suffix string) Config {
	return Config{
		Path:     func(lane string) (string, error) { return filepath.Join(folder, lane+suffix), nil },
		Encoder:  recordio.NewTextEncoder(),
		MadeWith: map[string]string{"model": "test"},
		Folder:   folder,
	}
}

// readLines returns the lines of a file that may be compressed, nil if there is none.
func readLines(t testing.TB, path string) []string {
	t.Helper()
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	reader, err := compress.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	data, err := io.ReadAll(reader)
	if err != nil {
		t.Fatal(err)
	}
	lines := []string{}
	for line := range strings.Lines(string(data)) {
		lines = append(lines, strings.TrimSuffix(line, "\n"))
	}
	return lines
}
