package kernels

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// beyondFamily names, for each set of instructions that is not all of a family's, the functions of assembly that need it:
// their callers must have asked cpu.Integer, cpu.HasByteCompress or usesBF16. All others run on every processor of their family.
var beyondFamily = map[string][]string{
	"AVX-VNNI": {"dotsInt8AVXVNNI", "int16BurstAVXVNNI", "int8BurstAVXVNNI", "mulInt16AVXVNNI", "mulInt8AVXVNNI"},
	"AVX-512 VNNI": {"dotRowsInt8AVX512", "int16BurstAVX512VNNI", "int8BurstAVX512", "mulInt16AVX512VNNI", "mulInt16AVX512VNNIDouble", "mulInt8AVX512", "mulInt8AVX512Double",
		"mulInt8AVX512DoubleBytes", "mulInt8AVX512Unfetched", "mulInt8SparseAVX512", "mulInt8SparseAVX512Wide"},
	"AVX-512 VBMI2": {"listInt8AVX512"},
	"AVX-512 BF16":  {"accumulateBFloat16BF16", "bfloat16BurstBF16"},
}

// A kernel for AVX-512 that uses an instruction of VNNI by mistake would pass every test on the machines that have both.
func TestOnlyTheKernelsOfASetUseItsInstructions(t *testing.T) {
	found := map[string][]string{}
	eachLineOfAssembly(t, func(_, function, line string) {
		if set := instructionSet(line); set != "" && !slices.Contains(found[set], function) {
			found[set] = append(found[set], function)
		}
	})
	for set, want := range beyondFamily {
		slices.Sort(found[set])
		if !slices.Equal(found[set], want) {
			t.Errorf("functions with instructions of %s: %v, want %v", set, found[set], want)
		}
	}
}

// Kernels for AVX2 run on processors that have no AVX-512. The allocation of registers knows 32 of them, and what is beyond the 16 of AVX2 passes
// every test on the machines that have both.
func TestOnlyTheKernelsForAVX512UseIt(t *testing.T) {
	eachLineOfAssembly(t, func(place, function, line string) {
		if beyondAVX2.MatchString(line) && !strings.Contains(function, "AVX512") && !slices.Contains(beyondFamily["AVX-512 BF16"], function) {
			t.Errorf("%s: %s has an instruction of AVX-512: %s", place, function, strings.TrimSpace(line))
		}
	})
}

// eachLineOfAssembly calls work with all lines of the assembly for amd64, and the functions that they are in.
func eachLineOfAssembly(t *testing.T, work func(place, function, line string)) {
	t.Helper()
	files, err := filepath.Glob("*_amd64.s")
	if err != nil || len(files) == 0 {
		t.Fatalf("no assembly: %v", err)
	}
	for _, file := range files {
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		function := ""
		for i, line := range strings.Split(string(source), "\n") {
			if m := functionOfAssembly.FindStringSubmatch(line); m != nil {
				function = m[1]
			}
			work(fmt.Sprintf("%s:%d", file, i+1), function, line)
		}
	}
}

var (
	functionOfAssembly = regexp.MustCompile(`^TEXT ·(\w+)\(SB\)`)
	// beyondAVX2 matches what AVX-512 brought: registers, and instructions by their names.
	beyondAVX2 = regexp.MustCompile(`^\t[A-Z].*[ ,(]([XYZ](1[6-9]|2[0-9]|3[01])|Z[0-9]|K[0-7])\b|^\tV?(` + strings.Join([]string{
		`MOVDQ[AU](8|16|32|64)`, `PTERNLOG`, `PERM[IT]2`, `PERM(B|W)\b`, `RNDSCALE`, `SCALEF`, `GETEXP`, `GETMANT`, `FIXUPIMM`, `REDUCEP`, `RANGEP`, `RCP14`, `RSQRT14`,
		`PRO[LR]`, `PCONFLICT`, `PLZCNT`, `P?COMPRESS`, `P?EXPAND`, `P?BLENDM`, `PCMPU?[BWDQ]\b`, `(EXTRACT|INSERT|SHUF|BROADCAST)[FI](32|64)X`, `ALIGN[DQ]`,
		`P(AND|ANDN|OR|XOR)[DQ]\b`, `P(ABS|SRA|MINS|MINU|MAXS|MAXU|MULL)Q`, `PMOV(U?S)?(Q[BWD]|D[BW]|WB)\b`, `PMOV([BWDQ]2M|M2[BWDQ])`, `CVTT?(PS|PD|SS|SD)2U`, `CVTU`,
		`PTESTN?M`, `DBPSADBW`, `PMULTISHIFTQB`, `PSHLDV?`, `PSHRDV?`, `KMOV`,
	}, "|") + `)`)
)

// instructionSet returns which of those sets a line of assembly needs, if any.
func instructionSet(line string) string {
	switch line = strings.TrimSpace(line); {
	case strings.HasPrefix(line, "// VEX 66 0F38 5"):
		return "AVX-VNNI"
	case strings.HasPrefix(line, "VPDPBUSD"), strings.HasPrefix(line, "VPDPWSSD"):
		return "AVX-512 VNNI"
	case strings.HasPrefix(line, "VPCOMPRESSB"), strings.HasPrefix(line, "VPCOMPRESSW"), strings.HasPrefix(line, "VPEXPANDB"), strings.HasPrefix(line, "VPEXPANDW"),
		strings.HasPrefix(line, "VPSHLD"), strings.HasPrefix(line, "VPSHRD"):
		return "AVX-512 VBMI2"
	case strings.HasPrefix(line, "// VDPBF16PS"):
		return "AVX-512 BF16"
	}
	return ""
}
