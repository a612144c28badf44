//go:build linux

package emulated

import (
	"testing"

	"github.com/ebitengine/purego"
)

// Setting returns what changes a setting of an emulated device, whose library this is, and returns 0 if there is such a setting. It is nil for
// the library of another device.
func Setting(t testing.TB, library string) func(name, value string) int32 {
	t.Helper()
	handle, err := purego.Dlopen(library, purego.RTLD_NOW|purego.RTLD_LOCAL)
	if err != nil {
		t.Fatal(err)
	}
	address, err := purego.Dlsym(handle, "cuEmulatedSet")
	if err != nil {
		return nil
	}
	var set func(name, value string) int32
	purego.RegisterFunc(&set, address)
	return set
}
