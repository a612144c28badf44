//go:build linux && (amd64 || arm64) && !nogpu

package gpunetwork

import (
	"os"
	"strings"
	"testing"

	"github.com/sluice-mt/sluice/gpukernels"
	"github.com/sluice-mt/sluice/gpukernels/emulated"
)

// All architectures, updates and several GPUs in the other modes of the emulated device, but for the thread sanitizer, with which the kernels'
// own tests run: a whole model is too slow for it.
func TestModes(t *testing.T) {
	if os.Getenv(emulated.LibraryVariable) != "" {
		t.Skip("runs in one mode already")
	}
	for _, mode := range emulated.Modes() {
		if mode.Sanitizer == emulated.Thread {
			continue
		}
		t.Run(mode.Name, func(t *testing.T) {
			for stored, tests := range map[gpukernels.Storage]string{
				gpukernels.Float16: "Gradients|GradientsOfNorms|Quantised", gpukernels.BFloat16: "Updates|Several",
			} {
				output, err := emulated.Rerun(t, mode, emulatedFor(t, stored, mode.Sanitizer), "^Test("+tests+")$")
				if err != nil {
					t.Errorf("%v: %v\n%s", stored, err, output)
				}
				for test := range strings.SplitSeq(tests, "|") {
					if !strings.Contains(output, "--- PASS: Test"+test+" ") {
						t.Errorf("%v: Test%s did not run:\n%s", stored, test, output)
					}
				}
			}
		})
	}
}
