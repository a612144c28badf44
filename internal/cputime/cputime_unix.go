//go:build unix

package cputime

import (
	"syscall"
	"time"
)

// Process is the processor time that the process has used so far, of all cores; 0 where that is not known.
func Process() time.Duration {
	var usage syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &usage) != nil {
		return 0
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
