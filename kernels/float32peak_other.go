//go:build !amd64 || purego

package kernels

// float32Burst does about n float32 multiply-accumulates and returns how many.
func float32Burst(n int) int { return float32BurstProduct(n) }
