// Package cputest runs a test once for each implementation of the kernels.
package cputest

import (
	"os"
	"testing"

	"github.com/sluice-mt/sluice/internal/cpu"
)

// Each runs f as a subtest for every level that this build has. One that the processor lacks is skipped, or fails if it is
// among those that SLUICE_REQUIRE_AVX512 requires. Builds without assembly have the one level.
func Each(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	each(t, cpu.Levels(), f)
}

// EachFamily runs f as a subtest for every family of levels: for what multiplies no integers.
func EachFamily(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	var families []cpu.Level
	for _, l := range cpu.Levels() {
		if l == l.Family() {
			families = append(families, l)
		}
	}
	each(t, families, f)
}

func each(t *testing.T, levels []cpu.Level, f func(t *testing.T)) {
	t.Helper()
	for _, l := range levels {
		t.Run(l.String(), func(t *testing.T) {
			if !cpu.Has(l) {
				missing(t, l)
			}
			defer cpu.Limit(l)()
			f(t)
		})
	}
}

func missing(t *testing.T, l cpu.Level) {
	required := l == cpu.AVX2 || l == cpu.AVX512 || l == cpu.AVX512VNNI // AVX-VNNI does not follow from AVX-512
	if required && os.Getenv("SLUICE_REQUIRE_AVX512") != "" {
		t.Fatalf("this processor lacks %v, and SLUICE_REQUIRE_AVX512 is set", l)
	}
	t.Skipf("needs %v", l)
}
