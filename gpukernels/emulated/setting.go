//go:build linux

package emulated

import (
	"testing"

	"github.com/ebitengine/purego"

	"github.com/sluice-mt/sluice/internal/cputime"
)

// Asked returns what tells how often something was asked of the streams of an emulated device, whose library this is, so far.
func Asked(t testing.TB, library string) func() int {
	t.Helper()
	var count func(n *uint32) int32
	register(t, library, &count, "cuEmulatedAsked")
	return func() int {
		var n uint32
		count(&n)
		return int(n)
	}
}

// Priorities returns those of the streams of an emulated device, whose library this is, of as many as were made last, the last one first. The smaller,
// the more urgent.
func Priorities(t testing.TB, library string, streams int) []int32 {
	t.Helper()
	var list func(to *int32, most int32) int32
	register(t, library, &list, "cuEmulatedPriorities")
	priorities := make([]int32, streams)
	return priorities[:list(&priorities[0], int32(streams))]
}

// register lets a function call one that emulated devices alone have.
func register(t testing.TB, library string, function any, name string) {
	t.Helper()
	if Setting(t, library) == nil {
		t.Skip("needs an emulated device")
	}
	handle, err := purego.Dlopen(library, purego.RTLD_NOW|purego.RTLD_LOCAL)
	if err != nil {
		t.Fatal(err)
	}
	purego.RegisterLibFunc(function, handle, name)
}

// idle lets an emulated device, whose library this is, do nothing of what streams are asked for, until the test ends, so that the time of those who ask
// can be measured. What it copies to this machine is zeros.
func idle(t testing.TB, library string) {
	t.Helper()
	set := Setting(t, library)
	set("idle", "1")
	t.Cleanup(func() { set("idle", "0") })
}

// MeasureHost does something again and again with a device that is idle, a few times as a warm-up, and reports how often each time asks the device for
// something, and what it takes the processor.
func MeasureHost(b *testing.B, library string, warmUp int, work func(number int)) {
	b.Helper()
	asked := Asked(b, library)
	idle(b, library)
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
