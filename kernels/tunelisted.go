package kernels

import (
	"math"
	"time"
)

const (
	// listedRows is how many rows products are measured with, listedLow and listedHigh are which shares of activations are something:
	// between them, and a little beyond, time is proportional.
	listedRows                      = 48
	listedLow, listedHigh           = 100, 400
	listedRounds                    = 21
	listedLeast, listedMost         = 1, 600
	listedMargin            float64 = 0.95 // of the time of other products that lists may take
)

// measureListed finds for which share of activations lists pay, from the time that the matrices of a shape take with lists of two lengths
// and without, one after another and in turns, as measure does.
func (t Tuning) measureListed(d time.Duration, matrices []Matrix) {
	low, high := newListedInput(matrices, listedLow), newListedInput(matrices, listedHigh)
	const always, byLists = nonzeroShare(1000), 3
	trials := [byLists]struct {
		input tuningInput
		share nonzeroShare
	}{{low, -1}, {low, always}, {high, always}}
	took, start := make(map[string]*[byLists][]float64), time.Now()
	for _, m := range matrices {
		took[nonzeroOf(m)] = new([byLists][]float64)
	}
	for round := 0; round <= listedRounds && (round < 2 || time.Since(start) < d); round++ {
		for turn := range trials {
			i := (turn + round) % len(trials)
			seconds := make(map[string]float64)
			for _, m := range matrices {
				*m.listed() = trials[i].share
				key, begin := nonzeroOf(m), time.Now()
				m.multiply(trials[i].input, listedRows)
				seconds[key] += time.Since(begin).Seconds()
			}
			if round == 0 {
				continue
			}
			for key, s := range seconds {
				took[key][i] = append(took[key][i], s)
			}
		}
	}
	for _, m := range matrices {
		*m.listed() = 0
		times := took[nonzeroOf(m)]
		t[nonzeroOf(m)] = listedShare(median(times[0]), median(times[1]), median(times[2]))
	}
}

// listedShare returns up to which share lists pay, given the times of a product without lists, and of those with lists for listedLow and
// listedHigh.
func listedShare(without, low, high float64) int {
	without *= listedMargin
	if high <= low { // a disturbed moment
		return 0
	}
	share := listedLow + (without-low)/(high-low)*(listedHigh-listedLow)
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
