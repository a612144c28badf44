package kernels

import (
	"fmt"
	"iter"
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

const (
	// tunedMatrices is how many matrices of a shape are measured at most: together with the others they are more than a second-level
	// cache holds, as when a model runs.
	tunedMatrices = 4
	// tunedRounds is how often each is measured at most, after a first time that does not count.
	tunedRounds = 21
	// tunedGain is how much faster than what the rule says a variant must be in the median of rounds, and tunedShare in how many of
	// them it must be faster at all, of tunedFewest rounds in all: other programs and guests disturb a measurement for longer than a
	// round, and their moment must not be what is remembered. lowGain is that of low blocks, which differ by one or two percent at most:
	// a wrong choice costs no more than that.
	tunedGain   = 1.06
	lowGain     = 1.003
	tunedShare  = 0.8
	tunedFewest = 5
)

// Knows reports whether nothing about the matrices would have to be measured.
func (t Tuning) Knows(matrices ...Matrix) bool { return len(t.unknown(matrices)) == 0 }

// unknown returns the matrices to measure: some of each shape that t lacks.
func (t Tuning) unknown(matrices []Matrix) []Matrix {
	var unknown []Matrix
	count := make(map[string]int)
	for _, m := range matrices {
		kind := m.shape()
		if m.listed() != nil {
			kind = nonzeroOf(m)
		}
		if t.knows(m) || !m.hasDouble() && m.listed() == nil || count[kind] == tunedMatrices {
			continue
		}
		count[kind]++
		unknown = append(unknown, m)
	}
	return unknown
}

func (t Tuning) knows(m Matrix) bool {
	_, known := t[m.shape()]
	known = known || !m.hasDouble()
	if m.listed() != nil {
		_, nonzero := t[nonzeroOf(m)]
		known = known && nonzero
	}
	if m.leaves() != nil {
		_, few := t[fewOf(m)]
		known = known && few
	}
	if m.low() != nil {
		_, low := t[lowOf(m)]
		known = known && low
	}
	return known
}

// Tune has the matrices of a model run as t says. The shapes that it does not know yet are measured before, in about the time d or
// what measuring each once takes. Nobody may use the matrices meanwhile.
func (t Tuning) Tune(d time.Duration, matrices ...Matrix) {
	unknown := t.unknown(matrices)
	double := slices.DeleteFunc(slices.Clone(unknown), func(m Matrix) bool { return !m.hasDouble() })
	listed := slices.DeleteFunc(unknown, func(m Matrix) bool { return m.listed() == nil })
	forVariants := d
	if len(listed) > 0 {
		forVariants -= d / 5 // two lists are measured, and nine variants
	}
	if len(double) > 0 {
		t.measure(forVariants, double)
	}
	if len(listed) > 0 {
		t.measureListed(d-forVariants, listed)
	}
	for _, m := range matrices {
		*m.from() = t[m.shape()]
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

// A tunedTrial is a number of rows at which two variants are compared, 0 and 1.
type tunedTrial struct {
	rows int
	set  func(m Matrix, variant int) bool // false if the matrix has no variants
}

// The trials that follow those of tunedRows.
const (
	fewTrial = len(tunedRows) + iota
	lowTrial
	allTrials
)

// tunedTrials are those of tunedRows, one of a single row, and one of the heights of blocks. Only the last one leaves blocks low.
func tunedTrials() [allTrials]tunedTrial {
	var trials [allTrials]tunedTrial
	for i, at := range tunedRows {
		trials[i] = tunedTrial{at.rows, func(m Matrix, variant int) bool {
			*m.from() = [2]int{never, 1}[variant]
			if low := m.low(); low != nil {
				*low = false
			}
			return true
		}}
	}
	trials[fewTrial] = tunedTrial{1, func(m Matrix, variant int) bool {
		*m.from() = 0 // as few rows are multiplied: one panel at a time
		leaves := m.leaves()
		if leaves != nil {
			*leaves = variant == 1
		}
		return leaves != nil
	}}
	trials[lowTrial] = tunedTrial{tunedRows[len(tunedRows)-1].rows, func(m Matrix, variant int) bool {
		*m.from() = 1
		low := m.low()
		if low != nil {
			*low = variant == 1
		}
		return low != nil
	}}
	return trials
}

// run multiplies with all matrices that have variants, and returns the seconds that those of each shape took together.
func (trial tunedTrial) run(matrices []Matrix, variant int, input tuningInput) map[string]float64 {
	seconds := make(map[string]float64)
	for _, m := range matrices {
		if !trial.set(m, variant) {
			continue
		}
		shape, begin := m.shape(), time.Now() // to put the shape into words takes as long as a small product
		m.multiply(input, trial.rows)
		seconds[shape] += time.Since(begin).Seconds()
	}
	return seconds
}

// tunedTimes are the seconds that the measured matrices of a shape took together, in each trial, variant and round.
type tunedTimes [allTrials][2][]float64

// tunedRoundsWithin yields the rounds of a measurement that is to take about d: one that does not count, 0, one that does, and more while there is
// time.
func tunedRoundsWithin(d time.Duration) iter.Seq[int] {
	start := time.Now()
	return func(yield func(int) bool) {
		for round := 0; round <= tunedRounds && (round < 2 || time.Since(start) < d); round++ {
			if !yield(round) {
				return
			}
		}
	}
}

// measure compares the variants of some matrices. They run one after another, so that weights come from where they do in a model, and
// the variants in turns, so that what disturbs one disturbs the other.
func (t Tuning) measure(d time.Duration, matrices []Matrix) {
	input, trials := newTuningInput(matrices), tunedTrials()
	took := make(map[string]*tunedTimes)
	for _, m := range matrices {
		took[m.shape()] = new(tunedTimes)
	}
	for round := range tunedRoundsWithin(d) {
		for i, trial := range trials {
			if trial.rows <= fewRows { // many rows have pushed out the weights that few find in the caches
				trial.run(matrices, 0, input)
			}
			for turn := range 2 {
				variant := (round + turn) % 2
				seconds := trial.run(matrices, variant, input)
				if round == 0 {
					continue
				}
				for shape, times := range took {
					times[i][variant] = append(times[i][variant], seconds[shape])
				}
			}
		}
	}
	for _, m := range matrices {
		*m.from() = 0
		times := took[m.shape()]
		t[m.shape()] = times.decide(m)
		if leaves := m.leaves(); leaves != nil {
			*leaves = false
			t[fewOf(m)] = decideBetween(times[fewTrial], tunedGain)
		}
		if low := m.low(); low != nil {
			*low = false
			t[lowOf(m)] = decideBetween(times[lowTrial], lowGain)
		}
	}
}

// decideBetween returns 1 if the second variant is faster, by a gain.
func decideBetween(times [2][]float64, gain float64) int {
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

// A tuningInput is what matrices are multiplied with while they are measured.
type tuningInput struct {
	y, floats, scales []float32
	bytes             []uint8
	words             []int16
}

func newTuningInput(matrices []Matrix) tuningInput {
	rows, k, n := tunedRows[len(tunedRows)-1].rows, 0, 0
	for _, m := range matrices {
		mk, mn := m.size()
		k, n = max(k, mk), max(n, mn)
	}
	return tuningInput{
		y: make([]float32, rows*n), floats: make([]float32, rows*k), scales: make([]float32, rows),
		bytes: make([]uint8, rows*Int8Stride(k)), words: make([]int16, rows*Int16Stride(k)),
	}
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

func (w *Int8Matrix) multiply(in tuningInput, rows int) {
	MulInt8(in.y, w.N, in.bytes, in.scales, rows, w, nil, None)
}

func (w *Int16Matrix) multiply(in tuningInput, rows int) {
	MulInt16(in.y, w.N, in.words, in.scales, rows, w, nil, None)
}

func (w *Float32Matrix) multiply(in tuningInput, rows int) {
	MulFloat32(in.y, w.N, in.floats, w.K, rows, w, nil, None)
}
