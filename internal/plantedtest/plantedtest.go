// Package plantedtest builds the tests of a package with mistakes in it, which the tests must notice: waits that are missing in the code that asks
// a device for work, and the like.
package plantedtest

import (
	"crypto/sha256"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// A Bug is a change to a file of the package that makes it wrong. From stands in the file once. In To, planted(NAME) is 1 if the bug is at
// work, and else 0; unless(NAME, wait) calls wait if it is not.
type Bug struct {
	Name, File, From, To string
	Test                 string // what notices it, without "Test" before the name; all that may, if it is empty
}

// Variable is that of the environment that names the bug that is at work.
const Variable = "PLANTED"

// Thorough is the variable of the environment that, if it is set, has tests do for every case what one of their runs does for some.
const Thorough = "SLUICE_THOROUGH"

// turns is how many runs all bugs of a package are divided among.
const turns = 3

// InTurn returns the bugs that a run looks for: one of three, for they take minutes and are there to watch the tests, not the program. Which ones is decided
// by what the files say that the patterns of filepath.Glob match, so that a run can be repeated, and other ones have their turn with every change. With
// SLUICE_THOROUGH it is all of them.
func InTurn[B any](t testing.TB, bugs []B, patterns ...string) []B {
	t.Helper()
	if os.Getenv(Thorough) != "" {
		return bugs
	}
	turn := int(digest(t, patterns)[0]) % turns
	var chosen []B
	for i := turn; i < len(bugs); i += turns {
		chosen = append(chosen, bugs[i])
	}
	t.Logf("%d of %d bugs; all of them with %s=1", len(chosen), len(bugs), Thorough)
	return chosen
}

// digest is that of the files which the patterns match.
func digest(t testing.TB, patterns []string) []byte {
	t.Helper()
	sum := sha256.New()
	for _, pattern := range patterns {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %d files, %v", pattern, len(files), err)
		}
		for _, file := range files {
			sum.Write([]byte(read(t, file)))
		}
	}
	return sum.Sum(nil)
}

// help is compiled into the package.
const help = `import "os"

func planted(name string) int32 {
	if os.Getenv("` + Variable + `") == name {
		return 1
	}
	return 0
}

func unless(name string, wait func() error) error {
	if planted(name) == 1 {
		return nil
	}
	return wait()
}
`

// Build builds the tests of the package in the current folder, with all bugs in it, of which the environment chooses one or none. It returns
// the program.
func Build(t testing.TB, bugs []Bug) string {
	t.Helper()
	texts := map[string]string{}
	for _, bug := range bugs {
		if texts[bug.File] == "" {
			texts[bug.File] = read(t, bug.File)
		}
		if n := strings.Count(texts[bug.File], bug.From); n != 1 {
			t.Fatalf("%q stands %d times in %s, not once", bug.From, n, bug.File)
		}
		to := strings.ReplaceAll(bug.To, "NAME", `"`+bug.Name+`"`)
		texts[bug.File] = strings.Replace(texts[bug.File], bug.From, to, 1)
	}
	texts["planted.go"] = packageClause.FindString(read(t, bugs[0].File)) + "\n" + help
	program := filepath.Join(t.TempDir(), "planted.test")
	build := exec.CommandContext(t.Context(), "go", "test", "-c", "-overlay", overlay(t, texts), "-o", program, ".")
	if output, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	return program
}

var packageClause = regexp.MustCompile(`(?m)^package \w+\n`)

// overlay writes the texts of files of this folder elsewhere, and returns the file that makes the go command read them there.
func overlay(t testing.TB, texts map[string]string) string {
	t.Helper()
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	replace := map[string]string{}
	for file, text := range texts {
		replace[filepath.Join(here, file)] = filepath.Join(folder, file)
		write(t, filepath.Join(folder, file), []byte(text))
	}
	list, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		t.Fatal(err)
	}
	at := filepath.Join(folder, "overlay.json")
	write(t, at, list)
	return at
}

func read(t testing.TB, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func write(t testing.TB, file string, text []byte) {
	t.Helper()
	if err := os.WriteFile(file, text, 0o666); err != nil {
		t.Fatal(err)
	}
}
