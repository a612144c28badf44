package emulated

import (
	"context"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"
)

// A Mode is a way to run the same tests.
type Mode struct {
	Name      string
	Sanitizer Sanitizer
	Order     string // of threads: forward, reverse or a number, the seed of a random order
	Hasty     string // which streams do their work at once: even or odd ones, none if it is empty
}

// Plain is the mode that Library's result runs in by itself.
func Plain() Mode { return Mode{"forward", Unwatched, "forward", ""} }

// Reverse is the order of threads in which the modes with sanitizers run, without them: quicker for what the order alone brings to light.
func Reverse() Mode { return Mode{"reverse", Unwatched, "reverse", "even"} }

// Modes are the others that are worth running: two more orders of threads, with one half of the streams ahead and with the other, and both
// sanitizers. A sanitizer sees as much in one order as in another, so that it runs in one that would be worth running without it.
func Modes() []Mode {
	return []Mode{{"random", Unwatched, "1", "odd"}, {"address", Address, "reverse", "even"}, {"thread", Thread, "reverse", ""}}
}

// WholeModes are those of Modes that are fast enough for whole models: the kernels' own tests run with the thread sanitizer.
func WholeModes() []Mode {
	return slices.DeleteFunc(Modes(), func(m Mode) bool { return m.Sanitizer == Thread })
}

// In runs a test by itself for each of some modes, unless the program has been started again for one already.
func In(t *testing.T, modes []Mode, test func(t *testing.T, m Mode)) {
	t.Helper()
	if os.Getenv(LibraryVariable) != "" {
		t.Skip("runs in one mode already")
	}
	for _, m := range modes {
		t.Run(m.Name, func(t *testing.T) { test(t, m) })
	}
}

// Repeat runs tests again as Rerun does, all of which must run, and pass. Their names stand without Test before them, and bars between.
func Repeat(t *testing.T, m Mode, library, tests string, environment ...string) {
	t.Helper()
	output, err := Rerun(t, m, library, "^Test("+tests+")$", environment...)
	if err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	for test := range strings.SplitSeq(tests, "|") {
		if !strings.Contains(output, "--- PASS: Test"+test+" ") {
			t.Errorf("Test%s did not run:\n%s", test, output)
		}
	}
}

// LibraryVariable names the library that tests open in place of building one.
const LibraryVariable = "SLUICE_CUDA_LIBRARY"

// Rerun runs tests of the calling program again, in a process of its own, on a library that was built for the mode. It returns what
// they wrote. The sanitizers want to be loaded before everything else, which a running program cannot do.
func Rerun(t testing.TB, m Mode, library, tests string, environment ...string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	arguments := []string{os.Args[0], "-test.run=" + tests, "-test.short", "-test.v", "-test.count=1"}
	if m.Sanitizer == Thread {
		arguments = append(fixedAddresses(), arguments...)
	}
	command := exec.CommandContext(ctx, arguments[0], arguments[1:]...)
	command.Env = append(os.Environ(), LibraryVariable+"="+library, "SLUICE_EMULATED_ORDER="+m.Order, "SLUICE_EMULATED_HASTY="+m.Hasty)
	switch m.Sanitizer {
	case Address:
		command.Env = append(command.Env, "LD_PRELOAD="+runtimeOf(t, "libasan.so"), "ASAN_OPTIONS=detect_leaks=0")
	case Thread:
		command.Env = append(command.Env, "LD_PRELOAD="+runtimeOf(t, "libtsan.so"), "TSAN_OPTIONS=halt_on_error=1")
	}
	command.Env = append(command.Env, environment...)
	output, err := command.CombinedOutput()
	return string(output), err
}

// fixedAddresses is what to put before a command so that its addresses are not random, where that is allowed: the thread sanitizer of
// older compilers does not know all places that a kernel may choose.
func fixedAddresses() []string {
	if exec.Command("setarch", "-R", "true").Run() != nil {
		return nil
	}
	return []string{"setarch", "-R"}
}

// runtimeOf returns where the compiler keeps a library of its own.
func runtimeOf(t testing.TB, name string) string {
	t.Helper()
	path, err := exec.Command("g++", "-print-file-name="+name).Output()
	if err != nil {
		t.Fatalf("g++: %v", err)
	}
	return strings.TrimSpace(string(path))
}
