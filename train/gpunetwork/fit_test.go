//go:build linux && (amd64 || arm64) && !nogpu

package gpunetwork

import (
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-mt/sluice/gpukernels"
	"github.com/sluice-mt/sluice/train"
	"github.com/sluice-mt/sluice/train/network"
	"github.com/sluice-mt/sluice/train/optimiser"
)

// A watchedTrainer notes what mini-batches take.
type watchedTrainer struct {
	*Trainer
	room    int
	taken   []float64 // of the room, by each mini-batch of an update
	reserve int
}

func (w *watchedTrainer) Begin(worker int, b *network.Batch, o network.Options, seed uint64) error {
	err := w.Trainer.Begin(worker, b, o, seed)
	growing, fixed := w.Memory(w.room)
	w.taken = append(w.taken, float64(growing+fixed)/float64(w.room))
	if w.reserve > 0 && len(w.workers[0].tape.extra) > 0 {
		return errors.New("a mini-batch does not fit into what was reserved")
	}
	return err
}

func (w *watchedTrainer) Reserve(bytes int) error {
	w.reserve, w.taken = bytes, nil
	return w.Trainer.Reserve(bytes)
}

// With mini-batch-fit, mini-batches fill the workspace in the device's memory and never exceed it.
func TestMiniBatchFit(t *testing.T) {
	for name, recurrent := range map[string]bool{"student": false, "recurrent": true} {
		t.Run(name, func(t *testing.T) { checkMiniBatchFit(t, recurrent) })
	}
}

func checkMiniBatchFit(t *testing.T, recurrent bool) {
	t.Helper()
	folder := t.TempDir()
	write := func(name string, lines []string) string {
		at := filepath.Join(folder, name)
		must(t, os.WriteFile(at, []byte(strings.Join(lines, "\n")+"\n"), 0o666))
		return at
	}
	vocabulary := []string{"</s>: 0", "<unk>: 1"}
	for i := 2; i < 37; i++ {
		vocabulary = append(vocabulary, fmt.Sprintf("w%d: %d", i, i))
	}
	random := rand.New(rand.NewPCG(3, 4))
	var sides [2][]string
	for range 400 {
		for i := range sides {
			sides[i] = append(sides[i], strings.TrimSpace(strings.Repeat("w5 ", 1+random.IntN(25))))
		}
	}
	c := train.DefaultConfig()
	c.Description.Type, c.DimEmb, c.Heads, c.DimFFN, c.EncDepth, c.DecDepth = "transformer", 32, 2, 48, 1, 1
	c.FFNActivation, c.Autoregression, c.DecCell, c.TiedEmbeddingsAll = "relu", "rnn", "ssru", true
	c.Model, c.TrainSets, c.Vocabs = filepath.Join(folder, "m.npz"), []string{write("a", sides[0]), write("b", sides[1])}, []string{write("v.yml", vocabulary)}
	if recurrent {
		c.Description.Type, c.DimRNN, c.DecCell, c.Autoregression, c.TiedEmbeddingsAll = "s2s", 24, "gru", "self-attention", true
	}
	c.MiniBatchFit, c.Workspace, c.MaxLength, c.AfterBatches = true, 1, 30, 8
	w := &watchedTrainer{room: 1 << 20}
	openWatched := func(n *network.Network, state optimiser.State) (_ train.Device, err error) {
		w.Trainer, err = open(openDriver(t, gpukernels.BFloat16), []int{0}, n, state, gpukernels.BFloat16)
		return w, err
	}
	_, err := train.RunOn(t.Context(), c, openWatched, slog.New(slog.DiscardHandler))
	must(t, err)
	if w.reserve != w.room || len(w.taken) != 8 {
		t.Fatalf("%d bytes were reserved for %d mini-batches, want %d for 8", w.reserve, len(w.taken), w.room)
	}
	full := 0
	for _, share := range w.taken {
		if share > 1 {
			t.Errorf("a mini-batch takes %v of the workspace", share)
		}
		if share > 0.85 {
			full++
		}
	}
	if full < 6 {
		t.Errorf("of 8 mini-batches %d fill the workspace: %v", full, w.taken)
	}
}
