package kernels

import (
	"fmt"
	"math"
	"slices"
	"time"
)

// A Tuning says, for the shapes of matrices that were measured on a processor, from how many rows of activations on products run in
// their variant that does two panels at a time: 0 where a rule decides that was right wherever it was measured. For matrices of which one or two
// rows can be multiplied in two ways it says that, too: 0 with weights that are fetched ahead, 1 with weights that the processor fetches by
// itself, which is better at it or worse. Where two panels at a time come in blocks of two heights it says which: 0 with as many rows as
// registers have room for, 1 with lowRows, which load more for a multiply-accumulate, but of which the next begins before one has stored its results.
// And for those that are multiplied with what a ReLU lets pass, it says up to how many of a thousand activations may be something for products to
// go by lists of them.
// What could not be measured yet it does not say, only at how many starts that was tried.
// It decides how long products take, never what they are. It can be kept as JSON; no number in it can do harm.
type Tuning map[string]int

// never is the rows from which on a product does two panels at a time if it never does.
const never = math.MaxInt32

// fewRows is of how many rows at most weights may be left to the processor.
const fewRows = 2

// fewOf is the key of a Tuning for how few rows are multiplied with matrices of a shape.
func fewOf(m Matrix) string { return m.shape() + ", few rows" }

// nonzeroOf is the key of a Tuning for when products with matrices of a shape go by lists.
func nonzeroOf(m Matrix) string { return m.shape() + ", nonzero" }

// lowRows is the most rows of a low block.
const lowRows = 4

// lowOf is the key of a Tuning for how high blocks of two panels are with matrices of a shape.
func lowOf(m Matrix) string { return m.shape() + ", low blocks" }

// tunedRows are the numbers of rows at which variants are compared; each speaks for the rows from the number beside it on.
var tunedRows = [...]struct{ rows, from int }{{13, 13}, {24, 19}, {48, 37}, {96, 73}}

// attemptsOf is the key of a Tuning for how often it was tried in vain to find out what belongs to a key.
func attemptsOf(key string) string { return key + ", attempts" }

const (
	// tunedAttempts is how many starts try to find out something. Then the rule is kept, or a machine that is too slow or too busy would pay
	// for it at every start.
	tunedAttempts = 5
	// tunedGain is how much faster than what the rule says a variant must be in the median of rounds, and tunedShare in how many of
	// them it must be faster at all, of tunedFewest rounds in all: other programs and guests disturb a measurement for longer than a
	// round, and their moment must not be what is remembered. lowGain is that of low blocks, which differ by one or two percent at most:
	// a wrong choice costs no more than that.
	tunedGain   = 1.06
	lowGain     = 1.003
	tunedShare  = 0.8
	tunedFewest = 5
)

// keysOf returns what a Tuning may say of a matrix.
func keysOf(m Matrix) []string {
	var keys []string
	if m.hasDouble() {
		keys = append(keys, m.shape())
	}
	if m.leaves() != nil {
		keys = append(keys, fewOf(m))
	}
	if m.low() != nil {
		keys = append(keys, lowOf(m))
	}
	if m.listed() != nil {
		keys = append(keys, nonzeroOf(m))
	}
	return keys
}

// Knows reports whether nothing about the matrices would have to be measured.
func (t Tuning) Knows(matrices ...Matrix) bool { return len(t.unknown(matrices)) == 0 }

// unknown returns the keys that t lacks, each once.
func (t Tuning) unknown(matrices []Matrix) map[string]bool {
	unknown := make(map[string]bool)
	for _, m := range matrices {
		for _, key := range keysOf(m) {
			if _, known := t[key]; !known {
				unknown[key] = true
			}
		}
	}
	return unknown
}

// Tune has the matrices of a model run as t says. What it does not know yet is measured before, for about the time d at most, first for the
// shapes that have most weights. What that is too short for is left to the rule, and to the next Tune. Nobody may use the matrices meanwhile.
func (t Tuning) Tune(d time.Duration, matrices ...Matrix) { t.tune(time.Now, d, matrices) }

func (t Tuning) tune(now func() time.Time, d time.Duration, matrices []Matrix) {
	if unknown := t.unknown(matrices); len(unknown) > 0 {
		start := now()
		t.measureVariants(measurement{now, start.Add(d - d/5)}, matrices, unknown) // two lists are measured, and nine variants
		t.apply(matrices)
		t.measureListed(measurement{now, start.Add(d)}, matrices, unknown)
		t.countAttempts(unknown)
	}
	t.apply(matrices)
}

// apply tells the matrices what t says of them.
func (t Tuning) apply(matrices []Matrix) {
	for _, m := range matrices {
		if from := m.from(); from != nil {
			*from = t[m.shape()]
		}
		if leaves := m.leaves(); leaves != nil {
			*leaves = t[fewOf(m)] == 1
		}
		if low := m.low(); low != nil {
			*low = t[lowOf(m)] == 1
		}
		if share := m.listed(); share != nil {
			*share = nonzeroShare(t[nonzeroOf(m)])
		}
	}
}

// countAttempts notes which of the keys that were to be found out are still unknown. After enough attempts the rule is what is known of them.
func (t Tuning) countAttempts(wanted map[string]bool) {
	for key := range wanted {
		attempts := t[attemptsOf(key)] + 1
		_, known := t[key]
		switch {
		case known:
			delete(t, attemptsOf(key))
		case attempts >= tunedAttempts:
			t[key] = 0
			delete(t, attemptsOf(key))
		default:
			t[attemptsOf(key)] = attempts
		}
	}
}

// learn adds what was measured in enough rounds to what t knows, unless that was not asked.
func (t Tuning) learn(wanted map[string]bool, key string, found int, rounds int) {
	if wanted[key] && rounds >= tunedFewest {
		t[key] = found
	}
}

// The trials that follow those of tunedRows.
const (
	fewTrial = len(tunedRows) + iota
	lowTrial
	allTrials
)

// tunedTimes are what was measured of a shape in all trials.
type tunedTimes [allTrials]trialTimes

// tunedTrials are those of tunedRows, one of a single row, and one of the heights of blocks. Only the last one leaves blocks low.
func tunedTrials(input *tuningInput) []tunedTrial {
	trials, inputs := make([]tunedTrial, allTrials), []*tuningInput{input, input}
	for i, at := range tunedRows {
		trials[i] = tunedTrial{at.rows, inputs, func(m Matrix, variant int) bool {
			*m.from() = [2]int{never, 1}[variant]
			if low := m.low(); low != nil {
				*low = false
			}
			return true
		}}
	}
	trials[fewTrial] = tunedTrial{1, inputs, func(m Matrix, variant int) bool {
		*m.from() = 0 // as few rows are multiplied: one panel at a time
		leaves := m.leaves()
		if leaves != nil {
			*leaves = variant == 1
		}
		return leaves != nil
	}}
	trials[lowTrial] = tunedTrial{mostTunedRows, inputs, func(m Matrix, variant int) bool {
		*m.from() = 1
		low := m.low()
		if low != nil {
			*low = variant == 1
		}
		return low != nil
	}}
	return trials
}

// measureVariants compares the variants of products, with parts of the matrices.
func (t Tuning) measureVariants(run measurement, matrices []Matrix, wanted map[string]bool) {
	shapes := tunedShapesOf(matrices, func(m Matrix) bool {
		return m.hasDouble() && (wanted[m.shape()] || wanted[fewOf(m)] || wanted[lowOf(m)])
	})
	for _, s := range shapes {
		s.cut(tunedColumns)
	}
	run.measure(shapes, tunedTrials(newTuningInput(shapes)))
	for _, s := range shapes {
		times, rounds := tunedTimes(s.times), math.MaxInt
		for i := range tunedRows {
			rounds = min(rounds, times[i].rounds())
		}
		t.learn(wanted, s.whole.shape(), times.decide(s.whole), rounds)
		t.learn(wanted, fewOf(s.whole), decideBetween(times[fewTrial], tunedGain), times[fewTrial].rounds())
		t.learn(wanted, lowOf(s.whole), decideBetween(times[lowTrial], lowGain), times[lowTrial].rounds())
	}
}

// decideBetween returns 1 if the second variant is faster, by a gain.
func decideBetween(times trialTimes, gain float64) int {
	if surelyFaster(times[1], times[0], gain) {
		return 1
	}
	return 0
}

// decide returns from how many rows on two panels at a time are faster at all numbers.
func (took *tunedTimes) decide(m Matrix) int {
	from, asRule := never, true
	for i, at := range slices.Backward(tunedRows[:]) {
		better := doublePays(at.rows, m.bytes(), 0)
		rule, other := took[i][0], took[i][1]
		if better {
			rule, other = other, rule
		}
		if surelyFaster(other, rule, tunedGain) {
			better, asRule = !better, false
		}
		if !better {
			break
		}
		from = at.from
	}
	if asRule {
		return 0
	}
	return from
}

// surelyFaster reports whether one variant was faster than another by more than chance, given the times of both in the same rounds: in
// nearly all of them, by a gain in their median, and at its best.
func surelyFaster(one, other []float64, gain float64) bool {
	ratios, wins := make([]float64, len(one)), 0
	for round := range ratios {
		ratios[round] = other[round] / one[round]
		if ratios[round] > 1 {
			wins++
		}
	}
	enough := max(tunedFewest, int(math.Ceil(tunedShare*float64(len(ratios)))))
	return wins >= enough && median(ratios) > gain && slices.Min(one) < slices.Min(other)
}

// median returns the median, 0 of nothing.
func median(x []float64) float64 {
	if len(x) == 0 {
		return 0
	}
	slices.Sort(x)
	return x[len(x)/2]
}

// doublePays reports whether panels should be multiplied two at a time, in blocks half as high: from a number of rows on, unless that is
// 0. Then the rule is that it pays for more than one block of full height, but that weights which do not stay in the second-level cache
// want four of the lower blocks, which fetch the next pair.
func doublePays(rows, bytes, from int) bool {
	const (
		highRows, halfRows = 12, 6
		nearBytes          = 1 << 20
	)
	if from != 0 {
		return rows >= from
	}
	return rows > 3*halfRows || rows > highRows && bytes <= nearBytes
}

func (w *Int8Matrix) size() (k, n int)    { return w.K, w.N }
func (w *Int16Matrix) size() (k, n int)   { return w.K, w.N }
func (w *Float32Matrix) size() (k, n int) { return w.K, w.N }

func (w *Int8Matrix) shape() string    { return fmt.Sprintf("int8 %dx%d", w.K, w.N) }
func (w *Int16Matrix) shape() string   { return fmt.Sprintf("int16 %dx%d", w.K, w.N) }
func (w *Float32Matrix) shape() string { return fmt.Sprintf("float32 %dx%d", w.K, w.N) }

func (w *Int8Matrix) from() *int    { return &w.doubleFrom }
func (w *Int16Matrix) from() *int   { return &w.doubleFrom }
func (w *Float32Matrix) from() *int { return &w.doubleFrom }

func (w *Int8Matrix) hasDouble() bool    { return w.chains == nil && hasDoubleIntegers() }
func (w *Int16Matrix) hasDouble() bool   { return hasDoubleIntegers() }
func (w *Float32Matrix) hasDouble() bool { return hasDoubleFloats() }

func (w *Int16Matrix) leaves() *bool   { return nil }
func (w *Float32Matrix) leaves() *bool { return nil }

func (w *Int16Matrix) low() *bool   { return nil }
func (w *Float32Matrix) low() *bool { return nil }

func (w *Int8Matrix) low() *bool {
	if !w.hasDouble() {
		return nil
	}
	return &w.lowBlocks
}

func (w *Int8Matrix) leaves() *bool {
	if !w.hasDouble() {
		return nil
	}
	return &w.unfetched
}

func (w *Int16Matrix) listed() *nonzeroShare   { return nil }
func (w *Float32Matrix) listed() *nonzeroShare { return nil }

func (w *Int8Matrix) listed() *nonzeroShare {
	if w.sparse == nil {
		return nil
	}
	return &w.sparse.share
}

func (w *Int8Matrix) multiply(in *tuningInput, rows, yStride int) {
	MulInt8(in.y, yStride, in.bytes, in.scales, rows, w, nil, None)
}

func (w *Int16Matrix) multiply(in *tuningInput, rows, yStride int) {
	MulInt16(in.y, yStride, in.words, in.scales, rows, w, nil, None)
}

func (w *Float32Matrix) multiply(in *tuningInput, rows, yStride int) {
	MulFloat32(in.y, yStride, in.floats, w.K, rows, w, nil, None)
}

func (w *Int8Matrix) part(first, end int) Matrix {
	part := w.Columns(first, end)
	part.sparse = nil // a product without lists
	return &part
}

func (w *Int16Matrix) part(first, end int) Matrix {
	part := w.Columns(first, end)
	return &part
}

func (w *Float32Matrix) part(first, end int) Matrix {
	part := w.Columns(first, end)
	return &part
}
