package kernels

import (
	"math"
	"unsafe"
)

// halves says whether keys and values are kept as rows of bfloat16, for kernels that widen them as they are read: on arm64, where a head is whole
// groups of 16 elements. Reading them takes half of what rows of float32 do.
func (s *Attention) halves() bool { return keepsHalves && s.KeepBFloat16 && s.HeadDim%16 == 0 }

// halvesOf returns the two bfloat16 that are in each element's place.
func halvesOf(x []float32) []uint16 {
	return unsafe.Slice((*uint16)(unsafe.Pointer(unsafe.SliceData(x))), 2*len(x))
}

// keepHalves rounds keys and values to rows.
func (s *Attention) keepHalves(keys, values []uint16, k, v []float32, nk int) {
	width := s.Heads * s.HeadDim
	ToBFloat16(keys, k, s.KStride, nk, width)
	ToBFloat16(values, v, s.VStride, nk, width)
}

// attendHalvesGeneric is attendGeneric for one query and rows of bfloat16.
func attendHalvesGeneric(s *Attention, out, q []float32, keys, values []uint16, nk int, scratch []float32) {
	scores, width := scratch[:nk], s.Heads*s.HeadDim
	for first := 0; first < width; first += s.HeadDim {
		s.halfScores(scores, q[first:][:s.HeadDim], keys[first:])
		result := out[first:][:s.HeadDim]
		clear(result)
		inverse := 1 / expGeneric(scores, scores, maxGeneric(scores))
		for j, weight := range scores {
			for d, b := range values[j*width+first:][:s.HeadDim] {
				result[d] = fma32(weight, widened(b), result[d])
			}
		}
		scaleGeneric(result, result, inverse)
	}
}

// halfScores sets scores[j] to query·key(j)·Scale for the keys of the head with which keys begin.
func (s *Attention) halfScores(scores, query []float32, keys []uint16) {
	for j := range scores {
		scores[j] = dotBFloat16Generic(query, keys[j*s.Heads*s.HeadDim:]) * s.Scale
	}
}

// dotBFloat16Generic is dotGeneric for bfloat16.
func dotBFloat16Generic(x []float32, row []uint16) float32 {
	var s stripes
	for i, v := range x {
		s[i%16] = fma32(v, widened(row[i]), s[i%16])
	}
	return s.sum()
}

// widened returns the number, also if it is denormal.
func widened(b uint16) float32 { return math.Float32frombits(uint32(b) << 16) }
