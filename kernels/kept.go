package kernels

import (
	"fmt"
	"math"
)

// KeptLen returns how many elements Keep stores for nk keys and values.
func (s Attention) KeptLen(nk int) int {
	if s.pairs() || s.halves() {
		return nk * s.Heads * s.HeadDim
	}
	return 2 * nk * s.Heads * s.HeadDim
}

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
	keys, values := s.kept(dst, nk)
	switch {
	case s.pairs():
		s.keepPairs(keys, values, k, v, nk, scratch)
		return
	case s.halves():
		s.keepHalves(halvesOf(keys), halvesOf(values), k, v, nk)
		return
	case s.transposes():
		s.keepTransposed(keys, k, nk, scratch)
	default:
		keepRows(keys, k, nk, width, s.KStride, s.KeepBFloat16)
	}
	keepRows(values, v, nk, width, s.VStride, s.KeepBFloat16)
}

// kept returns the two halves of what Keep stores.
func (s *Attention) kept(dst []float32, nk int) (keys, values []float32) {
	n := s.KeptLen(nk)
	return dst[: n/2 : n/2], dst[n/2 : n : n]
}

// keepRows copies rows, rounded to bfloat16 if round is set.
func keepRows(dst, from []float32, rows, width, stride int, round bool) {
	for j := range rows {
		row := dst[j*width : (j+1)*width]
		copy(row, from[j*stride:])
		if !round {
			continue
		}
		for i, v := range row {
			row[i] = rounded(v)
		}
	}
}

// rounded returns v rounded to bfloat16.
func rounded(v float32) float32 { return math.Float32frombits(uint32(toBFloat16(v)) << 16) }

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

// pairs says whether keys and values are kept as pairs of bfloat16: those that are transposed, if they are to be rounded.
//
// A pair is the bits of an element in the lower half of a word, of the 16th after it in the upper half; so the elements of
// a head, 32 or 64, become 16 or 32 words, which take the places of as many elements: of a transposed key, or of a value.
// Two instructions for a register of words make two registers of elements in their order.
func (s *Attention) pairs() bool { return s.KeepBFloat16 && s.transposes() }

// pairedValue returns where value j of a head is kept in pairs: beside those of the other heads, for kernels that sum all heads
// together, or beside the other values of its head, for those that have registers for one head. Both read in the order of memory.
func (s *Attention) pairedValue(head, j, nk int) int {
	words := s.HeadDim / 2
	if sumsHeadByHead() {
		return (head*nk + j) * words
	}
	return (j*s.Heads + head) * words
}

// pairOf returns the word that element d of a head is in, and the bits to shift it to the upper half.
func pairOf(d int) (word int, shift uint) {
	return d/32*16 + d%16, uint(16 - d%32/16*16)
}

// paired returns an element of a pair.
func paired(word float32, shift uint) float32 {
	return math.Float32frombits(math.Float32bits(word) << shift & 0xffff0000)
}

// pair makes a pair of two elements.
func pair(low, high float32) float32 {
	return math.Float32frombits(uint32(toBFloat16(high))<<16 | uint32(toBFloat16(low)))
}

func keepPairsGeneric(s *Attention, keys, values, k, v []float32, nk int) {
	words := s.HeadDim / 2
	for j := range nk {
		first, step := keptKey(j, nk, words)
		for h := range s.Heads {
			key, value := k[j*s.KStride+h*s.HeadDim:][:s.HeadDim], v[j*s.VStride+h*s.HeadDim:][:s.HeadDim]
			toKey, toValue := keys[h*words*nk+first:], values[s.pairedValue(h, j, nk):][:words]
			for w := range words {
				d := w/16*32 + w%16
				toKey[w*step] = pair(key[d], key[d+16])
				toValue[w] = pair(value[d], value[d+16])
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
	keys, values := s.kept(kept, nk)
	if s.transposes() {
		attendKept(&s, out, q, keys, values, nk, scratch)
		return
	}
	s.KStride, s.VStride = width, width
	if s.halves() {
		attendHalves(&s, out, q, halvesOf(keys), halvesOf(values), nk, scratch)
		return
	}
	attend(&s, out, q, keys, values, 1, nk, scratch)
}

// attendKeptGeneric is attendGeneric for one query and transposed keys.
func attendKeptGeneric(s *Attention, out, q, keys, values []float32, nk int, scratch []float32) {
	scores, width := scratch[:nk], s.Heads*s.HeadDim
	for first := 0; first < width; first += s.HeadDim {
		s.keptScores(scores, q[first:first+s.HeadDim], keys, first)
		result := out[first:][:s.HeadDim]
		clear(result)
		inverse := 1 / expGeneric(scores, scores, maxGeneric(scores))
		for j, weight := range scores {
			if s.pairs() {
				addScaledPairs(result, weight, values[s.pairedValue(first/s.HeadDim, j, nk):])
			} else {
				addScaled(result, weight, values[j*width+first:])
			}
		}
		scaleGeneric(result, result, inverse)
	}
}

// addScaledPairs is addScaled for elements in pairs.
func addScaledPairs(sums []float32, weight float32, words []float32) {
	for d := range sums {
		word, shift := pairOf(d)
		sums[d] = fma32(weight, paired(words[word], shift), sums[d])
	}
}

// keptScores sets scores[j] to query·key(j)·Scale for the transposed keys of the head whose elements begin at first.
func (s *Attention) keptScores(scores, query, keys []float32, first int) {
	nk := len(scores)
	if s.pairs() {
		keys = keys[first*nk/2:]
	} else {
		keys = keys[first*nk:]
	}
	for j := range scores {
		var sums stripes
		if s.pairs() {
			at, step := keptKey(j, nk, s.HeadDim/2)
			for d, q := range query {
				word, shift := pairOf(d)
				sums[d%16] = fma32(q, paired(keys[at+word*step], shift), sums[d%16])
			}
		} else {
			at, step := keptKey(j, nk, s.HeadDim)
			for d, q := range query {
				sums[d%16] = fma32(q, keys[at+d*step], sums[d%16])
			}
		}
		scores[j] = sums.sum() * s.Scale
	}
}

// KeptWeights computes the attention weights of one query over kept keys and values in one head, with the bits of Weights.
//
// w: nk. q: a row. kept: what Keep stored.
func (s Attention) KeptWeights(w, q, kept []float32, nk, head int) {
	if head < 0 || head >= s.Heads {
		panic(fmt.Sprintf("kernels: head %d of %d", head, s.Heads))
	}
	need(len(w), nk, "attention weights")
	need(len(q), s.Heads*s.HeadDim, "query")
	need(len(kept), s.KeptLen(nk), "kept keys and values")
	keys, _ := s.kept(kept, nk)
	if !s.transposes() && !s.halves() {
		s.KStride = s.Heads * s.HeadDim
		s.Weights(w, q, keys, nk, head)
		return
	}
	if nk == 0 {
		return
	}
	first := head * s.HeadDim
	query := q[first : first+s.HeadDim]
	if s.halves() {
		s.halfScores(w[:nk], query, halvesOf(keys)[first:])
	} else {
		s.keptScores(w[:nk], query, keys, first)
	}
	Softmax(w, 1, nk, nk)
}
