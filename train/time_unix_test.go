//go:build unix

package train

import (
	"syscall"
	"testing"
	"time"
)

// processorTime returns what the process has used of the processors.
func processorTime(b testing.TB) time.Duration {
	b.Helper()
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		b.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
