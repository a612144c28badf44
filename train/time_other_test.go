//go:build !unix

package train

import (
	"testing"
	"time"
)

var start = time.Now()

// processorTime returns the time that has passed.
func processorTime(testing.TB) time.Duration { return time.Since(start) }
