// Package llvmtest lets tests compare instructions that are written as bytes with what LLVM's assembler makes of them.
package llvmtest

import (
	"encoding/hex"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
)

var encoding = regexp.MustCompile(`encoding: \[(.*)\]`)

// Encode returns the bytes of instructions, as llvm-mc has them for a triple with some features. Without it the test is skipped, or fails if
// SLUICE_REQUIRE_LLVM is set.
func Encode(t *testing.T, triple, features string, instructions []string) [][]byte {
	t.Helper()
	assembler, err := exec.LookPath("llvm-mc")
	if err != nil {
		if os.Getenv("SLUICE_REQUIRE_LLVM") != "" {
			t.Fatal("llvm-mc is not installed, and SLUICE_REQUIRE_LLVM is set")
		}
		t.Skip("needs llvm-mc")
	}
	command := exec.Command(assembler, "-triple="+triple, "-mattr="+features, "-show-encoding")
	command.Stdin = strings.NewReader(strings.Join(instructions, "\n") + "\n")
	output, err := command.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	found := encoding.FindAllStringSubmatch(string(output), -1)
	if len(found) != len(instructions) || len(found) == 0 {
		t.Fatalf("%d of %d instructions were assembled", len(found), len(instructions))
	}
	var encodings [][]byte
	for _, match := range found {
		bytes, err := hex.DecodeString(strings.NewReplacer("0x", "", ",", "").Replace(match[1]))
		if err != nil {
			t.Fatal(err)
		}
		encodings = append(encodings, bytes)
	}
	return encodings
}
