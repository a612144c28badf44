package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func readAll(t *testing.T, path string) []string {
	t.Helper()
	var lines []string
	if err := eachLine(path, func(line string) error {
		lines = append(lines, line)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return lines
}

func TestLinesOfATextCompressedOrNot(t *testing.T) {
	long := strings.Repeat("x", 100_000) // longer than the buffer
	cases := map[string][]string{
		"":                             nil,
		"\n":                           {""},
		"a":                            {"a"},
		"a\nb\n":                       {"a", "b"},
		"a\r\n\r\nb\r":                 {"a", "", "b"},
		"a\rb\u2028c\n" + long + "\nd": {"a\rb\u2028c", long, "d"},
		strings.Repeat("line\n", 3000): slices.Repeat([]string{"line"}, 3000),
	}
	for _, suffix := range []string{"", ".gz", ".zst", ".bz2", ".xz"} {
		for text, want := range cases {
			path := filepath.Join(t.TempDir(), "text"+suffix)
			err := writeFile(path, func(w io.Writer) error {
				_, err := io.WriteString(w, text)
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
			if got := readAll(t, path); !slices.Equal(got, want) {
				t.Errorf("%q with suffix %q: %d lines, want %d: %.200q", text[:min(len(text), 40)], suffix, len(got), len(want), got)
			}
		}
	}
}

func TestLineTooLong(t *testing.T) {
	path := filepath.Join(t.TempDir(), "text.gz")
	err := writeFile(path, func(w io.Writer) error {
		_, err := fmt.Fprint(w, "short\n", strings.Repeat("x", maxLine), "\nafter\n")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	err = eachLine(path, func(string) error { return nil })
	if exitCode(err) != exitInput || !strings.Contains(err.Error(), "text.gz, line 2: longer than 16777216 bytes") {
		t.Errorf("error %v", err)
	}
}

func TestAFailedWriteLeavesWhatWasThere(t *testing.T) {
	folder := t.TempDir()
	path := filepath.Join(folder, "out")
	if err := os.WriteFile(path, []byte("before"), 0o600); err != nil {
		t.Fatal(err)
	}
	broken := errors.New("broken")
	err := writeFile(path, func(w io.Writer) error {
		if _, err := io.WriteString(w, "half"); err != nil {
			return err
		}
		return broken
	})
	if !errors.Is(err, broken) || exitCode(err) != exitFailure { // it is not about the file
		t.Errorf("error %v", err)
	}
	if got := readAll(t, path); !slices.Equal(got, []string{"before"}) {
		t.Errorf("holds %q", got)
	}
	if names, err := filepath.Glob(filepath.Join(folder, "*")); err != nil || len(names) != 1 {
		t.Errorf("left %q, %v", names, err)
	}
}

func TestATextThatIsKeptIsBounded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "text")
	if err := os.WriteFile(path, []byte("ab\n\ncd\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	for limit, want := range map[int]int{52: 3, 51: 2, 17: 0} {
		kept := 0
		err := eachKeptLine(path, limit, func(string) { kept++ })
		if kept != want || (err == nil) != (want == 3) || err != nil && exitCode(err) != exitInput {
			t.Errorf("with %d bytes: %d lines, %v", limit, kept, err)
		}
	}
}
