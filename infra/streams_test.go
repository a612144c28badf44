package infra

import (
	"strings"
	"testing"
)

// The scripts that show streams at work are the way in, and the test run goes it: see scripts/newcomer.sh.
func TestScriptsAreShownAndRun(t *testing.T) {
	for file, line := range map[string]string{
		"docs/streaming.md": "\nscripts/try-streams.sh\n", "scripts/newcomer.sh": "scripts/try-streams.sh \"$messages\"\n",
		"scripts/test.sh": "\tbeside newcomer scripts/newcomer.sh\n", ".ci/run": "\nmake test\n",
	} {
		if !strings.Contains(read(t, file), line) {
			t.Errorf("%s lacks the line %q", file, strings.TrimSpace(line))
		}
	}
}
