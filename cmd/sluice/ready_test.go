package main

import (
	"bytes"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluice-mt/sluice/internal/sharedtest"
)

var readyAfter = regexp.MustCompile(`msg=ready after=(\S+)`)

// BenchmarkReady starts the command with the demo model again and again: how long until it is ready to translate, as it says
// itself, and how long until a line has been translated and the process has ended.
func BenchmarkReady(b *testing.B) {
	var ready, whole []time.Duration
	for b.Loop() {
		command := exec.Command("sluice", "translate", "-m", filepath.Join(sharedtest.Root(), "models", "ende-tiny"), "--log-level", "debug")
		command.Stdin = strings.NewReader("A dog.\n")
		var said bytes.Buffer
		command.Stderr = &said
		start := time.Now()
		if out, err := command.Output(); err != nil || string(out) != "Ein Hund.\n" {
			b.Fatalf("%q, %v: %s", out, err, said.Bytes())
		}
		whole = append(whole, time.Since(start))
		found := readyAfter.FindSubmatch(said.Bytes())
		if found == nil {
			b.Fatalf("it does not say when it is ready: %s", said.Bytes())
		}
		after, err := time.ParseDuration(string(found[1]))
		if err != nil {
			b.Fatal(err)
		}
		ready = append(ready, after)
	}
	b.ReportMetric(medianMilliseconds(ready), "ready-ms")
	b.ReportMetric(medianMilliseconds(whole), "whole-ms")
	b.ReportMetric(0, "ns/op")
}

// medianMilliseconds sorts the times.
func medianMilliseconds(times []time.Duration) float64 {
	slices.Sort(times)
	return milliseconds(times[len(times)/2])
}
