//go:build unix

package train

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// lock takes the file for this process, until it is closed: two runs that write the same model would spoil each other's checkpoints.
func lock(file *os.File) error {
	err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return ErrBusy
	}
	return err
}
