package train

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// disturbedConfig uses everything that a checkpoint must hold: dropout, delayed updates, the average, validation, alignment,
// several epochs.
func disturbedConfig(folder string) Config {
	c := toyConfig(folder)
	c.Dropout, c.DropoutAttention, c.DropoutFFN, c.DropoutSrc, c.DropoutTrg = 0.1, 0.1, 0.1, 0.1, 0.1
	c.LabelSmoothing, c.OptimizerDelay, c.Smoothing, c.LRDecayInvSqrt = 0.1, 2, 1e-3, 40
	c.GuidedAlignment = filepath.Join(folder, "train.align")
	c.ValidSets, c.ValidMetrics, c.ValidFreq = c.TrainSets, []string{"ce-mean-words", "bleu"}, 25
	c.MiniBatchWords, c.SaveFreq, c.AfterBatches, c.DispFreq = 80, 7, 60, 1
	return c
}

// artefacts returns the bytes of the model and of the last checkpoint: parameters, optimiser, state.
func artefacts(t *testing.T, c Config) (model, state []byte) {
	t.Helper()
	model, err := os.ReadFile(c.Model)
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(c.Model+".checkpoints", "*60.checkpoint"))
	if err != nil || len(files) != 1 {
		t.Fatalf("checkpoints %v, %v", files, err)
	}
	if state, err = os.ReadFile(files[0]); err != nil {
		t.Fatal(err)
	}
	return model, state
}

// undisturbed trains without interruption.
func undisturbed(t *testing.T, config func(folder string) Config) (model, state []byte) {
	t.Helper()
	folder := t.TempDir()
	toy(t, folder, 100)
	c := config(folder)
	mustRun(t, c)
	return artefacts(t, c)
}

// interrupter cancels a run when it logs a number of updates.
type interrupter struct {
	slog.Handler
	left   *int
	cancel context.CancelFunc
}

func (i interrupter) Enabled(context.Context, slog.Level) bool { return true }

func (i interrupter) Handle(_ context.Context, record slog.Record) error {
	if record.Message == "trained" {
		if *i.left--; *i.left == 0 {
			i.cancel()
		}
	}
	return nil
}

// TestInterruption stops a run at random updates, again and again: the end must be that of an undisturbed run, bit for bit.
func TestInterruption(t *testing.T) {
	for name, config := range map[string]func(folder string) Config{"float32": disturbedConfig, "bfloat16": disturbedBFloat16Config} {
		t.Run(name, func(t *testing.T) { checkInterruption(t, config) })
	}
}

func disturbedBFloat16Config(folder string) Config {
	c := disturbedConfig(folder)
	c.Precision = []string{"bfloat16", "float32"}
	return c
}

func checkInterruption(t *testing.T, config func(folder string) Config) {
	t.Helper()
	wantModel, wantState := undisturbed(t, config)
	random := rand.New(rand.NewPCG(uint64(os.Getpid()), 1))
	folder := t.TempDir()
	toy(t, folder, 100)
	c := config(folder)
	for stops := 0; ; stops++ {
		left := 1 + random.IntN(20)
		ctx, cancel := context.WithCancel(testContext(t))
		_, err := Run(ctx, c, slog.New(interrupter{slog.DiscardHandler, &left, cancel}))
		cancel()
		if err == nil {
			if stops == 0 {
				t.Error("the run was never interrupted")
			}
			break
		}
		if !errors.Is(err, ErrInterrupted) {
			t.Fatal(err)
		}
	}
	compareArtefacts(t, c, wantModel, wantState)
	updates := 0
	for _, m := range readMetrics(t, c, "train") {
		if updates++; m.Update != updates {
			t.Fatalf("the metrics have update %d where %d should be", m.Update, updates)
		}
	}
}

func compareArtefacts(t *testing.T, c Config, wantModel, wantState []byte) {
	t.Helper()
	model, state := artefacts(t, c)
	if !bytes.Equal(model, wantModel) {
		t.Error("the model differs from that of an undisturbed run")
	}
	if !bytes.Equal(state, wantState) {
		t.Error("the last checkpoint differs from that of an undisturbed run")
	}
}

const childVariable = "SLUICE_TRAIN_TEST_FOLDER"

// TestChild is the process that TestKill kills.
func TestChild(t *testing.T) {
	folder := os.Getenv(childVariable)
	if folder == "" {
		t.Skip("runs as the child of another test")
	}
	mustRun(t, disturbedConfig(folder))
}

// TestKill kills a training process at random moments until it gets through: the end must be that of an undisturbed run, bit
// for bit.
func TestKill(t *testing.T) {
	if testing.Short() {
		t.Skip("starts many processes")
	}
	wantModel, wantState := undisturbed(t, disturbedConfig)
	random := rand.New(rand.NewPCG(uint64(os.Getpid()), 2))
	folder := t.TempDir()
	toy(t, folder, 100)
	kills := 0
	for wait := 60 * time.Millisecond; ; wait += wait / 15 { // so that it gets through in the end
		child := exec.CommandContext(testContext(t), os.Args[0], "-test.run=^TestChild$")
		child.Env = append(os.Environ(), childVariable+"="+folder)
		var output bytes.Buffer
		child.Stdout, child.Stderr = &output, &output
		if err := child.Start(); err != nil {
			t.Fatal(err)
		}
		killer := time.AfterFunc(time.Duration(random.Int64N(int64(2*wait))), func() { child.Process.Kill() })
		err := child.Wait()
		killer.Stop()
		if err == nil {
			break
		}
		if status := child.ProcessState.String(); !strings.Contains(status, "killed") {
			t.Fatalf("%s: %s", status, output.String())
		}
		kills++
	}
	t.Logf("killed %d times", kills)
	compareArtefacts(t, disturbedConfig(folder), wantModel, wantState)
}

// TestOtherRun finds a checkpoint that does not fit.
func TestOtherRun(t *testing.T) {
	folder := t.TempDir()
	toy(t, folder, 50)
	c := toyConfig(folder)
	c.AfterBatches = 2
	mustRun(t, c)
	for name, change := range map[string]func(*Config){
		"architecture": func(c *Config) { c.DecDepth = 2 },
		"average":      func(c *Config) { c.Smoothing = 0.1 },
		"vocabularies": func(c *Config) {
			other := filepath.Join(folder, "other.yml")
			data, err := os.ReadFile(c.Vocabs[0])
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(other, bytes.Replace(data, []byte("s0:"), []byte("x0:"), 1), 0o666); err != nil {
				t.Fatal(err)
			}
			c.Vocabs = []string{other}
		},
	} {
		changed := c
		change(&changed)
		if _, err := Run(testContext(t), changed, silence()); !errors.Is(err, ErrOtherRun) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	c.AfterBatches, c.LearnRate = 4, 1e-4 // these may change
	if result := mustRun(t, c); result.Updates != 4 {
		t.Errorf("%+v", result)
	}
}
