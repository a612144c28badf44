//go:build !purego

package kernels

import (
	"math"
	"unsafe"

	"github.com/sluice-mt/sluice/internal/cpu"
)

const (
	// attentionTile is how many queries the tiled kernels take at a time. Fewer than tiledQueries are faster one by one,
	// since the tiled kernels transpose the keys first.
	attentionTile, tiledQueries = 4, 3
	// attentionCallWork bounds queries times keys of one head in a call of assembly.
	attentionCallWork = 1 << 16
)

// attentionCall is a use of Attention with its scratch divided.
type attentionCall struct {
	*Attention
	nk, pitch          int       // keys, and that rounded up to a multiple of 16
	kOffsets, vOffsets []int32   // where the rows of keys and values start
	floats             []float32 // for scores and transposed keys, 64-byte aligned
}

// newAttentionCall divides the scratch and notes where the keys and values start: in the rows given, or in rows 0 to nk-1.
func newAttentionCall(s *Attention, nk int, rows []int32, scratch []float32) attentionCall {
	c := attentionCall{Attention: s, nk: nk, pitch: roundUp(nk, 16)}
	skip := -uintptr(unsafe.Pointer(&scratch[0])) & 63 / 4
	scratch = scratch[skip:]
	offsets := unsafe.Slice((*int32)(unsafe.Pointer(&scratch[0])), 2*c.pitch)
	c.kOffsets, c.vOffsets, c.floats = offsets[:c.pitch], offsets[c.pitch:], scratch[2*c.pitch:]
	for j := range c.kOffsets {
		row := min(j, nk-1)
		if rows != nil {
			row = int(rows[row])
		}
		c.kOffsets[j], c.vOffsets[j] = int32(row*s.KStride), int32(row*s.VStride)
	}
	return c
}

// hasAttention reports whether the assembly can do it: offsets have 31 bits.
func hasAttention(k, v []float32) bool {
	return cpu.Active() == cpu.AVX512 && len(k) <= math.MaxInt32 && len(v) <= math.MaxInt32
}

func attend(s *Attention, out, q, k, v []float32, nq, nk int, scratch []float32) {
	if !hasAttention(k, v) {
		attendGeneric(s, out, q, k, v, nq, nk, scratch)
		return
	}
	c := newAttentionCall(s, nk, nil, scratch)
	if nq >= tiledQueries && (s.HeadDim == 32 || s.HeadDim == 64) {
		c.tiled(out, q, k, v, nq)
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

// query runs one query in one call of assembly; not inlined so that the garbage collector gets in between.
//
//go:noinline
func (c *attentionCall) query(out, q, k, v []float32) {
	attendAVX512(&out[0], &q[0], &k[0], &v[0], &c.kOffsets[0], &c.vOffsets[0], &c.floats[0], c.pitch, c.nk, c.Heads, c.HeadDim, c.Scale)
}

// tiled runs all queries, head by head, in tiles over transposed keys.
func (c *attentionCall) tiled(out, q, k, v []float32, nq int) {
	keys := c.floats[attentionTile*c.pitch:]
	perCall := roundUp(max(1, attentionCallWork/c.nk), attentionTile)
	for h := range c.Heads {
		first := h * c.HeadDim
		transposeKeysAVX512(&keys[0], &k[first], &c.kOffsets[0], c.pitch, c.HeadDim)
		for i := 0; i < nq; i += perCall {
			c.tiles(out[i*c.OutStride+first:], q[i*c.QStride+first:], keys, v[first:], min(perCall, nq-i))
		}
	}
}

//go:noinline
func (c *attentionCall) tiles(out, q, keys, v []float32, nq int) {
	if c.HeadDim == 32 {
		attendTiles32AVX512(&out[0], 4*c.OutStride, &q[0], 4*c.QStride, &keys[0], &v[0], 4*c.VStride, &c.floats[0], c.pitch, nq, c.nk, c.Scale)
		return
	}
	attendTiles64AVX512(&out[0], 4*c.OutStride, &q[0], 4*c.QStride, &keys[0], &v[0], 4*c.VStride, &c.floats[0], c.pitch, nq, c.nk, c.Scale)
}

func attentionScores(scores, query, keys []float32, stride int, factor float32) {
	attentionScoresGeneric(scores, query, keys, stride, factor)
}
