package autodiff

import "math/bits"

// dropout multiplies x, in place, by zero or by 1/(1-p).
type dropout[T Float] struct {
	x    *Matrix[T]
	mask mask
}

// Dropout sets each element of x to zero with probability p and divides the others by 1-p. It works in place: no gradient
// looks at the result of its operation (that of AffineReLU looks at signs only), but whoever used x before must not need it any more. See Copy.
func (t *Tape[T]) Dropout(x *Matrix[T], p float64) {
	if !t.recording || p <= 0 {
		return
	}
	o := t.dropped.next()
	*o = dropout[T]{x, t.newMask(p, 1)}
	applyMask(o.mask, x.Value)
	t.record(o)
}

// DropoutRows drops whole rows of x: words, where x are embeddings.
func (t *Tape[T]) DropoutRows(x *Matrix[T], p float64) {
	if !t.recording || p <= 0 {
		return
	}
	o := t.dropped.next()
	*o = dropout[T]{x, t.newMask(p, x.Cols)}
	applyMask(o.mask, x.Value)
	t.record(o)
}

func (o *dropout[T]) backward(*Tape[T]) {
	if o.x.Grad != nil {
		applyMask(o.mask, o.x.Grad)
	}
}

// A mask says which elements are dropped. It is drawn anew from its seed wherever it is applied: remembering it would cost
// more memory than drawing it costs time.
type mask struct {
	seed      uint64
	threshold uint32 // a number below it is dropped
	keep      float64
	run       int // elements that share a number
}

func (t *Tape[T]) newMask(p float64, run int) mask {
	t.dropouts++
	seed, threshold, keep := DropoutOf(t.seed, t.dropouts, p)
	return mask{seed, threshold, keep, run}
}

// DropoutOf returns what the operation with random numbers of that number, counted from 1 after the tape's Reset with the seed, drops with
// probability p: the seed of its generator, the threshold below which a number drops an element, and what the others are multiplied by.
// It is for those who compute a tape's operations elsewhere.
func DropoutOf(seed, operation uint64, p float64) (of uint64, threshold uint32, keep float64) {
	return mix(seed ^ mix(operation)), uint32(p * (1 << 32)), 1 / (1 - p)
}

func applyMask[T Float](m mask, x []T) {
	keep := T(m.keep)
	draw := generator{m.seed}
	if m.run > 1 {
		for i := 0; i < len(x); i += m.run {
			factor := keep
			if uint32(draw.next()) < m.threshold {
				factor = 0
			}
			for j := range x[i : i+m.run] {
				x[i+j] *= factor
			}
		}
		return
	}
	for len(x) >= 2 {
		number := draw.next()
		x[0] *= chosen(uint32(number), m.threshold, keep)
		x[1] *= chosen(uint32(number>>32), m.threshold, keep)
		x = x[2:]
	}
	if len(x) > 0 {
		x[0] *= chosen(uint32(draw.next()), m.threshold, keep)
	}
}

func chosen[T Float](number, threshold uint32, keep T) T {
	if number < threshold {
		return 0
	}
	return keep
}

// A generator is wyrand (Wang Yi): a counter whose values are mixed by a multiplication.
type generator struct{ state uint64 }

func (g *generator) next() uint64 {
	g.state += 0xa0761d6478bd642f
	high, low := bits.Mul64(g.state, g.state^0xe7037ed1a0b428db)
	return high ^ low
}

// mix scatters the bits of x: the finaliser of SplitMix64 (Steele et al. 2014).
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
