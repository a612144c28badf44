//go:build unix

package marian

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// mapFile maps size bytes of a regular file for reading. The map stays valid when the file is closed.
func mapFile(f *os.File, size int) (data []byte, release func() error, err error) {
	data, err = unix.Mmap(int(f.Fd()), 0, size, unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return nil, nil, err
	}
	return data, func() error { return unix.Munmap(data) }, nil
}

// evict lets the system have the memory of a map: what is read again comes from the file again.
func evict(data []byte) { _ = unix.Madvise(data, unix.MADV_DONTNEED) }

// syncFolder makes a rename in a folder durable.
func syncFolder(path string) error {
	folder, err := os.Open(path)
	if err != nil {
		return err
	}
	err = folder.Sync()
	return errors.Join(err, folder.Close())
}
