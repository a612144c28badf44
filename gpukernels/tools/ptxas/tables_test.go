package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-mt/sluice/gpukernels"
	"github.com/sluice-mt/sluice/gpukernels/occupancy"
)

const said = `ptxas info    : 20 bytes gmem
ptxas info    : Compiling entry function 'recall_128' for 'sm_90'
ptxas info    : Function properties for recall_128
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 72 registers, used 0 barriers, 2048 bytes smem
ptxas info    : Compiling entry function 'recall_64' for 'sm_90'
ptxas info    : Function properties for recall_64
    8 bytes stack frame, 12 bytes spill stores, 4 bytes spill loads
ptxas info    : Used 60 registers, used 0 barriers
`

func TestParseLog(t *testing.T) {
	l, err := parseLog(strings.NewReader(said))
	if err != nil {
		t.Fatal(err)
	}
	if have := l.kernels["recall_128"]; have != (usage{72, 0, 2048}) {
		t.Errorf("recall_128: %+v", have)
	}
	if have := l.kernels["recall_64"]; have != (usage{60, 16, 0}) {
		t.Errorf("recall_64: %+v", have)
	}
	if l.spilled() != 16 {
		t.Errorf("%d bytes are spilled", l.spilled())
	}
	for _, bad := range []string{"", "nothing\n", "ptxas fatal   : Unresolved extern function\n"} {
		if _, err := parseLog(strings.NewReader(bad)); err == nil {
			t.Errorf("%q was taken", bad)
		}
	}
}

func TestOccupancyTable(t *testing.T) {
	var logs []log
	for _, d := range occupancy.Devices() {
		l, err := parseLog(strings.NewReader(said))
		if err != nil {
			t.Fatal(err)
		}
		l.device, l.release = d.Name, "13.10"
		old := l
		old.release, old.kernels = "13.9", map[string]usage{"recall_64": {32, 0, 0}, "recall_128": {32, 0, 0}}
		logs = append(logs, old, l)
	}
	blocks := []gpukernels.Block{{Kernel: "recall_128", Threads: 128, Shared: 1024}, {Kernel: "recall_128", Threads: 128, Shared: 1024}, {Kernel: "recall_64", Threads: 128, Shared: 3072, Least: 89}}
	table, err := occupancyTable(blocks, logs)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"| `recall_128`, `recall_128` | 128 | 3 | 7: 44 % |", "| `recall_64` | 128 | 3 | – | – | 8: 67 % |"} {
		if !strings.Contains(table, want) {
			t.Errorf("%s\nwant %s, from the last release", table, want)
		}
	}
	if _, err := occupancyTable([]gpukernels.Block{{Kernel: "other", Threads: 32}}, logs); err == nil {
		t.Error("a kernel of which nothing is known is in the table")
	}
}

func TestKeepTable(t *testing.T) {
	page := filepath.Join(t.TempDir(), "page.md")
	if err := os.WriteFile(page, []byte("before\n"+tableBegins+"old\n"+tableEnds+"after\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	if keepTable(page, "new\n", false) == nil {
		t.Error("an old table was taken")
	}
	for _, write := range []bool{true, false} {
		if err := keepTable(page, "new\n", write); err != nil {
			t.Error(err)
		}
	}
	if _, err := replaceTable("a page without marks\n", "new\n"); err == nil {
		t.Error("a page without marks was taken")
	}
}

// The page has a row for each kernel: what needs no compiler to be checked.
func TestPageNamesAllKernels(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "gpu.md"))
	if err != nil {
		t.Fatal(err)
	}
	blocks, err := gpukernels.Blocks()
	if err != nil {
		t.Fatal(err)
	}
	for _, block := range blocks {
		if !strings.Contains(string(text), "`"+block.Kernel+"`") {
			t.Errorf("docs/gpu.md has no occupancy of %s: run scripts/ptx.sh", block.Kernel)
		}
	}
}
