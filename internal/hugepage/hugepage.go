// Package hugepage makes large slices in memory that the system is asked to map with pages of 2 MB.
//
// Weights and the keys and values of sentences are read again and again, all of them, in no order that would help: with pages of
// 4 KB, the processor spends a part of the time on finding out where they are. Most servers give large pages only to programs
// that ask. Where there are none, or the system is another, the slices are ordinary ones.
package hugepage

import "unsafe"

// Size is the size of a large page.
const Size = 2 << 20

// Make returns n zeros that start at a multiple of 64 bytes. If they take a large page or more, they start at a multiple of its
// size, and the system is asked for such pages. T must hold no pointers.
func Make[T int8 | uint8 | int16 | uint16 | int32 | float32](n int) []T {
	var element T
	size := int(unsafe.Sizeof(element))
	if n*size < Size {
		return aligned[T](n, 64/size)
	}
	// To the end of the last page, so that nothing else begins in it.
	whole := (n*size + Size - 1) / Size * Size / size
	s := aligned[T](whole, Size/size)
	advise(unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(s))), whole*size))
	return s[:n:n]
}

// aligned returns n zeros that start at a multiple of some elements. (Go does not move what is on its heap.)
func aligned[T int8 | uint8 | int16 | uint16 | int32 | float32](n, multiple int) []T {
	var element T
	size := unsafe.Sizeof(element)
	s := make([]T, n+multiple-1)
	address := uintptr(unsafe.Pointer(unsafe.SliceData(s))) / size
	skip := int(-address % uintptr(multiple))
	return s[skip : skip+n : skip+n]
}
