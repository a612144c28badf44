//go:build !purego

package kernels

import (
	"math"
	"unsafe"

	"github.com/sluice-mt/sluice/internal/cpu"
)

// hasDots reports whether the assembly computes dot products of k elements.
func hasDots(k int) bool { return cpu.Active() != cpu.Generic && k > 0 && k%16 == 0 }

func dotRowsFloat32(y, x, table []float32, k int, ids []int32, bias []float32) {
	if !hasDots(k) {
		dotRowsFloat32Generic(y, x, table, k, ids, bias)
		return
	}
	for len(ids) > 0 {
		n := min(len(ids), max(16, callWorkNEON/k))
		dotRowsFloat32Call(y, x, table, k, ids[:n], bias)
		y, ids = y[n:], ids[n:]
	}
}

//go:noinline
func dotRowsFloat32Call(y, x, table []float32, k int, ids []int32, bias []float32) {
	dotsFloat32NEON(&y[0], &x[0], &table[0], &ids[0], 4*k, len(ids), k)
	for i, id := range ids {
		y[i] += biasAt(bias, int(id))
	}
}

// attentionCall is a use of Attention with its scratch divided.
type attentionCall struct {
	*Attention
	scores             []float32 // of a head, which become the weights
	kOffsets, vOffsets []int32   // where the rows of keys and values start
}

// newAttentionCall divides the scratch, of which nk elements are for each of its parts. Rows of keys and values are those
// given, or 0 to nk-1.
func newAttentionCall(s *Attention, nk int, rows []int32, scratch []float32) attentionCall {
	offsets := unsafe.Slice((*int32)(unsafe.Pointer(&scratch[nk])), 2*nk)
	c := attentionCall{s, scratch[:nk], offsets[:nk], offsets[nk:]}
	for j := range nk {
		row := int32(j)
		if rows != nil {
			row = rows[j]
		}
		c.kOffsets[j], c.vOffsets[j] = row*int32(s.KStride), row*int32(s.VStride)
	}
	return c
}

// hasAttention reports whether the assembly can do it: offsets have 31 bits.
func hasAttention(s *Attention, k, v []float32) bool {
	return hasDots(s.HeadDim) && len(k) <= math.MaxInt32 && len(v) <= math.MaxInt32
}

func attend(s *Attention, out, q, k, v []float32, nq, nk int, scratch []float32) {
	if !hasAttention(s, k, v) {
		attendGeneric(s, out, q, k, v, nq, nk, scratch)
		return
	}
	c := newAttentionCall(s, nk, nil, scratch)
	for i := range nq {
		c.query(out[i*s.OutStride:], q[i*s.QStride:], k, v)
	}
}

func attendRows(s *Attention, out, q, k, v []float32, rows []int32, scratch []float32) {
	if !hasAttention(s, k, v) {
		attendRowsGeneric(s, out, q, k, v, rows, scratch)
		return
	}
	c := newAttentionCall(s, len(rows), rows, scratch)
	c.query(out, q, k, v)
}

// query runs one query, head by head. It is not inlined, so that its prologue lets the garbage collector in between two
// queries.
//
//go:noinline
func (c *attentionCall) query(out, q, k, v []float32) {
	nk := len(c.scores)
	for first := 0; first < c.Heads*c.HeadDim; first += c.HeadDim {
		dotsFloat32NEON(&c.scores[0], &q[first], &k[first], &c.kOffsets[0], 4, nk, c.HeadDim)
		inverse := c.weights()
		d := first
		for ; d+32 <= first+c.HeadDim; d += 32 {
			values32NEON(&out[d], &c.scores[0], &v[d], &c.vOffsets[0], nk, inverse)
		}
		if d < first+c.HeadDim {
			values16NEON(&out[d], &c.scores[0], &v[d], &c.vOffsets[0], nk, inverse)
		}
	}
}

// weights makes weights of the products with keys, and returns what they are to be multiplied with.
func (c *attentionCall) weights() (inverse float32) {
	scale(c.scores, c.scores, c.Scale)
	return 1 / exp(c.scores, maximum(c.scores))
}

// identity are the first rows in their order.
var identity = func() (rows [64]int32) {
	for i := range rows {
		rows[i] = int32(i)
	}
	return rows
}()

func attentionScores(scores, query, keys []float32, stride int, factor float32) {
	if !hasDots(len(query)) {
		attentionScoresGeneric(scores, query, keys, stride, factor)
		return
	}
	for first := 0; first < len(scores); first += len(identity) {
		n := min(len(identity), len(scores)-first)
		dotsFloat32NEON(&scores[first], &query[0], &keys[first*stride], &identity[0], 4*stride, n, len(query))
	}
	scale(scores, scores, factor)
}
