//go:build unix

package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sluice-mt/sluice/internal/compress"
	"github.com/sluice-mt/sluice/internal/sharedtest"
	trainrecipe "github.com/sluice-mt/sluice/train/recipe"
)

// smallPairs is how much of the example corpus the shrunken recipe takes.
const smallPairs = 250

// shrunken is what makes the recipe of the documentation small enough for a test: everything else stays.
var shrunken = []struct{ from, to string }{
	{"{pairs: 500, to: dev.tsv}, {pairs: 1000, to: test.tsv}", "{pairs: 10, to: dev.tsv}, {pairs: 20, to: test.tsv}"},
	{"size: 3000", "size: 380"},
	{"dim-emb: 128", "dim-emb: 32"},
	{"enc-depth: 2", "enc-depth: 1"},
	{"transformer-dim-ffn: 512", "transformer-dim-ffn: 64"},
	{"lr-warmup: 300", "lr-warmup: 10"},
	{"save-freq: 300", "save-freq: 10"},
	{"valid-freq: 600", "valid-freq: 10"},
	{"corpus: tatoeba.en-de.tsv.xz", "corpus: small.tsv"},
}

var updates = regexp.MustCompile(`after-batches: \d+`)

// smallRecipe writes the shrunken recipe and its corpus into a folder, and returns the recipe's path.
func smallRecipe(t *testing.T, folder string) string {
	t.Helper()
	var text string
	for _, example := range trainrecipe.Examples() {
		if example.Name == "tatoeba" {
			text = string(example.Text)
		}
	}
	for _, change := range shrunken {
		if !strings.Contains(text, change.from) {
			t.Fatalf("the recipe tatoeba has no %q any more", change.from)
		}
		text = strings.ReplaceAll(text, change.from, change.to)
	}
	text = updates.ReplaceAllString(text, "after-batches: 20")
	f, err := os.Open(filepath.Join(sharedtest.Root(), "docs", "examples", "tatoeba.en-de.tsv.xz"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	plain, err := compress.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	corpus := make([]byte, 1<<16)
	n, err := io.ReadFull(plain, corpus)
	if err != nil {
		t.Fatal(err)
	}
	lines := bytes.SplitAfter(corpus[:n], []byte("\n"))
	if len(lines) <= smallPairs {
		t.Fatalf("%d lines", len(lines))
	}
	path := filepath.Join(folder, "tatoeba.yml")
	for name, content := range map[string][]byte{path: []byte(text), filepath.Join(folder, "small.tsv"): bytes.Join(lines[:smallPairs], nil)} {
		if err := os.WriteFile(name, content, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	return path
}

func recipeCommand(path string) *exec.Cmd {
	command := exec.Command("sluice", "train", "recipe", "run", path)
	command.Env = append(os.Environ(), "SLUICE_COMMIT_EVERY=20ms") // as frequent as a short test needs
	return command
}

// TestRecipeKilled stops the shrunken recipe of the documentation at random moments, with SIGKILL and now and then with SIGTERM,
// until it gets through, and expects the bytes of an undisturbed run. SLUICE_KILLS is how many kills there are at least; without it there are as many as
// come about within a minute.
func TestRecipeKilled(t *testing.T) {
	kills, enough := math.MaxInt, time.Minute
	if testing.Short() {
		enough = 10 * time.Second
	}
	if text := os.Getenv("SLUICE_KILLS"); text != "" {
		var err error
		if kills, err = strconv.Atoi(text); err != nil {
			t.Fatal("SLUICE_KILLS:", err)
		}
		enough = time.Hour
	}
	undisturbed := smallRecipe(t, t.TempDir())
	start := time.Now()
	if message, err := recipeCommand(undisturbed).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, message)
	}
	took := time.Since(start)
	want := recipeOutputs(t, undisturbed)
	for done, round := 0, 0; round == 0 || done < kills && time.Since(start) < enough; round++ {
		done += killRecipe(t, took, want)
	}
}

// killRecipe runs the recipe, each time for a random part of a third of the time that an undisturbed run takes, until it gets
// through. It returns how often it was killed.
func killRecipe(t *testing.T, took time.Duration, want map[string]string) (kills int) {
	t.Helper()
	path := smallRecipe(t, t.TempDir())
	for attempt := 0; ; attempt++ {
		if attempt > 200 {
			t.Fatalf("no end after %d attempts", attempt)
		}
		// A run that is killed early again and again gets more time, so that a slow machine gets through, too.
		patience := time.Duration(rand.Int64N(int64(took)/3+1)) + took*time.Duration(attempt)/40
		stop := runAtMost
		if attempt%3 == 2 {
			stop = terminateAfter
		}
		killed, err := stop(recipeCommand(path), patience)
		if err != nil {
			t.Fatal(err)
		}
		if !killed {
			break
		}
		kills++
	}
	got := recipeOutputs(t, path)
	for _, name := range slices.Sorted(maps.Keys(want)) {
		if got[name] != want[name] {
			t.Errorf("after %d kills %s is not that of an undisturbed run", kills, name)
		}
	}
	if len(got) != len(want) {
		t.Errorf("after %d kills there are %q, want %q", kills, slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(want)))
	}
	t.Logf("%d kills; an undisturbed run took %v", kills, took.Round(time.Millisecond))
	return kills
}

// terminateAfter runs a command and asks it to end when its time is up, which it has to do in order. An error is a command that
// failed by itself.
func terminateAfter(command *exec.Cmd, patience time.Duration) (terminated bool, err error) {
	var messages bytes.Buffer
	command.Stderr = &messages
	if err := command.Start(); err != nil {
		return false, err
	}
	timer := time.AfterFunc(patience, func() { _ = command.Process.Signal(syscall.SIGTERM) })
	err = command.Wait()
	timer.Stop()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() == exitInterrupted {
		return true, nil
	}
	if status, ok := command.ProcessState.Sys().(syscall.WaitStatus); ok && status.Signaled() && status.Signal() == syscall.SIGTERM {
		return true, nil // it had not begun to listen
	}
	if err != nil {
		err = fmt.Errorf("%w: %s", err, messages.Bytes())
	}
	return false, err
}

// recipeOutputs are the contents of everything that a recipe has written, but for times, speeds and stamps.
func recipeOutputs(t *testing.T, path string) map[string]string {
	t.Helper()
	folder := strings.TrimSuffix(path, ".yml")
	outputs := map[string]string{}
	err := filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && entry.Name() == ".recipe":
			return filepath.SkipDir
		case entry.IsDir():
			return nil
		}
		content, err := os.ReadFile(path)
		outputs[entry.Name()] = string(withoutSpeeds(t, entry.Name(), content))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return outputs
}

// withoutSpeeds takes out of a table or a course what no two runs have in common.
func withoutSpeeds(t *testing.T, name string, content []byte) []byte {
	t.Helper()
	switch {
	case strings.HasSuffix(name, ".jsonl"):
		return regexp.MustCompile(`"words_per_second":[0-9.e+]+,?`).ReplaceAll(content, nil)
	case name == "evaluation.json":
		return regexp.MustCompile(`"(cpu_)?seconds":[0-9.e+-]+,`).ReplaceAll(content, nil)
	case name == "report.html":
		return nil // it shows speeds
	}
	return content
}
