package kernels

import (
	"syscall"
	"testing"
)

// guardedBytes returns n bytes that are followed by a page which cannot be read, or preceded by one.
func guardedBytes(t *testing.T, n int, before bool) []byte {
	t.Helper()
	page := syscall.Getpagesize()
	size := roundUp(n, page)
	memory, err := syscall.Mmap(-1, 0, size+page, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := syscall.Munmap(memory); err != nil {
			t.Error(err)
		}
	})
	guard, bytes := memory[size:], memory[size-n:size]
	if before {
		guard, bytes = memory[:page], memory[page:page+n]
	}
	if err := syscall.Mprotect(guard, syscall.PROT_NONE); err != nil {
		t.Fatal(err)
	}
	return bytes
}
