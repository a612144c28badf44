//go:build !amd64 || purego

package kernels

func hasDoubleIntegers() bool { return false }
func hasDoubleFloats() bool   { return false }
