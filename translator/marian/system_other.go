//go:build !unix

package marian

import (
	"io"
	"os"
)

// mapFile reads size bytes of a regular file into memory, on systems without mmap.
func mapFile(f *os.File, size int) (data []byte, release func() error, err error) {
	data = make([]byte, size)
	if _, err := io.ReadFull(f, data); err != nil {
		return nil, nil, err
	}
	return data, nil, nil
}

// evict does nothing: what was read into memory cannot be read again.
func evict([]byte) {}

// syncFolder does nothing: only unix systems let a program flush a folder.
func syncFolder(string) error { return nil }
