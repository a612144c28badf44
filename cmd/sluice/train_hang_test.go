//go:build linux && (amd64 || arm64) && !nogpu

package main

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sluice-mt/sluice/gpukernels/emulated"
	"github.com/sluice-mt/sluice/train"
	trainrecipe "github.com/sluice-mt/sluice/train/recipe"
)

// A hangingText is one that cannot be read, for as long as a device may hang.
type hangingText struct{ begun, comesBack chan struct{} }

func (h hangingText) Read([]byte) (int, error) {
	close(h.begun)
	<-h.comesBack
	return 0, errors.New("back")
}

// A training on a GPU that does not come back is left some time after a signal; one on the processor is waited for, and so is one without a grace
// period.
func TestHangingTraining(t *testing.T) {
	t.Setenv(driverVariable, emulated.LibraryOfBFloat16(t, emulated.Unwatched, emulated.Sources(t)...))
	for name, c := range map[string]struct {
		gpus  []int
		grace time.Duration
		left  bool
	}{"GPU": {[]int{0}, time.Millisecond, true}, "no grace period": {[]int{0}, 0, false}, "processor": {nil, time.Millisecond, false}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			text := hangingText{make(chan struct{}), make(chan struct{})}
			left := make(chan string, 1)
			ctx, stop := context.WithCancel(context.WithValue(t.Context(), leaving{}, func(why string) { left <- why }))
			defer stop()
			ended := make(chan error)
			go func() { ended <- recipeEngine{c.gpus, "measured", c.grace}.trainOn(ctx, hangingConfig(t, text)) }()
			<-text.begun
			stop()
			select {
			case why := <-left:
				if !c.left || !strings.Contains(why, "not ended 4s after the grace period of 1ms") {
					t.Errorf("left: %s", why)
				}
			case <-time.After(closing + 2*time.Second):
				if c.left {
					t.Error("it is still waited for")
				}
			}
			close(text.comesBack)
			if err := <-ended; err == nil {
				t.Error("it has trained")
			}
		})
	}
}

// trainOn trains a model, and returns only why it could not.
func (e recipeEngine) trainOn(ctx context.Context, config train.Config) error {
	var engine trainrecipe.Engine = e
	_, err := engine.Train(ctx, config, slog.New(slog.DiscardHandler))
	return err
}

// hangingConfig returns settings of a training whose corpus is a text.
func hangingConfig(t *testing.T, text io.Reader) train.Config {
	t.Helper()
	folder := t.TempDir()
	vocabulary := filepath.Join(folder, "v.yml")
	if err := os.WriteFile(vocabulary, []byte("</s>: 0\n<unk>: 1\na: 2\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	c := train.DefaultConfig()
	c.DimEmb, c.Heads, c.DimFFN, c.EncDepth, c.DecDepth, c.AfterBatches, c.FFNActivation = 32, 2, 32, 1, 1, 1, "relu"
	c.Model, c.TrainSets, c.Vocabs = filepath.Join(folder, "m.npz"), []string{"a", "b"}, []string{vocabulary}
	c.Open = func(string) (io.ReadCloser, error) { return io.NopCloser(text), nil }
	return c
}
