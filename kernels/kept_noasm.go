//go:build !amd64 || purego

package kernels

const transposesKeys = false

func sumsHeadByHead() bool { return false }

func (s *Attention) keepTransposed(keys, k []float32, nk int, _ []float32) {
	keepTransposedGeneric(s, keys, k, nk)
}

func (s *Attention) keepPairs(keys, values, k, v []float32, nk int, _ []float32) {
	keepPairsGeneric(s, keys, values, k, v, nk)
}

func attendKept(s *Attention, out, q, keys, values []float32, nk int, scratch []float32) {
	attendKeptGeneric(s, out, q, keys, values, nk, scratch)
}
