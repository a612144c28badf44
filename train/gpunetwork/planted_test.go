//go:build linux && (amd64 || arm64) && !nogpu

package gpunetwork

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/sluice-mt/sluice/gpukernels"
	"github.com/sluice-mt/sluice/gpukernels/emulated"
	"github.com/sluice-mt/sluice/internal/plantedtest"
)

// plantedBugs are waits that are missing where one device takes what another one gives, and other mistakes of the code that asks the devices
// for their work.
var plantedBugs = []plantedtest.Bug{
	{Name: "a gradient is brought before it is there", File: "trainer.go",
		From: "other.bound(other.stream.Synchronize)",
		To:   "other.bound(func() error { return unless(NAME, other.stream.Synchronize) })"},
	{Name: "a gradient is cleared before it is added", File: "trainer.go",
		From: "first.part, numbers); err != nil {\n\t\t\t\treturn err\n\t\t\t}\n\t\t}\n\t\treturn first.stream.Synchronize()",
		To:   "first.part, numbers); err != nil {\n\t\t\t\treturn err\n\t\t\t}\n\t\t}\n\t\treturn unless(NAME, first.stream.Synchronize)"},
	{Name: "a gradient that was added is not cleared", File: "trainer.go",
		From: "return other.bound(other.clear)",
		To:   "return unless(NAME, func() error { return other.bound(other.clear) })"},
	{Name: "parameters are rounded before they are there", File: "trainer.go",
		From: "4*first.n); err != nil {\n\t\t\t\treturn err\n\t\t\t}\n\t\t}\n\t\treturn first.stream.Synchronize()",
		To:   "4*first.n); err != nil {\n\t\t\t\treturn err\n\t\t\t}\n\t\t}\n\t\treturn unless(NAME, first.stream.Synchronize)"},
	{Name: "parameters that were brought are not rounded", File: "trainer.go",
		From: "err = other.bound(other.store)",
		To:   "err = unless(NAME, func() error { return other.bound(other.store) })"},
	{Name: "what a mini-batch brings is overwritten before it is read", File: "feed.go",
		From: "if err := t.await(t.feed()); err != nil {",
		To:   "if err := unless(NAME, func() error { return t.await(t.feed()) }); err != nil {"},
	{Name: "losses are read before they are there", File: "feed.go",
		From: "if err := t.worker.wait(f.end.Synchronize); err != nil {",
		To:   "if err := unless(NAME, func() error { return t.worker.wait(f.end.Synchronize) }); err != nil {"},
	{Name: "losses come in the order of the feeds", File: "feed.go",
		From: "&t.feeds[1-t.turn], &t.feeds[t.turn]",
		To:   "&t.feeds[(1-t.turn)*(1-int(planted(NAME)))], &t.feeds[max(t.turn, int(planted(NAME)))]"},
	{Name: "the gradient does not begin as zeros", File: "worker.go",
		From: "\treturn w.clear()\n",
		To:   "\treturn unless(NAME, w.clear)\n"},
}

// The tests notice each, with one half of the streams ahead of the other or with neither.
func TestPlantedBugs(t *testing.T) {
	if testing.Short() || os.Getenv(emulated.LibraryVariable) != "" {
		t.Skip("builds the package again")
	}
	program, device := plantedtest.Build(t, plantedBugs), emulatedFor(t, gpukernels.BFloat16, emulated.Unwatched)
	for _, bug := range append(plantedtest.InTurn(t, plantedBugs, "*.go"), plantedtest.Bug{}) {
		t.Run(bug.Name, func(t *testing.T) {
			noticed := false
			for _, hasty := range []string{"", "even", "odd"} {
				command := exec.CommandContext(t.Context(), program, "-test.run=^Test(Several|Ahead)$", "-test.failfast", "-test.timeout=2m")
				command.Env = append(os.Environ(), emulated.LibraryVariable+"="+device, "SLUICE_EMULATED_HASTY="+hasty, plantedtest.Variable+"="+bug.Name)
				output, err := command.CombinedOutput()
				if err != nil && !strings.Contains(string(output), "--- FAIL: Test") {
					t.Fatalf("%v\n%s", err, output)
				}
				t.Logf("hasty %q: %v\n%s", hasty, err, output)
				if noticed = err != nil; noticed {
					break
				}
			}
			if noticed != (bug.Name != "") {
				t.Errorf("noticed: %v", noticed)
			}
		})
	}
}
