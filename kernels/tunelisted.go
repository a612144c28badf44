package kernels

import (
	"math"
	"time"
)

const (
	// listedRows is how many rows products are measured with, listedLow and listedHigh are which shares of activations are something:
	// between them, and a little beyond, time is proportional.
	listedRows            = 48
	listedLow, listedHigh = 100, 400
	// listedLeast and listedMost bound what can be found. 0 would leave it to the rule.
	listedLeast, listedMost = 1, 600
	// listedMargin is which part of the time of a product without lists they may take.
	listedMargin = 0.95

	alwaysListed, neverListed nonzeroShare = 1000, -1
)

// listedTimes are the seconds that the measured matrices of a shape took together, in each round: without lists, with lists for listedLow, and
// for listedHigh.
type listedTimes [3][]float64

// measureListed finds for which share of activations lists pay, from the time that the matrices of a shape take with lists of two lengths
// and without, one after another and in turns, as measure does.
func (t Tuning) measureListed(d time.Duration, matrices []Matrix) {
	low, high := newListedInput(matrices, listedLow), newListedInput(matrices, listedHigh)
	inputs, shares := [...]tuningInput{low, low, high}, [...]nonzeroShare{neverListed, alwaysListed, alwaysListed}
	trial := tunedTrial{listedRows, func(m Matrix, variant int) bool {
		*m.listed() = shares[variant]
		return true
	}}
	took := make(map[string]*listedTimes)
	for _, m := range matrices {
		took[m.shape()] = new(listedTimes)
	}
	for round := range tunedRoundsWithin(d) {
		for turn := range inputs {
			variant := (turn + round) % len(inputs)
			seconds := trial.run(matrices, variant, inputs[variant])
			if round == 0 {
				continue
			}
			for shape, s := range seconds {
				took[shape][variant] = append(took[shape][variant], s)
			}
		}
	}
	for _, m := range matrices {
		*m.listed() = 0
		t[nonzeroOf(m)] = took[m.shape()].decide()
	}
}

// decide returns up to which share lists pay, or 0, which leaves it to the rule, if too little was measured.
func (took *listedTimes) decide() int {
	if len(took[0]) < tunedFewest {
		return 0
	}
	return listedShare(median(took[0]), median(took[1]), median(took[2]))
}

// listedShare returns up to which share lists pay, given the times of a product without lists, and of those with lists for listedLow and
// listedHigh; 0 if these cannot be: their moments were disturbed.
func listedShare(without, low, high float64) int {
	if high <= low {
		return 0
	}
	share := listedLow + (listedMargin*without-low)/(high-low)*(listedHigh-listedLow)
	return int(math.Round(min(max(share, listedLeast), listedMost)))
}

// newListedInput returns activations that are not negative, of which a share in thousandths is something, scattered.
func newListedInput(matrices []Matrix, share int) tuningInput {
	input := newTuningInput(matrices)
	state := uint32(1)
	for i := range input.bytes {
		input.bytes[i] = int8Zero
		state = state*1664525 + 1013904223
		if int(state>>16)*1000>>16 < share {
			input.bytes[i]++
		}
	}
	return input
}
