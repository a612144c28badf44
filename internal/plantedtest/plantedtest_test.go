package plantedtest

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// Every bug has its turn, in one run of three, and with the same files in the same.
func TestInTurn(t *testing.T) {
	t.Setenv(Thorough, "")
	var bugs []int
	for i := range 10 {
		bugs = append(bugs, i)
	}
	at := filepath.Join(t.TempDir(), "source.go")
	seen := map[string][]int{}
	for i := range 100 {
		if err := os.WriteFile(at, fmt.Append(nil, i), 0o666); err != nil {
			t.Fatal(err)
		}
		chosen := InTurn(t, bugs, at)
		if again := InTurn(t, bugs, at); !slices.Equal(chosen, again) {
			t.Fatalf("%v, and then %v of the same files", chosen, again)
		}
		seen[fmt.Sprint(chosen)] = chosen
	}
	var all []int
	for _, chosen := range seen {
		all = append(all, chosen...)
	}
	slices.Sort(all)
	if len(seen) != turns || !slices.Equal(all, bugs) {
		t.Errorf("%d turns, want %d with each bug once: %v", len(seen), turns, seen)
	}
	t.Setenv(Thorough, "1")
	if chosen := InTurn(t, bugs, at); !slices.Equal(chosen, bugs) {
		t.Errorf("%v, want %v", chosen, bugs)
	}
}
