package gpunetwork

import (
	"math"

	"github.com/sluice-mt/sluice/gpukernels"
	"github.com/sluice-mt/sluice/gpukernels/cuda"
	"github.com/sluice-mt/sluice/train/autodiff"
	"github.com/sluice-mt/sluice/train/network"
	"github.com/sluice-mt/sluice/translator/marian"
	"github.com/sluice-mt/sluice/translator/model"
)

// A side is the sentences of one language on the device.
type side struct {
	sentences gpukernels.Sentences
	count     int // of sentences
	positions cuda.Pointer
	longest   int
}

func (t *tape) side(sentences autodiff.Segments) *side {
	s := &side{count: sentences.Sentences()}
	var of, starts, positions []int32
	for i := range s.count {
		starts = append(starts, int32(sentences[i]))
		for position := range sentences.Len(i) {
			of, positions = append(of, int32(i)), append(positions, int32(position))
		}
		s.longest = max(s.longest, sentences.Len(i))
	}
	starts = append(starts, int32(len(of)))
	s.sentences = gpukernels.Sentences{Of: t.put(of), Starts: t.put(starts), Rows: len(of)}
	s.positions = t.put(positions)
	return s
}

// rowsOfTokens lists the rows of each token, in ascending order of tokens and rows. Negative tokens are left out. Rows are counted and not compared, since
// the device has nothing to do until the first feeds of a mini-batch are there.
func rowsOfTokens(tokens []int32) (order, starts []int32) {
	largest := int32(-1)
	for _, token := range tokens {
		largest = max(largest, token)
	}
	next := make([]int32, largest+1) // for each token: how many rows it has, and then the place of the next one
	for _, token := range tokens {
		if token >= 0 {
			next[token]++
		}
	}
	rows := int32(0)
	for token, count := range next {
		if count > 0 {
			starts = append(starts, rows)
		}
		next[token] = rows
		rows += count
	}
	order = make([]int32, rows)
	for row, token := range tokens {
		if token >= 0 {
			order[next[token]] = int32(row)
			next[token]++
		}
	}
	return order, append(starts, rows)
}

// A positionTable is the vectors of positions, as many as were ever needed.
type positionTable struct {
	at   cuda.Pointer
	rows int
}

// reserve makes the table long enough.
func (w *worker) reservePositions(longest int) error {
	p := &w.positions
	if longest <= p.rows {
		return nil
	}
	if err := w.stream.Synchronize(); err != nil {
		return err
	}
	if err := w.context.Free(p.at); err != nil {
		return err
	}
	*p = positionTable{}
	table := autodiff.Sinusoids[float32](max(longest+longest/2, 128), w.layout.network.Model.Dim)
	stored := w.layout.spreadRows(table)
	at, err := cuda.Alloc[float32](w.context, len(stored))
	if err != nil {
		return err
	}
	*p = positionTable{at, table.Rows}
	return cuda.CopyIn(w.stream, at, stored)
}

// embed returns the vectors of tokens, with those of their positions, if the model has any. Whole words are dropped with probability p.
func (t *tape) embed(table *marian.Tensor, tokens []int32, s *side, p float64) *matrix {
	m, width := t.worker.network.Model, t.worker.network.Parameter(table).Cols
	y := t.matrix(len(tokens), width)
	e := gpukernels.Embedding{Tokens: t.put(tokens), Factor: 1}
	var signal cuda.Pointer
	if !m.NoPositions {
		e.Factor = float32(math.Sqrt(float64(t.worker.layout.network.Model.Dim)))
		t.do(func() error { return t.worker.reservePositions(s.longest) })
		signal = t.worker.positions.at
	}
	e.Dropout = t.draw(p)
	order, starts := rowsOfTokens(tokens)
	rows := gpukernels.TokenRows{Order: t.put(order), Starts: t.put(starts), Count: len(starts) - 1}
	t.record(func() error { return t.kernels.Embed(t.stream, y.view(), e, t.stored(table), signal, s.positions) },
		func() error { return t.kernels.EmbedBackward(t.stream, t.slope(table), y.grad, width, e, rows) })
	return y
}

// ssru returns the outputs of simpler simple recurrent units.
func (t *tape) ssru(f, x *matrix, s *side) *matrix {
	h := t.matrix(x.rows, x.cols)
	units := gpukernels.Recurrence{X: x.at, F: f.at, States: t.floats(x.numbers()), Starts: s.sentences.Starts, Sentences: s.count, Columns: x.cols}
	t.record(func() error { return t.kernels.SSRU(t.stream, h.at, units) }, func() error {
		return t.contribute(x, func(dx cuda.Pointer) error {
			return t.contribute(f, func(df cuda.Pointer) error { return t.kernels.SSRUBackward(t.stream, dx, df, h.grad, units) })
		})
	})
	return h
}

// attend returns multi-head attention, whose first head has a guide, unless that is nil.
func (t *tape) attend(q, k, v *matrix, queries, keys *side, causal bool, dropout float64, guide *gpukernels.Guide) *matrix {
	heads := t.worker.network.Model.Heads
	width := t.worker.layout.network.Model.Dim / heads
	y := t.matrix(q.rows, q.cols)
	a := gpukernels.TrainingAttention{Q: q.at, K: k.at, V: v.at, Out: y.at, LogSums: t.floats(q.rows * heads), Queries: queries.sentences,
		Keys: keys.sentences, Width: q.cols, Heads: heads, Causal: causal, Scale: float32(1 / math.Sqrt(float64(width))), Dropout: t.draw(dropout)}
	t.record(func() error { return t.kernels.Attention(t.stream, a) }, func() error {
		inners := t.floats(q.rows * heads)
		if t.err != nil {
			return t.err
		}
		return t.contributeAll([]*matrix{q, k, v}, func(to []cuda.Pointer) error {
			err := t.kernels.AttentionBackward(t.stream, to[0], to[1], to[2], y.grad, inners, a)
			if err != nil || guide == nil {
				return err
			}
			return t.kernels.Guide(t.stream, to[0], to[1], *guide, a)
		})
	})
	return y
}

// guide puts the alignment of a batch onto the device: for each target word, where the source words are that belong to it.
func (t *tape) guide(b *network.Batch, options *network.Options) *gpukernels.Guide {
	squared := options.AlignmentCost == autodiff.AlignmentMSE
	targets, places := guidedWeights(b, squared)
	return &gpukernels.Guide{Targets: t.putNumbers(targets), Places: t.put(places), Squared: squared, Weight: float32(options.AlignmentWeight),
		Losses: t.floats(len(b.Target.Tokens))}
}

// weightPlaces says where the attention of each sentence begins, a row of source words for each target word, and how many numbers there are.
func weightPlaces(target, source *network.Side) (places []int32, total int) {
	for s := range target.Sentences.Sentences() {
		places = append(places, int32(total))
		total += target.Sentences.Len(s) * source.Sentences.Len(s)
	}
	return places, total
}

// guidedWeights returns the attention that an alignment wants, for each sentence a row of source words for each target word, and where those of
// each sentence begin. The share of a word is divided among its points, unless costs are squares.
func guidedWeights(b *network.Batch, squared bool) (targets []float32, places []int32) {
	places, total := weightPlaces(&b.Target, &b.Source)
	targets = make([]float32, total)
	points := b.Alignment
	for len(points) > 0 {
		first, n := points[0], 1
		for n < len(points) && points[n].Sentence == first.Sentence && points[n].Query == first.Query {
			n++
		}
		row := int(places[first.Sentence]) + int(first.Query)*b.Source.Sentences.Len(int(first.Sentence))
		for _, point := range points[:n] {
			if targets[row+int(point.Key)] = 1; !squared {
				targets[row+int(point.Key)] = 1 / float32(n)
			}
		}
		points = points[n:]
	}
	return targets, places
}

// activate returns f(x). Functions that are not zero of zeros have to know of the gaps between columns.
func (t *tape) activate(x *matrix, of gpukernels.Spacing, f model.Activation) *matrix {
	if f == model.Identity {
		return x
	}
	y := t.matrix(x.rows, x.cols)
	t.record(func() error { return t.kernels.Activate(t.stream, y.at, x.at, x.numbers(), of, int(f)) }, func() error {
		return t.contribute(x, func(dx cuda.Pointer) error {
			return t.kernels.ActivateBackward(t.stream, dx, y.grad, x.at, x.numbers(), int(f))
		})
	})
	return y
}

// gatedSum returns σ(a)·u + σ(b)·v, or with b = nil, as in highway connections, σ(a)·u + (1 - σ(a))·v.
func (t *tape) gatedSum(a, u, b, v *matrix) *matrix {
	y := t.matrix(a.rows, a.cols)
	g := gpukernels.GatedSum{A: a.at, U: u.at, V: v.at, N: a.numbers()}
	if b != nil {
		g.B = b.at
	}
	t.record(func() error { return t.kernels.GatedSum(t.stream, y.at, g) }, func() error {
		return t.contributeAll([]*matrix{a, u, b, v}, func(to []cuda.Pointer) error {
			return t.kernels.GatedSumBackward(t.stream, gpukernels.GatedSum{A: to[0], U: to[1], B: to[2], V: to[3]}, y.grad, g)
		})
	})
	return y
}

func (s *side) columns(n int) gpukernels.Columns {
	return gpukernels.Columns{Starts: s.sentences.Starts, Sentences: s.count, Columns: n}
}

// runningMean returns for each row the mean of those of its sentence up to it.
func (t *tape) runningMean(x *matrix, s *side) *matrix {
	y, columns := t.matrix(x.rows, x.cols), s.columns(x.cols)
	t.record(func() error { return t.kernels.Mean(t.stream, y.at, x.at, columns) }, func() error {
		return t.contribute(x, func(dx cuda.Pointer) error { return t.kernels.MeanBackward(t.stream, dx, y.grad, columns) })
	})
	return y
}

// sru returns the outputs of simple recurrent units.
func (t *tape) sru(f, r, w, x *matrix, s *side) *matrix {
	h, states, columns := t.matrix(x.rows, x.cols), t.floats(x.numbers()), s.columns(x.cols)
	units := gpukernels.SRU{W: w.at, F: f.at, R: r.at, X: x.at}
	t.record(func() error { return t.kernels.SRU(t.stream, h.at, states, units, columns) }, func() error {
		return t.contributeAll([]*matrix{w, f, r, x}, func(to []cuda.Pointer) error {
			return t.kernels.SRUBackward(t.stream, gpukernels.SRU{W: to[0], F: to[1], R: to[2], X: to[3]}, h.grad, states, units, columns)
		})
	})
	return h
}

// loss puts the cross-entropy of the output layer and its gradients into the stream, and returns where the statistics of the rows will be.
func (t *tape) loss(h *matrix, o *model.Output, words []int32, weights []float32, smoothing float64) cuda.Pointer {
	h = t.input(h)
	vocabulary := t.worker.network.Parameter(o.W).Rows
	chunk := gpukernels.LossChunk(h.rows, vocabulary)
	before := t.wanted
	l := gpukernels.TrainingLoss{H: h.view(), Weights: gpukernels.Matrix{At: t.stored(o.W), Rows: vocabulary, Columns: h.cols}, Bias: t.value(o.Bias),
		Smoothing: float32(smoothing), Chunk: chunk, Logits: t.floats(h.rows * chunk)}
	if !t.judging {
		l.Gradients, l.Groups = t.take(2*h.rows*chunk), t.floats(gpukernels.GroupNumbers(h.rows, chunk))
	}
	t.logits, t.targets, t.vocabulary = t.wanted-before, h.rows, vocabulary
	l.Words, l.Statistics = t.put(words), t.floats(4*h.rows)
	if len(weights) > 0 {
		l.RowWeights = t.putNumbers(weights)
	}
	t.do(func() error { return t.kernels.Loss(t.stream, l) })
	if !t.judging {
		t.lossBackward(h, o, l)
	}
	return l.Statistics
}

// lossBackward adds the gradients of the output layer at once, while its logits are made piece by piece.
func (t *tape) lossBackward(h *matrix, o *model.Output, l gpukernels.TrainingLoss) {
	dh := t.floats(h.numbers())
	t.do(func() error { return t.stream.Zero(dh, 4*h.numbers()) })
	t.do(func() error { return t.kernels.LossBackward(t.stream, dh, t.slope(o.W), t.slope(o.Bias), l) })
	t.do(func() error {
		return t.contribute(h, func(at cuda.Pointer) error { return t.kernels.Store(t.stream, at, dh, h.numbers()) })
	})
}
