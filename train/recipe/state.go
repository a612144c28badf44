package recipe

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/sluice-mt/sluice/internal/wholefile"
)

// stateFolder is where, within a recipe's folder, is kept what outputs were made of.
const stateFolder = ".recipe"

// A file is one whose content is known.
type file struct {
	Name string `json:"name"`
	Size int64  `json:"size"`
	Time int64  `json:"time"` // of its last change, in nanoseconds
	Hash string `json:"sha256"`
}

// A stamp says what the outputs of a step were made of.
type stamp struct {
	From    origin  `json:"from"`
	Seconds float64 `json:"seconds"` // that the step took, over all interruptions
	Outputs []file  `json:"outputs"`
}

// begun is what is kept of a step while it is worked on.
type begun struct {
	From    origin  `json:"from"`
	Seconds float64 `json:"seconds"` // so far
	Share   float64 `json:"share"`   // that is done; 0 if that is not known
}

// readJSON reads a file of state. One that is missing or damaged, as a crash of the machine may leave it, counts as none: the
// step is done again.
func readJSON(path string, into any) bool {
	content, err := os.ReadFile(path)
	return err == nil && json.Unmarshal(content, into) == nil
}

// writeJSON replaces a file of state at once.
func writeJSON(path string, content any) error {
	text, err := json.MarshalIndent(content, "", "  ")
	if err != nil {
		return err
	}
	return replace(path, func(w io.Writer) error {
		_, err := w.Write(append(text, '\n'))
		return err
	})
}

// replace writes a file that appears under its name when it is complete.
func replace(path string, write func(io.Writer) error) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		return fmt.Errorf("%w: %w", ErrOutput, err)
	}
	f, err := wholefile.Create(path)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrOutput, err)
	}
	if err = write(marked{f}); err != nil {
		err = errors.Join(err, f.Discard())
	} else {
		err = f.Publish()
	}
	if err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	return nil
}

// ErrOutput is wrapped by errors about what cannot be written.
var ErrOutput = errors.New("the recipe cannot write")

// marked is a writer whose errors wrap ErrOutput.
type marked struct{ io.Writer }

func (m marked) Write(p []byte) (int, error) {
	n, err := m.Writer.Write(p)
	if err != nil {
		err = fmt.Errorf("%w: %w", ErrOutput, err)
	}
	return n, err
}

// unchanged says whether a file is, by size and time, what it was. One that has a wrong time may be the same nevertheless: only
// its content tells.
func (f file) unchanged(info fs.FileInfo) bool {
	return info.Size() == f.Size && info.ModTime().UnixNano() == f.Time
}

// identify reads a file.
func identify(name, path string) (file, error) {
	info, err := os.Stat(path)
	if err != nil {
		return file{}, err
	}
	switch {
	case info.IsDir():
		return file{}, fmt.Errorf("%s is a folder", path)
	case !info.Mode().IsRegular():
		return file{}, fmt.Errorf("%s is a device or a pipe: a recipe reads what it needs again and again, so it must be a file", path)
	}
	hash, err := hashFile(path)
	return file{Name: name, Size: info.Size(), Time: info.ModTime().UnixNano(), Hash: hash}, err
}

func hashFile(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", fmt.Errorf("reading %s: %w", path, err)
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// hashes remember the contents of files by size and time of change.
type hashes struct {
	path  string
	known map[string]file // by path
	dirty bool
}

func openHashes(path string) *hashes {
	h := &hashes{path: path, known: map[string]file{}}
	readJSON(path, &h.known)
	return h
}

// settled is how old a file must be for its time of change to tell it from one that was written since: file systems count time
// in steps.
const settled = 2 * time.Second

// of returns the hash of a file's content.
func (h *hashes) of(path string) (string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return "", err
	}
	if known, ok := h.known[path]; ok && known.unchanged(info) {
		return known.Hash, nil
	}
	f, err := identify(path, path)
	if err == nil && time.Since(info.ModTime()) > settled {
		h.known[path], h.dirty = f, true
	}
	return f.Hash, err
}

func (h *hashes) save() error {
	if !h.dirty {
		return nil
	}
	h.dirty = false
	return writeJSON(h.path, h.known)
}
