package score

import (
	"fmt"
	"math"
	"slices"
)

// Samples and Seed are what sacreBLEU resamples with unless told otherwise.
const (
	Samples = 1000
	Seed    = 12345
)

// An Interval is a mean of resampled scores and half the width of the range that 95 % of them lie in.
type Interval struct {
	Mean, HalfWidth float64
	Samples         int
	Seed            uint64
}

func (v *Interval) text(places int) string {
	return fmt.Sprintf("μ = %.*f ± %.*f", places, v.Mean, places, v.HalfWidth)
}

// Bootstrap estimates how far the score of a corpus depends on the choice of its segments: it draws as many segments as
// there are, with replacement, samples times, and scores each draw. The draws are those of sacreBLEU for the same seed.
func Bootstrap(metric Metric, hypotheses []string, references [][]string, samples int, seed uint64) (Interval, error) {
	if samples < 1 {
		return Interval{}, fmt.Errorf("score: %d samples: at least one is needed", samples)
	}
	counts, err := segments(metric, hypotheses, references)
	if err != nil {
		return Interval{}, err
	}
	return interval(resample(metric, counts, samples, seed), seed), nil
}

// A Comparison is what a paired test says about a system and a baseline.
type Comparison struct {
	Baseline, System                 float64 // scores of the whole corpus
	BaselineInterval, SystemInterval Interval
	// PValue is how probable a difference of this size is if both are equally good.
	PValue float64
}

// PairedBootstrap compares two translations of the same text (Koehn 2004), as sacrebleu --paired-bs does: both are
// scored on the same random draws of segments, and the p-value is the share of draws whose difference lies further from
// the mean difference than the real one from zero.
func PairedBootstrap(metric Metric, baseline, system []string, references [][]string, samples int, seed uint64) (Comparison, error) {
	if samples < 1 {
		return Comparison{}, fmt.Errorf("score: %d samples: at least one is needed", samples)
	}
	ours, err := segments(metric, system, references)
	if err != nil {
		return Comparison{}, err
	}
	theirs, err := segments(metric, baseline, references)
	if err != nil {
		return Comparison{}, err
	}
	c := Comparison{Baseline: metric.points(sum(theirs)), System: metric.points(sum(ours))}
	a, b := resample(metric, theirs, samples, seed), resample(metric, ours, samples, seed)
	differences := make([]float64, samples)
	for i := range differences {
		differences[i] = math.Abs(b[i] - a[i])
	}
	center, beyond := mean(differences), 0
	for _, d := range differences {
		if d-center > math.Abs(c.Baseline-c.System) {
			beyond++
		}
	}
	c.PValue = float64(beyond+1) / float64(samples+1)
	c.BaselineInterval, c.SystemInterval = interval(a, seed), interval(b, seed)
	return c, nil
}

// resample scores random draws.
func resample(metric Metric, counts [][]int64, samples int, seed uint64) []float64 {
	random := newNumpyRandom(seed)
	scores := make([]float64, samples)
	total := make([]int64, len(counts[0]))
	for i := range scores {
		clear(total)
		for range counts {
			for j, n := range counts[random.below(uint32(len(counts)))] {
				total[j] += n
			}
		}
		scores[i] = metric.points(total)
	}
	return scores
}

// interval sorts the scores.
func interval(scores []float64, seed uint64) Interval {
	average := mean(scores)
	slices.Sort(scores)
	outside := len(scores) / 40
	return Interval{
		Mean:      average,
		HalfWidth: (scores[len(scores)-outside-1] - scores[outside]) / 2,
		Samples:   len(scores), Seed: seed,
	}
}

func mean(values []float64) float64 {
	total := 0.0
	for _, v := range values {
		total += v
	}
	return total / float64(len(values))
}
