//go:build linux && (amd64 || arm64) && !nogpu

package gpunetwork

import (
	"testing"

	"github.com/sluice-mt/sluice/gpukernels"
	"github.com/sluice-mt/sluice/gpukernels/emulated"
)

// All architectures, updates, losses of validation and several GPUs in the other modes of the emulated device, but for the thread sanitizer, with which the kernels'
// own tests run: a whole model is too slow for it.
func TestModes(t *testing.T) {
	emulated.In(t, emulated.WholeModes(), func(t *testing.T, m emulated.Mode) {
		emulated.Repeat(t, m, emulatedFor(t, gpukernels.Float16, m.Sanitizer), "Gradients|GradientsOfNorms|GradientsOfOddWidths|Quantised|Evaluate")
		emulated.Repeat(t, m, emulatedFor(t, gpukernels.BFloat16, m.Sanitizer), "Updates|Several|Ahead|EvaluateOnSeveral")
	})
}
