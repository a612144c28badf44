package file

import (
	"io"
	"os"
	"path/filepath"

	"github.com/sluice-mt/sluice/internal/deadletter"
	"github.com/sluice-mt/sluice/internal/job"
)

// letters is the file of a lane's dead letters. It grows as the output does, and the checkpoint says how much of it counts:
// a process that continues cuts off what the one before wrote after its last commit. There is no file while there is no letter.
type letters struct {
	path   string
	file   *os.File
	length int64
	line   []byte
}

// openLetters cuts the letters to what counts.
func openLetters(path string, length int64) (*letters, error) {
	l := &letters{path: path, length: length}
	if length == 0 {
		return l, remove(path)
	}
	if err := l.open(); err != nil {
		return nil, err
	}
	if err := l.file.Truncate(length); err != nil {
		return nil, err
	}
	_, err := l.file.Seek(length, io.SeekStart)
	return l, err
}

func (l *letters) open() (err error) {
	if err := os.MkdirAll(filepath.Dir(l.path), 0o777); err != nil {
		return err
	}
	l.file, err = os.OpenFile(l.path, os.O_RDWR|os.O_CREATE, 0o666)
	return err
}

// add writes the letter of an output that has failed.
func (l *letters) add(lane string, output *job.Output) error {
	if l.file == nil {
		if err := l.open(); err != nil {
			return err
		}
	}
	letter := deadletter.Of(lane, output)
	var err error
	if l.line, err = deadletter.Append(l.line[:0], &letter); err != nil {
		return err
	}
	n, err := l.file.Write(l.line)
	l.length += int64(n)
	return err
}

// sync brings the letters to the disk, and the name of their file.
func (l *letters) sync() error {
	if l.file == nil {
		return nil
	}
	if err := l.file.Sync(); err != nil {
		return err
	}
	return syncFolder(filepath.Dir(l.path))
}

func (l *letters) close() error {
	if l.file == nil {
		return nil
	}
	return l.file.Close()
}
