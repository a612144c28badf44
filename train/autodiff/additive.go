package autodiff

// Additive is attention by a network with one hidden layer (Bahdanau et al. 2014): the weight of each key is the softmax of
// score·tanh(mapped key + query).
type Additive[T Float] struct {
	Record *Attention[T] // for alignment losses

	context, mapped, score *Matrix[T]
	begins                 []int // of each sentence's weights
}

// Additive returns the attention of query sentences to key sentences. context has what is found, and mapped what is compared with
// the queries, for each key: rows × d; score: d × 1. queries are the sentences to which Look will be asked.
func (t *Tape[T]) Additive(context, mapped, score *Matrix[T], queries, keys Segments) *Additive[T] {
	checkSegments(keys, context.Rows, "keys")
	checkShape(mapped, context.Rows, score.Rows, "the mapped keys")
	checkShape(score, score.Rows, 1, "the scores")
	a := t.additives.next()
	*a = Additive[T]{t.attentions.next(), context, mapped, score, t.takeIntegers(queries.Sentences())}
	total := 0
	for s := range a.begins {
		a.begins[s] = total
		total += queries.Len(s) * keys.Len(s)
	}
	*a.Record = Attention[T]{queries: queries, keys: keys, heads: 1, weights: t.arena.take(total)}
	return a
}

// takeIntegers returns n integers that are valid until the tape's Reset.
func (t *Tape[T]) takeIntegers(n int) []int {
	if t.integersTaken+n > len(t.integers) {
		t.integers, t.integersTaken = make([]int, 2*(t.integersTaken+n)), 0 // those that were taken keep their memory
	}
	t.integersTaken += n
	return t.integers[t.integersTaken-n : t.integersTaken : t.integersTaken]
}

// look is a step of additive attention.
type look[T Float] struct {
	a          *Additive[T]
	out, query *Matrix[T]
	column     int // of out
	sentences  []int32
	position   int
}

// Look fills columns of out, from column on, with what the queries find. Row i is the word at the position in the query sentence
// sentences[i]. sentences must stay as they are until Backward.
func (t *Tape[T]) Look(a *Additive[T], out *Matrix[T], column int, query *Matrix[T], sentences []int32, position int) {
	checkShape(query, len(sentences), a.mapped.Cols, "the queries")
	o := t.looks.next()
	*o = look[T]{a, out, query, column, sentences, position}
	for i, s := range sentences {
		weights := o.weights(int(s))
		t.tanhs(a, int(s), query.Row(i))
		d := a.mapped.Cols
		for k := range weights {
			weights[k] = dot(t.scores[k*d:(k+1)*d], a.score.Value)
		}
		t.device.SoftmaxRow(weights)
		found := out.Row(i)[column : column+a.context.Cols]
		clear(found)
		for k, w := range weights {
			addScaled(found, a.context.Row(a.Record.keys[s]+k), w)
		}
	}
	t.record(o)
}

// place returns where the weights of a sentence's word at the step's position lie.
func (o *look[T]) place(s int) (begin, end int) {
	n := o.a.Record.keys.Len(s)
	begin = o.a.begins[s] + o.position*n
	return begin, begin + n
}

func (o *look[T]) weights(s int) []T {
	begin, end := o.place(s)
	return o.a.Record.weights[begin:end]
}

// tanhs computes tanh(mapped key + query) for the keys of a sentence, into scores.
func (t *Tape[T]) tanhs(a *Additive[T], s int, query []T) {
	keys, d := a.Record.keys, a.mapped.Cols
	mapped := a.mapped.Value[keys[s]*d : keys[s+1]*d]
	t.scores = grow(t.scores, len(mapped))
	copy(t.scores, mapped)
	for first := 0; first < len(mapped); first += d {
		t.device.Add(t.scores[first:first+d], query)
	}
	t.device.Apply(t.scores, t.scores, Tanh)
}

// With the weights p and g = context·dout: dcontext = p·dout, ds = p·(g - Σ p·g), and with h = tanh(mapped + query):
// dscore = Σ ds·h, dmapped = ds·score·(1-h²), dquery the sum of that. The hyperbolic tangents are computed anew: remembering them
// would take d numbers for every pair of a query and a key.
func (o *look[T]) backward(t *Tape[T]) {
	a, d := o.a, o.a.mapped.Cols
	for i, s := range o.sentences {
		dout := o.out.gradRow(i)[o.column : o.column+a.context.Cols]
		weights := o.weights(int(s))
		t.dropping = grow(t.dropping, len(weights))
		first := a.Record.keys[s]
		for k, w := range weights {
			t.dropping[k] = dot(a.context.Row(first+k), dout)
			addScaled(a.context.gradRow(first+k), dout, w)
		}
		if extra := a.Record.alignmentGrad; extra != nil {
			begin, end := o.place(int(s))
			addTo(t.dropping, extra[begin:end])
		}
		softmaxBackward(view(t.dropping, 1, len(weights)), view(weights, 1, len(weights)), 1)
		t.tanhs(a, int(s), o.query.Row(i))
		for k, ds := range t.dropping {
			addScaled(a.score.Grad, t.scores[k*d:(k+1)*d], ds)
			additiveBackward(a.mapped.gradRow(first+k), o.query.gradRow(i), t.scores[k*d:(k+1)*d], a.score.Value, ds)
		}
	}
}

// additiveBackward adds ds·score·(1-h²) to the gradients of a mapped key and the query.
func additiveBackward[T Float](dmapped, dquery, h, score []T, ds T) {
	dmapped, dquery, score = dmapped[:len(h)], dquery[:len(h)], score[:len(h)]
	for j, v := range h {
		g := ds * score[j] * (1 - v*v)
		dmapped[j] += g
		dquery[j] += g
	}
}
