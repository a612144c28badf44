package main

import (
	"bufio"
	"io"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sluice-mt/sluice/internal/sharedtest"
)

// TestSlowPipe writes single lines into a pipe that stays open. No batch ever fills, so each translation has to come by the
// latency bound alone, and not with the lines that follow.
func TestSlowPipe(t *testing.T) {
	const (
		latency = 100 * time.Millisecond
		patient = 5 * time.Second // what a loaded machine may take on top
	)
	command := exec.Command("sluice", "translate", "-m", filepath.Join(sharedtest.Root(), "models", "ende-tiny"), "--quiet",
		"--cpu-threads", "1", "--latency", latency.String())
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
		_ = command.Process.Kill() // it has ended unless the test failed
		_ = command.Wait()
	})
	lines := make(chan string)
	go func() {
		defer close(lines)
		for scanner := bufio.NewScanner(output); scanner.Scan(); {
			lines <- scanner.Text()
		}
	}()
	for _, c := range [][2]string{{"A dog.\n", "Ein Hund."}, {"\n", ""}, {"A cat.\nA man.\n", "Eine Katze."}, {"", "Ein Mann."}} {
		start := time.Now()
		if _, err := io.WriteString(input, c[0]); err != nil {
			t.Fatal(err)
		}
		select {
		case got := <-lines:
			if got != c[1] {
				t.Errorf("%q became %q, want %q", strings.TrimSpace(c[0]), got, c[1])
			}
			t.Logf("%q after %v", c[0], time.Since(start).Round(time.Millisecond))
		case <-time.After(latency + patient):
			t.Fatalf("%q has no translation after %v, with the pipe still open", c[0], time.Since(start))
		}
	}
	if err := input.Close(); err != nil {
		t.Fatal(err)
	}
	if line, more := <-lines; more {
		t.Errorf("there is a line too many: %q", line)
	}
}
