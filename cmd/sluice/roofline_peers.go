package main

import (
	"fmt"
	"io"
	"math"
	"slices"
	"text/tabwriter"
)

// What other engines could do at most with the students that they have, too, those with self-attention, by one account for all: the kernels of each, each
// with the bytes that it moves in float16 and the operations of its tensor cores. What else takes their time is left out: launches without graphs, copies
// to the processor and back at each step, and caches that are moved when sentences end. So the bounds are further above what CTranslate2 does than above
// what an engine of graphs does, and ratios of bounds are not those of speeds.
//
// CTranslate2 (src/layers, src/ops/gemm.cc and src/decoding.cc of its repository, without flash attention, which has to be asked for): in float16 on GPUs, padding
// is not removed (padder.h); biases with activations, residuals, norms, the division into heads, scores, their softmax and their product with the values are
// kernels of their own; keys and values of the words are copied at each step to where one more fits (Concat); logits are stored; sentences that have ended
// leave the mini-batch, and none take their place.
//
// PyTorch: scripts/gpubench/torch_student.py, whose passes are graphs, which have one shape: the rows of sentences that have ended work on until all have,
// and attention reads the whole of the caches. Biases are part of products, attention is one kernel, logits are stored.

// An account is what the kernels of a pass take together.
type account struct {
	card
	seconds float64
	kernels int
}

// kernel adds one that moves so many numbers and has so many operations.
func (a *account) kernel(numbers, operations float64) {
	seconds, _ := a.slower(2*numbers, operations)
	a.seconds, a.kernels = a.seconds+seconds, a.kernels+1
}

// moves adds a kernel without products.
func (a *account) moves(numbers float64) { a.kernel(numbers, 0) }

// product adds one of m×k with k×n elements, which moves some more numbers.
func (a *account) product(m, n, k, more float64) { a.kernel(m*k+k*n+m*n+more, 2*m*n*k) }

// time is that of all kernels.
func (a *account) time() float64 { return max(a.seconds, a.least(a.kernels, 0)) }

// A modelledEngine says which kernels an engine has. Rows and lengths are numbers of the mean, where they differ.
type modelledEngine struct {
	name   string
	pads   bool // sentences to the longest of their mini-batch
	shrink bool // mini-batches, when sentences end; in others that are padded, rows stay until all have ended

	// encode is for so many sentences of so many pieces.
	encode func(a *account, s student, sentences, length float64)
	// step is one of the decoder for so many rows, which look at so many places of the source and as many words before them.
	step func(a *account, s student, rows, places, words float64)
}

func modelledEngines() []modelledEngine {
	return []modelledEngine{
		{"sluice", false, false, encodeOwn, stepOwn},
		{"CTranslate2", true, true, encodeCTranslate2, stepCTranslate2},
		{"PyTorch", true, false, encodePyTorch, stepPyTorch},
	}
}

func encodeOwn(a *account, s student, sentences, length float64) {
	d, f, t := float64(s.Dim), float64(s.FFN), sentences*length
	a.moves(2 * t * d) // embeddings
	for range s.Encoder {
		a.product(t, 3*d, d, 0)
		a.kernel(4*t*d, 4*t*length*d) // attention
		a.product(t, d, d, t*d)       // with the residual
		a.moves(2 * t * d)            // norm
		a.product(t, f, d, 0)
		a.product(t, d, f, t*d)
		a.moves(2 * t * d)
	}
	for range s.Decoder {
		a.product(t, 2*d, d, 0)
	}
}

func stepOwn(a *account, s student, rows, places, words float64) {
	d, f, v := float64(s.Dim), float64(s.FFN), float64(s.Vocabulary)
	a.moves(0) // what rows begin with
	a.moves(2 * rows * d)
	for range s.Decoder {
		a.product(rows, 3*d, d, 0)
		a.moves(4 * rows * d)               // keys and values are kept
		a.moves(2*rows*d + 2*rows*words*d)  // attention
		a.product(rows, d, d, rows*d)       // with the residual
		a.moves(2 * rows * d)               // norm
		a.product(rows, d, d, 0)            // queries
		a.moves(2*rows*d + 2*rows*places*d) // attention
		a.product(rows, d, d, rows*d)
		a.moves(2 * rows * d)
		a.product(rows, f, d, 0)
		a.product(rows, d, f, rows*d)
		a.moves(2 * rows * d)
	}
	a.kernel(rows*d+v*d, 2*rows*v*d) // logits are not stored
	a.moves(0)                       // the best of the parts of the vocabulary
	a.moves(0)
}

// dense is a product with a bias that is added by a kernel of its own, which may have an activation, too.
func (a *account) dense(m, n, k float64) {
	a.product(m, n, k, 0)
	a.moves(2 * m * n)
}

// joined is a residual and a norm, each a kernel.
func (a *account) joined(rows, d float64) {
	a.moves(3 * rows * d)
	a.moves(2 * rows * d)
}

// unfused is attention of so many rows to so many places, whose keys and values so many rows share, in three kernels.
func (a *account) unfused(s student, rows, places, shared float64) {
	d, scores := float64(s.Dim), rows*places*float64(s.Heads)
	keys := rows / shared * places * d
	a.kernel(rows*d+keys+scores, 2*rows*places*d)
	a.moves(2 * scores)
	a.kernel(scores+keys+rows*d, 2*rows*places*d)
}

func encodeCTranslate2(a *account, s student, sentences, length float64) {
	d, f, t := float64(s.Dim), float64(s.FFN), sentences*length
	for range 3 { // embeddings, their factor, positions
		a.moves(2 * t * d)
	}
	for range s.Encoder {
		a.dense(t, 3*d, d)
		a.moves(6 * t * d) // into heads
		for range 3 {      // queries, keys, values
			a.moves(2 * t * d)
		}
		a.unfused(s, t, length, length)
		a.moves(2 * t * d) // out of heads
		a.dense(t, d, d)
		a.joined(t, d)
		a.dense(t, f, d)
		a.dense(t, d, f)
		a.joined(t, d)
	}
	for range s.Decoder {
		a.dense(t, 2*d, d)
		a.moves(4 * t * d) // into heads
		for range 2 {      // keys, values
			a.moves(2 * t * d)
		}
	}
}

func stepCTranslate2(a *account, s student, rows, places, words float64) {
	d, f, v := float64(s.Dim), float64(s.FFN), float64(s.Vocabulary)
	for range 3 {
		a.moves(2 * rows * d)
	}
	for range s.Decoder {
		a.dense(rows, 3*d, d)
		for range 3 { // queries, keys, values
			a.moves(2 * rows * d)
		}
		for range 2 { // keys, values: those of all words
			a.moves(2 * rows * words * d)
		}
		a.unfused(s, rows, words, 1)
		a.dense(rows, d, d)
		a.joined(rows, d)
		a.dense(rows, d, d)
		a.unfused(s, rows, places, 1)
		a.dense(rows, d, d)
		a.joined(rows, d)
		a.dense(rows, f, d)
		a.dense(rows, d, f)
		a.joined(rows, d)
	}
	a.dense(rows, v, d)
	a.moves(rows * v) // the best
}

func encodePyTorch(a *account, s student, sentences, length float64) {
	d, f, t := float64(s.Dim), float64(s.FFN), sentences*length
	for range 3 {
		a.moves(2 * t * d)
	}
	for range s.Encoder {
		a.product(t, 3*d, d, 0)
		a.kernel(4*t*d, 4*t*length*d)
		a.moves(2 * t * d) // out of heads
		a.product(t, d, d, 0)
		a.joined(t, d)
		a.product(t, f, d, 0)
		a.moves(2 * t * f) // ReLU
		a.product(t, d, f, 0)
		a.joined(t, d)
	}
	for range s.Decoder {
		a.product(t, 2*d, d, 0)
		a.moves(4 * t * d) // into heads
	}
}

func stepPyTorch(a *account, s student, rows, places, words float64) {
	d, f, v := float64(s.Dim), float64(s.FFN), float64(s.Vocabulary)
	for range 5 { // embeddings, their factor, zeros at the beginning, positions
		a.moves(2 * rows * d)
	}
	a.moves(0) // the mask
	for range s.Decoder {
		a.product(rows, 3*d, d, 0)
		for range 2 { // keys, values: those of a word
			a.moves(2 * rows * d)
		}
		a.moves(2*rows*d + 2*rows*words*d)
		a.product(rows, d, d, 0)
		a.joined(rows, d)
		a.product(rows, d, d, 0)
		a.moves(2*rows*d + 2*rows*places*d)
		a.product(rows, d, d, 0)
		a.joined(rows, d)
		a.product(rows, f, d, 0)
		a.moves(2 * rows * f)
		a.product(rows, d, f, 0)
		a.joined(rows, d)
	}
	a.product(rows, v, d, 0)
	a.moves(rows) // no end before its time
	a.moves(rows * v)
	for range 4 { // tokens, output, begins, position
		a.moves(rows)
	}
}

const (
	modelRows  = 512 // sentences that are translated together
	modelBatch = 16  // mini-batches whose sentences are sorted by length together
)

// modelLengths are those of the sentences that are sorted together, the longest first: all alike, or as they are spread in news.
func modelLengths(spread float64) []int {
	lengths := make([]int, modelBatch*modelRows)
	for i := range lengths {
		quantile := (float64(i) + 0.5) / float64(len(lengths))
		lengths[len(lengths)-1-i] = lengthAt(spread, math.Sqrt2*math.Erfinv(2*quantile-1))
	}
	return lengths
}

// bound is the most source pieces a second that the engine can translate of sentences of these lengths, each as long as its translation.
func (e modelledEngine) bound(c card, s student, lengths []int) float64 {
	pieces, squares := 0.0, 0.0
	for _, length := range lengths {
		pieces, squares = pieces+float64(length), squares+float64(length)*float64(length)
	}
	if e.pads {
		seconds := 0.0
		for sentences := range slices.Chunk(lengths, modelRows) {
			seconds += e.miniBatch(c, s, sentences)
		}
		return pieces / seconds
	}
	mean := squares / pieces // that a piece's sentence has: long ones are decoded for longer
	encoder, step := account{card: c}, account{card: c}
	e.encode(&encoder, s, modelTokens/mean, mean)
	e.step(&step, s, modelRows, mean, (mean+1)/2)
	return 1 / (encoder.time()/modelTokens + step.time()/modelRows)
}

// miniBatch is the time for sentences, the longest first, that are padded.
func (e modelledEngine) miniBatch(c card, s student, lengths []int) float64 {
	encoder, longest := account{card: c}, lengths[0]
	e.encode(&encoder, s, float64(len(lengths)), float64(longest))
	seconds, rows := encoder.time(), len(lengths)
	for word := 1; word <= longest; word++ {
		step, words := account{card: c}, longest
		if e.shrink {
			for lengths[rows-1] < word {
				rows--
			}
			words = word
		}
		e.step(&step, s, float64(rows), float64(longest), float64(words))
		seconds += step.time()
	}
	return seconds
}

// printPeers prints the bounds of other engines beside those of sluice by the same account.
func printPeers(w io.Writer) {
	fmt.Fprintf(w, `
A model of other engines, not a measurement: million source pieces a second at most in float16, and in brackets how many times as many sluice could do, by one account
for all of the bytes and operations of each engine's kernels, embeddings and norms included (cmd/sluice/roofline_peers.go). %d sentences at a time, greedily; those of CTranslate2 and PyTorch are
sorted, %d mini-batches at a time, padded to the longest and not topped up. Launches without graphs, waits for the processor and moves of caches are left out,
which CTranslate2 has, and all engines are taken to reach the peaks: bounds, and ratios of bounds, say what is saved, not how fast an engine is.

`, modelRows, modelBatch)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	engines := modelledEngines()
	fmt.Fprint(t, "card\tstudent\tlengths\t")
	for _, e := range engines {
		fmt.Fprintf(t, "%s\t", e.name)
	}
	fmt.Fprintln(t)
	for _, c := range cards() {
		if !slices.Contains([]string{"A100 SXM 80GB", "L4", "H100 SXM"}, c.name) {
			continue
		}
		for _, s := range attentiveStudents()[:len(students())] {
			for _, text := range []struct {
				what   string
				spread float64
			}{{fmt.Sprint("all ", modelLength), 0}, {"of news", usualSpread}} {
				lengths := modelLengths(text.spread)
				own := engines[0].bound(c, s, lengths)
				fmt.Fprintf(t, "%s\t%s\t%s\t%.3f\t", c.name, s.Name, text.what, own/1e6)
				for _, e := range engines[1:] {
					bound := e.bound(c, s, lengths)
					fmt.Fprintf(t, "%.3f (%.2f)\t", bound/1e6, own/bound)
				}
				fmt.Fprintln(t)
			}
		}
	}
	t.Flush()
}
