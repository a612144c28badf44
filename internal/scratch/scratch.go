// Package scratch makes files for what does not fit into memory. Where the system allows that, they lose their names at once, so that
// they are gone with the process, however it ends.
package scratch

import (
	"errors"
	"io/fs"
	"os"
)

// A File is gone when it is closed.
type File struct {
	*os.File
	named bool
}

// Create makes a file in a folder, "" for that of temporary files.
func Create(folder string) (*File, error) {
	file, err := os.CreateTemp(folder, "sluice-*")
	if err != nil {
		return nil, err
	}
	return &File{File: file, named: os.Remove(file.Name()) != nil}, nil
}

// Close closes the file and removes it.
func (f *File) Close() error {
	err := f.File.Close()
	if f.named {
		if removing := os.Remove(f.Name()); !errors.Is(removing, fs.ErrNotExist) {
			err = errors.Join(err, removing)
		}
	}
	return err
}
