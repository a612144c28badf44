package train

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"sync"

	"github.com/sluice-mt/sluice/train/network"
	"github.com/sluice-mt/sluice/train/optimiser"
)

// update trains on the next mini-batches of all workers and moves the parameters.
func (r *run) update() error {
	position := r.state.Position
	if err := r.readBatches(); err != nil {
		return err
	}
	if err := r.workAll(); err != nil {
		return r.undone(position, err)
	}
	r.state.Steps++
	if err := r.step(); err != nil {
		return r.failed(fmt.Errorf("update %d: %w", r.state.Steps, err))
	}
	r.state.Optimiser = r.optimiser.Counts
	if r.optimiser.Consecutive >= r.config.MaxSkipped {
		return fmt.Errorf("%w: the last %d updates were skipped, since loss or gradient were not finite or far too large; start again "+
			"from a checkpoint or from the beginning with a smaller learn-rate, a longer lr-warmup or clip-norm", ErrDiverged, r.optimiser.Consecutive)
	}
	return nil
}

// readBatches reads the mini-batches of an update, those of the first worker first. At the end of the last epoch some stay
// empty.
func (r *run) readBatches() error {
	for w := range r.mini {
		for i := range r.mini[w] {
			r.mini[w][i].Reset()
			over, err := r.lastEpochOver()
			if err != nil {
				return err
			}
			if over {
				continue
			}
			if err := r.batches.Next(&r.mini[w][i]); err != nil {
				return err
			}
			r.state.Position = r.batches.Position()
		}
	}
	return nil
}

// workAll lets all workers add up the gradients of their mini-batches. Meanwhile what comes next in the corpus is read and sorted, so that devices do not
// wait for that.
func (r *run) workAll() error {
	failures := make([]error, len(r.mini)+1)
	var group sync.WaitGroup
	for w := range r.mini {
		group.Go(func() { failures[w] = r.work(w) })
	}
	group.Go(func() { _, failures[len(r.mini)] = r.batches.Peek() })
	group.Wait()
	return cmp.Or(failures...)
}

// work adds up the gradients of a worker's mini-batches.
func (r *run) work(w int) error {
	for i := range r.mini[w] {
		r.losses[w][i] = network.Loss{}
		b := &r.mini[w][i]
		if b.Sentences() == 0 {
			continue
		}
		seed := dropoutSeed(r.config.Seed, uint64(r.state.Steps), uint64(w*len(r.mini[w])+i))
		if r.device == nil {
			r.losses[w][i] = r.replicas[w].Train(b, r.options, seed)
		} else if err := r.device.Begin(w, b, r.options, seed); err != nil {
			return err
		}
	}
	return nil
}

// dropoutSeed returns the seed of a mini-batch: different numbers for every one of a training, mixed well enough that what is
// made of them does not show it (the constants are SplitMix64's).
func dropoutSeed(seed, step, number uint64) uint64 {
	h := seed
	for _, n := range [2]uint64{step, number} {
		h += 0x9e3779b97f4a7c15 + n
		h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
		h = (h ^ h>>27) * 0x94d049bb133111eb
		h ^= h >> 31
	}
	return h
}

// scale is that of the gradient of so many target pieces in so many pairs.
func (r *run) scale(words, sentences int) float64 {
	switch r.config.CostType {
	case "ce-mean-words":
		return 1 / float64(words)
	case "ce-mean":
		return 1 / float64(sentences)
	}
	return 1
}

// step adds up the losses, in the order of workers and mini-batches, and moves the parameters.
func (r *run) step() error {
	var words, sentences int
	for w := range r.mini {
		for i := range r.mini[w] {
			words += len(r.mini[w][i].Target.Tokens)
			sentences += r.mini[w][i].Sentences()
		}
	}
	scale := r.scale(words, sentences)
	square, err := r.squares(scale)
	if err != nil {
		return err
	}
	loss := 0.0
	for w := range r.losses {
		for i := range r.losses[w] {
			if l := &r.losses[w][i]; l.Words > 0 {
				loss += l.Total()
			}
		}
	}
	r.words += words
	r.state.Words += int64(words)
	lowered := r.optimiser.Lowered
	if math.IsNaN(loss) || math.IsInf(loss, 0) {
		err := r.skip()
		r.report = optimiser.Report{}
		r.skipped(errLoss, lowered)
		return err
	}
	r.state.Window.Loss += loss
	r.state.Window.Words += words
	r.report, err = r.move(scale, square)
	if errors.Is(err, optimiser.ErrNotFinite) || errors.Is(err, optimiser.ErrOutlier) {
		r.skipped(err, lowered)
		return nil
	}
	if err != nil {
		return err
	}
	return r.roundTrained()
}

var errLoss = errors.New("the loss is not finite")

// skipped says why an update was skipped, and what became of the rate, which had been lowered so many times before.
func (r *run) skipped(reason error, lowered int) {
	r.logger.Warn("an update was skipped", "update", r.state.Steps, "reason", reason, "gradient_norm", fmt.Sprintf("%.3f", r.report.Norm),
		"in_a_row", r.optimiser.Consecutive)
	if n := r.optimiser.Lowered; n > lowered {
		r.logger.Warn("updates are skipped again and again: the learning rate is lowered",
			"factor", math.Pow(r.config.LRLower, float64(n)), "times", n)
	}
}
