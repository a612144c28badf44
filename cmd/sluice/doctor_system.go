//go:build linux || darwin

package main

import "syscall"

// openFilesLimit is how many files the process may have open.
func openFilesLimit() (limit uint64, known bool) {
	var r syscall.Rlimit
	err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &r)
	return r.Cur, err == nil
}

// freeSpace is how many bytes can be written to a file system.
func freeSpace(path string) (free int64, known bool) {
	var s syscall.Statfs_t
	err := syscall.Statfs(path, &s)
	return int64(s.Bavail) * int64(s.Bsize), err == nil //nolint:unconvert // the types differ between systems
}
