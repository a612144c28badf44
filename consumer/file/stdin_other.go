//go:build !unix

package file

import (
	"io"
	"os"
)

// newInterruptible returns a reader whose Close does not end a Read that waits.
func newInterruptible(in *os.File) (io.ReadCloser, error) { return io.NopCloser(in), nil }
