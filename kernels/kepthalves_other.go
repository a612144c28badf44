//go:build !arm64 || purego

package kernels

const keepsHalves = false

func attendHalves(s *Attention, out, q []float32, keys, values []uint16, nk int, scratch []float32) {
	attendHalvesGeneric(s, out, q, keys, values, nk, scratch)
}
