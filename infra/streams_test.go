package infra

import (
	"fmt"
	"net"
	"strings"
	"testing"
)

// freePorts returns the first of the ports that the script needs, which are all free now.
func freePorts(t *testing.T) int {
	t.Helper()
	for range 100 {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		first := listener.Addr().(*net.TCPAddr).Port
		listener.Close()
		free := first < 60000
		for _, offset := range []int{0, 10, 20, 50, 101, 102} {
			listener, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", first+offset))
			if err != nil {
				free = false
				continue
			}
			listener.Close()
		}
		if free {
			return first
		}
	}
	t.Fatal("there are no free ports")
	return 0
}

// The newcomer's path: sentences go into a real topic, a worker is killed, and translations come out; then a corpus in a real
// store. The script checks what it shows.
func TestTryStreams(t *testing.T) {
	if testing.Short() {
		t.Skip("starts Kafka and an S3 server")
	}
	for _, name := range []string{"java", "mvn", "curl", "versitygw"} {
		tool(t, name)
	}
	port := freePorts(t)
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
