package cuda

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
)

func readTrial(t testing.TB) string {
	t.Helper()
	ptx, err := os.ReadFile("testdata/trial.ptx")
	if err != nil {
		t.Fatal(err)
	}
	return string(ptx)
}

func TestParseEntries(t *testing.T) {
	entries, err := parseEntries(readTrial(t))
	if err != nil {
		t.Fatal(err)
	}
	want := map[string][]string{
		"add": {"u64", "u64", "u64", "u32", "f32"}, "count": {"u64", "u32", "u64"}, "wrong": {"u64", "u32", "u32"},
		"add_up": {"u64", "u32", "u64", "u64", "u64", "u32"},
	}
	if len(entries) != len(want) {
		t.Errorf("found %v", entries)
	}
	for name, parameters := range want {
		if !slices.Equal(entries[name].parameters, parameters) {
			t.Errorf("%s: %v", name, entries[name].parameters)
		}
	}
}

func TestParseEntriesRefuses(t *testing.T) {
	for _, bad := range []string{
		"", "no kernels", ".entry ", ".entry add(", ".entry add(.param .u64 a", ".entry add(.param .align 8 .b8 a[16])",
	} {
		if e, err := parseEntries(bad); !errors.Is(err, errPTX) {
			t.Errorf("%q: %v, %v", bad, e, err)
		}
	}
	whole := readTrial(t)
	for n := range strings.LastIndex(whole, ".entry") { // at every place, a kernel is missing or does not end
		if entries, err := parseEntries(whole[:n]); err == nil && len(entries) >= strings.Count(whole, ".entry") {
			t.Fatalf("%d bytes: %v", n, entries)
		}
	}
}

func FuzzParseEntries(f *testing.F) {
	f.Add(readTrial(f))
	f.Add(".entry f(.param .u64 f_param_0)")
	f.Fuzz(func(t *testing.T, ptx string) {
		entries, err := parseEntries(ptx)
		if err == nil && len(entries) == 0 {
			t.Error("neither kernels nor an error")
		}
	})
}
