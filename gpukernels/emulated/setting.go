//go:build linux

package emulated

import (
	"testing"

	"github.com/ebitengine/purego"

	"github.com/sluice-mt/sluice/internal/cputime"
)

// Idle lets an emulated device, whose library this is, do nothing of what streams are asked for, until the test ends, so that the time of those who ask
// can be measured. What it copies to this machine is zeros. It returns what tells how often something was asked for so far.
func Idle(t testing.TB, library string) (asked func() int) {
	t.Helper()
	set := Setting(t, library)
	if set == nil {
		t.Skip("needs an emulated device")
	}
	handle, err := purego.Dlopen(library, purego.RTLD_NOW|purego.RTLD_LOCAL)
	if err != nil {
		t.Fatal(err)
	}
	var count func(n *uint32) int32
	purego.RegisterLibFunc(&count, handle, "cuEmulatedAsked")
	set("idle", "1")
	t.Cleanup(func() { set("idle", "0") })
	return func() int {
		var n uint32
		count(&n)
		return int(n)
	}
}

// MeasureHost does something again and again with a device that is idle, a few times as a warm-up, and reports how often each time asks the device for
// something, and what it takes the processor.
func MeasureHost(b *testing.B, library string, warmUp int, work func(number int)) {
	b.Helper()
	asked := Idle(b, library)
	for number := range warmUp {
		work(number)
	}
	before, began := asked(), cputime.Process()
	for number := warmUp; b.Loop(); number++ {
		work(number)
	}
	b.ReportMetric(float64(asked()-before)/float64(b.N), "asked/op")
	b.ReportMetric(float64(cputime.Process()-began)/float64(b.N)/1e3, "processor-us/op")
}

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
