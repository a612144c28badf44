package kernels

import (
	"bytes"
	"testing"
	"unsafe"
)

// element types of slices that kernels get
type scalar interface {
	~float32 | ~uint8 | ~int8 | ~int16 | ~uint16 | ~int32 | ~uint64
}

// arena hands out copies of slices that end where the accessible memory ends, or begin where it begins, so that no kernel
// reads or writes beside a slice unnoticed. On the other side, marked bytes show what is written there.
type arena struct {
	t      *testing.T
	before bool // the inaccessible memory comes before the slices
	checks []func() bool
}

// margin is how many bytes beside a guarded slice are watched.
const margin = 256

const mark = 0xA5

// guard returns a copy of s in guarded memory.
func guard[T scalar](a *arena, s []T) []T {
	size := len(s) * int(unsafe.Sizeof(*new(T)))
	memory := guardedBytes(a.t, margin+size, a.before)
	for i := range memory {
		memory[i] = mark
	}
	first := margin
	if a.before {
		first = 0
	}
	a.checks = append(a.checks, func() bool {
		outside := append(bytes.Clone(memory[:first]), memory[first+size:]...)
		return bytes.Count(outside, []byte{mark}) == len(outside)
	})
	if len(s) == 0 {
		return nil
	}
	g := unsafe.Slice((*T)(unsafe.Pointer(&memory[first])), len(s))
	copy(g, s)
	return g
}

// check fails if anything around the slices was written.
func (a *arena) check(what string) {
	a.t.Helper()
	for i, intact := range a.checks {
		if !intact() {
			a.t.Errorf("%s wrote beside slice %d", what, i)
		}
	}
}
