package asm_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestRegistersOfAVX2 looks at the functions for processors without AVX-512: they have 16 vector registers and no masks, and the
// assembler takes more for instructions that these processors do not know.
func TestRegistersOfAVX2(t *testing.T) {
	files, err := filepath.Glob("../*_amd64.s")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	name := regexp.MustCompile(`^(\w+AVX(?:2|VNNI))\(SB\)`)
	beyond := regexp.MustCompile(`\b(?:[XY](?:1[6-9]|2\d|3[01])|Z\d+|K[0-7])\b`)
	functions := 0
	for _, file := range files {
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for function := range strings.SplitSeq(string(source), "\nTEXT ·") {
			of := name.FindString(function)
			if of == "" {
				continue
			}
			functions++
			if register := beyond.FindString(function); register != "" {
				t.Errorf("%s: %s uses %s", file, of, register)
			}
		}
	}
	if functions < 50 {
		t.Errorf("only %d functions were looked at", functions)
	}
}
