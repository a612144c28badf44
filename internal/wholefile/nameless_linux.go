package wholefile

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// createNameless creates a file without a name in the folder of path. It returns nil where that is not possible: not every file system
// can do it, and to get its name later the file has to be found in /proc.
func createNameless(path string) *os.File {
	number, err := unix.Open(filepath.Dir(path), unix.O_TMPFILE|unix.O_WRONLY|unix.O_CLOEXEC, 0o666)
	if err != nil {
		return nil
	}
	file := os.NewFile(uintptr(number), path)
	if _, err := os.Lstat(descriptor(file)); err != nil {
		_ = file.Close() // nothing was written to it
		return nil
	}
	return file
}

// link gives a file without a name its first one.
func link(file *os.File, name string) error {
	if err := unix.Linkat(unix.AT_FDCWD, descriptor(file), unix.AT_FDCWD, name, unix.AT_SYMLINK_FOLLOW); err != nil {
		return &fs.PathError{Op: "link", Path: name, Err: err}
	}
	return nil
}

func descriptor(file *os.File) string { return fmt.Sprintf("/proc/self/fd/%d", file.Fd()) }
