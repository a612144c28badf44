//go:build unix

package file

import (
	"io/fs"
	"os"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// OpenDescriptor returns another descriptor of the one that a path such as /dev/fd/3 names, and nil for other paths. What a descriptor leads
// to is written to as it is, from where it stands: it may be a file that was opened to append to, and nothing can be put beside it.
func OpenDescriptor(path string) (*os.File, error) {
	number, ok := descriptorOf(path)
	if !ok {
		return nil, nil
	}
	copied, err := unix.FcntlInt(uintptr(number), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	return os.NewFile(uintptr(copied), path), nil
}

// IsDescriptor says whether a path is the name of a descriptor.
func IsDescriptor(path string) bool {
	_, ok := descriptorOf(path)
	return ok
}

func descriptorOf(path string) (int, bool) {
	switch path {
	case "/dev/stdout":
		return 1, true
	case "/dev/stderr":
		return 2, true
	}
	for _, folder := range []string{"/dev/fd/", "/proc/self/fd/"} {
		if name, ok := strings.CutPrefix(path, folder); ok {
			number, err := strconv.ParseUint(name, 10, 31)
			return int(number), err == nil
		}
	}
	return 0, false
}

// unblock makes an attempt to open a named pipe for writing succeed, which waits for a reader.
func unblock(path string) {
	if reader, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0); err == nil {
		_ = reader.Close() // nothing was read
	}
}
