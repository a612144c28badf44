package gpunetwork

import (
	"math"
	"slices"

	"github.com/sluice-mt/sluice/gpukernels"
	"github.com/sluice-mt/sluice/gpukernels/cuda"
	"github.com/sluice-mt/sluice/train/autodiff"
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
	s.sentences = gpukernels.Sentences{Of: put(t, of), Starts: put(t, starts), Rows: len(of)}
	s.positions = put(t, positions)
	return s
}

// rowsOfTokens lists the rows of each token, in ascending order of tokens and rows. Negative tokens are left out.
func rowsOfTokens(tokens []int32) (order, starts []int32) {
	for row, token := range tokens {
		if token >= 0 {
			order = append(order, int32(row))
		}
	}
	slices.SortStableFunc(order, func(a, b int32) int { return int(tokens[a]) - int(tokens[b]) })
	for i, row := range order {
		if i == 0 || tokens[row] != tokens[order[i-1]] {
			starts = append(starts, int32(i))
		}
	}
	return order, append(starts, int32(len(order)))
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
	table := autodiff.Sinusoids[float32](max(longest+longest/2, 128), w.network.Model.Dim)
	at, err := cuda.Alloc[float32](w.context, len(table.Value))
	if err != nil {
		return err
	}
	*p = positionTable{at, table.Rows}
	return cuda.CopyIn(w.stream, at, table.Value)
}

// embed returns the vectors of tokens, with those of their positions, if the model has any. Whole words are dropped with probability p.
func (t *tape) embed(table *marian.Tensor, tokens []int32, s *side, p float64) *matrix {
	m := t.worker.network.Model
	y := t.matrix(len(tokens), m.Dim)
	e := gpukernels.Embedding{Tokens: put(t, tokens), Factor: 1}
	var signal cuda.Pointer
	if !m.NoPositions {
		e.Factor = float32(math.Sqrt(float64(m.Dim)))
		t.do(func() error { return t.worker.reservePositions(s.longest) })
		signal = t.worker.positions.at
	}
	e.Dropout = t.draw(p)
	order, starts := rowsOfTokens(tokens)
	rows := gpukernels.TokenRows{Order: put(t, order), Starts: put(t, starts), Count: len(starts) - 1}
	t.record(func() error { return t.kernels.Embed(t.stream, y.view(), e, t.stored(table), signal, s.positions) },
		func() error { return t.kernels.EmbedBackward(t.stream, t.slope(table), y.grad, m.Dim, e, rows) })
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

// attend returns multi-head attention.
func (t *tape) attend(q, k, v *matrix, queries, keys *side, causal bool, dropout float64) *matrix {
	heads := t.worker.network.Model.Heads
	y := t.matrix(q.rows, q.cols)
	a := gpukernels.TrainingAttention{Q: q.at, K: k.at, V: v.at, Out: y.at, LogSums: t.floats(q.rows * heads), Queries: queries.sentences,
		Keys: keys.sentences, Width: q.cols, Heads: heads, Causal: causal, Scale: float32(1 / math.Sqrt(float64(q.cols/heads))), Dropout: t.draw(dropout)}
	t.record(func() error { return t.kernels.Attention(t.stream, a) }, func() error {
		inners := t.floats(q.rows * heads)
		if t.err != nil {
			return t.err
		}
		return t.contribute(q, func(dq cuda.Pointer) error {
			return t.contribute(k, func(dk cuda.Pointer) error {
				return t.contribute(v, func(dv cuda.Pointer) error {
					return t.kernels.AttentionBackward(t.stream, dq, dk, dv, y.grad, inners, a)
				})
			})
		})
	})
	return y
}

// loss puts the cross-entropy of the output layer and its gradients into the stream, and returns where the statistics of the rows will be.
func (t *tape) loss(h *matrix, o *model.Output, words []int32, weights []float32, smoothing float64) cuda.Pointer {
	vocabulary := t.worker.network.Parameter(o.W).Rows
	chunk := gpukernels.LossChunk(h.rows, vocabulary)
	before := t.wanted
	l := gpukernels.TrainingLoss{H: h.view(), Weights: gpukernels.Matrix{At: t.stored(o.W), Rows: vocabulary, Columns: h.cols}, Bias: t.value(o.Bias),
		Smoothing: float32(smoothing), Chunk: chunk, Logits: t.floats(h.rows * chunk), Gradients: t.take(2 * h.rows * chunk),
		Groups: t.floats(gpukernels.GroupNumbers(h.rows, chunk))}
	t.logits, t.targets, t.vocabulary = t.wanted-before, h.rows, vocabulary
	l.Words, l.Statistics = put(t, words), t.floats(4*h.rows)
	if len(weights) > 0 {
		l.RowWeights = put(t, weights)
	}
	dh := t.floats(h.numbers())
	t.do(func() error { return t.stream.Zero(dh, 4*h.numbers()) })
	t.do(func() error { return t.kernels.Loss(t.stream, l) })
	t.do(func() error { return t.kernels.LossBackward(t.stream, dh, t.slope(o.W), t.slope(o.Bias), l) })
	t.do(func() error {
		return t.contribute(h, func(at cuda.Pointer) error { return t.kernels.Store(t.stream, at, dh, h.numbers()) })
	})
	return l.Statistics
}
