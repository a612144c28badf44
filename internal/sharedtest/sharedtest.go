// Package sharedtest finds what tests use but the repository does not hold: the folder of models and corpora that may
// lie beside the checkout, and programs of other projects to compare with.
//
// A test that lacks one of them is skipped. Where nothing may be missing, the environment says so: with
// SLUICE_REQUIRE_SHARED or SLUICE_REQUIRE_TOOLS set, the test fails instead.
package sharedtest

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
)

// Path returns the path of a file or folder below the shared folder beside the checkout.
func Path(t testing.TB, elements ...string) string {
	t.Helper()
	path := filepath.Join(append([]string{Root(), "..", "shared"}, elements...)...)
	if _, err := os.Stat(path); err != nil {
		missing(t, "SLUICE_REQUIRE_SHARED", "needs ../shared/"+filepath.Join(elements...)+" beside the checkout")
	}
	return path
}

// Program returns the path of a program of that name.
func Program(t testing.TB, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		missing(t, "SLUICE_REQUIRE_TOOLS", "needs the program "+name)
	}
	return path
}

// Root returns the root folder of the checkout.
func Root() string {
	_, file, _, _ := runtime.Caller(0)
	return filepath.Join(filepath.Dir(file), "..", "..")
}

func missing(t testing.TB, variable, what string) {
	t.Helper()
	if os.Getenv(variable) != "" {
		t.Fatalf("%s, and %s is set", what, variable)
	}
	t.Skip(what)
}
