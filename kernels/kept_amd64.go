//go:build !purego

package kernels

import "github.com/sluice-mt/sluice/internal/cpu"

const transposesKeys = true

// keepTransposed transposes the keys head by head, 16 at a time; the last ones in the scratch, where there is room for 16.
func (s *Attention) keepTransposed(keys, k []float32, nk int, scratch []float32) {
	if cpu.Active() != cpu.AVX512 || !hasAttention(k, k) {
		keepTransposedGeneric(s, keys, k, nk)
		return
	}
	c := newAttentionCall(s, nk, nil, scratch)
	for first := 0; first < s.Heads*s.HeadDim; first += s.HeadDim {
		to := keys[first*nk:][:s.HeadDim*nk]
		for j := 0; j < nk; j += keptGroup {
			n, group := min(keptGroup, nk-j), to[j*s.HeadDim:]
			if n == keptGroup {
				transposeKeysAVX512(&group[0], &k[first], &c.kOffsets[j], keptGroup, s.HeadDim)
				continue
			}
			transposeKeysAVX512(&c.keys[0], &k[first], &c.kOffsets[j], keptGroup, s.HeadDim)
			for d := range s.HeadDim {
				copy(group[d*n:(d+1)*n], c.keys[d*keptGroup:])
			}
		}
	}
}

func attendKept(s *Attention, out, q, keys, values []float32, nk int, scratch []float32) {
	if !hasAttention(keys, values) {
		attendKeptGeneric(s, out, q, keys, values, nk, scratch)
		return
	}
	c := newAttentionCall(s, nk, none, scratch)
	if cpu.Active() == cpu.AVX2 {
		c.keptAVX2(out, q, keys, values)
		return
	}
	c.kept(out, q, keys, values)
}

// none are no rows: the keys and values are not to be located.
var none = []int32{}

// kept runs one query over kept keys and values.
//
//go:noinline
func (c *attentionCall) kept(out, q, keys, values []float32) {
	scores, maxima, inverses, stride := &c.scores[0], &c.maxima[0], &c.inverses[0], 4*c.Heads*c.HeadDim
	if c.HeadDim == 32 {
		keptScores32AVX512(scores, maxima, c.pitch, &q[0], &keys[0], c.nk, c.Heads, c.Scale)
		expRowsAVX512(scores, maxima, inverses, c.Heads, c.pitch)
		keptValues32AVX512(&out[0], scores, inverses, c.pitch, &values[0], stride, c.nk, c.Heads)
		return
	}
	keptScores64AVX512(scores, maxima, c.pitch, &q[0], &keys[0], c.nk, c.Heads, c.Scale)
	expRowsAVX512(scores, maxima, inverses, c.Heads, c.pitch)
	keptValues64AVX512(&out[0], scores, inverses, c.pitch, &values[0], stride, c.nk, c.Heads)
}

// keptAVX2 runs one query, head by head.
//
//go:noinline
func (c *attentionCall) keptAVX2(out, q, keys, values []float32) {
	width := c.Heads * c.HeadDim
	for j := range c.vOffsets[:c.nk] {
		c.vOffsets[j] = int32(j * width)
	}
	scores := &c.scores[0]
	for first := 0; first < width; first += c.HeadDim {
		if c.HeadDim == 32 {
			keptDots32AVX2(scores, &q[first], &keys[first*c.nk], c.nk)
		} else {
			keptDots64AVX2(scores, &q[first], &keys[first*c.nk], c.nk)
		}
		inverse := attentionWeightsAVX2(scores, c.nk, c.Scale)
		valuesAVX2(&out[first], scores, &values[first], &c.vOffsets[0], c.nk, c.HeadDim, inverse)
	}
}
