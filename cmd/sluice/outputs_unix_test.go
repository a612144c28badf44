//go:build unix

package main

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

func put(text string) func(io.Writer) error {
	return func(w io.Writer) error {
		_, err := io.WriteString(w, text)
		return err
	}
}

// What is at the other end of a pipe gets the output, and the pipe stays one.
func TestOutputIntoAPipe(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pipe")
	if err := unix.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	read := make(chan string)
	go func() {
		content, err := os.ReadFile(path)
		if err != nil {
			t.Error(err)
		}
		read <- string(content)
	}()
	if err := writeFile(path, put("text\n")); err != nil {
		t.Fatal(err)
	}
	if got := <-read; got != "text\n" {
		t.Errorf("the reader got %q", got)
	}
	if info, err := os.Lstat(path); err != nil || info.Mode()&os.ModeNamedPipe == 0 {
		t.Errorf("the pipe is now %v, %v", info, err)
	}
	var refused outputError
	if _, err := fileOf(path); !errors.As(err, &refused) {
		t.Errorf("a model into a pipe: %v", err)
	}
}

// A symbolic link stays, whether its file exists or not, and a ring of them is an error.
func TestOutputThroughLinks(t *testing.T) {
	folder := t.TempDir()
	file, link, ring := filepath.Join(folder, "file"), filepath.Join(folder, "link"), filepath.Join(folder, "ring")
	for name, target := range map[string]string{link: "file", filepath.Join(folder, "second"): link, ring: "ring"} {
		if err := os.Symlink(target, name); err != nil {
			t.Fatal(err)
		}
	}
	for _, text := range []string{"new", "newer"} {
		if err := writeFile(filepath.Join(folder, "second"), put(text)); err != nil {
			t.Fatal(err)
		}
		if content, err := os.ReadFile(file); err != nil || string(content) != text {
			t.Errorf("%q, %v", content, err)
		}
	}
	if target, err := os.Readlink(link); err != nil || target != "file" {
		t.Errorf("the link leads to %q, %v", target, err)
	}
	if err := writeFile(ring, put("")); err == nil {
		t.Error("a ring of links was written to")
	}
}

func TestSameOutput(t *testing.T) {
	folder := t.TempDir()
	in := func(name string) string { return filepath.Join(folder, name) }
	for _, name := range []string{"a", "b"} {
		if err := os.WriteFile(in(name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, target := range map[string]string{in("to-a"): "a", in("to-new"): "new", in("here"): "."} {
		if err := os.Symlink(target, name); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Link(in("a"), in("hard")); err != nil {
		t.Fatal(err)
	}
	t.Chdir(folder)
	for _, c := range []struct {
		a, b string
		same bool
	}{
		{"a", "./a", true}, {"a", in("a"), true}, {"a", "to-a", true}, {"a", "hard", true}, {"a", "b", false},
		{"new", "./here/../new", true}, {"new", "to-new", true}, {"new", "here/new", true}, {"new", "newer", false}, {"new", "a", false},
		{"-", "-", true}, {"-", "a", false}, {"", "", false}, {"/dev/null", "/dev/null", false},
	} {
		if got := sameOutput(c.a, c.b); got != c.same {
			t.Errorf("%q and %q: %v, want %v", c.a, c.b, got, c.same)
		}
	}
	var misuse usageError
	for _, outputs := range [][]string{{"new", "", "new"}, {"-", "-"}, {"b", "other", "./here/other"}, {"a"}} {
		if err := checkOutputs(true, outputs, []string{"", "-", "to-a"}); !errors.As(err, &misuse) {
			t.Errorf("%q: %v", outputs, err)
		}
	}
	if err := checkOutputs(true, []string{"", "b", "-", "/dev/null", "/dev/null"}, []string{"a", ""}); err != nil {
		t.Error(err)
	}
}
