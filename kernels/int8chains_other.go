//go:build !amd64 || purego

package kernels

func packsChains(int) bool { return false }
