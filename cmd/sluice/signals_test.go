//go:build unix

package main

import (
	"bufio"
	"bytes"
	"context"
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

// A command whose device does not come back ends: after the grace period if it is told to, and when a job counts as stuck.
func TestStuck(t *testing.T) {
	model := filepath.Join(sharedtest.Root(), "models", "ende-tiny")
	translate := []string{"translate", "-m", model, "-i", "in", "-o", "out", "--grace-period", "10ms"}
	job := []string{"run", "job.yml"}
	const (
		continues = "interrupted: run the same command again to continue"
		atOnce    = "not ended 4s after the grace period of 10ms: stopped at once; the same command continues after the last commit"
	)
	for _, c := range []struct {
		name, place string
		arguments   []string
		stall       string // after which the job counts as stuck
		code        int
		says        string
	}{
		{"translate in a step", "step", translate, "", exitInterrupted, continues},
		{"translate while loading", "load", translate, "", exitInterrupted, atOnce},
		{"run in a step", "step", job, "1h", exitInterrupted, continues},
		{"run while loading", "load", job, "1h", exitInterrupted, atOnce},
		{"run without progress", "step", job, "100ms", exitFailure, "no progress"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			folder := t.TempDir()
			settings := "name: stuck\nsource:\n  files:\n    paths: [in]\nsink:\n  files:\n    folder: out\ntranslate:\n  models: [" + model +
				"]\ngrace-period: 10ms\nstall: " + c.stall + "\n"
			for name, content := range map[string]string{"in": "A dog runs.\n", "job.yml": settings} {
				if err := os.WriteFile(filepath.Join(folder, name), []byte(content), 0o666); err != nil {
					t.Fatal(err)
				}
			}
			said, code := stuck(t, folder, c.place, c.arguments, c.code == exitInterrupted)
			if code != c.code {
				t.Errorf("exit code %d, want %d (-1: it did not end in a minute): %s", code, c.code, said)
			}
			if !strings.Contains(said, c.says) {
				t.Errorf("does not say %q: %s", c.says, said)
			}
		})
	}
}

// stuck runs a command until it hangs in that place, and perhaps tells it to end. It returns what the command says and its exit code.
func stuck(t *testing.T, folder, place string, arguments []string, terminate bool) (said string, code int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	command := exec.CommandContext(ctx, "sluice-stuck", arguments...)
	command.Dir, command.Env = folder, append(os.Environ(), stuckPlace+"="+place)
	stderr, err := command.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	answers := bufio.NewReader(stderr)
	for line := ""; line != nowStuck; said += line {
		if line, err = answers.ReadString('\n'); err != nil {
			t.Fatalf("it did not get to where it hangs: %v: %s", err, said)
		}
	}
	if terminate {
		if err := command.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
	}
	rest, err := io.ReadAll(answers)
	if err != nil {
		t.Fatal(err)
	}
	_ = command.Wait() // its error is the exit code
	return said + string(rest), command.ProcessState.ExitCode()
}
