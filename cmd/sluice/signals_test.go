//go:build unix

package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sluice-mt/sluice/internal/sharedtest"
)

// longText takes the demo model long enough to be interrupted.
func longText() []byte {
	var text bytes.Buffer
	for i := range 3 {
		for _, line := range killedLines()[2:] {
			fmt.Fprintf(&text, "%s And again, for the %dth time.\n", line, i)
		}
	}
	return text.Bytes()
}

// signalled starts the command and sends it signals: the first when output has been committed, each further one when the
// command has answered the one before on standard error. It returns what the command says and its exit code.
func signalled(t *testing.T, output string, arguments []string, signals ...syscall.Signal) (said string, code int) {
	t.Helper()
	command := exec.Command("sluice", arguments...)
	stderr, err := command.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(time.Minute); !exists(output + ".checkpoint"); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			_ = command.Process.Kill()
			t.Fatal("nothing was committed in a minute")
		}
	}
	answers := bufio.NewReader(stderr)
	for _, s := range signals {
		if err := command.Process.Signal(s); err != nil {
			t.Fatal(err)
		}
		line, err := answers.ReadString('\n')
		if said += line; err != nil {
			t.Fatalf("no answer to %v: %v", s, err)
		}
	}
	rest, err := io.ReadAll(answers)
	if err != nil {
		t.Fatal(err)
	}
	_ = command.Wait() // its error is the exit code
	return said + string(rest), command.ProcessState.ExitCode()
}

func TestSignals(t *testing.T) {
	folder := t.TempDir()
	input, want := filepath.Join(folder, "in.en"), filepath.Join(folder, "undisturbed.de")
	if err := os.WriteFile(input, longText(), 0o666); err != nil {
		t.Fatal(err)
	}
	arguments := func(output string, more ...string) []string {
		return append([]string{
			"translate", "-m", filepath.Join(sharedtest.Root(), "models", "ende-tiny"), "--quiet", "--tolerate", "all",
			"--maxi-batch", "64", "--memory", "1", "--commit-every", "10ms", "-i", input, "-o", output,
		}, more...)
	}
	if code := run(arguments(want)); code != exitOK {
		t.Fatal("exit code", code)
	}
	cases := []struct {
		name    string
		signals []syscall.Signal
		grace   string
		says    []string
	}{
		{"terminated", []syscall.Signal{syscall.SIGTERM}, "1m", []string{"terminated: finishing", "run the same command again to continue"}},
		{"interrupted", []syscall.Signal{syscall.SIGINT}, "1m", []string{"interrupt: finishing", "run the same command again to continue"}},
		{"no grace", []syscall.Signal{syscall.SIGTERM}, "1ns", []string{"run the same command again to continue"}},
		{"twice", []syscall.Signal{syscall.SIGTERM, syscall.SIGTERM}, "1m", []string{"stopped at once", "continues after the last commit"}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			output := filepath.Join(folder, c.name+".de")
			more := []string{"--grace-period", c.grace}
			if len(c.signals) > 1 { // so much is in flight that it is not finished before the second one comes
				more = append(more, "--memory", "64")
			}
			said, code := signalled(t, output, arguments(output, more...), c.signals...)
			if code != exitInterrupted {
				t.Errorf("exit code %d, want %d: %s", code, exitInterrupted, said)
			}
			for _, words := range c.says {
				if !strings.Contains(said, words) {
					t.Errorf("does not say %q: %s", words, said)
				}
			}
			if exists(output) {
				t.Error("the output has its final name although it is not complete")
			}
			if code := run(arguments(output)); code != exitOK {
				t.Fatal("the same command again: exit code", code)
			}
			compareFiles(t, output, want)
		})
	}
}

func compareFiles(t *testing.T, got, want string) {
	t.Helper()
	a, err := os.ReadFile(got)
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(want)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(a, b) {
		t.Errorf("%s and %s differ", got, want)
	}
}

// TestInterruptedEarly interrupts commands that nothing can be continued of, while they wait for a text or read one without end.
func TestInterruptedEarly(t *testing.T) {
	folder := t.TempDir()
	pipe, list := filepath.Join(folder, "pipe"), filepath.Join(folder, "list")
	if err := syscall.Mkfifo(pipe, 0o666); err != nil {
		t.Fatal(err)
	}
	text := filepath.Join(folder, "text")
	for path, content := range map[string]string{text: "a dog\n", list: "0 ||| a ||| F0= 1 ||| 1\n"} {
		if err := os.WriteFile(path, []byte(content), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	model := filepath.Join(sharedtest.Root(), "models", "ende-tiny")
	for _, arguments := range [][]string{
		{"eval", "-m", model, "--source", pipe, "--reference", text},
		{"plan", "-m", model, "-i", pipe, "--words-per-day", "1e9"},
		{"bench", "-m", model, "-i", text, "--runs", "1000000"},
		{"rescore", "tune", "-i", list, pipe},
		{"score", "bleu", "-i", pipe, text},
		{"model", "inspect", pipe},
		{"vocab", "train", "-o", filepath.Join(folder, "v.spm"), pipe},
		{"corpus", "shuffle", "--text", pipe, "-o", filepath.Join(folder, "shuffled")},
	} {
		t.Run(arguments[0], func(t *testing.T) {
			t.Parallel()
			command := exec.Command("sluice", arguments...)
			said := new(bytes.Buffer)
			command.Stderr = said
			if err := command.Start(); err != nil {
				t.Fatal(err)
			}
			waiting := time.AfterFunc(time.Minute, func() { _ = command.Process.Kill() })
			defer waiting.Stop()
			time.Sleep(2 * time.Second) // to be past the beginning, on a busy machine as well
			if err := command.Process.Signal(syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
			_ = command.Wait() // its error is the exit code
			if code := command.ProcessState.ExitCode(); code != exitInterrupted && code != -1 {
				t.Errorf("exit code %d: %s", code, said)
			} else if code == -1 {
				t.Errorf("it did not end within a minute, or was ended by the signal itself: %s", said)
			}
		})
	}
}
