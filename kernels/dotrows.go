package kernels

import (
	"fmt"
	"math"
	"unsafe"

	"github.com/sluice-mt/sluice/internal/hugepage"
)

// Int8Rows is a table of n rows of k int8 weights, with a scale for each row: the output layer, of which a decoder step
// needs only the rows on its shortlist.
type Int8Rows struct {
	N, K int

	stride      int    // bytes from row to row: Int8Stride(K), padded with zeros
	rows        []int8 // 64-byte aligned
	corrections []int32
	scales      []float32
}

// PackInt8Rows packs n×k row-major weights, in [-127, 127], with one scale per row. It panics if k exceeds MaxInt8K.
//
// Weights that can be multiplied where they are, that begin at a multiple of 64 bytes and of which a row is such a multiple, are not copied,
// and must not be changed.
func PackInt8Rows(n, k int, weights []int8, scales []float32) *Int8Rows {
	if k < 0 || k > MaxInt8K || n < 0 {
		panic(fmt.Sprintf("kernels: %d int8 rows of %d", n, k))
	}
	need(len(weights), n*k, "weights of int8 rows")
	need(len(scales), n, "scales of int8 rows")
	t := &Int8Rows{
		N: n, K: k, stride: Int8Stride(k),
		rows:        paddedRows(n, k, weights),
		corrections: make([]int32, n),
		scales:      append([]float32(nil), scales[:n]...),
	}
	for i := range n {
		for _, q := range weights[i*k : (i+1)*k] {
			t.corrections[i] -= int8Zero * int32(q)
		}
	}
	return t
}

// paddedRows returns n rows of k weights, Int8Stride(k) bytes apart from a multiple of 64 bytes on.
func paddedRows(n, k int, weights []int8) []int8 {
	stride := Int8Stride(k)
	if stride == k && uintptr(unsafe.Pointer(unsafe.SliceData(weights)))%int8Align == 0 {
		return weights[:n*k]
	}
	rows := hugepage.Make[int8](n * stride)
	for i := range n {
		copy(rows[i*stride:], weights[i*k:(i+1)*k])
	}
	return rows
}

// An Int8Choice is chosen rows of an Int8Rows, with what finishes their sums side by side: in the table it lies as far apart as the rows,
// and a choice is multiplied many times. The zero choice has no rows.
type Int8Choice struct {
	table        *Int8Rows
	n            int
	ids          []int32 // this and the following are padded with zeros to a multiple of choiceGroup
	corrections  []int32
	scales, bias []float32
}

// choiceGroup is how many of the chosen rows are multiplied together at most.
const choiceGroup = 16

// Choose makes c the choice of the rows ids, with their elements of bias: t.N, or nil. What c was is overwritten, and its memory used
// again. An id outside of the table panics.
func (t *Int8Rows) Choose(c *Int8Choice, ids []int32, bias []float32) {
	checkIDs(ids, t.N)
	if bias != nil {
		need(len(bias), t.N, "bias of chosen rows")
	}
	padded := roundUp(len(ids), choiceGroup)
	c.table, c.n = t, len(ids)
	c.ids, c.corrections = resize(c.ids, padded), resize(c.corrections, padded)
	c.scales, c.bias = resize(c.scales, padded), resize(c.bias, padded)
	copy(c.ids, ids)
	for i, id := range ids {
		c.corrections[i], c.scales[i] = t.corrections[id], t.scales[id]
		c.bias[i] = biasAt(bias, int(id))
	}
	clear(c.ids[len(ids):])
	clear(c.corrections[len(ids):])
	clear(c.scales[len(ids):])
	clear(c.bias[len(ids):])
}

// IDs returns the chosen rows. They must not be changed.
func (c *Int8Choice) IDs() []int32 { return c.ids[:c.n] }

// Range returns the rows of the choice from first, which must be a multiple of 16, to end. They share its memory.
func (c *Int8Choice) Range(first, end int) Int8Choice {
	if first < 0 || first%choiceGroup != 0 || end < first || end > c.n {
		panic(fmt.Sprintf("kernels: rows %d to %d of a choice of %d", first, end, c.n))
	}
	part := c.from(first)
	part.n = end - first
	return part
}

// from returns what is left of the choice after the first i rows, a multiple of choiceGroup.
func (c Int8Choice) from(i int) Int8Choice {
	c.n, c.ids, c.corrections, c.scales, c.bias = c.n-i, c.ids[i:], c.corrections[i:], c.scales[i:], c.bias[i:]
	return c
}

// DotRowsInt8 multiplies one row of quantised activations with chosen rows of a table:
// y[i] = (a-128)·row(ids[i])·aScale·scale + bias[ids[i]], with the bits of MulInt8 on the same weights.
//
// y: one for each chosen row. a: at least Int8Stride(K) bytes, where the table has K columns.
func DotRowsInt8(y []float32, a []uint8, aScale float32, c *Int8Choice) {
	need(len(y), c.n, "result of chosen rows")
	if c.n == 0 {
		return
	}
	need(len(a), c.table.stride, "activations for chosen rows")
	dotRowsInt8(y[:c.n], a, aScale, *c)
}

// nearBytes is how many bytes of chosen rows are multiplied with all rows of activations before the next: half of what a core's first-level
// cache holds at least.
const nearBytes = 16 << 10

// MulRowsInt8 multiplies rows of quantised activations with the same chosen rows of a table: row r of y is what DotRowsInt8 gives for row r
// of a, to the bit. The chosen rows come from memory once, not once for each row of activations.
//
// y: rows of one element for each chosen row, yStride from row to row. a: rows of Int8Stride(K) bytes, where the table has K columns.
func MulRowsInt8(y []float32, yStride int, a []uint8, aScales []float32, rows int, c *Int8Choice) {
	need(len(y), span(rows, yStride, c.n), "results of chosen rows")
	need(len(aScales), rows, "scales of activations for chosen rows")
	if rows == 0 || c.n == 0 {
		return
	}
	stride := c.table.stride
	need(len(a), rows*stride, "activations for chosen rows")
	together := c.n
	if rows > 1 && stride > 0 {
		together = max(choiceGroup, nearBytes/stride/choiceGroup*choiceGroup)
	}
	for first := 0; first < c.n; first += together {
		part := c.from(first)
		part.n = min(part.n, together)
		for r := range rows {
			dotRowsInt8(y[r*yStride+first:][:part.n], a[r*stride:], aScales[r], part)
		}
	}
}

func dotRowsInt8Generic(y []float32, a []uint8, aScale float32, c Int8Choice) {
	t := c.table
	for i, id := range c.IDs() {
		row := t.rows[int(id)*t.stride:][:t.K]
		sum := c.corrections[i]
		for j, q := range row {
			sum += int32(a[j]) * int32(q)
		}
		y[i] = float32(float32(sum)*float32(aScale*c.scales[i])) + c.bias[i]
	}
}

// DotRowsFloat32 multiplies one row of activations with chosen rows of a row-major table: y[i] = x·row(ids[i]) + bias[ids[i]].
//
// y: len(ids). x: k. table: n×k. bias: one per row of the table, or nil. An id outside of the table panics.
// The sum is striped, so that a result can differ in the last bits from MulFloat32 on the same weights: a model uses one
// of the two, always.
func DotRowsFloat32(y []float32, x []float32, table []float32, k int, ids []int32, bias []float32) {
	need(len(y), len(ids), "result of chosen rows")
	need(len(x), k, "activations for chosen rows")
	n := 0
	if k > 0 {
		n = len(table) / k
	}
	if bias != nil {
		need(len(bias), n, "bias of chosen rows")
	}
	checkIDs(ids, n)
	dotRowsFloat32(y[:len(ids)], x[:k], table, k, ids, bias)
}

func dotRowsFloat32Generic(y []float32, x []float32, table []float32, k int, ids []int32, bias []float32) {
	for i, id := range ids {
		y[i] = dotGeneric(x, table[int(id)*k:][:k]) + biasAt(bias, int(id))
	}
}

// checkIDs panics if an id is not below n. It looks at all of them without a branch, since it is called for every row of a decoder step.
func checkIDs(ids []int32, n int) {
	last, outside := int32(min(n, math.MaxInt32)-1), int32(0)
	for _, id := range ids {
		outside |= id | (last - id) // below zero if one of them is
	}
	if outside >= 0 {
		return
	}
	for _, id := range ids {
		if uint(id) >= uint(n) {
			panic(fmt.Sprintf("kernels: row %d of a table of %d", id, n))
		}
	}
}
