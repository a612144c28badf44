//go:build linux

package main

import (
	"debug/elf"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/sluice-mt/sluice/internal/sharedtest"
)

// The program that is built as for the image, with the tag nogpu, is static, and runs the command lines in testdata/nogpu.
func TestWithoutGPUs(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the program")
	}
	program := filepath.Join(t.TempDir(), "sluice")
	build := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-tags", "nogpu", "-ldflags=-s -w", "-o", program, ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if output, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	file, err := elf.Open(program)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if slices.ContainsFunc(file.Progs, func(p *elf.Prog) bool { return p.Type == elf.PT_INTERP }) {
		t.Error("the program wants a loader, so it is not static")
	}
	testscript.Run(t, testscript.Params{
		Dir:  "testdata/nogpu",
		Cmds: scriptCommands(),
		Setup: func(env *testscript.Env) error {
			env.Setenv("SLUICE", program)
			env.Setenv("MODEL", filepath.Join(sharedtest.Root(), "models", "ende-tiny"))
			return nil
		},
	})
}
