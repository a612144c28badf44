// Package wholefile writes files that are there whole or not at all. Where the system can do that, a file has no name while it is
// written, so that a process that is killed leaves nothing behind.
package wholefile

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
)

// A File is written to, and then published or discarded.
type File struct {
	*os.File
	path      string
	temporary string // "" while the file has no name
}

// Create begins the file that is to be at path. What is there already stays until Publish.
func Create(path string) (*File, error) {
	if file := createNameless(path); file != nil {
		return &File{File: file, path: path}, nil
	}
	temporary := temporaryName(path)
	file, err := os.OpenFile(temporary, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	var at *fs.PathError
	if errors.As(err, &at) {
		return nil, &fs.PathError{Op: "create", Path: path, Err: at.Err} // the other name would tell nobody anything
	}
	return &File{File: file, path: path, temporary: temporary}, err
}

// Publish flushes the file to the disk, closes it, and gives it its name, in the place of what had it. If that fails it is discarded.
func (f *File) Publish() error {
	err := f.Sync()
	if err == nil && f.temporary == "" {
		name := temporaryName(f.path)
		if err = link(f.File, name); err == nil {
			f.temporary = name
		}
	}
	if err != nil {
		return errors.Join(err, f.Discard())
	}
	if err = f.Close(); err == nil {
		err = os.Rename(f.temporary, f.path)
	}
	if err != nil {
		err = errors.Join(err, os.Remove(f.temporary))
	}
	return err
}

// Discard closes the file and removes it.
func (f *File) Discard() error {
	err := f.Close()
	if f.temporary != "" {
		err = errors.Join(err, os.Remove(f.temporary))
	}
	return err
}

func temporaryName(path string) string { return fmt.Sprintf("%s.%08x.tmp", path, rand.Uint32()) }
