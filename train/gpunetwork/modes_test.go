//go:build linux && (amd64 || arm64) && !nogpu

package gpunetwork

import (
	"os"
	"strings"
	"testing"

	"github.com/sluice-mt/sluice/gpukernels/emulated"
)

// All architectures in the other modes of the emulated device, but for the thread sanitizer, with which the kernels' own tests run: a whole
// model is too slow for it.
func TestModes(t *testing.T) {
	if os.Getenv(emulated.LibraryVariable) != "" {
		t.Skip("runs in one mode already")
	}
	for _, mode := range emulated.Modes() {
		if mode.Sanitizer == emulated.Thread {
			continue
		}
		t.Run(mode.Name, func(t *testing.T) {
			output, err := emulated.Rerun(t, mode, emulated.Library(t, mode.Sanitizer, emulated.Sources(t)...), "^TestGradients$")
			if err != nil || !strings.Contains(output, "--- PASS: TestGradients/SRU") {
				t.Errorf("%v\n%s", err, output)
			}
		})
	}
}
