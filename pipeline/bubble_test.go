package pipeline

import (
	"runtime"
	"testing"
	"testing/synctest"
)

// bubble runs a test whose clock moves only when everything waits. With the race detector it gets a single processor: the
// runtime keeps one context of the detector for all timers of a bubble, and two goroutines whose timers fire at once
// crash it (Go 1.26). Races are found from the order of events, which a single processor has, too.
func bubble(t *testing.T, test func(*testing.T)) {
	if raceDetector {
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	}
	synctest.Test(t, test)
}
