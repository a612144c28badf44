package infra

import (
	"path/filepath"
	"strings"
	"testing"
)

// block returns the first block of code behind a heading of a document.
func block(t *testing.T, text, heading string) string {
	t.Helper()
	_, behind, found := strings.Cut(text, "\n## "+heading+"\n")
	if !found {
		t.Fatalf("there is no heading %q", heading)
	}
	_, behind, found = strings.Cut(behind, "\n```\n")
	code, _, closed := strings.Cut(behind, "\n```\n")
	if !found || !closed {
		t.Fatalf("there is no code behind %q", heading)
	}
	return code
}

// The first commands that a newcomer is told, run as they stand there, but for where the program and the files lie.
func TestFirstCommandsOfTheGuide(t *testing.T) {
	code := block(t, read(t, "docs", "streaming.md"), "Two minutes")
	folder := filepath.ToSlash(filepath.Join(t.TempDir(), "first"))
	code = strings.NewReplacer("make build\n", "", "bin/sluice", sluice.build(t), "/tmp/first", folder).Replace(code)
	output := mustRun(t, nil, "bash", "-euo", "pipefail", "-c", code)
	if !strings.Contains(output, "\nEin Mann liest Zeitung.\nZwei Kinder spielen.\n") {
		t.Errorf("the guide's first job gives\n%s", output)
	}
}
