//go:build !linux || (!amd64 && !arm64) || nogpu

package cuda

import "fmt"

// load fails: there is no driver for this system, or the program was built to do without.
func load(string) (*functions, error) {
	return nil, fmt.Errorf("%w: this program was built without support for GPUs", ErrUnavailable)
}

// loadBLAS fails for the same reason.
func loadBLAS(string) (*blasFunctions, error) {
	return nil, fmt.Errorf("%w: this program was built without support for GPUs", ErrNoBLAS)
}
