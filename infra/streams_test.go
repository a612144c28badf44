package infra

import (
	"fmt"
	"strings"
	"testing"

	"github.com/sluice-mt/sluice/internal/sharedtest"
)

// The newcomer's path: sentences go into a real topic, a worker is killed, and translations come out; then a corpus in a real
// store. The script checks what it shows.
func TestTryStreams(t *testing.T) {
	if testing.Short() {
		t.Skip("starts Kafka and an S3 server")
	}
	for _, name := range []string{"java", "mvn", "curl", "versitygw"} {
		tool(t, name)
	}
	port := sharedtest.FreePorts(t, 10, 20, 50, 101, 102) // of Kafka, the store and two workers
	output := mustRun(t, []string{fmt.Sprint("KAFKA_PORT=", port), fmt.Sprint("S3_PORT=", port+50), "SLUICE=" + sluice.build(t)}, path("scripts", "try-streams.sh"), "200")
	for _, line := range []string{"199 messages came out, each once and in order; 1 dead letter", "4 objects, line for line", "everything held"} {
		if !strings.Contains(output, line) {
			t.Errorf("%q is missing in\n%s", line, output)
		}
	}
}

// What the script says of itself is the way in.
func TestGuideShowsTheScript(t *testing.T) {
	if !strings.Contains(read(t, "docs", "streaming.md"), "\nscripts/try-streams.sh\n") {
		t.Error("docs/streaming.md does not show scripts/try-streams.sh")
	}
}
