//go:build !unix

package network

import (
	"testing"
	"time"
)

var start = time.Now()

// processorTime returns the time that has passed.
func processorTime(*testing.B) time.Duration { return time.Since(start) }
