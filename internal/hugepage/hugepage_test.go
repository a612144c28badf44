package hugepage

import (
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"unsafe"
)

func TestSlicesAreAlignedAndZero(t *testing.T) {
	for _, n := range []int{0, 1, 63, 64, 1000, Size/4 - 1, Size / 4, Size/4 + 1, Size} {
		check(t, Make[int8](n), n)
		check(t, Make[int16](n), n)
		check(t, Make[float32](n), n)
	}
}

func check[T int8 | int16 | float32](t *testing.T, s []T, n int) {
	t.Helper()
	if len(s) != n || cap(s) < n {
		t.Fatalf("%d of %d elements", len(s), n)
	}
	multiple := uintptr(64)
	if n*int(unsafe.Sizeof(s[:1][0])) >= Size {
		multiple = Size
	}
	if address := uintptr(unsafe.Pointer(unsafe.SliceData(s))); n > 0 && address%multiple != 0 {
		t.Errorf("%d elements of %T at %#x, no multiple of %d", n, s, address, multiple)
	}
	for i := range s {
		if s[i] != 0 {
			t.Fatalf("element %d of %d is %v", i, n, s[i])
		}
		s[i] = 1
	}
}

// Where the system gives large pages to those that ask, they are there.
func TestTheSystemGivesLargePages(t *testing.T) {
	setting, err := os.ReadFile("/sys/kernel/mm/transparent_hugepage/enabled")
	if err != nil || strings.Contains(string(setting), "[never]") {
		t.Skip("this system gives no large pages")
	}
	s := Make[int8](16 * Size)
	for i := range s {
		s[i] = 1
	}
	if have := largePages(t); have < 8*Size {
		t.Errorf("%d bytes in large pages, though %d were asked for", have, len(s))
	}
	runtime.KeepAlive(s)
}

func largePages(t *testing.T) int {
	t.Helper()
	sums, err := os.ReadFile("/proc/self/smaps_rollup")
	if err != nil {
		t.Skip(err)
	}
	for line := range strings.Lines(string(sums)) {
		if after, ok := strings.CutPrefix(line, "AnonHugePages:"); ok {
			kilobytes, err := strconv.Atoi(strings.Fields(after)[0])
			if err != nil {
				t.Fatal(err)
			}
			return kilobytes << 10
		}
	}
	t.Skip("this system does not say")
	return 0
}
