package main

import (
	"os"
	"sync"
)

// standardOutput is standard output for everything that commands print. What goes wrong there is about an output, and remembered: help,
// for one, is printed by a library that does not look.
type standardOutput struct {
	mu     sync.Mutex
	failed error // the first failure
}

func (s *standardOutput) Write(p []byte) (int, error) {
	n, err := os.Stdout.Write(p)
	if err != nil {
		err = outputError{err}
		s.mu.Lock()
		if s.failed == nil {
			s.failed = err
		}
		s.mu.Unlock()
	}
	return n, err
}

// Fd is the descriptor, which may be a terminal.
func (s *standardOutput) Fd() uintptr { return os.Stdout.Fd() }

// failure is what went wrong first, nil for nothing.
func (s *standardOutput) failure() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.failed
}
