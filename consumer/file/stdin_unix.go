//go:build unix

package file

import (
	"errors"
	"io"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// interruptible reads a pipe or terminal that was opened by someone else, such that Close ends a Read that waits.
//
// The runtime could do that if the descriptor were put into non-blocking mode, but that mode belongs to the open
// pipe, which other processes share. So poll(2) waits for the input and for a pipe of our own at once.
type interruptible struct {
	in         *os.File
	wake, stop *os.File // the ends of our pipe
	once       sync.Once
}

func newInterruptible(in *os.File) (io.ReadCloser, error) {
	wake, stop, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	return &interruptible{in: in, wake: wake, stop: stop}, nil
}

func (r *interruptible) Read(p []byte) (int, error) {
	waiting := []unix.PollFd{
		{Fd: int32(r.in.Fd()), Events: unix.POLLIN},
		{Fd: int32(r.wake.Fd()), Events: unix.POLLIN},
	}
	for {
		_, err := unix.Poll(waiting, -1)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return 0, os.NewSyscallError("poll", err)
		}
		if waiting[1].Revents != 0 {
			return 0, os.ErrClosed
		}
		return r.in.Read(p)
	}
}

// Close wakes the reader. The input itself stays open.
func (r *interruptible) Close() error {
	r.once.Do(func() { r.stop.Close() })
	return nil
}
