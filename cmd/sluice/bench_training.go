package main

import (
	"fmt"
	"io"
	"math/rand/v2"
	"text/tabwriter"
	"time"

	"github.com/sluice-mt/sluice/gpukernels/cuda"
	"github.com/sluice-mt/sluice/train/gpunetwork"
	"github.com/sluice-mt/sluice/train/network"
	"github.com/sluice-mt/sluice/train/optimiser"
	"github.com/sluice-mt/sluice/translator/model"
)

const (
	trainingPieces = 8192 // target pieces of a mini-batch of the benchmark, and as many of the source
	timedUpdates   = 20
)

// A trainingRow is what training an architecture on a GPU gave.
type trainingRow struct {
	Model     string  `json:"model"`
	Pieces    int     `json:"target_pieces"` // of a mini-batch
	PerSecond float64 `json:"target_pieces_per_second"`
	Bound     float64 `json:"roofline_pieces"` // target pieces a second at most; 0 where the card's peaks are not known
	Reached   float64 `json:"share_of_the_roofline"`
}

// benchTraining trains a student on random sentences: whole updates, of which the first two are a warm-up.
func benchTraining(driver *cuda.Driver, device int, s student, of card, pieces, updates int) (trainingRow, error) {
	row := trainingRow{Model: s.Name, Pieces: pieces}
	m, err := model.New([]byte(s.description()))
	if err != nil {
		return row, err
	}
	n, err := network.New(m)
	if err != nil {
		return row, err
	}
	values := make([]float32, n.Size())
	n.Initialise(values, 1)
	config := optimiser.Config{Beta1: 0.9, Beta2: 0.98, Epsilon: 1e-9, LearnRate: 1e-4, ClipNorm: 1, Smoothing: 1e-4}
	o := optimiser.New(config, values)
	trainer, err := gpunetwork.Open(driver, []int{device}, n, o.State())
	if err != nil {
		return row, err
	}
	defer trainer.Close()
	batch := randomPairs(s, pieces)
	var began time.Time
	const warmUp = 2
	for i := range warmUp + updates {
		if i == warmUp {
			began = time.Now()
		}
		if err := updateOn(trainer, o, batch, uint64(i)); err != nil {
			return row, err
		}
	}
	if _, err := trainer.Squares(1); err != nil { // which waits for the last update
		return row, err
	}
	row.PerSecond = float64(updates*pieces) / time.Since(began).Seconds()
	if of.tensor > 0 {
		row.Bound = of.trainingRoofline(s, pieces)
		row.Reached = row.PerSecond / row.Bound
	}
	return row, nil
}

// updateOn makes an update.
func updateOn(trainer *gpunetwork.Trainer, o *optimiser.Optimiser, batch *network.Batch, seed uint64) error {
	loss, err := trainer.Train(0, batch, network.Options{LabelSmoothing: 0.1, Dropout: 0.1}, seed)
	if err != nil {
		return err
	}
	scale := 1 / float64(loss.Words)
	square, err := trainer.Squares(scale)
	if err != nil {
		return err
	}
	move, _, err := o.Decide(square)
	if err != nil {
		return err
	}
	return trainer.Move(move, scale)
}

// randomPairs is sentence pairs of modelLength pieces on both sides, the last of which may be shorter.
func randomPairs(s student, pieces int) *network.Batch {
	random := rand.New(rand.NewPCG(2018, 2))
	batch := new(network.Batch)
	for left := pieces; left > 0; left -= modelLength {
		for _, side := range []*network.Side{&batch.Source, &batch.Target} {
			sentence := make([]int32, min(left, modelLength))
			for i := range sentence[1:] {
				sentence[i] = 1 + random.Int32N(int32(s.Vocabulary)-1)
			}
			side.Add(sentence)
		}
	}
	return batch
}

// trainingRoofline is the most target pieces a second that a card can train a student with, on mini-batches of so many pieces of each side:
// if every product reached the bound of memory or tensor cores, and besides products only the logits and the update took time.
func (c card) trainingRoofline(s student, pieces int) float64 {
	encoder, decoder := s.layerProducts(pieces), append(s.stepProducts(pieces), s.contextProduct(pieces))
	seconds := 0.0
	for _, stack := range []struct {
		layers   int
		products []productShape
	}{{s.Encoder, encoder}, {s.Decoder, decoder}} {
		for _, p := range stack.products {
			seconds += float64(stack.layers) * c.sumOf(p.trainingKernels())
		}
	}
	output := s.size().outputProduct(pieces)
	numbers := float64(output.m) * float64(output.n)
	const times, bytesOfLogit = 4, 2*(4+4) + 3*2 // logits twice, two gradients; written and read twice in float32, their gradients once in bfloat16 and read twice
	seconds += max(times*output.operations()/c.tensor, bytesOfLogit*numbers/c.bandwidth)
	return float64(pieces) / (seconds + c.sumOf(s.updateKernels()))
}

// sumOf is the least time for kernels one after another.
func (c card) sumOf(kernels []timedKernel) (seconds float64) {
	for _, k := range kernels {
		bound, _ := c.slower(k.bytes, k.operations)
		seconds += bound
	}
	return seconds
}

// parameters is how many numbers the student's matrices have.
func (s student) parameters() float64 {
	sum := float64(s.Vocabulary) * float64(s.Dim)
	for _, p := range s.layerProducts(1) {
		sum += float64(s.Encoder) * float64(p.n) * float64(p.k)
	}
	for _, p := range append(s.stepProducts(1), s.contextProduct(1)) {
		sum += float64(s.storedDecoders()) * float64(p.n) * float64(p.k)
	}
	return sum
}

// storedDecoders is how many layers of the decoder have parameters of their own.
func (s student) storedDecoders() int {
	if s.Autoregression == ofSSRUs {
		return 1
	}
	return s.Decoder
}

// printTraining prints a table of rows.
func printTraining(w io.Writer, rows []trainingRow) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "trained model\ttarget pieces of a mini-batch\ttarget pieces/s\troofline\t")
	for _, row := range rows {
		bound := "-"
		if row.Bound > 0 {
			bound = fmt.Sprintf("%.0f %%", 100*row.Reached)
		}
		fmt.Fprintf(t, "%s\t%d\t%s\t%s\t\n", row.Model, row.Pieces, formatCount(int64(row.PerSecond)), bound)
	}
	t.Flush()
}

// printTrainingRoofline prints the model of training for all cards and students.
func printTrainingRoofline(w io.Writer) {
	fmt.Fprintf(w, `
Likewise for training: million target pieces a second at most, in bfloat16 with mini-batches of %d pieces of each side, if nothing but
products, logits and the update took time.

`, trainingPieces)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(t, "card\t")
	for _, s := range students() {
		fmt.Fprintf(t, "%s\t", s.Name)
	}
	fmt.Fprintln(t)
	for _, c := range cards() {
		fmt.Fprintf(t, "%s\t", c.name)
		for _, s := range students() {
			fmt.Fprintf(t, "%.3f\t", c.trainingRoofline(s, trainingPieces)/1e6)
		}
		fmt.Fprintln(t)
	}
	t.Flush()
}
