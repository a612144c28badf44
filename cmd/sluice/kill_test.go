//go:build unix

package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/klauspost/compress/gzip"

	"github.com/sluice-mt/sluice/internal/sharedtest"
)

// A killing is a command line whose output is compared with that of an undisturbed run.
type killing struct {
	name      string
	input     string // the file's name below the input folder
	content   []byte
	output    string // the file's name, or the folder's if the input is a folder
	arguments []string
}

// TestKill kills the command with SIGKILL at random moments until it gets through, and expects the bytes of an undisturbed
// run. SLUICE_KILLS is how many kills there are at least; each case is repeated until it has its share.
func TestKill(t *testing.T) {
	kills := 20
	if testing.Short() {
		kills = 5
	}
	if text := os.Getenv("SLUICE_KILLS"); text != "" {
		var err error
		if kills, err = strconv.Atoi(text); err != nil {
			t.Fatal("SLUICE_KILLS:", err)
		}
	}
	cases := killings(t)
	for _, k := range cases {
		t.Run(k.name, func(t *testing.T) {
			folder := t.TempDir()
			inputs := filepath.Join(folder, "in")
			if err := os.MkdirAll(inputs, 0o777); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(inputs, k.input), k.content, 0o666); err != nil {
				t.Fatal(err)
			}
			start := time.Now()
			want := k.undisturbed(t, folder, inputs)
			took := time.Since(start)
			for done := 0; done < (kills+len(cases)-1)/len(cases); {
				done += k.disturbed(t, folder, inputs, took, want)
			}
		})
	}
}

// killings are plain and compressed text, a folder, and compressed records. Compressed output continues at frames of 256 KiB,
// so the records are made long by a field that is carried through.
func killings(t *testing.T) []killing {
	var text, fields bytes.Buffer
	for i, line := range killedLines() {
		fmt.Fprintln(&text, line)
		fmt.Fprintf(&fields, "{\"id\":%d,\"note\":%q,\"text\":%q}\n", i, strings.Repeat(fmt.Sprintf("%06d", i), 1000), line)
	}
	jsonl := []string{"--field", "text", "--target-field", "translation"}
	return []killing{
		{"plain", "corpus.en", text.Bytes(), "corpus.de", nil},
		{"folder", "corpus.en", text.Bytes(), "", nil},
		{"gz", "corpus.en.gz", compressed(t, text.Bytes()), "corpus.de.gz", nil},
		{"records in gz", "corpus.jsonl.gz", compressed(t, fields.Bytes()), "corpus.de.jsonl.gz", jsonl},
		{"records in zst", "corpus.jsonl", fields.Bytes(), "corpus.de.jsonl.zst", jsonl},
	}
}

func compressed(t *testing.T, content []byte) []byte {
	t.Helper()
	var buffer bytes.Buffer
	w := gzip.NewWriter(&buffer)
	if _, err := w.Write(content); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return buffer.Bytes()
}

// killedLines are a few hundred sentences, no two alike, with empty ones and one that is over-long among them.
func killedLines() []string {
	lines := []string{"", strings.Repeat("A man and a woman walk along the beach, and the dog runs after them. ", 40)}
	subjects := []string{"The old man", "A young girl", "My neighbour", "The president", "Nobody"}
	verbs := []string{"reads", "has forgotten", "wants to buy", "can see", "is painting"}
	objects := []string{"a book about the sea", "two black dogs", "the house on the hill", "something strange", "a letter"}
	for i := range 400 {
		line := fmt.Sprintf("%s %s %s, number %d.", subjects[i%5], verbs[i/5%5], objects[i/25%5], i)
		if i%37 == 0 {
			line = ""
		}
		lines = append(lines, line)
	}
	return lines
}

// command is the command line with its output under the given name.
func (k *killing) command(inputs, output string) *exec.Cmd {
	arguments := []string{"translate", "-m", filepath.Join(sharedtest.Root(), "models", "ende-tiny"), "--quiet", "--tolerate", "all", "-i"}
	if k.output == "" {
		arguments = append(arguments, inputs, "--output-dir", output)
	} else {
		arguments = append(arguments, filepath.Join(inputs, k.input), "-o", output)
	}
	command := exec.Command("sluice", append(arguments, k.arguments...)...)
	// Commits are as frequent as a short test needs.
	command.Env = append(os.Environ(), "SLUICE_COMMIT_EVERY=20ms", "SLUICE_MAXI_BATCH=64")
	return command
}

// result is what a run leaves, which is one file.
func (k *killing) result(t *testing.T, output string) []byte {
	t.Helper()
	if k.output == "" {
		output = filepath.Join(output, k.input)
	}
	content, err := os.ReadFile(output)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

func (k *killing) undisturbed(t *testing.T, folder, inputs string) []byte {
	t.Helper()
	output := filepath.Join(folder, "undisturbed-"+k.output)
	if message, err := k.command(inputs, output).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, message)
	}
	return k.result(t, output)
}

// disturbed runs the command again and again, each time for a random part of the time that an undisturbed run takes,
// until it gets through. It returns how often the command was killed.
func (k *killing) disturbed(t *testing.T, folder, inputs string, took time.Duration, want []byte) (kills int) {
	t.Helper()
	place, err := os.MkdirTemp(folder, "disturbed-")
	if err != nil {
		t.Fatal(err)
	}
	output := filepath.Join(place, "out-"+k.output)
	continued := 0
	for attempt := 0; ; attempt++ {
		if attempt > 200 {
			t.Fatalf("no end after %d attempts", attempt)
		}
		// Later attempts get more time, so that a slow machine gets through, too.
		patience := time.Duration(rand.Int64N(int64(took)+1)) + took*time.Duration(attempt)/40
		killed, err := runAtMost(k.command(inputs, output), patience)
		if err != nil {
			t.Fatalf("attempt %d: %v", attempt, err)
		}
		if !killed {
			break
		}
		kills++
		if k.output != "" && exists(output) && !exists(output+".checkpoint") {
			break // it came just too late, and a complete output is not made again
		}
		if found, _ := filepath.Glob(filepath.Join(place, "*", "*.checkpoint")); len(found) > 0 || exists(output+".checkpoint") {
			continued++
		}
	}
	if got := k.result(t, output); !bytes.Equal(got, want) {
		t.Fatalf("after %d kills the output has %d bytes, other than the %d of an undisturbed run", kills, len(got), len(want))
	}
	for _, suffix := range []string{".partial", ".checkpoint"} {
		if exists(output + suffix) {
			t.Errorf("%s was left", output+suffix)
		}
	}
	t.Logf("%d kills, after %d of them there was something to continue", kills, continued)
	return kills
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// runAtMost runs a command and kills it when its time is up. An error is a command that failed by itself.
func runAtMost(command *exec.Cmd, patience time.Duration) (killed bool, err error) {
	var messages bytes.Buffer
	if command.Stderr != nil {
		command.Stderr = io.MultiWriter(command.Stderr, &messages)
	} else {
		command.Stderr = &messages
	}
	if err := command.Start(); err != nil {
		return false, err
	}
	timer := time.AfterFunc(patience, func() { _ = command.Process.Kill() })
	err = command.Wait()
	timer.Stop()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		if status, ok := exit.Sys().(syscall.WaitStatus); ok && status.Signaled() && status.Signal() == syscall.SIGKILL {
			return true, nil
		}
		return false, fmt.Errorf("%w: %s", err, messages.Bytes())
	}
	return false, err
}
