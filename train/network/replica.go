package network

import (
	"math"

	"github.com/sluice-mt/sluice/train/autodiff"
	"github.com/sluice-mt/sluice/translator/marian"
	"github.com/sluice-mt/sluice/translator/model"
)

// Options are what makes training more than the evaluation of a loss. The zero Options are a plain cross-entropy.
type Options struct {
	LabelSmoothing float64

	Dropout          float64 // after layers and embeddings, wherever the description has a d
	DropoutAttention float64 // of attention weights
	DropoutFFN       float64 // inside feed-forward networks
	DropoutSource    float64 // of whole source words
	DropoutTarget    float64 // of whole target words
	DropoutRNN       float64 // of inputs and states of recurrent cells, and of what their attention compares

	AlignmentWeight float64 // of the guided alignment loss, if the batch has alignments
	AlignmentCost   autodiff.AlignmentCost
}

// A Loss is what a batch costs: sums, not means.
type Loss struct {
	CrossEntropy float64 // over the target tokens, weighted and smoothed as in training
	Alignment    float64 // with its weight
	Words        int     // target tokens, ends of sentences included
	Sentences    int
}

// Add adds another loss.
func (l *Loss) Add(other Loss) {
	l.CrossEntropy += other.CrossEntropy
	l.Alignment += other.Alignment
	l.Words += other.Words
	l.Sentences += other.Sentences
}

// Total is the whole loss.
func (l *Loss) Total() float64 { return l.CrossEntropy + l.Alignment }

// A Replica runs a network for one worker: with shared values, a gradient and a tape of its own. It belongs to one goroutine.
type Replica[T autodiff.Float] struct {
	Gradient []T // in the layout of the vector

	// Quantised says that what meets a matrix is rounded to 8 bits, row by row, as in the engine's 8-bit arithmetic.
	Quantised bool

	// Observe, if not nil, is told what meets a matrix of Network.Parameters in each product, a row for each word, and which bias is
	// added to the product, -1 for none. Of recurrent models, not every product is told.
	Observe func(parameter, bias int, x *autodiff.Matrix[T])

	network    *Network
	tape       *autodiff.Tape[T]
	parameters []autodiff.Matrix[T]
	positions  *autodiff.Matrix[T]
	options    Options
	factor     quantisedFactor[T]
	contexts   []*autodiff.Matrix[T] // of all sources, of a transformer

	// Of recurrent cells:
	products        map[*model.Product]*autodiff.Product[T]
	sourceSchedules []Schedule
	targetSchedule  Schedule
	sources         []readSource[T]
	chain           cellChain[T]
	single          [1]model.Cell // of the layer that runs
	read            []int32       // tokens of the source that hard attention is at
}

// NewReplica returns a replica over the vector of values, which others may share and which may change between calls.
func NewReplica[T autodiff.Float](n *Network, device autodiff.Device[T], values []T) *Replica[T] {
	r := newReplica(n, device)
	r.Gradient = autodiff.Numbers[T](n.size)
	for i := range n.Parameters {
		p := &n.Parameters[i]
		r.parameters = append(r.parameters, autodiff.Matrix[T]{
			Rows: p.Rows, Cols: p.Cols, Value: Values(p, values), Grad: Values(p, r.Gradient),
		})
	}
	return r
}

func newReplica[T autodiff.Float](n *Network, device autodiff.Device[T]) *Replica[T] {
	return &Replica[T]{
		network: n, tape: autodiff.NewTape(device), products: map[*model.Product]*autodiff.Product[T]{},
		sourceSchedules: make([]Schedule, n.Model.Sources()),
	}
}

// Fix leaves a table of embeddings without gradient, so that it stays as it is.
func (r *Replica[T]) Fix(table *marian.Tensor) { r.matrix(table).Grad = nil }

// Memory returns how many bytes of the arena the last batch took.
func (r *Replica[T]) Memory() int {
	var number T
	size := 4
	if any(number) == any(float64(0)) {
		size = 8
	}
	return r.tape.Used() * size
}

// Train adds the gradients of a batch's loss to Gradient and returns the loss. The seed decides about dropout.
func (r *Replica[T]) Train(b *Batch, options Options, seed uint64) Loss {
	r.options = options
	r.reset(true, seed)
	loss := r.loss(b, nil)
	r.tape.Backward()
	return loss
}

// Evaluate returns the unsmoothed loss of a batch without alignment. logProbs, if not nil, receives the log-probability of
// each target token.
func (r *Replica[T]) Evaluate(b *Batch, logProbs []float64) Loss {
	r.options = Options{}
	r.reset(false, 0)
	return r.loss(b, logProbs)
}

// Logits returns the unnormalised scores of every word of the vocabulary, for each target token, one row each. They are
// valid until the next call.
func (r *Replica[T]) Logits(b *Batch) []T {
	r.options = Options{}
	r.reset(false, 0)
	top, _ := r.forward(b)
	w, bias := r.output()
	return r.tape.Logits(r.input(top), w, bias).Value
}

func (r *Replica[T]) loss(b *Batch, logProbs []float64) Loss {
	top, attention := r.forward(b)
	w, bias := r.output()
	loss := Loss{Words: len(b.Target.Tokens), Sentences: b.Sentences()}
	targets := autodiff.Targets{Words: b.Target.Tokens, Smoothing: r.options.LabelSmoothing, LogProbs: logProbs}
	if len(b.Weights) > 0 {
		targets.Weights = b.Weights
	}
	loss.CrossEntropy = r.tape.CrossEntropy(r.operand(top, w, bias), w, bias, targets)
	if attention != nil && len(b.Alignment) > 0 && r.options.AlignmentWeight > 0 {
		loss.Alignment = r.tape.AlignmentLoss(attention, b.Alignment, r.options.AlignmentCost, r.options.AlignmentWeight)
	}
	return loss
}

// matrix returns a parameter; nil for none.
func (r *Replica[T]) matrix(t *marian.Tensor) *autodiff.Matrix[T] {
	if t == nil {
		return nil
	}
	return &r.parameters[r.network.index[t]]
}

func (r *Replica[T]) output() (w, bias *autodiff.Matrix[T]) {
	o := &r.network.Model.Output
	return r.matrix(o.W), r.matrix(o.Bias)
}

// embed returns the inputs of a stack. Whole words are dropped with the given probability; their positions stay, as in Marian.
func (r *Replica[T]) embed(table *marian.Tensor, ids []int32, sentences autodiff.Segments, longest int, dropout float64) *autodiff.Matrix[T] {
	m := r.network.Model
	factor := 1.0
	if !m.NoPositions {
		factor = math.Sqrt(float64(m.Dim))
	}
	x := r.tape.Embed(r.matrix(table), ids, factor)
	r.tape.DropoutRows(x, dropout)
	if m.NoPositions {
		return x
	}
	if r.positions == nil || r.positions.Rows < longest {
		r.positions = autodiff.Sinusoids[T](max(longest+longest/2, 128), m.Dim)
	}
	r.tape.AddPositions(x, sentences, r.positions)
	return x
}

// NewEvaluator returns a replica that can evaluate, but not train: it has no gradient.
func NewEvaluator[T autodiff.Float](n *Network, device autodiff.Device[T], values []T) *Replica[T] {
	r := newReplica(n, device)
	for i := range n.Parameters {
		p := &n.Parameters[i]
		r.parameters = append(r.parameters, autodiff.Matrix[T]{Rows: p.Rows, Cols: p.Cols, Value: Values(p, values)})
	}
	return r
}
