//go:build linux

package main

import (
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/sluice-mt/sluice/internal/sharedtest"
)

// demoParts are the engine's parts for the demo model, for that many cores.
func demoParts(t *testing.T, b *batchFlags, cores int) *engineParts {
	t.Helper()
	model := &modelFlags{models: []string{filepath.Join(sharedtest.Root(), "models", "ende-tiny", "model.intgemm.alphas.bin")}, precision: "auto"}
	search := &searchFlags{beamSize: 1, normalize: 1, maxLength: 1000, maxLengthFactor: 3}
	b.maxiBatchSort = "src"
	parts, err := buildEngine(t.Context(), model, search, b, cores, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(parts.models.close)
	return parts
}

// A limit of the control group sets what was left open, and nothing that was asked for.
func TestFitMemory(t *testing.T) {
	before := debug.SetMemoryLimit(-1)
	defer debug.SetMemoryLimit(before)
	tests := []struct {
		name    string
		limit   string
		flags   batchFlags
		goal    int64
		memory  int // MiB
		workers int
	}{
		{name: "none", limit: "max", goal: math.MaxInt64, workers: 64},
		{name: "plenty", limit: strconv.Itoa(64 << 30), goal: (64 << 30) / 5 * 4, memory: 64, workers: 64},
		{name: "little", limit: strconv.Itoa(100 << 20), goal: 80 << 20, memory: 10, workers: 1},
		{name: "hardly any", limit: strconv.Itoa(10 << 20), goal: 8 << 20, memory: 4, workers: 1},
		{name: "asked for", limit: strconv.Itoa(100 << 20), flags: batchFlags{threads: 3, memory: 50}, goal: 80 << 20, memory: 50, workers: 3},
	}
	parts := demoParts(t, new(batchFlags), 64)
	for _, test := range tests {
		debug.SetMemoryLimit(math.MaxInt64)
		parts.config.Batching = test.flags.batching(64)
		root := fstest.MapFS{
			"proc/self/cgroup":         {Data: []byte("0::/job\n")},
			"sys/fs/cgroup/memory.max": {Data: []byte("max\n")}, "sys/fs/cgroup/job/memory.max": {Data: []byte(test.limit + "\n")},
		}
		fitMemory(root, &test.flags, parts, slog.New(slog.DiscardHandler))
		goal, workers := debug.SetMemoryLimit(-1), parts.config.Batching.Workers
		if goal != test.goal || test.flags.memory != test.memory || workers != test.workers {
			t.Errorf("%s: a goal of %d MiB, %d MiB of text, %d workers", test.name, goal>>20, test.flags.memory, workers)
		}
	}
	debug.SetMemoryLimit(1 << 30) // as GOMEMLIMIT does
	fitMemory(fstest.MapFS{"proc/self/cgroup": {Data: []byte("0::/\n")}, "sys/fs/cgroup/memory.max": {Data: []byte("2147483648\n")}},
		new(batchFlags), parts, slog.New(slog.DiscardHandler))
	if goal := debug.SetMemoryLimit(-1); goal != 1<<30 {
		t.Errorf("the goal that was set became %d MiB", goal>>20)
	}
}

// What a worker is said to take is no less than what workers do take.
func TestWorkerBytes(t *testing.T) {
	if testing.Short() {
		t.Skip("translates a text twice")
	}
	input := filepath.Join(t.TempDir(), "in.en")
	if err := os.WriteFile(input, []byte(strings.Join(killedLines()[2:], "\n")+"\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	with := func(workers int) int64 {
		return peak(t, "translate", "-m", filepath.Join(sharedtest.Root(), "models", "ende-tiny"), "--quiet",
			"--tolerate", "all", "-i", input, "-o", "/dev/null", "--cpu-threads", strconv.Itoa(workers), "--maxi-batch", "50")
	}
	estimate := demoParts(t, new(batchFlags), 1).models.workerBytes(new(batchFlags).batching(1))
	each := (with(17) - with(1)) / 16
	t.Logf("a worker takes %d KiB, and is said to take %d", each>>10, estimate>>10)
	if each > estimate {
		t.Error("that is too little")
	}
}
