package kafkatest

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"
)

// serve is set in the environment of a test binary that is to be fake brokers.
const serve = "SLUICE_KAFKATEST_SERVE"

// Main is the TestMain of a package that calls StartProcess.
func Main(m *testing.M) {
	if os.Getenv(serve) == "" {
		os.Exit(m.Run())
	}
	fake, err := kfake.NewCluster(fakeOptions()...)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(strings.Join(fake.ListenAddrs(), ","))
	_, _ = io.Copy(io.Discard, os.Stdin) // until the test closes it, or is gone
	fake.Close()
	os.Exit(0)
}

// StartProcess starts fake brokers in a process of their own, for tests that count goroutines.
func StartProcess(t testing.TB) *Cluster {
	t.Helper()
	if os.Getenv(serve) != "" {
		t.Fatal("this package's TestMain does not call kafkatest.Main") // or each process would start another
	}
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	command := exec.Command(program)
	command.Env = append(os.Environ(), serve+"=1")
	command.Stderr = os.Stderr
	input, err := command.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	output, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		input.Close()
		if err := command.Wait(); err != nil {
			t.Errorf("the fake brokers: %v", err)
		}
	})
	line, err := bufio.NewReader(output).ReadString('\n')
	if err != nil {
		t.Fatalf("the fake brokers have not started: %v", err)
	}
	return Connect(strings.Split(strings.TrimSpace(line), ","))
}
