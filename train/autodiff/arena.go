package autodiff

import "github.com/sluice-mt/sluice/internal/hugepage"

// Numbers returns n zeros, in large pages where the system has some: products walk through all memory that training takes, and
// small pages cost them a look-up at every other step.
func Numbers[T Float](n int) []T {
	var s any
	switch s = []T(nil); s.(type) {
	case []float32:
		s = hugepage.Make[float32](n)
	default:
		s = make([]T, n)
	}
	return s.([]T)
}

// An arena hands out slices of one block of memory, and takes all of them back at once.
type arena[T Float] struct {
	block []T
	taken int   // of the block
	extra [][]T // slices that did not fit into the block
	used  int   // numbers handed out, of block and extra
}

// granule is what sizes are rounded up to: a cache line of float32.
const granule = 16

// take returns n numbers, with whatever lies there.
func (a *arena[T]) take(n int) []T {
	size := (n + granule - 1) / granule * granule
	a.used += size
	if a.taken+size > len(a.block) {
		s := make([]T, size)
		a.extra = append(a.extra, s)
		return s[:n:n]
	}
	s := a.block[a.taken : a.taken+n : a.taken+n]
	a.taken += size
	return s
}

// reset takes everything back. If the block was too small, the next one holds all that was in use, and some more, so that
// batches of slowly growing size do not each replace it.
func (a *arena[T]) reset() {
	if len(a.extra) > 0 {
		clear(a.extra)
		a.extra = a.extra[:0]
		a.block = nil // first, so that both blocks need not exist at once
		a.block = Numbers[T](a.used + a.used/16)
	}
	a.taken, a.used = 0, 0
}

// A slab hands out records that keep their place, and takes all of them back at once.
type slab[O any] struct {
	chunks [][]O
	used   int
}

const slabChunk = 64

// next returns a zero record.
func (s *slab[O]) next() *O {
	chunk, at := s.used/slabChunk, s.used%slabChunk
	if chunk == len(s.chunks) {
		s.chunks = append(s.chunks, make([]O, slabChunk))
	}
	s.used++
	return &s.chunks[chunk][at]
}

func (s *slab[O]) reset() {
	for i := 0; i*slabChunk < s.used; i++ {
		clear(s.chunks[i])
	}
	s.used = 0
}
