package kafkatest

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/sluice-mt/sluice/internal/kafkaclient"
	"github.com/sluice-mt/sluice/internal/sharedtest"
)

// A Real cluster runs Apache Kafka in processes of its own, which scripts/kafka.sh starts.
type Real struct {
	*Cluster
	Secure []string // addresses with TLS and SASL
	folder string
}

// Where the script lets brokers and controllers listen, from the first port on.
const (
	secureFrom     = 10
	controllerFrom = 20
)

// StartReal starts one to three nodes. They are stopped when the test ends. Without Java the test is skipped.
func StartReal(t testing.TB, nodes int) *Real {
	t.Helper()
	sharedtest.Program(t, "java")
	sharedtest.Program(t, "mvn")
	r := &Real{folder: t.TempDir()}
	var distances []int
	for _, from := range []int{0, secureFrom, controllerFrom} {
		for i := range nodes {
			distances = append(distances, from+i)
		}
	}
	port := sharedtest.FreePorts(t, distances[1:]...)
	var brokers []string
	for i := range nodes {
		brokers = append(brokers, fmt.Sprintf("127.0.0.1:%d", port+i))
		r.Secure = append(r.Secure, fmt.Sprintf("127.0.0.1:%d", port+secureFrom+i))
	}
	r.Cluster = Connect(brokers)
	t.Cleanup(func() { r.script(t, "stop", r.folder) })
	r.script(t, "start", r.folder, strconv.Itoa(port), strconv.Itoa(nodes))
	return r
}

func (r *Real) script(t testing.TB, arguments ...string) {
	t.Helper()
	command := exec.Command(filepath.Join(sharedtest.Root(), "scripts", "kafka.sh"), arguments...)
	command.Env = append(os.Environ(), fmt.Sprintf("KAFKA_OWNER=%d", os.Getpid()))
	var output bytes.Buffer
	command.Stdout, command.Stderr = &output, &output
	if err := command.Run(); err != nil {
		t.Fatalf("kafka.sh %s: %v\n%s", arguments[0], err, output.String())
	}
}

// Kill sends a signal, such as KILL, to a node, 1 to 3.
func (r *Real) Kill(t testing.TB, node int, signal string) {
	t.Helper()
	r.script(t, "kill", r.folder, strconv.Itoa(node), signal)
}

// Up starts a node again and waits until it serves.
func (r *Real) Up(t testing.TB, node int) {
	t.Helper()
	r.script(t, "up", r.folder, strconv.Itoa(node))
}

// CA is the file of the certificate that has to be trusted at the addresses in Secure.
func (r *Real) CA() string { return filepath.Join(r.folder, "ca.pem") }

// TLS returns what it takes to connect to the addresses in Secure, beside a user.
func (r *Real) TLS(t testing.TB) *tls.Config {
	t.Helper()
	config, err := kafkaclient.TLSFiles{CA: r.CA()}.Load()
	if err != nil {
		t.Fatal(err)
	}
	return config
}
