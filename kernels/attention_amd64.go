//go:build !purego

package kernels

import (
	"math"
	"unsafe"

	"github.com/sluice-mt/sluice/internal/cpu"
)

// tiledQueries is from how many queries on the tiled kernels, which have to transpose the keys first, were measured to be
// faster than one query at a time.
const tiledQueries = 7

// attentionCall is a use of Attention with its scratch divided.
type attentionCall struct {
	*Attention
	nk, pitch          int     // keys, and that rounded up to a multiple of 16
	kOffsets, vOffsets []int32 // where the rows of keys and values start
	// For each query of a head, or each head of a query: 16 numbers of which the largest is that of its scores, 4 of which
	// the first is one over the sum of the weights (AVX2: one after the other), and its scores, which become the weights.
	maxima, inverses, scores []float32
	keys                     []float32 // of a head, transposed
}

// newAttentionCall divides the scratch and notes where the keys and values start: in the rows given, or in rows 0 to nk-1 if
// rows is nil; nowhere if it is empty.
func newAttentionCall(s *Attention, nk int, rows []int32, scratch []float32) attentionCall {
	c := attentionCall{Attention: s, nk: nk, pitch: roundUp(nk, 16)}
	skip := -uintptr(unsafe.Pointer(&scratch[0])) & 63 / 4 // to a multiple of 64 bytes
	scratch = scratch[skip:]
	take := func(n int) []float32 {
		part := scratch[:n]
		scratch = scratch[n:]
		return part
	}
	n := max(roundUp(s.Heads, 4), attentionQueries)
	c.scores, c.keys = take(n*c.pitch), take(s.HeadDim*c.pitch)
	c.maxima, c.inverses = take(16*n), take(4*n)
	offsets := unsafe.Slice((*int32)(unsafe.Pointer(&scratch[0])), 2*c.pitch)
	c.kOffsets, c.vOffsets = offsets[:c.pitch], offsets[c.pitch:]
	if rows == nil || len(rows) > 0 {
		c.locate(rows)
	}
	return c
}

// locate fills in where the keys and values start, and the last key again up to the pitch.
func (c *attentionCall) locate(rows []int32) {
	keys, values := c.kOffsets[:c.nk], c.vOffsets[:c.nk]
	if rows == nil {
		for j := range keys {
			keys[j], values[j] = int32(j*c.KStride), int32(j*c.VStride)
		}
	}
	for j, row := range rows {
		keys[j], values[j] = row*int32(c.KStride), row*int32(c.VStride)
	}
	for j := c.nk; j < c.pitch; j++ {
		c.kOffsets[j] = c.kOffsets[c.nk-1]
	}
}

// hasAttention reports whether the assembly can do it: offsets have 31 bits.
func hasAttention(k, v []float32) bool {
	return cpu.Active() > cpu.Generic && len(k) <= math.MaxInt32 && len(v) <= math.MaxInt32
}

func attend(s *Attention, out, q, k, v []float32, nq, nk int, scratch []float32) {
	if !hasAttention(k, v) {
		attendGeneric(s, out, q, k, v, nq, nk, scratch)
		return
	}
	c := newAttentionCall(s, nk, nil, scratch)
	if cpu.Active() == cpu.AVX512 && nq >= tiledQueries && (s.HeadDim == 32 || s.HeadDim == 64) {
		c.tiled(out, q, k, v, nq)
		return
	}
	if cpu.Active() == cpu.AVX2 {
		for i := 0; i < nq; i += attentionQueries {
			c.queriesAVX2(out[i*s.OutStride:], q[i*s.QStride:], k, v, min(attentionQueries, nq-i))
		}
		return
	}
	for i := range nq {
		c.query(out[i*s.OutStride:], q[i*s.QStride:], k, v)
	}
}

func attendRows(s *Attention, out, q, k, v []float32, rows []int32, scratch []float32) {
	if !hasAttention(k, v) {
		attendRowsGeneric(s, out, q, k, v, rows, scratch)
		return
	}
	c := newAttentionCall(s, len(rows), rows, scratch)
	c.query(out, q, k, v)
}

// query runs one query. It is not inlined, so that its prologue lets the garbage collector in between two queries.
//
//go:noinline
func (c *attentionCall) query(out, q, k, v []float32) {
	if cpu.Active() == cpu.AVX2 {
		c.queriesAVX2(out, q, k, v, 1)
		return
	}
	headScoresAVX512(&c.scores[0], &c.maxima[0], c.pitch, &q[0], &k[0], &c.kOffsets[0], c.nk, c.Heads, c.HeadDim, c.Scale)
	expRowsAVX512(&c.scores[0], &c.maxima[0], &c.inverses[0], c.Heads, c.pitch)
	headValuesAVX512(&out[0], &c.scores[0], &c.inverses[0], c.pitch, &v[0], &c.vOffsets[0], c.nk, c.Heads, c.HeadDim)
}

// queriesAVX2 runs some queries, head by head. The functions that it calls are not inlined: see query.
func (c *attentionCall) queriesAVX2(out, q, k, v []float32, nq int) {
	for first := 0; first < c.Heads*c.HeadDim; first += c.HeadDim {
		for i := range nq {
			c.dotsAVX2(i, q[i*c.QStride+first:], k[first:])
		}
		c.weightsAVX2(nq)
		c.valuesAVX2(out[first:], v[first:], nq)
	}
}

// dotsAVX2 multiplies the i-th query of a head with all keys.
//
//go:noinline
func (c *attentionCall) dotsAVX2(i int, q, k []float32) {
	dotsFloat32AVX2(&c.scores[i*c.pitch], &q[0], &k[0], &c.kOffsets[0], 4, c.nk, c.HeadDim)
}

// weightsAVX2 turns rows of dot products into weights.
//
//go:noinline
func (c *attentionCall) weightsAVX2(rows int) {
	attentionRowsAVX2(&c.scores[0], &c.inverses[0], rows, c.nk, c.pitch, c.Scale)
}

// valuesAVX2 sums the values of a head for the weights of some queries.
//
//go:noinline
func (c *attentionCall) valuesAVX2(out, v []float32, nq int) {
	valuesAVX2(&out[0], 4*c.OutStride, &c.scores[0], 4*c.pitch, &c.inverses[0], &v[0], &c.vOffsets[0], nq, c.nk, c.HeadDim)
}

// tiled runs all queries, head by head, over transposed keys.
func (c *attentionCall) tiled(out, q, k, v []float32, nq int) {
	for h := range c.Heads {
		first := h * c.HeadDim
		transposeKeysAVX512(&c.keys[0], &k[first], &c.kOffsets[0], c.pitch, c.HeadDim)
		for i := 0; i < nq; i += attentionQueries {
			c.tiles(out[i*c.OutStride+first:], q[i*c.QStride+first:], v[first:], min(attentionQueries, nq-i))
		}
	}
}

// tiles runs some queries of one head.
//
//go:noinline
func (c *attentionCall) tiles(out, q, v []float32, nq int) {
	scores, maxima, inverses, outStride, qStride, vStride := &c.scores[0], &c.maxima[0], &c.inverses[0], 4*c.OutStride, 4*c.QStride, 4*c.VStride
	if c.HeadDim == 32 {
		tileScores32AVX512(scores, maxima, c.pitch, &q[0], qStride, &c.keys[0], nq, c.nk, c.Scale)
		expRowsAVX512(scores, maxima, inverses, roundUp(nq, 4), c.pitch)
		tileValues32AVX512(&out[0], outStride, scores, inverses, c.pitch, &v[0], vStride, nq, c.nk)
		return
	}
	tileScores64AVX512(scores, maxima, c.pitch, &q[0], qStride, &c.keys[0], nq, c.nk, c.Scale)
	expRowsAVX512(scores, maxima, inverses, roundUp(nq, 4), c.pitch)
	tileValues64AVX512(&out[0], outStride, scores, inverses, c.pitch, &v[0], vStride, nq, c.nk)
}

// identity are the first rows in their order.
var identity = func() (rows [64]int32) {
	for i := range rows {
		rows[i] = int32(i)
	}
	return rows
}()

func attentionScores(scores, query, keys []float32, stride int, factor float32) {
	if cpu.Active() == cpu.Generic || len(query) == 0 {
		attentionScoresGeneric(scores, query, keys, stride, factor)
		return
	}
	for first := 0; first < len(scores); first += len(identity) {
		n := min(len(identity), len(scores)-first)
		dotsFloat32AVX2(&scores[first], &query[0], &keys[first*stride], &identity[0], 4*stride, n, len(query))
	}
	scale(scores, scores, factor)
}
