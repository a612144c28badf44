//go:build !amd64 || purego

package kernels

func packsPairs(int) bool { return false }
