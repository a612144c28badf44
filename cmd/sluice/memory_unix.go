//go:build unix

package main

import (
	"runtime"
	"syscall"
)

// residentBytes is the most memory that the process has had so far.
func residentBytes() int64 {
	var usage syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &usage) != nil {
		return 0
	}
	most := int64(usage.Maxrss) //nolint:unconvert // it has 32 bits on some systems
	if runtime.GOOS == "darwin" || runtime.GOOS == "ios" {
		return most
	}
	return most << 10
}
