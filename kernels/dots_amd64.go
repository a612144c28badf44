//go:build !purego

package kernels

import (
	"math"
	"unsafe"

	"github.com/sluice-mt/sluice/internal/cpu"
)

func dotRowsInt8(y []float32, a []uint8, aScale float32, t *Int8Rows, ids []int32, bias []float32) {
	if cpu.Active() < cpu.AVX512 || t.K == 0 {
		dotRowsInt8Generic(y, a, aScale, t, ids, bias)
		return
	}
	for len(ids) > 0 {
		n := min(len(ids), max(16, callWork/4/t.stride&^15))
		dotRowsInt8Call(y, a, aScale, t, ids[:n], bias)
		y, ids = y[n:], ids[n:]
	}
}

//go:noinline
func dotRowsInt8Call(y []float32, a []uint8, aScale float32, t *Int8Rows, ids []int32, bias []float32) {
	dotRowsInt8AVX512(&y[0], &a[0], aScale, &t.rows[0], t.stride, &t.corrections[0], &t.scales[0], &ids[0], len(ids), element(bias, 0))
}

func dotRowsFloat32(y, x, table []float32, k int, ids []int32, bias []float32) {
	if cpu.Active() < cpu.AVX512 || k == 0 {
		dotRowsFloat32Generic(y, x, table, k, ids, bias)
		return
	}
	for len(ids) > 0 {
		n := min(len(ids), max(16, callWork/16/k&^15))
		dotRowsFloat32Call(y, x, table, k, ids[:n], bias)
		y, ids = y[n:], ids[n:]
	}
}

//go:noinline
func dotRowsFloat32Call(y, x, table []float32, k int, ids []int32, bias []float32) {
	dotRowsFloat32AVX512(&y[0], &x[0], &table[0], 4*k, &ids[0], len(ids), element(bias, 0))
}

// attentionCall is one call of attention, its scratch divided: scores, then where the rows of keys and values start.
type attentionCall struct {
	*Attention
	scores             []float32
	kOffsets, vOffsets []int32
	nk                 int
}

// newAttentionCall divides the scratch. It reports false if an offset could exceed 31 bits.
func newAttentionCall(s *Attention, k, v []float32, nk int, scratch []float32) (c attentionCall, ok bool) {
	if len(k) > math.MaxInt32 || len(v) > math.MaxInt32 {
		return c, false
	}
	n := roundUp(nk, 16)
	offsets := unsafe.Slice((*int32)(unsafe.Pointer(&scratch[n])), 2*n)
	return attentionCall{s, scratch[:n], offsets[:n], offsets[n:], nk}, true
}

func attend(s *Attention, out, q, k, v []float32, nq, nk int, scratch []float32) {
	c, ok := newAttentionCall(s, k, v, nk, scratch)
	if cpu.Active() < cpu.AVX512 || !ok {
		attendGeneric(s, out, q, k, v, nq, nk, scratch)
		return
	}
	for j := range c.kOffsets {
		row := min(j, nk-1)
		c.kOffsets[j], c.vOffsets[j] = int32(row*s.KStride), int32(row*s.VStride)
	}
	for i := range nq {
		c.query(out[i*s.OutStride:], q[i*s.QStride:], k, v)
	}
}

func attendRows(s *Attention, out, q, k, v []float32, rows []int32, scratch []float32) {
	c, ok := newAttentionCall(s, k, v, len(rows), scratch)
	if cpu.Active() < cpu.AVX512 || !ok {
		attendRowsGeneric(s, out, q, k, v, rows, scratch)
		return
	}
	for j := range c.kOffsets {
		row := int(rows[min(j, len(rows)-1)])
		c.kOffsets[j], c.vOffsets[j] = int32(row*s.KStride), int32(row*s.VStride)
	}
	c.query(out, q, k, v)
}

// query runs one query in one call of assembly; not inlined so that the garbage collector gets in between.
//
//go:noinline
func (c *attentionCall) query(out, q, k, v []float32) {
	attendAVX512(&out[0], &q[0], &k[0], &v[0], &c.kOffsets[0], &c.vOffsets[0], &c.scores[0], c.nk, c.Heads, c.HeadDim, c.Scale)
}

func attentionScores(scores, query, keys []float32, stride int, factor float32) {
	attentionScoresGeneric(scores, query, keys, stride, factor)
}
