package cpumodel

import (
	"unsafe"

	"github.com/sluice-mt/sluice/internal/cpu"
)

// lone returns n elements that no pair of cache lines has together with anything else. What a Stepper writes at each step is in such memory: if
// another worker used the same line, the line would travel from core to core.
func lone[T any](n int) []T {
	var element T
	around := (cpu.LinePair-1)/int(unsafe.Sizeof(element)) + 1
	return make([]T, around+n+around)[around : around+n : around+n]
}

// add appends to elements that are alone in their lines, and sees to it that they still are if they have to move.
func add[T any](to []T, elements ...T) []T {
	return append(room(to, len(elements)), elements...)
}

// room is slices.Grow for elements that are alone in their lines.
func room[T any](b []T, more int) []T {
	if n := len(b) + more; n > cap(b) {
		larger := lone[T](max(n, 2*cap(b)))
		return larger[:copy(larger, b)]
	}
	return b
}
