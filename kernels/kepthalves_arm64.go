//go:build !purego

package kernels

import "math"

const keepsHalves = true

func attendHalves(s *Attention, out, q []float32, keys, values []uint16, nk int, scratch []float32) {
	if !hasDots(s.HeadDim) || len(keys) > math.MaxInt32 {
		attendHalvesGeneric(s, out, q, keys, values, nk, scratch)
		return
	}
	c := newAttentionCall(s, nk, nil, scratch)
	c.queryHalves(out, q, keys, values)
}

// queryHalves is query for rows of bfloat16.
//
//go:noinline
func (c *attentionCall) queryHalves(out, q []float32, keys, values []uint16) {
	nk := len(c.scores)
	for first := 0; first < c.Heads*c.HeadDim; first += c.HeadDim {
		dotsBFloat16NEON(&c.scores[0], &q[first], &keys[first], &c.kOffsets[0], 2, nk, c.HeadDim)
		inverse := c.weights()
		d := first
		for ; d+32 <= first+c.HeadDim; d += 32 {
			valuesBFloat16x32NEON(&out[d], &c.scores[0], &values[d], &c.vOffsets[0], nk, inverse)
		}
		if d < first+c.HeadDim {
			valuesBFloat16x16NEON(&out[d], &c.scores[0], &values[d], &c.vOffsets[0], nk, inverse)
		}
	}
}
