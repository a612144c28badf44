//go:build linux

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

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
	var said strings.Builder
	command := exec.Command("sluice", arguments...)
	command.Stdout, command.Stderr = &said, &said
	most, err := mostResident(command)
	if err != nil {
		t.Fatalf("%v: %s", err, said.String())
	}
	return most
}

// mostResident runs a command and returns the most bytes that it had in memory. The kernel's account of a process that has ended is of no use: it begins
// with what its parent had, which may be more.
func mostResident(command *exec.Cmd) (int64, error) {
	if err := command.Start(); err != nil {
		return 0, err
	}
	ended := make(chan error, 1)
	go func() { ended <- command.Wait() }()
	var most int64
	for every := time.Tick(time.Millisecond); ; <-every {
		most = max(most, highWater(command.Process.Pid))
		select {
		case err := <-ended:
			return most, err
		default:
		}
	}
}

// highWater returns the most bytes that a process has had in memory, 0 if it is not there any more.
func highWater(process int) int64 {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", process))
	if err != nil {
		return 0
	}
	_, after, _ := strings.Cut(string(status), "VmHWM:")
	var kilobytes int64
	fmt.Sscan(after, &kilobytes)
	return kilobytes << 10
}
