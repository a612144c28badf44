package kernels

import "fmt"

// KeptLen returns how many elements Keep stores for nk keys and values.
func (s Attention) KeptLen(nk int) int { return 2 * nk * s.Heads * s.HeadDim }

// Keep stores keys and values for RunKept, in the order in which that reads them: for a sentence that many queries attend to,
// one at a time. How they lie there is the affair of the kernels.
//
// dst: KeptLen(nk) elements. k, v: nk rows. scratch: ScratchLen(nk) elements. dst must not overlap the other slices.
func (s Attention) Keep(dst, k, v []float32, nk int, scratch []float32) {
	width := s.Heads * s.HeadDim
	need(len(dst), s.KeptLen(nk), "kept keys and values")
	need(len(k), span(nk, s.KStride, width), "keys")
	need(len(v), span(nk, s.VStride, width), "values")
	need(len(scratch), s.ScratchLen(nk), "scratch of attention")
	if nk == 0 || width == 0 {
		return
	}
	keys, values := dst[:nk*width], dst[nk*width:]
	if s.transposes() {
		s.keepTransposed(keys, k, nk, scratch)
	} else {
		for j := range nk {
			copy(keys[j*width:(j+1)*width], k[j*s.KStride:])
		}
	}
	for j := range nk {
		copy(values[j*width:(j+1)*width], v[j*s.VStride:])
	}
}

// transposes says whether the kept keys of a head are transposed, for kernels that compute the scores of 16 keys side by side:
// on amd64, for the usual sizes of heads. Otherwise they are kept in rows.
//
// Transposed, groups of 16 keys follow each other, the last one with what is left of them. A group holds the first element
// of all its keys, then the second, and so on. Nothing is padded: reading the keys is what takes most of the time.
func (s *Attention) transposes() bool { return transposesKeys && (s.HeadDim == 32 || s.HeadDim == 64) }

// keptGroup is how many keys stand side by side.
const keptGroup = 16

// keptKey returns where element 0 of key j of a head is kept, and the distance to the next element.
func keptKey(j, nk, headDim int) (first, step int) {
	group := j / keptGroup * keptGroup
	return group*headDim + j - group, min(keptGroup, nk-group)
}

func keepTransposedGeneric(s *Attention, keys, k []float32, nk int) {
	for j := range nk {
		first, step := keptKey(j, nk, s.HeadDim)
		for h := range s.Heads {
			to := keys[h*s.HeadDim*nk+first:]
			for d, e := range k[j*s.KStride+h*s.HeadDim:][:s.HeadDim] {
				to[d*step] = e
			}
		}
	}
}

// RunKept computes the attention of one query over kept keys and values, with the bits of Run over the same.
//
// out, q: a row. kept: what Keep stored for nk keys. scratch: ScratchLen(nk) elements.
func (s Attention) RunKept(out, q, kept []float32, nk int, scratch []float32) {
	width := s.Heads * s.HeadDim
	need(len(out), width, "result of attention")
	need(len(q), width, "query")
	need(len(kept), s.KeptLen(nk), "kept keys and values")
	need(len(scratch), s.ScratchLen(nk), "scratch of attention")
	if width == 0 {
		return
	}
	if nk == 0 {
		clear(out[:width])
		return
	}
	if s.transposes() {
		attendKept(&s, out, q, kept[:nk*width], kept[nk*width:2*nk*width], nk, scratch)
		return
	}
	s.KStride, s.VStride = width, width
	attend(&s, out, q, kept, kept[nk*width:], 1, nk, scratch)
}

// attendKeptGeneric is attendGeneric for one query and transposed keys.
func attendKeptGeneric(s *Attention, out, q, keys, values []float32, nk int, scratch []float32) {
	scores, width := scratch[:nk], s.Heads*s.HeadDim
	for first := 0; first < width; first += s.HeadDim {
		keptScoresGeneric(scores, q[first:first+s.HeadDim], keys[first*nk:], s.Scale)
		result := out[first:][:s.HeadDim]
		clear(result)
		inverse := 1 / expGeneric(scores, scores, maxGeneric(scores))
		for j, weight := range scores {
			addScaled(result, weight, values[j*width+first:])
		}
		scaleGeneric(result, result, inverse)
	}
}

// keptScoresGeneric sets scores[j] to query·key(j)·factor for the transposed keys of a head.
func keptScoresGeneric(scores, query, keys []float32, factor float32) {
	for j := range scores {
		first, step := keptKey(j, len(scores), len(query))
		var sums stripes
		for d, q := range query {
			sums[d%16] = fma32(q, keys[first+d*step], sums[d%16])
		}
		scores[j] = sums.sum() * factor
	}
}

// KeptWeights computes the attention weights of one query over kept keys in one head, with the bits of Weights.
//
// w: nk. q: a row. kept: what Keep stored.
func (s Attention) KeptWeights(w, q, kept []float32, nk, head int) {
	if head < 0 || head >= s.Heads {
		panic(fmt.Sprintf("kernels: head %d of %d", head, s.Heads))
	}
	if !s.transposes() {
		s.KStride = s.Heads * s.HeadDim
		s.Weights(w, q, kept, nk, head)
		return
	}
	need(len(w), nk, "attention weights")
	need(len(q), s.Heads*s.HeadDim, "query")
	need(len(kept), s.KeptLen(nk), "kept keys and values")
	if nk == 0 {
		return
	}
	first := head * s.HeadDim
	keptScoresGeneric(w[:nk], q[first:first+s.HeadDim], kept[first*nk:], s.Scale)
	Softmax(w, 1, nk, nk)
}
