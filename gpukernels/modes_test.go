//go:build linux && (amd64 || arm64) && !nogpu

package gpukernels

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-mt/sluice/gpukernels/emulated"
	"github.com/sluice-mt/sluice/internal/plantedtest"
)

// kernelTests are the tests that run kernels for both types of stored numbers, and bytesTests those of products in 8 bits.
const (
	kernelTests = "Product|ProductEpilogues|LayerNorm|NormOfParts|CopyRows|RMSNorm|Activate|Combine|Average|SRU|Cells|BeginCells|MultiplyCells|NormColumns|MeanRows|" +
		"AddStarts|AdditiveAttention|Infinities|Words|Recall|Embed|SSRU|Attention|Lookup|LookupWeights|Output|OutputOfCandidates|OutputOfCountedColumns|GuessBeams|" +
		"DrawTokens|BeginRows|ReadOn|Scores|PickLogProbabilities|Joined|JoinedTies|JoinedOfGivenChoices|JoinedNoise|JoinedOfBrokenRows|" +
		"Training(RoundRows|Gather|CopyColumns|SentenceMean|DropColumns|DropColumnsSpaced|Shift|Times|Cells|Look|NormOfColumns|Activate|GatedSum|Mean|SRU|Guide|Product|Elements|Norm|NormSpaced|Columns|Embed|SSRU|Attention|Loss|Numbers|Squares|Adam)"
	bytesTests = "Quantise|Int8Product|Int8Output|Int8OutputOfCountedColumns|Int8Scores|QuantiseFloat8|Float8Product|Float8Output|Float8OutputOfCountedColumns|Float8Scores"
)

// All kernels in the other modes of the emulated device: each that is in the PTX must have run in each mode. The sanitizers see those of float16: a kernel
// takes the same places in both types, and the tests of training run whole models of bfloat16 with the address sanitizer.
func TestModes(t *testing.T) {
	emulated.In(t, emulated.Modes(), func(t *testing.T, m emulated.Mode) {
		for of, tests := range map[Storage]string{Float16: kernelTests + "|" + bytesTests, BFloat16: kernelTests} {
			if of == BFloat16 && m.Sanitizer != emulated.Unwatched && os.Getenv(plantedtest.Thorough) == "" {
				continue
			}
			t.Run(of.String(), func(t *testing.T) {
				t.Parallel()
				launched := filepath.Join(t.TempDir(), "launched")
				output, err := emulated.Rerun(t, m, libraryFor(t, of, m.Sanitizer), "^Test("+tests+")$",
					storedVariable+"="+of.String(), "SLUICE_EMULATED_LAUNCHED="+launched)
				if err != nil {
					t.Fatalf("%v\n%s", err, output)
				}
				checkLaunched(t, of, launched)
			})
		}
	})
}

// entry is how a kernel begins in PTX.
var entry = regexp.MustCompile(`\.entry (\w+)\(`)

// checkLaunched fails unless a list of kernels that were launched has all of the PTX for a type.
func checkLaunched(t *testing.T, of Storage, list string) {
	t.Helper()
	text, err := os.ReadFile(list)
	must(t, err)
	launched := strings.Fields(string(text))
	files, err := filepath.Glob(filepath.Join(of.folder(), "*.ptx"))
	must(t, err)
	all := 0
	for _, file := range files {
		ptx, err := os.ReadFile(file)
		must(t, err)
		for _, found := range entry.FindAllSubmatch(ptx, -1) {
			all++
			if !slices.Contains(launched, string(found[1])) {
				t.Errorf("%s: no test of kernels has launched %s", file, found[1])
			}
		}
	}
	if all == 0 {
		t.Errorf("no kernels were found in %s", of.folder())
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
