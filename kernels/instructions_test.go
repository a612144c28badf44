package kernels

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-mt/sluice/internal/cpu"
)

// beyondFamily names, for each level that is not a family of its own, the functions of assembly that need it: their
// callers must have asked cpu.Integer. All others run on every processor of their family.
var beyondFamily = map[cpu.Level][]string{
	cpu.AVXVNNI:    {"dotsInt8AVXVNNI", "int8BurstAVXVNNI", "mulInt16AVXVNNI", "mulInt8AVXVNNI"},
	cpu.AVX512VNNI: {"dotRowsInt8AVX512", "int8BurstAVX512", "mulInt16AVX512VNNI", "mulInt8AVX512"},
}

// A kernel for AVX-512 that uses an instruction of VNNI by mistake would pass every test on the machines that have both.
func TestOnlyTheKernelsOfALevelUseItsInstructions(t *testing.T) {
	files, err := filepath.Glob("*_amd64.s")
	if err != nil || len(files) == 0 {
		t.Fatalf("no assembly: %v", err)
	}
	function := regexp.MustCompile(`^TEXT ·(\w+)\(SB\)`)
	found := map[cpu.Level][]string{}
	for _, file := range files {
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		name := ""
		for _, line := range strings.Split(string(source), "\n") {
			if m := function.FindStringSubmatch(line); m != nil {
				name = m[1]
			}
			if l, ok := levelOfInstruction(line); ok && !slices.Contains(found[l], name) {
				found[l] = append(found[l], name)
			}
		}
	}
	for l, want := range beyondFamily {
		slices.Sort(found[l])
		if !slices.Equal(found[l], want) {
			t.Errorf("functions with instructions of %v: %v, want %v", l, found[l], want)
		}
	}
}

// levelOfInstruction returns the level that a line of assembly needs, if it is beyond its family.
func levelOfInstruction(line string) (cpu.Level, bool) {
	switch line = strings.TrimSpace(line); {
	case strings.HasPrefix(line, "// VEX 66 0F38 5"):
		return cpu.AVXVNNI, true
	case strings.HasPrefix(line, "VPDPBUSD"), strings.HasPrefix(line, "VPDPWSSD"):
		return cpu.AVX512VNNI, true
	}
	return 0, false
}
