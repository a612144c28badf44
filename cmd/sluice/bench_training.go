package main

import (
	"fmt"
	"io"
	"math/rand/v2"
	"text/tabwriter"
	"time"

	"github.com/sluice-mt/sluice/gpukernels"
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
	Busy      float64 `json:"device_busy_share"` // of the elapsed time, in which the device worked on something
	OfUpdate  float64 `json:"device_microseconds_per_update"`
	Host      float64 `json:"host_microseconds_per_update"` // without waiting for the device
	Bound     float64 `json:"roofline_pieces"`              // target pieces a second at most; 0 where the card's peaks are not known
	Reached   float64 `json:"share_of_the_roofline"`
}

// benchTraining trains a student on random sentences: whole updates, after four that are a warm-up, since both feeds take their memory at their second
// use. Then as many are made with the device's clock, whose events take time, too, after others that make the events.
func benchTraining(driver *cuda.Driver, device int, s student, of card, pieces, updates int) (trainingRow, error) {
	row := trainingRow{Model: s.Name, Pieces: pieces}
	b, err := openTrainingBench(driver, device, s, pieces)
	if err != nil {
		return row, err
	}
	defer b.trainer.Close()
	const warmUp = 4
	if _, _, err := b.update(warmUp); err != nil {
		return row, err
	}
	elapsed, times, err := b.update(updates)
	if err != nil {
		return row, err
	}
	row.PerSecond = float64(updates*pieces) / elapsed.Seconds()
	row.Host = microsecondsEach(elapsed-times.Waited, updates)
	if of.tensor > 0 {
		row.Bound = of.trainingRoofline(s, pieces)
		row.Reached = row.PerSecond / row.Bound
	}
	if err := b.trainer.Measure(); err != nil {
		return row, err
	}
	if _, _, err := b.update(updates); err != nil {
		return row, err
	}
	if elapsed, times, err = b.update(updates); err != nil {
		return row, err
	}
	busy := gpukernels.Busy(times.Stretches)
	row.Busy = min(busy.Seconds()/elapsed.Seconds(), 1) // of two clocks
	row.OfUpdate = microsecondsEach(busy, updates)
	return row, nil
}

// microsecondsEach is the share of each of n in a time, in microseconds.
func microsecondsEach(d time.Duration, n int) float64 {
	return float64(d) / float64(time.Microsecond) / float64(n)
}

// A trainingBench makes updates with the same mini-batch again and again.
type trainingBench struct {
	trainer   *gpunetwork.Trainer
	optimiser *optimiser.Optimiser
	batch     *network.Batch
	updates   uint64 // so far
}

func openTrainingBench(driver *cuda.Driver, device int, s student, pieces int) (*trainingBench, error) {
	m, err := model.New([]byte(s.description()))
	if err != nil {
		return nil, err
	}
	n, err := network.New(m)
	if err != nil {
		return nil, err
	}
	values := make([]float32, n.Size())
	n.Initialise(values, 1)
	config := optimiser.Config{Beta1: 0.9, Beta2: 0.98, Epsilon: 1e-9, LearnRate: 1e-4, ClipNorm: 1, Smoothing: 1e-4}
	o := optimiser.New(config, values)
	trainer, err := gpunetwork.Open(driver, []int{device}, n, o.State())
	if err != nil {
		return nil, err
	}
	return &trainingBench{trainer: trainer, optimiser: o, batch: randomPairs(s, pieces)}, nil
}

// update makes some updates, waits for the last of them, and returns how long that took, and what the trainer measured meanwhile.
func (b *trainingBench) update(updates int) (elapsed time.Duration, measured gpunetwork.Times, err error) {
	before, err := b.trainer.Times(0)
	if err != nil {
		return 0, measured, err
	}
	began := time.Now()
	for range updates {
		if err := updateOn(b.trainer, b.optimiser, b.batch, b.updates); err != nil {
			return 0, measured, err
		}
		b.updates++
	}
	if _, err := b.trainer.Squares(1); err != nil { // which waits for the last update
		return 0, measured, err
	}
	elapsed = time.Since(began)
	after, err := b.trainer.Times(0)
	return elapsed, gpunetwork.Times{Waited: after.Waited - before.Waited, Stretches: after.Stretches[len(before.Stretches):]}, err
}

// updateOn makes an update as a training does, which waits once: for the squares, with which the loss comes.
func updateOn(trainer *gpunetwork.Trainer, o *optimiser.Optimiser, batch *network.Batch, seed uint64) error {
	if err := trainer.Begin(0, batch, network.Options{LabelSmoothing: 0.1, Dropout: 0.1}, seed); err != nil {
		return err
	}
	scale := 1 / float64(len(batch.Target.Tokens))
	square, err := trainer.Squares(scale)
	if err != nil {
		return err
	}
	if _, err := trainer.Losses(0); err != nil {
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
	fmt.Fprintln(t, "trained model\ttarget pieces of a mini-batch\ttarget pieces/s\tdevice busy\tof an update, µs: device\thost\troofline\t")
	for _, row := range rows {
		bound := "-"
		if row.Bound > 0 {
			bound = fmt.Sprintf("%.0f %%", 100*row.Reached)
		}
		fmt.Fprintf(t, "%s\t%d\t%s\t%.0f %%\t%.0f\t%.0f\t%s\t\n", row.Model, row.Pieces, formatCount(int64(row.PerSecond)), 100*row.Busy,
			row.OfUpdate, row.Host, bound)
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
