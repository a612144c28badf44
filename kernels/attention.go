package kernels

import "fmt"

// Attention is scaled dot-product attention with several heads: softmax(q·kᵀ·Scale)·v, head by head.
//
// Rows of queries, keys, values and results hold the heads side by side (Heads·HeadDim elements); the strides are the
// elements from row to row. Each score is a striped dot product with FMA, then multiplied by Scale. A result is one FMA
// chain Σ w·v in the order of the keys, with w = e^(score-max), then multiplied by 1/Σw (a striped sum).
type Attention struct {
	Heads, HeadDim                       int
	Scale                                float32
	QStride, KStride, VStride, OutStride int

	// KeepBFloat16 makes Keep round keys and values to bfloat16, so that they take half the memory where the kernels can read
	// them so. RunKept has the bits of Run over the rounded ones then.
	KeepBFloat16 bool
}

// ScratchLen returns how many elements of scratch Run and RunRows need for nk keys.
func (s Attention) ScratchLen(nk int) int {
	rows := max(roundUp(s.Heads, 4), attentionQueries)
	return 16 + (rows+s.HeadDim+2)*roundUp(nk, 16) + 20*rows
}

// attentionQueries is how many queries of a head are computed together.
const attentionQueries = 16

// Run computes the attention of nq queries over nk keys and values. Without keys the result is zero.
//
// out, q: nq rows. k, v: nk rows. scratch: ScratchLen(nk) elements, whose content does not matter.
// out must not overlap the other slices.
func (s Attention) Run(out, q, k, v []float32, nq, nk int, scratch []float32) {
	width := s.Heads * s.HeadDim
	need(len(out), span(nq, s.OutStride, width), "result of attention")
	need(len(q), span(nq, s.QStride, width), "queries")
	need(len(k), span(nk, s.KStride, width), "keys")
	need(len(v), span(nk, s.VStride, width), "values")
	need(len(scratch), s.ScratchLen(nk), "scratch of attention")
	if nq == 0 || width == 0 {
		return
	}
	if nk == 0 {
		for i := range nq {
			clear(out[i*s.OutStride:][:width])
		}
		return
	}
	attend(&s, out, q, k, v, nq, nk, scratch)
}

// RunRows computes the attention of one query where key and value i are the rows rows[i] of k and v: the caches of a
// decoder, whose rows move when hypotheses do. The result has the bits of Run over the same keys and values.
//
// scratch: ScratchLen(len(rows)) elements. A row outside of k or v panics.
func (s Attention) RunRows(out, q, k, v []float32, rows []int32, scratch []float32) {
	width := s.Heads * s.HeadDim
	need(len(out), width, "result of attention")
	need(len(q), width, "query")
	need(len(scratch), s.ScratchLen(len(rows)), "scratch of attention")
	if width == 0 {
		return
	}
	if len(rows) == 0 {
		clear(out[:width])
		return
	}
	checkIDs(rows, min(rowsIn(len(k), s.KStride, width), rowsIn(len(v), s.VStride, width)))
	attendRows(&s, out, q, k, v, rows, scratch)
}

// Weights computes the attention weights of one query over nk keys in one head: w = softmax(q·kᵀ·Scale).
//
// w: nk. q: one row of queries. k: nk rows.
func (s Attention) Weights(w, q, k []float32, nk, head int) {
	width := s.Heads * s.HeadDim
	if head < 0 || head >= s.Heads {
		panic(fmt.Sprintf("kernels: head %d of %d", head, s.Heads))
	}
	need(len(w), nk, "attention weights")
	need(len(q), width, "query")
	need(len(k), span(nk, s.KStride, width), "keys")
	if nk == 0 {
		return
	}
	first := head * s.HeadDim
	w = w[:nk]
	attentionScores(w, q[first:first+s.HeadDim], k[first:], s.KStride, s.Scale)
	Softmax(w, 1, nk, nk)
}

// rowsIn returns how many rows of n elements, stride apart, lie in a slice of the length given.
func rowsIn(length, stride, n int) int {
	if length < n || stride <= 0 {
		return 0
	}
	return (length-n)/stride + 1
}

func attendGeneric(s *Attention, out, q, k, v []float32, nq, nk int, scratch []float32) {
	scores := scratch[:nk]
	for i := range nq {
		for first := 0; first < s.Heads*s.HeadDim; first += s.HeadDim {
			attentionScoresGeneric(scores, q[i*s.QStride+first:][:s.HeadDim], k[first:], s.KStride, s.Scale)
			result := out[i*s.OutStride+first:][:s.HeadDim]
			clear(result)
			inverse := 1 / expGeneric(scores, scores, maxGeneric(scores))
			for j, weight := range scores {
				addScaled(result, weight, v[j*s.VStride+first:])
			}
			scaleGeneric(result, result, inverse)
		}
	}
}

func attendRowsGeneric(s *Attention, out, q, k, v []float32, rows []int32, scratch []float32) {
	scores := scratch[:len(rows)]
	for first := 0; first < s.Heads*s.HeadDim; first += s.HeadDim {
		query := q[first:][:s.HeadDim]
		for j, row := range rows {
			scores[j] = dotGeneric(query, k[int(row)*s.KStride+first:][:s.HeadDim]) * s.Scale
		}
		result := out[first:][:s.HeadDim]
		clear(result)
		inverse := 1 / expGeneric(scores, scores, maxGeneric(scores))
		for j, row := range rows {
			addScaled(result, scores[j], v[int(row)*s.VStride+first:])
		}
		scaleGeneric(result, result, inverse)
	}
}

// attentionScoresGeneric sets scores[j] to query·key(j)·factor.
func attentionScoresGeneric(scores, query, keys []float32, stride int, factor float32) {
	for j := range scores {
		scores[j] = dotGeneric(query, keys[j*stride:][:len(query)]) * factor
	}
}
