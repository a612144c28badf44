//go:build linux

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"

	"github.com/sluice-mt/sluice/internal/sharedtest"
)

// TestResidentMemory translates news with the demonstration model, greedily and with a beam. At no time may there be more in memory, beside the
// program's own pages, than the model file and 64 MB for each worker.
func TestResidentMemory(t *testing.T) {
	const perWorker = 64 << 20
	lines := 1500
	if testing.Short() {
		lines = 300
	}
	news := sharedtest.Path(t, "data/bench-news.en")
	model := filepath.Join(sharedtest.Root(), "models", "ende-tiny")
	file, err := os.Stat(filepath.Join(model, "model.intgemm.alphas.bin"))
	if err != nil {
		t.Fatal(err)
	}
	program := peak(t, "version")
	for _, c := range []struct {
		workers, beam, lines int
		sort                 string
	}{{1, 1, lines, "src"}, {2, 1, lines, "src"}, {1, 4, lines / 3, "src"}, {2, 4, lines / 3, "src"}, {1, 1, lines, "none"}} {
		text := firstLines(t, news, c.lines)
		took := peak(t, "translate", "-m", model, "--quiet", "--tolerate", "all", "--cpu-threads", strconv.Itoa(c.workers), "--beam-size", strconv.Itoa(c.beam),
			"--maxi-batch-sort", c.sort, "-i", text, "-o", text+".de", "--overwrite") - program
		t.Logf("%d workers, beam %d, sorted by %s: %d MB, program %d MB, model file %d MB", c.workers, c.beam, c.sort, took>>20, program>>20, file.Size()>>20)
		if most := file.Size() + int64(c.workers)*perWorker; took > most {
			t.Errorf("%d workers, beam %d, sorted by %s: %d MB beside the program, more than %d", c.workers, c.beam, c.sort, took>>20, most>>20)
		}
	}
}

// peak runs the command and returns the most bytes that it had in memory.
func peak(t *testing.T, arguments ...string) int64 {
	t.Helper()
	command := exec.Command("sluice", arguments...)
	if said, err := command.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	return mostResident(command)
}

// mostResident returns the most bytes that a command, which has ended, had in memory.
func mostResident(command *exec.Cmd) int64 {
	return command.ProcessState.SysUsage().(*syscall.Rusage).Maxrss << 10
}
