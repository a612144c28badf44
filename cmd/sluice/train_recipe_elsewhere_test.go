//go:build unix

package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sluice-mt/sluice/internal/s3test"
	"github.com/sluice-mt/sluice/internal/sharedtest"
)

// TestRecipeElsewhere runs a recipe whose translations are made by workers, over a real server. One worker is killed after a
// second, with all that it has started. What comes out must be what one machine makes.
func TestRecipeElsewhere(t *testing.T) {
	store := s3test.Gateway(t)
	place := "s3://" + store.Bucket(t) + "/recipes/"
	environment := append(os.Environ(), "AWS_ENDPOINT_URL="+store.Endpoint, "AWS_ACCESS_KEY_ID="+store.AccessKey,
		"AWS_SECRET_ACCESS_KEY="+store.SecretKey, "AWS_REGION=us-east-1", "SLUICE_COMMIT_EVERY=50ms")
	here, there := elsewhereRecipe(t), elsewhereRecipe(t)
	if message, err := recipeCommand(here).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, message)
	}
	run := recipeCommand(there)
	run.Args = append(run.Args, "--hand-over", place, "--hand-over-lines", "25", "--hand-over-poll", "50ms")
	run.Env = environment
	var messages bytes.Buffer
	run.Stdout, run.Stderr = &messages, &messages
	if err := run.Start(); err != nil {
		t.Fatal(err)
	}
	first := startWorker(t, place, environment)
	time.Sleep(time.Second)
	_ = syscall.Kill(-first.Process.Pid, syscall.SIGKILL)
	startWorker(t, place, environment)
	ended := make(chan error, 1)
	go func() { ended <- run.Wait() }()
	select {
	case err := <-ended:
		if err != nil {
			t.Fatalf("%v: %s", err, messages.String())
		}
	case <-time.After(2 * time.Minute):
		_ = run.Process.Kill()
		<-ended
		t.Fatalf("it does not end: %s", messages.String())
	}
	if n := strings.Count(messages.String(), `msg="handed over"`); n != 2 {
		t.Errorf("%d translations were handed over, but a text and a corpus are to be, and a test set is not: %s", n, messages.String())
	}
	for _, name := range []string{"translated", "distilled.tsv"} {
		want, err := os.ReadFile(filepath.Join(filepath.Dir(here), "elsewhere", name))
		if err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(filepath.Join(filepath.Dir(there), "elsewhere", name))
		if err != nil || !bytes.Equal(got, want) || bytes.Count(want, []byte("\n")) < 80 {
			t.Errorf("%s: %v\ngot  %.300s\nwant %.300s", name, err, got, want)
		}
	}
}

// elsewhereRecipe writes a recipe that translates, distils and evaluates with a small model, and returns its path.
func elsewhereRecipe(t *testing.T) string {
	t.Helper()
	folder := t.TempDir()
	model := sharedtest.Path(t, "models/reference/transformer-ssru-tied/model.npz")
	vocabulary := sharedtest.Path(t, "models/reference/vocab/joint.spm")
	source, err := os.ReadFile(sharedtest.Path(t, "data/test-multi30k-2016.en"))
	if err != nil {
		t.Fatal(err)
	}
	var pairs strings.Builder
	for i, line := range strings.Split(string(source), "\n")[:90] {
		fmt.Fprintf(&pairs, "%s\tEin Satz, der %d.\n", line, i)
	}
	recipe := fmt.Sprintf(`name: elsewhere
vocabularies: %q
steps:
  - name: translated
    translate: {text: pairs.tsv, models: [%q], to: translated}
  - name: distilled
    distil: {corpus: pairs.tsv, models: [%q], options: {beam-size: 2, mini-batch: 16}, to: distilled.tsv}
  - name: evaluated
    evaluate:
      systems: [{name: it, models: [%q]}]
      sets: [{name: pairs, corpus: pairs.tsv}]
      to: evaluation.json
`, vocabulary, model, model, model)
	path := filepath.Join(folder, "elsewhere.yml")
	for name, content := range map[string]string{path: recipe, filepath.Join(folder, "pairs.tsv"): pairs.String()} {
		if err := os.WriteFile(name, []byte(content), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	return path
}

// startWorker starts a worker that stays until the test is over.
func startWorker(t *testing.T, place string, environment []string) *exec.Cmd {
	t.Helper()
	worker := exec.Command("sluice", "train", "recipe", "work", "--stay", "--poll", "50ms", "--folder", t.TempDir(), place)
	worker.Env = environment
	var messages bytes.Buffer
	worker.Stdout, worker.Stderr = &messages, &messages
	worker.SysProcAttr, worker.WaitDelay = &syscall.SysProcAttr{Setpgid: true}, 5*time.Second
	if err := worker.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = worker.Process.Signal(os.Interrupt)
		_ = worker.Wait()
		_ = syscall.Kill(-worker.Process.Pid, syscall.SIGKILL) // what it may have left behind
		if t.Failed() {
			t.Logf("a worker: %s", messages.String())
		}
	})
	return worker
}

// A worker's GPUs are for the jobs that do not say where they are made.
func TestDevicesOfWorkers(t *testing.T) {
	for options, want := range map[string]string{
		`{"models": ["m"]}`:                   "run --devices=0 --devices=gpu:2 job.yml",
		`{"models": ["m"], "devices": "1"}`:   "run job.yml",
		`{"models": ["m"], "cpu-threads": 2}`: "run job.yml",
	} {
		folder := t.TempDir()
		job := `{"name": "a", "source": {"s3": {"inputs": "s3://b/in/"}}, "sink": {"s3": {"prefix": "s3://b/out/"}}, "translate": ` + options + `, "shard": "auto"}`
		if err := os.WriteFile(filepath.Join(folder, "job.yml"), []byte(job), 0o666); err != nil {
			t.Fatal(err)
		}
		for devices, want := range map[string]string{"": "run job.yml", "0 gpu:2": want} {
			have, err := (&recipeWorker{devices: strings.Fields(devices)}).arguments(folder)
			if err != nil || strings.Join(have, " ") != want {
				t.Errorf("%s on %q: %q, %v, want %s", options, devices, have, err, want)
			}
		}
	}
	if err := (&recipeWorker{devices: []string{"first"}}).checkDevices(); err == nil || !strings.Contains(err.Error(), "expected cpu") {
		t.Errorf("%v", err)
	}
	t.Setenv(driverVariable, "/nowhere/libcuda.so.1") // no GPU is there
	for device, want := range map[string]string{"all": "--devices auto goes on without", "0": "/nowhere/libcuda.so.1", "auto": ""} {
		if err := (&recipeWorker{devices: []string{device}}).checkDevices(); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("--devices %s: %v", device, err)
		}
	}
}
