// Package infra holds what runs sluice elsewhere: images, manifests, dashboards, alerts. It has no code of its own; its
// tests hold the files to what the program really has.
package infra

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluice-mt/sluice/internal/sharedtest"
)

// path returns the path of a file of the repository.
func path(elements ...string) string {
	return filepath.Join(append([]string{sharedtest.Root()}, elements...)...)
}

func read(t *testing.T, elements ...string) string {
	t.Helper()
	content, err := os.ReadFile(path(elements...))
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// A program is built once for all tests.
type program struct {
	once   sync.Once
	folder string
	err    error
}

var sluice program

func TestMain(m *testing.M) {
	code := m.Run()
	if sluice.folder != "" {
		_ = os.RemoveAll(sluice.folder)
	}
	os.Exit(code)
}

// build returns the path of the program, built from this checkout.
func (p *program) build(t *testing.T) string {
	t.Helper()
	p.once.Do(func() {
		if p.folder, p.err = os.MkdirTemp("", "sluice"); p.err != nil {
			return
		}
		command := exec.Command("go", "build", "-trimpath", "-o", filepath.Join(p.folder, "sluice"), "./cmd/sluice")
		command.Dir = sharedtest.Root()
		if output, err := command.CombinedOutput(); err != nil {
			p.err = fmt.Errorf("%w\n%s", err, output)
		}
	})
	if p.err != nil {
		t.Fatal(p.err)
	}
	return filepath.Join(p.folder, "sluice")
}

// tool returns the path of a program that is installed, or that a script has put into .cache/bin, or "go install" into its
// folder. Without it the test is skipped.
func tool(t *testing.T, name string) string {
	t.Helper()
	folders := []string{path(".cache", "bin")}
	if output, err := exec.Command("go", "env", "GOPATH").Output(); err == nil {
		folders = append(folders, filepath.Join(strings.TrimSpace(string(output)), "bin"))
	}
	for _, folder := range folders {
		if found, err := exec.LookPath(filepath.Join(folder, name)); err == nil {
			return found
		}
	}
	return sharedtest.Program(t, name)
}

// run runs a program in the root of the checkout, with these variables added to its environment, and returns what it
// printed.
func run(t *testing.T, environment []string, name string, arguments ...string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute)
	defer cancel()
	command := exec.CommandContext(ctx, name, arguments...)
	command.Dir = sharedtest.Root()
	command.Env = append(command.Environ(), environment...)
	output, err := command.CombinedOutput()
	return string(output), err
}

func mustRun(t *testing.T, environment []string, name string, arguments ...string) string {
	t.Helper()
	output, err := run(t, environment, name, arguments...)
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", filepath.Base(name), strings.Join(arguments, " "), err, output)
	}
	return output
}
