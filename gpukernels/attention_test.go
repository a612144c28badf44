//go:build linux && (amd64 || arm64) && !nogpu

package gpukernels

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/sluice-mt/sluice/gpukernels/cuda"
)

// attend is attention of one query to keys and values that lie stride elements apart, in float64.
func attend(query, keys, values []number, length, stride, dim int) []float64 {
	weights := make([]float64, length)
	largest := math.Inf(-1)
	for p := range weights {
		for d := range dim {
			weights[p] += float64(query[d].Float32()) * float64(keys[p*stride+d].Float32()) / math.Sqrt(float64(dim))
		}
		largest = max(largest, weights[p])
	}
	sum := 0.0
	for p := range weights {
		weights[p] = math.Exp(weights[p] - largest)
		sum += weights[p]
	}
	result := make([]float64, dim)
	for p, w := range weights {
		for d := range result {
			result[d] += w / sum * float64(values[p*stride+d].Float32())
		}
	}
	return result
}

// An attentionCase is sentences with their queries, keys and values.
type attentionCase struct {
	lengths    []int
	heads, dim int
	qkv        []number
}

func (r *rig) attentionCase(heads, dim int, lengths ...int) *attentionCase {
	tokens := 0
	for _, n := range lengths {
		tokens += n
	}
	return &attentionCase{lengths, heads, dim, r.halves(tokens*3*heads*dim, 3)}
}

func (c *attentionCase) want() []float64 {
	width := c.heads * c.dim
	var want []float64
	rest := c.qkv
	for _, n := range c.lengths {
		for q := range n {
			for h := range c.heads {
				at := h * c.dim
				want = append(want, attend(rest[q*3*width+at:], rest[width+at:], rest[2*width+at:], n, 3*width, c.dim)...)
			}
		}
		rest = rest[n*3*width:]
	}
	return want
}

func (c *attentionCase) run(r *rig) []number {
	r.t.Helper()
	starts, longest := []int32{0}, 0
	for _, n := range c.lengths {
		starts, longest = append(starts, starts[len(starts)-1]+int32(n)), max(longest, n)
	}
	size := len(c.qkv) / 3
	result := alloc[number](r, size)
	must(r.t, r.kernels.Attention(r.stream, result, in(r, c.qkv), in(r, starts), len(c.lengths), longest, c.heads, c.dim, Scale(c.dim)))
	return out[number](r, result, size)
}

// headDims are sizes of attention heads, wide ones among them.
var headDims = append(slices.Clone(HeadDims), 2*wideHead, 3*wideHead)

func TestAttention(t *testing.T) {
	r := newRig(t)
	for _, dim := range headDims {
		cases := [][]int{{5, 1, 16}, {0, 130, 7, 0}, {1}, {64, 63, 65}}
		if testing.Short() {
			cases = cases[:2]
		}
		for _, lengths := range cases {
			c := r.attentionCase(2, dim, lengths...)
			near(t, fmt.Sprintf("attention of %d to %v", dim, lengths), c.run(r), c.want(), 3e-3)
		}
	}
}

// Scores of some hundreds, where exponentials need the largest score taken off.
func TestAttentionOfLargeScores(t *testing.T) {
	r := newRig(t)
	for _, dim := range []int{32, 2 * wideHead} {
		c := r.attentionCase(1, dim, 70)
		c.qkv = r.halves(len(c.qkv), 20)
		near(t, fmt.Sprintf("attention of %d", dim), c.run(r), c.want(), 2e-2)
	}
}

// A sentence gives the same bits alone and among others.
func TestAttentionOfASentenceIsItsOwn(t *testing.T) {
	r := newRig(t)
	for _, dim := range []int{32, 2 * wideHead} {
		c := r.attentionCase(2, dim, 9, 100, 30)
		all, first := c.run(r), 0
		for _, n := range c.lengths {
			size := n * 2 * dim
			alone := &attentionCase{[]int{n}, 2, dim, c.qkv[3*first : 3*(first+size)]}
			if !slices.Equal(alone.run(r), all[first:first+size]) {
				t.Errorf("with heads of %d, the sentence of %d tokens alone differs", dim, n)
			}
			first += size
		}
	}
}

// Heads are filled up to a size that there is a kernel for.
func TestFilledHead(t *testing.T) {
	for own, want := range map[int]int{1: 16, 16: 16, 17: 32, 64: 64, 65: 128, 128: 128, 129: 256, 1000: 1024, MostHeadDim: MostHeadDim} {
		if filled, ok := FilledHead(own); filled != want || !ok {
			t.Errorf("%d elements are filled up to %d, %v, want %d", own, filled, ok, want)
		}
	}
	if filled, ok := FilledHead(MostHeadDim + 1); ok {
		t.Errorf("heads of %d elements are filled up to %d, want none", MostHeadDim+1, filled)
	}
}

// A lookupCase is rows that look at some of the sentences in memory.
type lookupCase struct {
	heads, dim, stride int
	queries, memory    []number // a row of memory: keys and values of two layers
	starts, lengths    []int32
}

func (c *lookupCase) run(r *rig, layer int) []number {
	r.t.Helper()
	width := c.heads * c.dim
	memory := in(r, c.memory)
	result := alloc[number](r, len(c.queries))
	must(r.t, r.kernels.Lookup(r.stream, Lookup{Queries: in(r, c.queries), Result: result,
		Keys: cuda.Offset[number](memory, 2*layer*width), Values: cuda.Offset[number](memory, (2*layer+1)*width),
		Starts: in(r, c.starts), Lengths: in(r, c.lengths), Stride: c.stride, Rows: len(c.starts), Heads: c.heads, HeadDim: c.dim, Scale: Scale(c.dim)}))
	return out[number](r, result, len(c.queries))
}

func (c *lookupCase) want(layer int) []float64 {
	width := c.heads * c.dim
	var want []float64
	for row, start := range c.starts {
		for h := range c.heads {
			if c.lengths[row] == 0 {
				want = append(want, make([]float64, c.dim)...)
				continue
			}
			keys := c.memory[int(start)*c.stride+2*layer*width+h*c.dim:]
			want = append(want, attend(c.queries[row*width+h*c.dim:], keys, keys[width:], int(c.lengths[row]), c.stride, c.dim)...)
		}
	}
	return want
}

func TestLookup(t *testing.T) {
	r := newRig(t)
	const heads, positions = 3, 140
	for _, dim := range headDims {
		c := &lookupCase{heads: heads, dim: dim, stride: 4 * heads * dim, starts: []int32{0, 10, 10, 43, 75, 139, 20},
			lengths: []int32{10, 33, 33, 32, 64, 1, 0}}
		c.queries, c.memory = r.halves(len(c.starts)*heads*dim, 3), r.halves(positions*c.stride, 3)
		for layer := range 2 {
			near(t, fmt.Sprintf("lookup of %d in layer %d", dim, layer), c.run(r, layer), c.want(layer), 1e-3)
		}
		all, width := c.run(r, 1), heads*dim
		for row := range c.starts {
			alone := *c
			alone.starts, alone.lengths, alone.queries = c.starts[row:row+1], c.lengths[row:row+1], c.queries[row*width:(row+1)*width]
			if !slices.Equal(alone.run(r, 1), all[row*width:(row+1)*width]) {
				t.Errorf("row %d alone differs", row)
			}
		}
	}
}

func TestLookupWeights(t *testing.T) {
	r := newRig(t)
	const heads, most = 2, 80
	for _, dim := range headDims {
		starts, lengths := []int32{0, 5, 3}, []int32{70, 1, 33}
		queries, keys := r.halves(3*heads*dim, 3), r.halves(80*heads*dim, 3)
		weights := in(r, make([]float32, 3*most))
		must(t, r.kernels.LookupWeights(r.stream, Lookup{Queries: in(r, queries), Keys: in(r, keys), Starts: in(r, starts),
			Lengths: in(r, lengths), Stride: heads * dim, Rows: 3, Heads: heads, HeadDim: dim, Scale: Scale(dim)}, weights, most))
		have := out[float32](r, weights, 3*most)
		for row, length := range lengths {
			// The weight of a position is what attention gives if the values are 1 there and 0 elsewhere.
			for position := range most {
				want := 0.0
				if position < int(length) {
					values := make([]number, 80*heads*dim)
					values[position*heads*dim] = numberOf(1)
					want = attend(queries[row*heads*dim:], keys[int(starts[row])*heads*dim:], values, int(length), heads*dim, dim)[0]
				}
				if got := float64(have[row*most+position]); math.Abs(got-want) > 1e-4 {
					t.Fatalf("row %d, position %d: %v, want %v", row, position, got, want)
				}
			}
		}
	}
}

func TestAttentionRefuses(t *testing.T) {
	r := newRig(t)
	if err := r.kernels.Attention(r.stream, 0, 0, 0, 1, 1, 1, 48, 1); err == nil {
		t.Error("attention with heads of 48 elements was launched")
	}
	for _, dim := range []int{48, 192, MostHeadDim + wideHead} {
		if err := r.kernels.Lookup(r.stream, Lookup{Rows: 1, Heads: 1, HeadDim: dim, Stride: 2 * dim}); err == nil {
			t.Errorf("lookup with heads of %d elements was launched", dim)
		}
	}
	if err := r.kernels.Lookup(r.stream, Lookup{Rows: 1, Heads: 1, HeadDim: 32, Stride: 68}); err == nil {
		t.Error("lookup with a stride of 68 elements was launched")
	}
	must(t, r.kernels.Attention(r.stream, 0, 0, 0, 0, 0, 1, 32, 1))
	must(t, r.kernels.Lookup(r.stream, Lookup{HeadDim: 32}))
}
