package kernels

import (
	"slices"
	"time"
)

const (
	// tunedMatrices is how many matrices of a shape are measured at most: together with the others they are more than a second-level
	// cache holds, as when a model runs.
	tunedMatrices = 4
	// tunedColumns is how many columns of a matrix are measured at a time: eight panels, so that of two at a time most are fetched while
	// those before them are multiplied, and no more, so that a wide matrix takes no longer than others.
	tunedColumns = 256
	// tunedWork is about how many multiply-accumulates are measured at a time, so that clocks can tell: some 20 µs, unless a shape has fewer.
	tunedWork = 4 << 20
	// tunedRounds is how often each trial is measured at most, after a first time that does not count.
	tunedRounds = 21
	// mostTunedRows is the most rows of a trial.
	mostTunedRows = 96
)

// A tunedTrial is a number of rows at which variants are compared.
type tunedTrial struct {
	rows   int
	inputs []*tuningInput                   // what each variant multiplies with
	set    func(m Matrix, variant int) bool // false if the matrix has no variants
}

// trialTimes are the seconds that a shape took in a trial, in each variant and round. A trial of two variants has no third one.
type trialTimes [3][]float64

func (t *trialTimes) rounds() int { return len(t[0]) }

// A tunedShape is what is measured of the matrices of a shape.
type tunedShape struct {
	whole  Matrix   // one of them
	bytes  int      // of all of them
	pieces []Matrix // all as large, multiplied in turns
	next   int      // of pieces

	times []trialTimes // of each trial
}

// tunedShapesOf returns the shapes of the matrices that are wanted, those with most weights first, and some matrices of each.
func tunedShapesOf(matrices []Matrix, wanted func(m Matrix) bool) []*tunedShape {
	var shapes []*tunedShape
	at := make(map[string]*tunedShape)
	for _, m := range matrices {
		if !wanted(m) {
			continue
		}
		s := at[m.shape()]
		if s == nil {
			s = &tunedShape{whole: m}
			at[m.shape()] = s
			shapes = append(shapes, s)
		}
		s.bytes += m.bytes()
		if len(s.pieces) < tunedMatrices {
			s.pieces = append(s.pieces, m)
		}
	}
	slices.SortStableFunc(shapes, func(a, b *tunedShape) int { return b.bytes - a.bytes })
	return shapes
}

// cut replaces the matrices of a shape by parts of so many columns. What is left over of a matrix that is wider would be another shape.
func (s *tunedShape) cut(columns int) {
	matrices := s.pieces
	s.pieces = nil
	for _, m := range matrices {
		_, n := m.size()
		width := min(columns, n)
		for column := 0; column == 0 || column+width <= n; column += max(1, width) {
			s.pieces = append(s.pieces, m.part(column, column+width))
		}
	}
}

// multiply multiplies with some pieces, those that were multiplied least recently. It reports false if these have no variants.
func (s *tunedShape) multiply(trial tunedTrial, variant int) bool {
	k, n := s.pieces[0].size()
	_, yStride := s.whole.size()
	count := min(len(s.pieces), (tunedWork-1)/max(1, trial.rows*k*n)+1)
	for range count {
		m := s.pieces[s.next]
		s.next = (s.next + 1) % len(s.pieces)
		if !trial.set(m, variant) {
			return false
		}
		m.multiply(trial.inputs[variant], trial.rows, yStride)
	}
	return true
}

// A measurement has a time at which it ends, whatever it has found by then.
type measurement struct {
	now      func() time.Time
	deadline time.Time
}

func (run measurement) isLate() bool { return !run.now().Before(run.deadline) }

// measure adds to shapes the times of trials. All shapes are multiplied one after another, piece by piece, so that weights come from where they
// do in a model, and variants in turns, so that what disturbs one disturbs the other.
func (run measurement) measure(shapes []*tunedShape, trials []tunedTrial) {
	for _, s := range shapes {
		s.times = make([]trialTimes, len(trials))
	}
	shapes = run.affordable(shapes, trials)
	for round := 0; round < tunedRounds && len(shapes) > 0; round++ {
		for i, trial := range trials {
			if run.isLate() {
				return
			}
			for s, took := range run.compare(shapes, trial, round) {
				for variant, seconds := range took {
					shapes[s].times[i][variant] = append(shapes[s].times[i][variant], seconds)
				}
			}
		}
	}
}

// affordable returns as many of the first shapes as can be measured often enough, going by a first time that does not count. What is left over
// has its turn at a later start, when the first ones are known.
func (run measurement) affordable(shapes []*tunedShape, trials []tunedTrial) []*tunedShape {
	start := run.now()
	for i := range shapes {
		for _, trial := range trials {
			if run.isLate() {
				return shapes[:i]
			}
			run.compare(shapes[i:i+1], trial, 0)
		}
		if rounds := time.Duration(tunedFewest + 2); i > 0 && rounds*run.now().Sub(start) > run.deadline.Sub(start) {
			return shapes[:i]
		}
	}
	return shapes
}

// compare returns the seconds of each shape in each variant of a trial, nothing of shapes that have no variants.
func (run measurement) compare(shapes []*tunedShape, trial tunedTrial, round int) [][]float64 {
	took := make([][]float64, len(shapes))
	if trial.rows <= fewRows { // many rows have pushed out the weights that few find in the caches
		for _, s := range shapes {
			s.multiply(trial, 0)
		}
	}
	variants := len(trial.inputs)
	for turn := range variants {
		variant := (round + turn) % variants
		for i, s := range shapes {
			begin := run.now()
			if !s.multiply(trial, variant) {
				continue
			}
			if took[i] == nil {
				took[i] = make([]float64, variants)
			}
			took[i][variant] = run.now().Sub(begin).Seconds()
		}
	}
	return took
}

// A tuningInput is what matrices are multiplied with while they are measured.
type tuningInput struct {
	y, floats, scales []float32
	bytes             []uint8
	words             []int16
	halves            []uint16
}

func newTuningInput(shapes []*tunedShape) *tuningInput {
	rows, k, n := mostTunedRows, 0, 0
	for _, s := range shapes {
		mk, mn := s.whole.size()
		k, n = max(k, mk), max(n, mn)
	}
	return &tuningInput{
		y: make([]float32, rows*n), floats: make([]float32, rows*k), scales: make([]float32, rows),
		bytes: make([]uint8, rows*Int8Stride(k)), words: make([]int16, rows*Int16Stride(k)),
		halves: make([]uint16, rows*BFloat16Stride(k)),
	}
}
