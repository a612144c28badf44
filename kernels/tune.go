package kernels

import (
	"fmt"
	"math"
	"slices"
	"time"
)

// A Tuning says, for the shapes of matrices that were measured on a processor, from how many rows of activations on products run in
// their variant that does two panels at a time: 0 where a rule decides that was right wherever it was measured.
// It decides how long products take, never what they are. It can be kept as JSON; no number in it can do harm.
type Tuning map[string]int

// never is the rows from which on a product does two panels at a time if it never does.
const never = math.MaxInt32

// tunedRows are the numbers of rows at which variants are compared; each speaks for the rows from the number beside it on.
var tunedRows = [...]struct{ rows, from int }{{13, 13}, {24, 19}, {48, 37}, {96, 73}}

const (
	// tunedMatrices is how many matrices of a shape are measured at most: together with the others they are more than a second-level
	// cache holds, as when a model runs.
	tunedMatrices = 4
	// tunedRounds is how often each is measured at most, after a first time that does not count.
	tunedRounds = 9
	// tunedGain is how much faster than what the rule says a variant must be.
	tunedGain = 1.03
)

// Knows reports whether nothing about the matrices would have to be measured.
func (t Tuning) Knows(matrices ...Matrix) bool { return len(t.unknown(matrices)) == 0 }

// unknown returns the matrices to measure: some of each shape that t lacks.
func (t Tuning) unknown(matrices []Matrix) []Matrix {
	var unknown []Matrix
	count := make(map[string]int)
	for _, m := range matrices {
		shape := m.shape()
		if _, known := t[shape]; known || !m.hasDouble() || count[shape] == tunedMatrices {
			continue
		}
		count[shape]++
		unknown = append(unknown, m)
	}
	return unknown
}

// Tune has the matrices of a model run as t says. The shapes that it does not know yet are measured before, in about the time d or
// what measuring each once takes. Nobody may use the matrices meanwhile.
func (t Tuning) Tune(d time.Duration, matrices ...Matrix) {
	if unknown := t.unknown(matrices); len(unknown) > 0 {
		t.measure(d, unknown)
	}
	for _, m := range matrices {
		*m.from() = t[m.shape()]
	}
}

// measure compares the variants of some matrices. They run one after another, so that weights come from where they do in a model.
func (t Tuning) measure(d time.Duration, matrices []Matrix) {
	input, start := newTuningInput(matrices), time.Now()
	took := make(map[string]*[len(tunedRows)][2][]float64)
	for _, m := range matrices {
		took[m.shape()] = new([len(tunedRows)][2][]float64)
	}
	for round := 0; round <= tunedRounds; round++ {
		for i, at := range tunedRows {
			for variant, from := range [2]int{never, 1} {
				for _, m := range matrices {
					*m.from() = from
					begin := time.Now()
					m.multiply(input, at.rows)
					if round > 0 {
						times := &took[m.shape()][i][variant]
						*times = append(*times, time.Since(begin).Seconds())
					}
				}
			}
			if time.Since(start) > d && round > 0 {
				round = tunedRounds
			}
		}
	}
	for _, m := range matrices {
		*m.from() = 0
		t[m.shape()] = decide(took[m.shape()], m)
	}
}

// decide returns from how many rows on two panels at a time are faster at all numbers.
func decide(took *[len(tunedRows)][2][]float64, m Matrix) int {
	from, asRule := never, true
	for i, at := range slices.Backward(tunedRows[:]) {
		single, double := median(took[i][0]), median(took[i][1])
		better, rule := double < single, doublePays(at.rows, m.bytes(), 0)
		if max(single, double) < tunedGain*min(single, double) {
			better = rule
		}
		asRule = asRule && better == rule
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
		highRows, lowRows = 12, 6
		nearBytes         = 1 << 20
	)
	if from != 0 {
		return rows >= from
	}
	return rows > 3*lowRows || rows > highRows && bytes <= nearBytes
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

func (w *Int8Matrix) hasDouble() bool    { return w.pairs == nil && hasDoubleIntegers() }
func (w *Int16Matrix) hasDouble() bool   { return hasDoubleIntegers() }
func (w *Float32Matrix) hasDouble() bool { return hasDoubleFloats() }

func (w *Int8Matrix) multiply(in tuningInput, rows int) {
	MulInt8(in.y, w.N, in.bytes, in.scales, rows, w, nil, None)
}

func (w *Int16Matrix) multiply(in tuningInput, rows int) {
	MulInt16(in.y, w.N, in.words, in.scales, rows, w, nil, None)
}

func (w *Float32Matrix) multiply(in tuningInput, rows int) {
	MulFloat32(in.y, w.N, in.floats, w.K, rows, w, nil, None)
}
