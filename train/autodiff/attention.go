package autodiff

import "math"

// Attention is the record of an attention operation: softmax(q·kᵀ/√d)·v in each head, sentence by sentence.
type Attention[T Float] struct {
	out, q, k, v  *Matrix[T]
	queries, keys Segments
	heads         int
	causal        bool
	weights       []T // of all sentences: heads × queries × keys
	mask          mask
	dropped       bool
	alignmentGrad []T // of the weights of head 0, sentence after sentence: queries × keys; nil without alignment loss
}

// AttentionOptions say how a layer attends.
type AttentionOptions struct {
	Heads   int
	Causal  bool    // a query sees the keys up to its own position; both sides have the same sentences
	Dropout float64 // of the weights
}

// Attend returns multi-head attention of the queries q (rows of query sentences) over keys and values k and v (rows of the
// key sentences with the same numbers), and the record, for alignment losses.
func (t *Tape[T]) Attend(q, k, v *Matrix[T], queries, keys Segments, options AttentionOptions) (*Matrix[T], *Attention[T]) {
	checkSegments(queries, q.Rows, "queries")
	checkSegments(keys, k.Rows, "keys")
	checkShape(k, k.Rows, q.Cols, "the keys")
	checkShape(v, k.Rows, q.Cols, "the values")
	o := t.attentions.next()
	*o = Attention[T]{
		out: t.matrix(q.Rows, q.Cols), q: q, k: k, v: v, queries: queries, keys: keys,
		heads: options.Heads, causal: options.Causal,
	}
	total := 0
	for s := range queries.Sentences() {
		total += options.Heads * queries.Len(s) * keys.Len(s)
	}
	o.weights = t.arena.take(total)
	if t.recording && options.Dropout > 0 {
		o.dropped, o.mask = true, t.newMask(options.Dropout, 1)
	}
	t.attend(o)
	t.record(o)
	return o.out, o
}

// place returns the weights of a head of a sentence, as a matrix, given where those of the sentence begin.
func (o *Attention[T]) place(weights []T, begin, sentence, head int) View[T] {
	nq, nk := o.queries.Len(sentence), o.keys.Len(sentence)
	begin += head * nq * nk
	return view(weights[begin:begin+nq*nk], nq, nk)
}

// head returns the part of a matrix that belongs to a head and a sentence.
func (o *Attention[T]) head(data []T, cols int, segments Segments, sentence, head int) View[T] {
	width := cols / o.heads
	return View[T]{Data: data[segments[sentence]*cols+head*width:], Rows: segments.Len(sentence), Cols: width, Stride: cols}
}

func (t *Tape[T]) attend(o *Attention[T]) {
	cols := o.q.Cols
	scale := T(1 / math.Sqrt(float64(cols/o.heads)))
	begin := 0
	for s := range o.queries.Sentences() {
		for h := range o.heads {
			w := o.place(o.weights, begin, s, h)
			t.device.Multiply(w, o.head(o.q.Value, cols, o.queries, s, h), o.head(o.k.Value, cols, o.keys, s, h), TransposedB, false)
			o.scale(w, scale)
			t.device.Softmax(w)
			applied := w
			if o.dropped {
				applied = t.withoutDropped(o, w, s, h)
			}
			t.device.Multiply(o.head(o.out.Value, cols, o.queries, s, h), applied, o.head(o.v.Value, cols, o.keys, s, h), Straight, false)
		}
		begin += o.heads * o.queries.Len(s) * o.keys.Len(s)
	}
}

// scale multiplies the scores by 1/√d, and hides what a query must not see.
func (o *Attention[T]) scale(w View[T], scale T) {
	for i := range w.Rows {
		row := w.row(i)
		for j := range row {
			row[j] *= scale
		}
		if o.causal {
			for j := i + 1; j < w.Cols; j++ {
				row[j] = T(math.Inf(-1))
			}
		}
	}
}

// withoutDropped returns the weights after dropout, in scratch memory of the tape.
func (t *Tape[T]) withoutDropped(o *Attention[T], w View[T], sentence, head int) View[T] {
	t.dropping = grow(t.dropping, len(w.Data))
	dropped := view(t.dropping, w.Rows, w.Cols)
	copy(dropped.Data, w.Data)
	applyMask(o.headMask(sentence, head), dropped.Data)
	return dropped
}

// headMask returns the mask of a head of a sentence.
func (o *Attention[T]) headMask(sentence, head int) mask {
	m := o.mask
	m.seed = mix(m.seed ^ mix(uint64(sentence)<<32|uint64(head)))
	return m
}

func (o *Attention[T]) backward(t *Tape[T]) {
	begin, alignment := 0, 0
	for s := range o.queries.Sentences() {
		size := o.queries.Len(s) * o.keys.Len(s)
		t.scores = grow(t.scores, size)
		for h := range o.heads {
			var extra []T
			if h == 0 && o.alignmentGrad != nil {
				extra = o.alignmentGrad[alignment : alignment+size]
			}
			t.attendBackward(o, o.place(o.weights, begin, s, h), s, h, extra)
		}
		begin += o.heads * size
		alignment += size
	}
}

// attendBackward goes back through a head of a sentence. With the weights p (p' after dropout) and g = do·vᵀ, through the
// dropout: dv = p'ᵀ·do, ds = p·(g - Σ p·g)/√d, dq = ds·k, dk = dsᵀ·q. extra is what else the weights' gradient holds.
func (t *Tape[T]) attendBackward(o *Attention[T], p View[T], s, h int, extra []T) {
	cols := o.q.Cols
	applied := p
	if o.dropped {
		applied = t.withoutDropped(o, p, s, h)
	}
	do := o.head(o.out.Grad, cols, o.queries, s, h)
	t.device.Multiply(o.head(o.v.Grad, cols, o.keys, s, h), applied, do, TransposedA, true)
	g := view(t.scores, p.Rows, p.Cols)
	t.device.Multiply(g, do, o.head(o.v.Value, cols, o.keys, s, h), TransposedB, false)
	if o.dropped {
		applyMask(o.headMask(s, h), g.Data)
	}
	if extra != nil {
		addTo(g.Data, extra)
	}
	softmaxBackward(g, p, T(1/math.Sqrt(float64(cols/o.heads))))
	t.device.Multiply(o.head(o.q.Grad, cols, o.queries, s, h), g, o.head(o.k.Value, cols, o.keys, s, h), Straight, true)
	t.device.Multiply(o.head(o.k.Grad, cols, o.keys, s, h), g, o.head(o.q.Value, cols, o.queries, s, h), TransposedA, true)
}

// softmaxBackward replaces the gradients g of the weights p by those of the scores before scaling.
func softmaxBackward[T Float](g, p View[T], scale T) {
	for i := range g.Rows {
		grad, weights := g.row(i), p.row(i)
		inner := dot(weights, grad)
		for j, v := range weights {
			grad[j] = v * (grad[j] - inner) * scale
		}
	}
}

func grow[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n, n+n/4)
	}
	return s[:n]
}
