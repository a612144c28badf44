//go:build !unix

package file

import (
	"errors"
	"io/fs"
	"os"
)

var errLocked = errors.New("it is being written by another process")

// lock does nothing where there is no flock.
func lock(*os.File) error { return nil }

// inode returns 0 where files are not identified by a number.
func inode(fs.FileInfo) uint64 { return 0 }
