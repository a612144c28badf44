//go:build !linux && !darwin

package main

// openFilesLimit is not known here.
func openFilesLimit() (limit uint64, known bool) { return 0, false }

// freeSpace is not known here.
func freeSpace(string) (free int64, known bool) { return 0, false }
