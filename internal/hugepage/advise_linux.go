package hugepage

import "syscall"

// collapse is MADV_COLLAPSE, since Linux 6.1: what is there already in small pages goes into large ones at once.
const collapse = 25

// advise asks for large pages. A system that has none to give says so, which changes nothing.
func advise(memory []byte) {
	_ = syscall.Madvise(memory, syscall.MADV_HUGEPAGE)
	_ = syscall.Madvise(memory, collapse)
}
