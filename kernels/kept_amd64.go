//go:build !purego

package kernels

import "github.com/sluice-mt/sluice/internal/cpu"

const transposesKeys = true

// sumsHeadByHead reports whether the values of one head after the other are summed.
func sumsHeadByHead() bool { return cpu.Active() == cpu.AVX2 }

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

// keepPairs makes pairs of keys and values. Keys are transposed in the scratch, where elements 16 apart are 16·16 apart.
func (s *Attention) keepPairs(keys, values, k, v []float32, nk int, scratch []float32) {
	switch {
	case cpu.Active() == cpu.AVX2:
		s.keepPairsAVX2(keys, values, k, v, nk, scratch)
		return
	case cpu.Active() != cpu.AVX512 || !hasAttention(k, v):
		keepPairsGeneric(s, keys, values, k, v, nk)
		return
	}
	c := newAttentionCall(s, nk, nil, scratch)
	width, words := s.Heads*s.HeadDim, s.HeadDim/2
	for first := 0; first < width; first += s.HeadDim {
		to := keys[first*nk/2:][:words*nk]
		for j := 0; j < nk; j += keptGroup {
			n := min(keptGroup, nk-j)
			transposeKeysAVX512(&c.keys[0], &k[first], &c.kOffsets[j], keptGroup, s.HeadDim)
			for half := 0; half < words; half += 16 {
				pairsAVX512(&to[j*words+half*n], &c.keys[2*half*keptGroup], keptGroup*keptGroup, 16, n, n, keptGroup)
			}
		}
	}
	for j := range nk {
		pairsAVX512(&values[j*width/2], &v[j*s.VStride], 16, width/32, 16, 16, 32)
	}
}

// keepPairsAVX2 makes the pairs of a key, or of a value, in the scratch, and takes them from there.
func (s *Attention) keepPairsAVX2(keys, values, k, v []float32, nk int, scratch []float32) {
	width, words := s.Heads*s.HeadDim, s.HeadDim/2
	row := scratch[:width/2]
	for j := range nk {
		pairsAVX2(&row[0], &k[j*s.KStride], width/32)
		first, step := keptKey(j, nk, words)
		for h := range s.Heads {
			to := keys[h*words*nk+first:]
			for w, word := range row[h*words:][:words] {
				to[w*step] = word
			}
		}
		pairsAVX2(&row[0], &v[j*s.VStride], width/32)
		for h := range s.Heads {
			copy(values[s.pairedValue(h, j, nk):][:words], row[h*words:])
		}
	}
}

func attendKept(s *Attention, out, q, keys, values []float32, nk int, scratch []float32) {
	if !hasAttention(keys, values) {
		attendKeptGeneric(s, out, q, keys, values, nk, scratch)
		return
	}
	c := newAttentionCall(s, nk, none, scratch)
	switch wide, pairs := cpu.Active() == cpu.AVX512, s.pairs(); {
	case wide && pairs:
		c.keptPairs(out, q, keys, values)
	case wide:
		c.kept(out, q, keys, values)
	case pairs:
		c.keptPairsAVX2(out, q, keys, values)
	default:
		c.keptAVX2(out, q, keys, values)
	}
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

// keptPairs is kept for pairs.
//
//go:noinline
func (c *attentionCall) keptPairs(out, q, keys, values []float32) {
	scores, maxima, inverses, stride := &c.scores[0], &c.maxima[0], &c.inverses[0], 2*c.Heads*c.HeadDim
	if c.HeadDim == 32 {
		keptPairScores32AVX512(scores, maxima, c.pitch, &q[0], &keys[0], c.nk, c.Heads, c.Scale)
		expRowsAVX512(scores, maxima, inverses, c.Heads, c.pitch)
		keptPairValues32AVX512(&out[0], scores, inverses, c.pitch, &values[0], stride, c.nk, c.Heads)
		return
	}
	keptPairScores64AVX512(scores, maxima, c.pitch, &q[0], &keys[0], c.nk, c.Heads, c.Scale)
	expRowsAVX512(scores, maxima, inverses, c.Heads, c.pitch)
	keptPairValues64AVX512(&out[0], scores, inverses, c.pitch, &values[0], stride, c.nk, c.Heads)
}

// keptPairsAVX2 is keptAVX2 for pairs.
//
//go:noinline
func (c *attentionCall) keptPairsAVX2(out, q, keys, values []float32) {
	for h := range c.Heads {
		first, scores := h*c.HeadDim, &c.scores[h*c.pitch]
		if c.HeadDim == 32 {
			keptPairDots32AVX2(scores, &q[first], &keys[first*c.nk/2], c.nk)
		} else {
			keptPairDots64AVX2(scores, &q[first], &keys[first*c.nk/2], c.nk)
		}
	}
	c.weightsAVX2(c.Heads)
	for h, inverse := range c.inverses[:c.Heads] {
		first, scores, value := h*c.HeadDim, &c.scores[h*c.pitch], &values[c.pairedValue(h, 0, c.nk)]
		if c.HeadDim == 32 {
			keptPairValues32AVX2(&out[first], scores, value, 2*c.HeadDim, c.nk, inverse)
		} else {
			keptPairValues64AVX2(&out[first], scores, value, 2*c.HeadDim, c.nk, inverse)
		}
	}
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
		c.weightsAVX2(1)
		c.valuesAVX2(out[first:], values[first:], 1)
	}
}
