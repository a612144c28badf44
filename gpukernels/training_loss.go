package gpukernels

import (
	"cmp"
	"math"

	"github.com/sluice-mt/sluice/gpukernels/cuda"
)

// A TrainingLoss is the cross-entropy of the output layer H·Weightsᵀ + Bias, of which ever only Chunk columns exist at a time: see LossChunk.
type TrainingLoss struct {
	H, Weights Matrix       // rows × d, vocabulary × d, both without gaps
	Bias       cuda.Pointer // a float32 for each word; 0 for none
	Words      cuda.Pointer // int32: the target of each row
	RowWeights cuda.Pointer // float32: the weight of each row's loss; 0 for 1 each
	Smoothing  float32      // of labels

	Chunk      int          // words at a time, a multiple of 8
	Logits     cuda.Pointer // room for rows × Chunk float32
	Gradients  cuda.Pointer // room for rows × Chunk elements
	Statistics cuda.Pointer // receives four float32 for each row: see RowLoss
	Groups     cuda.Pointer // room for GroupNumbers(rows, Chunk) float32
}

// How many logits there are at a time, of how many words at least, what numbers of words are a multiple of, and of how many rows all logits may exist.
const lossNumbers, leastWords, lossGranule, wholeLossRows = 32 << 20, 512, 128, groupRows

// LossChunk chooses how many words of a vocabulary are worked on at a time: as many as keep a chunk of logits within 32 Mi numbers, and half of them at
// most. They are half, or a power of two, so that the mini-batches of a training have few kinds of products.
//
// The logits of few rows are made in one piece. A piece more is eight kernels more, which take longer to be launched than so few rows to be multiplied
// (64 rows of 32,000 words and 512 elements: 2 GFLOP a product), and all of their logits take less than a matrix of the vocabulary does.
func LossChunk(rows, vocabulary int) int {
	all, half := lossPieces(vocabulary)
	if rows <= wholeLossRows && rows*all <= lossNumbers {
		return all
	}
	chunk := leastWords
	for chunk < half && 2*chunk*rows <= lossNumbers {
		chunk *= 2
	}
	return min(chunk, half)
}

// lossPieces are the largest pieces of a vocabulary: all of it, and half of it, but no less than the smallest piece.
func lossPieces(vocabulary int) (all, half int) {
	all = blocks(vocabulary, lossGranule) * lossGranule
	half = blocks(all, 2*lossGranule) * lossGranule
	return all, min(max(half, leastWords), all)
}

// LossMemory says how much Logits, Gradients and Groups take at most: fixed bytes, and more for each row. Of many rows, most is fixed; whether
// there are so many is told by the room that there is for a mini-batch.
func LossMemory(room, vocabulary int) (fixed, ofRow int) {
	all, half := lossPieces(vocabulary)
	groups := 4 * all // the last group's, which may have one row
	ofNumbers := func(n int) int { return 6*n + n/groupRows*4 }
	if most := ofNumbers(lossNumbers); all > leastWords && room > most+most/2 {
		return most + groups, ofNumbers(leastWords)
	}
	if room > 2*ofNumbers(wholeLossRows*all) {
		return ofNumbers(wholeLossRows*(all-half)) + groups, ofNumbers(half)
	}
	return groups, ofNumbers(all)
}

// A Statistic is what is known of a row of logits.
type Statistic struct{ Largest, Sum, Target, Total float32 } // Sum is Σ exp(logit - Largest), Total Σ logit

// chunks calls work for each chunk of the vocabulary, with its logits made.
func (t *Training) chunks(s *cuda.Stream, l *TrainingLoss, work func(first, words int, weights Matrix) error) error {
	if err := need(l.Chunk > 0 && l.Chunk%8 == 0, "training loss", "%d words at a time are no multiple of 8", l.Chunk); err != nil {
		return err
	}
	for first := 0; first < l.Weights.Rows; first += l.Chunk {
		words := min(l.Chunk, l.Weights.Rows-first)
		weights := Matrix{At: cuda.Offset[uint16](l.Weights.At, first*l.Weights.stride()), Rows: words, Columns: l.Weights.Columns}
		var bias cuda.Pointer
		if l.Bias != 0 {
			bias = cuda.Offset[float32](l.Bias, first)
		}
		err := t.Product(s, TrainingProduct{A: l.H, B: weights, Order: TransposedB, Bias: bias, Sums: l.Logits,
			Result: Matrix{Rows: l.H.Rows, Columns: words, Stride: l.Chunk}})
		if err := cmp.Or(err, work(first, words, weights)); err != nil {
			return err
		}
	}
	return nil
}

// Loss fills Statistics.
func (t *Training) Loss(s *cuda.Stream, l TrainingLoss) error {
	return t.chunks(s, &l, func(first, words int, _ Matrix) error {
		return t.launch(s, "training_loss_statistics", rowGrid(l.H.Rows), rowBlock.X, cuda.Address(l.Logits), cuda.Address(l.Words),
			cuda.Address(l.Statistics), cuda.Int(l.H.Rows), cuda.Int(words), cuda.Int(l.Chunk), cuda.Int(first))
	})
}

// LossBackward computes the gradients after Loss: it adds those of H, of Weights and of Bias to the float32 there.
func (t *Training) LossBackward(s *cuda.Stream, h, weights, bias cuda.Pointer, l TrainingLoss) error {
	d := l.H.Columns
	return t.chunks(s, &l, func(first, words int, chunk Matrix) error {
		g := Matrix{At: l.Gradients, Rows: l.H.Rows, Columns: words, Stride: l.Chunk}
		err := cmp.Or(
			t.launch(s, "training_loss_gradient", rowGrid(l.H.Rows), rowBlock.X, cuda.Address(l.Logits), cuda.Address(l.Words),
				cuda.Address(l.RowWeights), cuda.Address(l.Statistics), cuda.Address(l.Gradients), cuda.Int(l.H.Rows), cuda.Int(words),
				cuda.Int(l.Chunk), cuda.Int(first), cuda.Int(l.Weights.Rows), cuda.Float(l.Smoothing)),
			t.Product(s, TrainingProduct{A: g, B: chunk, Sums: h, Add: true, Result: Matrix{Rows: l.H.Rows, Columns: d}}),
			t.Product(s, TrainingProduct{A: g, B: l.H, Order: TransposedA, Sums: cuda.Offset[float32](weights, first*d), Add: true,
				Result: Matrix{Rows: words, Columns: d}}),
		)
		if err != nil || bias == 0 {
			return err
		}
		return t.AddColumns(s, cuda.Offset[float32](bias, first), g, l.Groups)
	})
}

// Loss returns the loss of the row with weight 1: (1-smoothing)·-log p(target) plus smoothing times the mean of -log p.
func (s Statistic) Loss(smoothing float64, vocabulary int) float64 {
	logSum := float64(s.Largest) + math.Log(float64(s.Sum))
	return logSum - (1-smoothing)*float64(s.Target) - smoothing*float64(s.Total)/float64(vocabulary)
}
