package file

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
)

// LedgerName is the file in an output folder that keeps what complete outputs were made of.
const LedgerName = ".sluice.jsonl"

// A finished output, as the ledger keeps it.
type finished struct {
	Output   string            `json:"output"` // below the folder, with slashes
	Size     int64             `json:"size"`
	Input    json.RawMessage   `json:"input,omitempty"`
	MadeWith map[string]string `json:"made_with"`
}

// ledger is a file of one JSON object a line, which only grows. Of several lines for one output the last one counts;
// a line that cannot be read, cut short by a crash, counts as none.
type ledger struct {
	folder string
	mu     sync.Mutex
	done   map[string]finished
}

func openLedger(folder string) (*ledger, error) {
	l := &ledger{folder: folder, done: map[string]finished{}}
	return l, l.read()
}

// read takes in what the file says now. Other processes may be writing to the same folder.
func (l *ledger) read() error {
	if l.folder == "" {
		return nil
	}
	file, err := os.Open(filepath.Join(l.folder, LedgerName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer file.Close()
	l.mu.Lock()
	defer l.mu.Unlock()
	scanner := bufio.NewScanner(file)
	scanner.Buffer(nil, maxCheckpoint)
	for scanner.Scan() {
		var entry finished
		if json.Unmarshal(scanner.Bytes(), &entry) == nil && entry.Output != "" {
			l.done[entry.Output] = entry
		}
	}
	if err := scanner.Err(); err != nil {
		return fmt.Errorf("%s: %w", file.Name(), err)
	}
	return nil
}

// key returns how an output is called in the ledger; ok is false if it lies elsewhere.
func (l *ledger) key(path string) (key string, ok bool) {
	if l.folder == "" {
		return "", false
	}
	relative, err := filepath.Rel(l.folder, path)
	return filepath.ToSlash(relative), err == nil && filepath.IsLocal(relative)
}

func (l *ledger) find(path string) (finished, bool) {
	key, ok := l.key(path)
	l.mu.Lock()
	defer l.mu.Unlock()
	entry, found := l.done[key]
	return entry, ok && found
}

// add notes a complete output, durably.
func (l *ledger) add(path string, entry finished) error {
	key, ok := l.key(path)
	if !ok {
		return nil
	}
	entry.Output = key
	data, err := json.Marshal(entry)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	file, err := os.OpenFile(filepath.Join(l.folder, LedgerName), os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o666)
	if err != nil {
		return err
	}
	defer file.Close()
	if err := appendLine(file, data); err != nil {
		return err
	}
	l.done[key] = entry
	return file.Sync()
}

// appendLine appends a line, on a line of its own even where the last one was cut short.
func appendLine(file *os.File, data []byte) error {
	line := append(bytes.Clone(data), '\n')
	if info, err := file.Stat(); err == nil && info.Size() > 0 {
		var last [1]byte
		if _, err := file.ReadAt(last[:], info.Size()-1); err == nil && last[0] != '\n' {
			line = append([]byte{'\n'}, line...)
		}
	}
	_, err := file.Write(line)
	return err
}
