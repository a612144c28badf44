package emulated

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/sluice-mt/sluice/internal/sharedtest"
)

// Toolkit returns the path of a file of NVIDIA's packages that scripts/ptx.sh installs: elements below the folder "nvidia". Without
// them the test is skipped, or fails if SLUICE_REQUIRE_CUDA is set.
func Toolkit(t testing.TB, elements ...string) string {
	t.Helper()
	place := filepath.Join(sharedtest.Root(), ".cache", "cuda", "lib", "python3*", "site-packages", "nvidia")
	found, err := filepath.Glob(filepath.Join(append([]string{place}, elements...)...))
	if err != nil {
		t.Fatal(err)
	}
	if len(found) > 0 {
		return found[0]
	}
	const missing = "needs NVIDIA's compiler and headers: scripts/ptx.sh python installs them"
	if os.Getenv("SLUICE_REQUIRE_CUDA") != "" {
		t.Fatal(missing)
	}
	t.Skip(missing)
	return ""
}
