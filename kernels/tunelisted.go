package kernels

import "math"

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

// measureListed finds for which share of activations lists pay, from the time that the matrices of a shape take with lists of two lengths
// and without.
func (t Tuning) measureListed(run measurement, matrices []Matrix, wanted map[string]bool) {
	shapes := tunedShapesOf(matrices, func(m Matrix) bool { return m.listed() != nil && wanted[nonzeroOf(m)] })
	low, high := newListedInput(shapes, listedLow), newListedInput(shapes, listedHigh)
	shares := [...]nonzeroShare{neverListed, alwaysListed, alwaysListed}
	run.measure(shapes, []tunedTrial{{listedRows, []*tuningInput{low, low, high}, func(m Matrix, variant int) bool {
		*m.listed() = shares[variant]
		return true
	}}})
	for _, s := range shapes {
		times := s.times[0]
		if share := decideListed(times); share != 0 {
			t.learn(wanted, nonzeroOf(s.whole), share, times.rounds())
		}
	}
}

// decideListed returns up to which share lists pay, given the times of a product without lists, and of those with lists for listedLow and
// listedHigh; 0, which leaves it to the rule, if too little was measured.
func decideListed(took trialTimes) int {
	if took.rounds() < tunedFewest {
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
func newListedInput(shapes []*tunedShape, share int) *tuningInput {
	input := newTuningInput(shapes)
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
