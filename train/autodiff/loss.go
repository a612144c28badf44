package autodiff

import "math"

// tileNumbers is about how many logits exist at a time: few enough to fit into memory whatever the batch, enough rows that
// the products with the output matrix are worth reading it.
const tileNumbers = 8 << 20

// Targets are what the output layer should give.
type Targets struct {
	Words     []int32   // one for each row
	Weights   []float32 // of the rows' losses; nil is 1 each
	Smoothing float64   // of labels: this much of the probability is spread evenly over the vocabulary
	LogProbs  []float64 // if not nil, receives the log-probability of each row's word
}

func (s *Targets) weight(i int) float64 {
	if s.Weights == nil {
		return 1
	}
	return float64(s.Weights[i])
}

// CrossEntropy returns the loss of the output layer h·wᵀ + bias, summed over the rows: with the smoothing α and the
// vocabulary size V, -Σ q·log p over the vocabulary, where q is α/V everywhere and 1-α more at the target. h: rows × d,
// w: V × d, bias: 1 × V, or nil. Gradients are added at once. Logits are made for a tile of rows at a time, which are all
// rows of a small batch, and never more than fit into memory.
func (t *Tape[T]) CrossEntropy(h, w, bias *Matrix[T], targets Targets) float64 {
	checkShape(w, w.Rows, h.Cols, "the output matrix")
	if bias != nil {
		checkShape(bias, 1, w.Rows, "the bias of the output")
	}
	tile := max(1, min(h.Rows, tileNumbers/w.Rows))
	if cap(t.tile) < tile*w.Rows {
		t.tile = Numbers[T](tile * w.Rows)
	}
	t.tile = t.tile[:tile*w.Rows]
	biasMean := 0.0
	if targets.Smoothing > 0 {
		biasMean = t.meanOutput(w, bias)
	}
	loss := 0.0
	for first := 0; first < h.Rows; first += tile {
		n := min(tile, h.Rows-first)
		logits := view(t.tile[:n*w.Rows], n, w.Rows)
		t.logits(logits, h.rows(h.Value, first, n), w, bias)
		for i := range n {
			mean := 0.0
			if targets.Smoothing > 0 {
				mean = float64(dot(h.Row(first+i), t.columnMean)) + biasMean
			}
			loss += t.rowLoss(logits.row(i), first+i, mean, &targets)
		}
		if t.recording {
			t.crossEntropyBackward(logits, h, w, bias, first)
		}
	}
	return loss
}

// meanOutput finds what gives the mean of a row's logits without going through them: h times the mean of the rows of w, which
// it leaves in columnMean, plus the mean of the bias, which it returns.
func (t *Tape[T]) meanOutput(w, bias *Matrix[T]) float64 {
	t.columnMean = grow(t.columnMean, w.Cols)
	clear(t.columnMean)
	for i := range w.Rows {
		t.device.Add(t.columnMean, w.Row(i))
	}
	for i := range t.columnMean {
		t.columnMean[i] /= T(w.Rows)
	}
	if bias == nil {
		return 0
	}
	return float64(sum(bias.Value)) / float64(w.Rows)
}

// kept returns the values of a matrix that is an operand for every tile.
func kept[T Float](m *Matrix[T]) View[T] {
	v := view(m.Value, m.Rows, m.Cols)
	v.Kept = true
	return v
}

// rows returns some rows of the values or gradients of a matrix.
func (m *Matrix[T]) rows(data []T, first, n int) View[T] {
	return view(data[first*m.Cols:(first+n)*m.Cols], n, m.Cols)
}

func (t *Tape[T]) logits(logits, h View[T], w, bias *Matrix[T]) {
	var values []T
	if bias != nil {
		values = bias.Value
	}
	t.device.Affine(logits, h, kept(w), TransposedB, values, Identity)
}

// Logits returns h·wᵀ + bias, without gradients.
func (t *Tape[T]) Logits(h, w, bias *Matrix[T]) *Matrix[T] {
	m := t.matrices.next()
	*m = Matrix[T]{Rows: h.Rows, Cols: w.Rows, Value: t.arena.take(h.Rows * w.Rows)}
	t.logits(view(m.Value, m.Rows, m.Cols), view(h.Value, h.Rows, h.Cols), w, bias)
	return m
}

// rowLoss returns the loss of a row whose logits have that mean, and replaces the logits by their gradients: p - q, times the
// row's weight.
func (t *Tape[T]) rowLoss(logits []T, row int, mean float64, targets *Targets) float64 {
	word, weight, smoothing := targets.Words[row], targets.weight(row), targets.Smoothing
	target := float64(logits[word])
	logSum := t.device.SoftmaxRow(logits)
	if targets.LogProbs != nil {
		targets.LogProbs[row] = target - logSum
	}
	if !t.recording {
		return (logSum - (1-smoothing)*target - smoothing*mean) * weight
	}
	factor, spread := T(weight), T(weight*smoothing/float64(len(logits)))
	if factor != 1 || spread != 0 {
		for i, p := range logits {
			logits[i] = p*factor - spread
		}
	}
	logits[word] -= T(weight * (1 - smoothing))
	return (logSum - (1-smoothing)*target - smoothing*mean) * weight
}

// crossEntropyBackward takes the gradients g of the logits of some rows: dh = g·w, dw = gᵀ·h, dbias = Σ g over the rows.
func (t *Tape[T]) crossEntropyBackward(g View[T], h, w, bias *Matrix[T], first int) {
	if h.Grad != nil {
		t.device.Multiply(h.rows(h.Grad, first, g.Rows), g, kept(w), Straight, true)
	}
	if w.Grad != nil {
		t.device.Multiply(view(w.Grad, w.Rows, w.Cols), g, h.rows(h.Value, first, g.Rows), TransposedA, true)
	}
	if bias != nil && bias.Grad != nil {
		for i := range g.Rows {
			t.device.Add(bias.Grad, g.row(i))
		}
	}
}

// An AlignmentPoint says that a query, a target word, belongs to a key, a source word, in a sentence. Numbers count from 0,
// within the batch and within the sentence.
type AlignmentPoint struct{ Sentence, Query, Key int32 }

// An AlignmentCost is a measure of how far attention is from an alignment.
type AlignmentCost uint8

// The costs, with Marian's definitions: a is 1 at the points and 0 elsewhere, p the attention.
const (
	AlignmentCE  AlignmentCost = iota // -Σ a·log(p + 1e-6), a divided by the number of the target word's points
	AlignmentMSE                      // Σ (p - a)²/2
)

const alignmentEpsilon = 1e-6

// AlignmentLoss returns the cost of the first head of an attention, times weight, and adds its gradients. Points come in the
// order of sentences and queries.
func (t *Tape[T]) AlignmentLoss(o *Attention[T], points []AlignmentPoint, cost AlignmentCost, weight float64) float64 {
	total := 0
	for s := range o.queries.Sentences() {
		total += o.queries.Len(s) * o.keys.Len(s)
	}
	grad := t.arena.take(total)
	clear(grad)
	loss, begin, alignment := 0.0, 0, 0
	for s := range o.queries.Sentences() {
		p := o.place(o.weights, begin, s, 0)
		n := 0
		for n < len(points) && int(points[n].Sentence) == s {
			n++
		}
		loss += weight * alignmentCost(cost, grad[alignment:alignment+len(p.Data)], p, points[:n], weight)
		points = points[n:]
		begin += o.heads * len(p.Data)
		alignment += len(p.Data)
	}
	if t.recording {
		o.alignmentGrad = grad
	}
	return loss
}

// alignmentCost returns the cost of a sentence with the weights p, and sets the gradients, multiplied by weight.
func alignmentCost[T Float](c AlignmentCost, grad []T, p View[T], points []AlignmentPoint, weight float64) float64 {
	loss := 0.0
	if c == AlignmentMSE {
		for i, v := range p.Data {
			loss += float64(v) * float64(v) / 2
			grad[i] = T(weight) * v
		}
		for _, point := range points {
			at := int(point.Query)*p.Cols + int(point.Key)
			loss += 0.5 - float64(p.Data[at])
			grad[at] -= T(weight)
		}
		return loss
	}
	for len(points) > 0 {
		n := 1
		for n < len(points) && points[n].Query == points[0].Query {
			n++
		}
		for _, point := range points[:n] {
			at := int(point.Query)*p.Cols + int(point.Key)
			v := float64(p.Data[at]) + alignmentEpsilon
			loss -= math.Log(v) / float64(n)
			grad[at] -= T(weight / (v * float64(n)))
		}
		points = points[n:]
	}
	return loss
}
