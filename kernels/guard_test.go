package kernels

import (
	"bytes"
	"testing"
	"unsafe"
)

// element types of slices that kernels get
type scalar interface {
	~float32 | ~uint8 | ~int8 | ~int16 | ~int32
}

// arena hands out copies of slices that end where the accessible memory ends (or, without such pages, where marked
// bytes begin), so that no kernel reads or writes past a slice unnoticed. Marked bytes before them show what is written there.
type arena struct {
	t      *testing.T
	checks []func() bool
}

// margin is how many bytes before a guarded slice are watched.
const margin = 256

const mark = 0xA5

// guard returns a copy of s in guarded memory.
func guard[T scalar](a *arena, s []T) []T {
	size := len(s) * int(unsafe.Sizeof(*new(T)))
	memory := guardedBytes(a.t, margin+size)
	for i := range memory {
		memory[i] = mark
	}
	a.checks = append(a.checks, func() bool {
		outside := append(bytes.Clone(memory[:margin]), memory[margin+size:]...)
		return bytes.Count(outside, []byte{mark}) == len(outside)
	})
	if len(s) == 0 {
		return nil
	}
	g := unsafe.Slice((*T)(unsafe.Pointer(&memory[margin])), len(s))
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
