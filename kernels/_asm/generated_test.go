// Package asm_test checks that the committed assembly is what the generators write.
package asm_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"
)

// TestCommittedAssemblyIsGenerated runs every generator that ../generate.go names and compares the results with the
// committed files, apart from the first line, which quotes the command.
func TestCommittedAssemblyIsGenerated(t *testing.T) {
	source, err := os.ReadFile("../generate.go")
	if err != nil {
		t.Fatal(err)
	}
	commands := regexp.MustCompile(`go run -C _asm \./(\w+) -pkg kernels -out \.\./(\S+) -stubs \.\./(\S+)`).FindAllStringSubmatch(string(source), -1)
	if len(commands) == 0 {
		t.Fatal("../generate.go names no generator")
	}
	for _, c := range commands {
		t.Run(c[1], func(t *testing.T) {
			dir := t.TempDir()
			code, stubs := filepath.Join(dir, "code.s"), filepath.Join(dir, "stubs.go")
			output, err := exec.Command("go", "run", "./"+c[1], "-pkg", "kernels", "-out", code, "-stubs", stubs).CombinedOutput()
			if err != nil {
				t.Fatalf("%v\n%s", err, output)
			}
			same(t, code, "../"+c[2])
			same(t, stubs, "../"+c[3])
		})
	}
}

func same(t *testing.T, generated, committed string) {
	t.Helper()
	if !bytes.Equal(body(t, generated), body(t, committed)) {
		t.Errorf("%s is not what its generator writes: run go generate in kernels", committed)
	}
}

// body returns a file without its first line.
func body(t *testing.T, path string) []byte {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := bytes.Cut(content, []byte("\n"))
	return rest
}
