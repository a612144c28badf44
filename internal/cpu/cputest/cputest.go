// Package cputest runs a test once for each implementation of the kernels.
package cputest

import (
	"os"
	"testing"

	"github.com/sluice-mt/sluice/internal/cpu"
)

// Each runs f as a subtest for every level up to AVX-512. A level that the processor lacks is skipped, or fails if
// SLUICE_REQUIRE_AVX512 is set. Builds without assembly have the one level.
func Each(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	for l := cpu.Generic; l <= cpu.AVX512; l++ {
		t.Run(l.String(), func(t *testing.T) {
			if l > cpu.Detected() {
				missing(t, l)
			}
			defer cpu.Limit(l)()
			f(t)
		})
	}
}

func missing(t *testing.T, l cpu.Level) {
	if cpu.Assembly && os.Getenv("SLUICE_REQUIRE_AVX512") != "" {
		t.Fatalf("this processor lacks %v, and SLUICE_REQUIRE_AVX512 is set", l)
	}
	t.Skipf("needs %v", l)
}
