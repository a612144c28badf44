//go:build linux

package main

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sluice-mt/sluice/internal/sharedtest"
)

// TestManyLines translates many short lines through the whole command, with an engine that answers at once, and looks at the most
// memory that the process has had: it is that of one line, and a bounded amount. SLUICE_HEAVY makes it ten million lines.
func TestManyLines(t *testing.T) {
	const most = 300 << 20 // above what the command takes with its model for one line
	lines := 200_000
	if os.Getenv("SLUICE_HEAVY") != "" {
		lines = 10_000_000
	}
	folder := t.TempDir()
	one, _ := echoLines(t, filepath.Join(folder, "one"), 1)
	all, took := echoLines(t, filepath.Join(folder, "all"), lines)
	t.Logf("%d lines, %.0f a second, %d MiB of memory, with one line %d MiB", lines, float64(lines)/took.Seconds(), all>>20, one>>20)
	if all-one > most {
		t.Errorf("%d lines take %d MiB more memory than one", lines, (all-one)>>20)
	}
}

// echoLines makes an input of that many lines, runs the command on it, checks the output and returns the command's peak of memory.
func echoLines(t *testing.T, name string, lines int) (peak int64, took time.Duration) {
	t.Helper()
	writeLines(t, name+".en", lines)
	command := exec.Command("sluice-echo", "translate", "-m", filepath.Join(sharedtest.Root(), "models", "ende-tiny"), "--quiet",
		"-i", name+".en", "-o", name+".de")
	var said strings.Builder
	command.Stdout, command.Stderr = &said, &said
	start := time.Now()
	most, err := mostResident(command)
	if err != nil {
		t.Fatalf("%v: %s", err, said.String())
	}
	took = time.Since(start)
	file, err := os.Open(name + ".de")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	found := 0
	for scanner := bufio.NewScanner(file); scanner.Scan(); found++ {
		if want := strings.ToUpper(lineOf(found)); scanner.Text() != want {
			t.Fatalf("line %d is %q, want %q", found+1, scanner.Text(), want)
		}
	}
	if found != lines {
		t.Fatalf("%d lines came out, want %d", found, lines)
	}
	return most, took
}

func lineOf(i int) string { return fmt.Sprintf("a line, the %dth", i) }

func writeLines(t *testing.T, path string, lines int) {
	t.Helper()
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	var chunk bytes.Buffer
	for i := range lines {
		chunk.WriteString(lineOf(i))
		chunk.WriteByte('\n')
		if chunk.Len() > 1<<16 || i == lines-1 {
			if _, err := chunk.WriteTo(file); err != nil {
				t.Fatal(err)
			}
		}
	}
}
