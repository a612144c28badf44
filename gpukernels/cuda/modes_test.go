//go:build linux && (amd64 || arm64) && !nogpu

package cuda

import (
	"fmt"
	"os"
	"regexp"
	"testing"

	"github.com/sluice-mt/sluice/gpukernels/emulated"
)

// The tests of the driver's interface in the other modes of the emulated device.
func TestModes(t *testing.T) {
	emulated.In(t, emulated.Modes(), func(t *testing.T, m emulated.Mode) {
		at := emulated.Library(t, m.Sanitizer, "testdata/trial.cu")
		emulated.Repeat(t, m, at, "Add|Across|WarpsAndAtomics|Fences|Graph|Events|EventsOutliveStreams|Goroutines")
	})
}

// Kernels that misbehave: each fails in the mode that is there to find it, with a message that says what is wrong.
func TestWrongKernels(t *testing.T) {
	if how := os.Getenv("WRONG"); how == "8" {
		addUp(t, 0)
		return
	} else if how != "" {
		reverse(t, int(how[0]-'0'))
		return
	}
	if os.Getenv(emulated.LibraryVariable) != "" {
		t.Skip("needs the emulated device in several modes")
	}
	modes := map[string]emulated.Mode{}
	libraries := map[string]string{}
	for _, mode := range append(emulated.Modes(), emulated.Plain()) {
		modes[mode.Name], libraries[mode.Name] = mode, emulated.Library(t, mode.Sanitizer, "testdata/trial.cu")
	}
	for _, wrong := range []struct {
		how        int
		mode, want string
	}{
		{0, "forward", `^=== RUN[^\n]*\n--- PASS`},
		{1, "forward", `returns while \d+ threads wait at the barrier in line \d+, at trial\.cu:\d+`},
		{2, "forward", `is not in the mask of its own warp operation`},
		{3, "forward", `deadlock; 0 of 64 threads have returned; 48 wait for a barrier .*; 16 wait for its warp`},
		{4, "address", `heap-buffer-overflow`},
		{5, "address", `heap-buffer-overflow`},
		{6, "address", `heap-buffer-overflow`},
		{7, "forward", `element \d+ is NaN`},
		{7, "thread", `data race`},
		{8, "thread", `data race`},
	} {
		output, err := emulated.Rerun(t, modes[wrong.mode], libraries[wrong.mode], "^TestWrongKernels$", fmt.Sprintf("WRONG=%d", wrong.how),
			"SLUICE_EMULATED_THREADS=2") // races between blocks need more than one
		if (err == nil) != (wrong.how == 0) || !regexp.MustCompile(wrong.want).MatchString(output) {
			t.Errorf("case %d, %s: want %q, got %v:\n%s", wrong.how, wrong.mode, wrong.want, err, output)
		}
	}
}

// reverse launches the kernel that goes wrong in a way.
func reverse(t *testing.T, how int) {
	r := newRig(t)
	const n = 64
	x := in(r, numbers(n))
	must(t, r.kernel("wrong").Launch(r.stream, Shape{}, Shape{X: n}, 4*n, Address(x), Int(n), Int(how)))
	want := numbers(n)
	for i, v := range out[float32](r, x, n) {
		if v != want[n-1-i] {
			t.Fatalf("element %d is %v, want %v", i, v, want[n-1-i])
		}
	}
}
