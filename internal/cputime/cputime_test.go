//go:build unix

package cputime

import (
	"testing"
	"time"
)

// Time that is spent computing counts, and time that is slept does not.
func TestProcess(t *testing.T) {
	before := Process()
	for begin, x := time.Now(), 0; time.Since(begin) < 50*time.Millisecond; x++ {
		_ = x
	}
	computed := Process() - before
	if computed <= 0 {
		t.Fatalf("%v for 50 ms of computing", computed)
	}
	before = Process()
	time.Sleep(200 * time.Millisecond)
	if slept := Process() - before; slept > 100*time.Millisecond {
		t.Errorf("%v for 200 ms of sleep", slept)
	}
}
