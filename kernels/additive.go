package kernels

// AdditiveAttention is the attention of Bahdanau, Cho and Bengio, "Neural Machine Translation by Jointly Learning to Align and
// Translate", 2015: the score of a key k for a query q is Σ_d v[d]·tanh(k[d] + q[d]), and the result the sum of the values, weighted by
// the softmax of the scores.
//
// A hyperbolic tangent is tanh(k + q) = 1 - 2/(e^2k·e^2q + 1). The exponentials of the keys are taken once, when they are kept, those of
// a query once for all keys. What is left for each of the many pairs is a fused multiply-add and a share of a division. The constant Σv
// changes no softmax, so a score is
//
//	-2·Σ_d v[d]/E[d],  E[d] = min(e^2k[d]·e^2q[d] + 1, 2³⁰)
//
// where 1 - 2/2³⁰ is 1 in float32. Exponents 2k and 2q beyond ±80 count as ±80, which tells only where a key and a query that large
// are of opposite signs. Four fractions become one: see fourFractions.
//
// Queries and v have Width elements, of which those after the first Dim are zero.
type AdditiveAttention struct {
	Dim, ValueDim int // of keys, queries and v; of values

	// KeepBFloat16 makes Keep round the exponentials of keys, and values, to bfloat16, so that they take half the memory.
	KeepBFloat16 bool

	// OneByOne computes without vector instructions, with the same bits: to measure what they give.
	OneByOne bool
}

const (
	additiveBlock = 64      // elements of a key that are worked on together
	additivePanel = 256     // columns of values that lie together, as long as there are so many; then additiveBlock
	additiveMost  = 1 << 30 // from where on one over E is zero
	doubledMost   = 80      // of an exponent
)

// Width is the number of elements of a query and of v: Dim, rounded up.
func (s AdditiveAttention) Width() int { return roundUp(s.Dim, additiveBlock) }

func (s *AdditiveAttention) valueWidth() int { return roundUp(s.ValueDim, additiveBlock) }

// KeptLen returns how many elements Keep stores for nk keys and values: nk times those for one.
func (s AdditiveAttention) KeptLen(nk int) int {
	return nk * (s.words(s.Width()) + s.words(s.valueWidth()))
}

// words is how many words n elements take where they are kept.
func (s *AdditiveAttention) words(n int) int {
	if s.KeepBFloat16 {
		return n / 2
	}
	return n
}

// ScratchLen returns how many elements of scratch Keep and Run need for nk keys.
func (s AdditiveAttention) ScratchLen(nk int) int { return max(nk, s.Width()) }

// kept returns the parts of what Keep stores.
func (s *AdditiveAttention) kept(kept []float32, nk int) (keys, values []float32) {
	n := nk * s.words(s.Width())
	return kept[:n:n], kept[n:]
}

// panel returns how many columns of values lie together from column first on: first those of value 0, then those of value 1, ….
func (s *AdditiveAttention) panel(first int) int {
	if first+additivePanel <= s.ValueDim {
		return additivePanel
	}
	return additiveBlock
}

// Query sets rows of Width elements to what Run takes as queries: of rows of Dim elements, contiguous. dst must not overlap q.
func (s AdditiveAttention) Query(dst, q []float32, rows int) {
	width := s.Width()
	need(len(dst), span(rows, width, width), "queries of additive attention")
	need(len(q), span(rows, s.Dim, s.Dim), "projected queries")
	for r := range rows {
		row := dst[r*width : (r+1)*width]
		s.doubledExp(row[:s.Dim], q[r*s.Dim:])
		clear(row[s.Dim:])
	}
}

// Keep stores keys and values for Run.
//
// dst: KeptLen(nk) elements. k: nk rows of Dim, v: nk rows of ValueDim, contiguous. scratch: ScratchLen(nk). No slices overlap.
func (s AdditiveAttention) Keep(dst, k, v []float32, nk int, scratch []float32) {
	need(len(dst), s.KeptLen(nk), "kept keys and values")
	need(len(k), span(nk, s.Dim, s.Dim), "keys")
	need(len(v), span(nk, s.ValueDim, s.ValueDim), "values")
	need(len(scratch), s.ScratchLen(nk), "scratch of attention")
	keys, values := s.kept(dst, nk)
	width := s.Width()
	row := scratch[:width]
	clear(row[s.Dim:])
	for j := range nk {
		s.doubledExp(row[:s.Dim], k[j*s.Dim:])
		s.store(keys[j*s.words(width):], row)
	}
	for first := 0; first < s.valueWidth(); first += s.panel(first) {
		columns := s.panel(first)
		panel, missing := values[nk*s.words(first):], max(0, first+columns-s.ValueDim)
		for j := range nk {
			value := v[j*s.ValueDim+first : j*s.ValueDim+first+columns-missing]
			if missing > 0 {
				var padded [additiveBlock]float32
				copy(padded[:], value)
				value = padded[:]
			}
			s.store(panel[j*s.words(columns):], value)
		}
	}
}

// store stores elements, a multiple of 64, as they are kept.
func (s *AdditiveAttention) store(dst, x []float32) {
	if s.KeepBFloat16 {
		storePairs(dst, x)
		return
	}
	copy(dst, x)
}

// storePairsGeneric stores elements, a multiple of 64, in pairs.
func storePairsGeneric(dst, x []float32) {
	for word := range len(x) / 2 {
		d := word/16*32 + word%16
		dst[word] = pair(x[d], x[d+16])
	}
}

// Run computes the attention of one query over kept keys and values. Without keys the result is zero.
//
// out: ValueDim. q: a row that Query gave. v: Width. kept: what Keep stored for nk keys. scratch: ScratchLen(nk).
func (s AdditiveAttention) Run(out, q, v, kept []float32, nk int, scratch []float32) {
	need(len(out), s.ValueDim, "result of attention")
	need(len(scratch), s.ScratchLen(nk), "scratch of attention")
	s.check(q, v, kept, nk)
	out = out[:s.ValueDim]
	if nk == 0 {
		clear(out)
		return
	}
	keys, values := s.kept(kept, nk)
	weights := scratch[:nk]
	s.scores(weights, q, v, keys)
	inverse := scoreWeights(weights, -2)
	for first := 0; first < s.ValueDim; first += s.panel(first) {
		columns := s.panel(first)
		panel := values[nk*s.words(first):][:nk*s.words(columns)]
		if first+columns <= s.ValueDim {
			s.sums(out[first:first+columns], weights, panel, inverse)
			continue
		}
		var padded [additiveBlock]float32
		s.sums(padded[:], weights, panel, inverse)
		copy(out[first:], padded[:])
	}
}

// Weights computes the attention weights of one query over kept keys.
//
// w: nk. q, v, kept: as for Run.
func (s AdditiveAttention) Weights(w, q, v, kept []float32, nk int) {
	need(len(w), nk, "attention weights")
	s.check(q, v, kept, nk)
	if nk == 0 {
		return
	}
	w = w[:nk]
	keys, _ := s.kept(kept, nk)
	s.scores(w, q, v, keys)
	scale(w, w, -2)
	Softmax(w, 1, nk, nk)
}

func (s *AdditiveAttention) check(q, v, kept []float32, nk int) {
	need(len(q), s.Width(), "query of additive attention")
	need(len(v), s.Width(), "score vector of additive attention")
	need(len(kept), s.KeptLen(nk), "kept keys and values")
}

// doubledExp sets dst to e^2x.
func (s *AdditiveAttention) doubledExp(dst, x []float32) {
	if s.OneByOne {
		doubledExpGeneric(dst, x)
	} else {
		doubledExp(dst, x)
	}
}

// scores sets the scores, one for each key, to the sums of fractions.
func (s *AdditiveAttention) scores(scores, q, v, keys []float32) {
	if width := s.Width(); width == 0 {
		clear(scores)
	} else if s.OneByOne {
		additiveScoresGeneric(scores, q[:width], v[:width], keys, s.KeepBFloat16)
	} else {
		additiveScores(scores, q[:width], v[:width], keys, s.KeepBFloat16)
	}
}

// sums sets out, a panel wide, to the weighted sums of the values of a panel, times inverse.
func (s *AdditiveAttention) sums(out, weights, panel []float32, inverse float32) {
	if s.OneByOne {
		additiveSumsGeneric(out, weights, panel, inverse, s.KeepBFloat16)
	} else {
		additiveSums(out, weights, panel, inverse, s.KeepBFloat16)
	}
}

func doubledExpGeneric(dst, x []float32) {
	for i := range dst {
		dst[i] = exp32(boundedDouble(x[i]))
	}
}

// boundedDouble returns 2x, at most ±80. NaN stays.
func boundedDouble(x float32) float32 {
	switch t := x + x; {
	case t < -doubledMost:
		return -doubledMost
	case t > doubledMost:
		return doubledMost
	default:
		return t
	}
}

// keptAt returns an element of what is kept.
func keptAt(kept []float32, d int, pairs bool) float32 {
	if !pairs {
		return kept[d]
	}
	word, shift := pairOf(d)
	return paired(kept[word], shift)
}

// additiveScoresGeneric sets scores[j] to Σ_d v[d]/E[d]. Four fractions whose elements are 16 apart are added as one, and that to a
// stripe.
func additiveScoresGeneric(scores, q, v, keys []float32, pairs bool) {
	n := len(keys) / len(scores)
	for j := range scores {
		var sums stripes
		key := keys[j*n : (j+1)*n]
		for first := 0; first < len(q); first += additiveBlock {
			for lane := range sums {
				var e, w [4]float32
				for i := range e {
					d := first + 16*i + lane
					w[i], e[i] = v[d], fma32(keptAt(key, d, pairs), q[d], 1)
					if e[i] > additiveMost {
						e[i] = additiveMost
					}
				}
				sums[lane] += fourFractions(w, e)
			}
		}
		scores[j] = sums.sum()
	}
}

// fourFractions returns Σ v[i]/e[i] by one division:
//
//	v0/e0 + v1/e1 = (v0·e1 + v1·e0)/(e0·e1)
//
// and the same of two such fractions. The product of four numbers up to 2³⁰ is in the range of float32.
func fourFractions(v, e [4]float32) float32 {
	first, second := fma32(v[0], e[1], float32(v[1]*e[0])), fma32(v[2], e[3], float32(v[3]*e[2]))
	e01, e23 := float32(e[0]*e[1]), float32(e[2]*e[3])
	return fma32(first, e23, float32(second*e01)) / float32(e01*e23)
}

func additiveSumsGeneric(out, weights, panel []float32, inverse float32, pairs bool) {
	n := len(panel) / len(weights)
	clear(out)
	for j, weight := range weights {
		value := panel[j*n : (j+1)*n]
		for d := range out {
			out[d] = fma32(weight, keptAt(value, d, pairs), out[d])
		}
	}
	scaleGeneric(out, out, inverse)
}

// scoreWeightsGeneric replaces scores by e^(x·factor-max) and returns one over their striped sum.
func scoreWeightsGeneric(x []float32, factor float32) float32 {
	scaleGeneric(x, x, factor)
	return 1 / expGeneric(x, x, maxGeneric(x))
}
