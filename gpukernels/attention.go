package gpukernels

import (
	"cmp"
	"fmt"
	"math"

	"github.com/sluice-mt/sluice/gpukernels/cuda"
)

// HeadDims are the sizes of attention heads that there are kernels of their own for. Others take wider heads: those of several parts of wideHead
// elements.
var HeadDims = []int{16, 32, 64, wideHead}

const (
	wideHead    = 128
	MostHeadDim = 1024 // elements of a head
)

// FilledHead is how many elements heads have for which there is a kernel, if they are to hold so many; false if that is too many.
func FilledHead(own int) (filled int, ok bool) {
	for _, filled := range HeadDims {
		if own <= filled {
			return filled, true
		}
	}
	return blocks(own, wideHead) * wideHead, own <= MostHeadDim
}

// headKernel is the kernel of a name for heads of so many elements. Those for wide heads want to know of how many parts these are; for others parts
// is 0.
func (k *Kernels) headKernel(name string, headDim int) (kernel *cuda.Kernel, parts int, err error) {
	suffix := fmt.Sprint(headDim)
	if headDim > wideHead && headDim%wideHead == 0 && headDim <= MostHeadDim {
		suffix, parts = "wide", headDim/wideHead
	}
	kernel, ok := k.byName[name+"_"+suffix]
	return kernel, parts, need(ok, name, "there is no kernel for heads of %d elements, only for %v, and multiples of %d up to %d", headDim, HeadDims,
		wideHead, MostHeadDim)
}

// withParts appends the parts of wide heads to what a kernel is told.
func withParts(parts int, arguments ...cuda.Argument) []cuda.Argument {
	if parts == 0 {
		return arguments
	}
	return append(arguments, cuda.Int(parts))
}

// queriesShared is the shared memory of a block of rows that look something up: their queries, if heads are wide.
func queriesShared(parts int) int { return 4 * warpRows * parts * wideHead }

const attentionTile = 64 // queries and keys

// attentionShared returns the shared memory of a block: queries, and two tiles of keys and of values.
func attentionShared(headDim int) int { return 5 * attentionTile * (headDim + 8) * 2 }

// wideAttentionShared is that of wide heads: a tile of queries, of keys and of values.
const wideAttentionShared = 3 * attentionTile * (wideHead + 8) * 2

// Scale is the factor of the scores of attention with heads of so many elements, those not counted with which they are filled up to one of
// HeadDims.
func Scale(headDim int) float32 { return 1 / float32(math.Sqrt(float64(headDim))) }

// Attention runs the encoder's self-attention over sentences that lie one after another.
//
// qkv: fp16, for each token a row of queries, keys and values, heads × headDim each. starts: int32, sentences+1 of them; sentence i has
// the tokens from starts[i] up to starts[i+1]. longest: tokens of the longest sentence, at least. result: fp16, for each token a row of
// heads × headDim. scale is the factor of scores.
func (k *Kernels) Attention(s *cuda.Stream, result, qkv, starts cuda.Pointer, sentences, longest, heads, headDim int, scale float32) error {
	if sentences == 0 || longest == 0 {
		return nil
	}
	kernel, parts, err := k.headKernel("attention", headDim)
	if err != nil {
		return err
	}
	shared := attentionShared(headDim)
	if parts > 0 {
		shared = wideAttentionShared
	}
	return inLaunches(sentences, mostGridRows, func(first, n int) error {
		return kernel.Launch(s, cuda.Shape{X: blocks(longest, attentionTile), Y: heads * max(parts, 1), Z: n}, cuda.Shape{X: 128}, shared,
			withParts(parts, cuda.Address(qkv), cuda.Address(cuda.Offset[int32](starts, first)), cuda.Address(result), cuda.Int(heads),
				cuda.Float(scale))...)
	})
}

// A Lookup is the decoder's attention to encoded sentences: one query for each row.
type Lookup struct {
	Queries, Result cuda.Pointer // fp16, rows of heads × headDim
	Keys, Values    cuda.Pointer // fp16; what belongs to a position lies Stride elements behind what belongs to the one before
	Starts, Lengths cuda.Pointer // int32: the positions of each row's sentence
	Stride          int
	Rows            int
	Heads, HeadDim  int
	Scale           float32 // of scores
}

// LookupWeights writes the weights that the first head of each row gives to the positions of its sentence: float32, most places for each
// row. Of the Lookup, values and result are not used.
func (k *Kernels) LookupWeights(s *cuda.Stream, l Lookup, weights cuda.Pointer, most int) error {
	if l.Rows == 0 {
		return nil
	}
	kernel, parts, err := k.headKernel("lookup_weights", l.HeadDim)
	if err != nil {
		return err
	}
	return kernel.Launch(s, rowGrid(l.Rows), rowBlock, queriesShared(parts), withParts(parts, cuda.Address(l.Queries), cuda.Address(l.Keys),
		cuda.Address(l.Starts), cuda.Address(l.Lengths), cuda.Address(weights), cuda.Int(l.Rows), cuda.Int(l.Heads*l.HeadDim),
		cuda.Int(l.Stride), cuda.Int(most), cuda.Float(l.Scale))...)
}

// Lookup puts it into the stream. A row whose sentence has no positions gets zeros.
func (k *Kernels) Lookup(s *cuda.Stream, l Lookup) error {
	if l.Rows == 0 {
		return nil
	}
	kernel, parts, err := k.headKernel("lookup", l.HeadDim)
	if err := cmp.Or(err, need(l.Stride%8 == 0, "lookup", "the stride %d must be a multiple of 8", l.Stride)); err != nil {
		return err
	}
	return kernel.Launch(s, cuda.Shape{X: blocks(l.Rows, warpRows), Y: l.Heads * max(parts, 1)}, rowBlock, queriesShared(parts),
		withParts(parts, cuda.Address(l.Queries), cuda.Address(l.Keys), cuda.Address(l.Values), cuda.Address(l.Starts), cuda.Address(l.Lengths),
			cuda.Address(l.Result), cuda.Int(l.Rows), cuda.Int(l.Heads), cuda.Int(l.Stride), cuda.Float(l.Scale))...)
}
