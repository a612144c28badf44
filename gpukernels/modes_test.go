//go:build linux && (amd64 || arm64) && !nogpu

package gpukernels

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-mt/sluice/gpukernels/emulated"
)

// kernelTests are the tests that run kernels.
const kernelTests = "^Test(Product|ProductEpilogues|Quantise|Int8Product|Int8Output|Int8Scores|QuantiseFloat8|Float8Product|Float8Output|" +
	"Float8Scores|LayerNorm|RMSNorm|Activate|Combine|Average|SRU|Cells|BeginCells|MultiplyCells|NormColumns|MeanRows|AddStarts|AdditiveAttention|Infinities|" +
	"Words|Recall|Embed|SSRU|Attention|Lookup|LookupWeights|Output|OutputOfCandidates|GuessBeams|DrawTokens|BeginRows|Scores|" +
	"Training(Activate|GatedSum|Mean|SRU|Guide|Product|Elements|Norm|Columns|Embed|SSRU|Attention|Loss|Numbers|Squares|Adam))$"

// All kernels in the other modes of the emulated device.
func TestModes(t *testing.T) {
	if os.Getenv(emulated.LibraryVariable) != "" {
		t.Skip("runs in one mode already")
	}
	for _, mode := range emulated.Modes() {
		t.Run(mode.Name, func(t *testing.T) {
			t.Parallel()
			at := emulated.Library(t, mode.Sanitizer, emulated.Sources(t)...)
			output, err := emulated.Rerun(t, mode, at, kernelTests)
			if err != nil {
				t.Errorf("%v\n%s", err, output)
			} else if !strings.Contains(output, "--- PASS: TestOutput ") {
				t.Errorf("the tests did not run:\n%s", output)
			}
		})
	}
}

// The PTX in the repository is what the sources give.
func TestPTXIsCurrent(t *testing.T) {
	emulated.Toolkit(t, "cuda_nvrtc")
	for stored, option := range map[Storage]string{Float16: "-DSLUICE_FLOAT16", BFloat16: "-DSLUICE_BFLOAT16"} {
		checkPTX(t, stored.folder(), option, emulated.Sources(t)...)
	}
	checkPTX(t, filepath.Join("cuda", "testdata"), "-DSLUICE_FLOAT16", filepath.Join("cuda", "testdata", "trial.cu"))
}

// checkPTX fails unless a folder has what the compiler makes of the sources, and no more.
func checkPTX(t *testing.T, folder, option string, sources ...string) {
	t.Helper()
	compiled := t.TempDir()
	python := filepath.Join("..", ".cache", "cuda", "bin", "python")
	command := exec.Command(python, append([]string{filepath.Join("tools", "ptx.py"), compiled, option}, sources...)...)
	if output, err := command.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	committed, err := filepath.Glob(filepath.Join(folder, "*.ptx"))
	must(t, err)
	made, err := filepath.Glob(filepath.Join(compiled, "*.ptx"))
	must(t, err)
	if len(committed) != len(made) {
		t.Errorf("%s has %d files of PTX, and %d come from the sources", folder, len(committed), len(made))
	}
	for _, file := range committed {
		have, err := os.ReadFile(file)
		must(t, err)
		want, err := os.ReadFile(filepath.Join(compiled, filepath.Base(file)))
		must(t, err)
		if !bytes.Equal(have, want) {
			t.Errorf("%s is not what the source gives: run scripts/ptx.sh", file)
		}
	}
}
