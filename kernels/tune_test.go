package kernels

import (
	"encoding/json"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluice-mt/sluice/internal/cpu/cputest"
)

// A Tuning knows all shapes after it has measured them, once, and says nothing that a measurement cannot give.
func TestTune(t *testing.T) {
	cputest.Each(t, func(t *testing.T) {
		r := source(1)
		eight := PackInt8(64, 96, int8s(r, 64*96), normals(r, 96))
		sixteen := PackInt16(64, 96, int16s(r, 64*96, 1000), normals(r, 96))
		float, listed := PackFloat32(64, 96, normals(r, 64*96)), PackInt8Rectified(64, 128, int8s(r, 64*128), normals(r, 128))
		matrices := []Matrix{eight, sixteen, float, listed, PackInt8(0, 0, nil, nil), PackFloat32(64, 96, normals(r, 64*96))}
		var could []string
		for _, m := range matrices {
			if m.hasDouble() {
				could = append(could, m.shape())
			}
			if m.leaves() != nil {
				could = append(could, fewOf(m))
			}
			if m.listed() != nil {
				could = append(could, nonzeroOf(m))
			}
			if m.low() != nil {
				could = append(could, lowOf(m))
			}
		}
		tuning := Tuning{}
		if tuning.Knows(matrices...) != (len(could) == 0) {
			t.Errorf("an empty tuning knows all of %q", could)
		}
		tuning.Tune(time.Minute, matrices...)
		slices.Sort(could)
		if known := slices.Sorted(maps.Keys(tuning)); !slices.Equal(known, slices.Compact(could)) {
			t.Errorf("knows %q, want %q", known, could)
		}
		for shape, from := range tuning {
			possible := []int{0, 13, 19, 37, 73, never}
			if strings.HasSuffix(shape, ", few rows") || strings.HasSuffix(shape, ", low blocks") {
				possible = []int{0, 1}
			}
			if strings.HasSuffix(shape, ", nonzero") {
				if from < 0 || from > listedMost {
					t.Errorf("%s: %d", shape, from)
				}
				continue
			}
			if !slices.Contains(possible, from) {
				t.Errorf("%s: %d", shape, from)
			}
		}
		kept, err := json.Marshal(tuning)
		if err != nil {
			t.Fatal(err)
		}
		var again Tuning
		if err := json.Unmarshal(kept, &again); err != nil {
			t.Fatal(err)
		}
		if !again.Knows(matrices...) {
			t.Errorf("%s does not know what was measured", kept)
		}
		again.Tune(0, matrices...)
		if *eight.from() != tuning[eight.shape()] || *float.from() != tuning[float.shape()] || eight.lowBlocks != (tuning[lowOf(eight)] == 1) {
			t.Error("the matrices do not have what the tuning says")
		}
		if share := listed.listed(); share != nil && int(*share) != tuning[nonzeroOf(listed)] {
			t.Errorf("lists pay up to %d in a thousand, and the tuning says %d", *share, tuning[nonzeroOf(listed)])
		}
	})
}

// What a tuning says about one or two rows and about blocks does not reach the other.
func TestTuneSetsWhatTheTuningSays(t *testing.T) {
	cputest.Each(t, func(t *testing.T) {
		m := PackInt8(64, 96, make([]int8, 64*96), make([]float32, 96))
		if !m.hasDouble() {
			return
		}
		for _, key := range []string{fewOf(m), lowOf(m)} {
			tuning := Tuning{m.shape(): 19, fewOf(m): 0, lowOf(m): 0}
			tuning[key] = 1
			tuning.Tune(0, m)
			if m.doubleFrom != 19 || m.unfetched != (key == fewOf(m)) || m.lowBlocks != (key == lowOf(m)) {
				t.Errorf("%v: two panels from %d rows on, weights unfetched: %v, low blocks: %v", tuning, m.doubleFrom, m.unfetched, m.lowBlocks)
			}
		}
	})
}

// The better variant counts only from the rows on where it stays the better one, and only if it is better in nearly every round.
func TestTuningDecides(t *testing.T) {
	small, large := PackInt8(64, 64, make([]int8, 64*64), make([]float32, 64)), PackInt8(1024, 2048, make([]int8, 2<<20), make([]float32, 2048))
	for _, c := range []struct {
		name   string
		m      Matrix
		double [4]float64 // times, where one panel at a time takes 1
		want   int
	}{
		{"as the rule says", small, [4]float64{.9, .9, .9, .9}, 0},
		{"noise", small, [4]float64{1.02, .99, 1.01, 1}, 0},
		{"noise for a matrix for which the rule differs", large, [4]float64{.98, 1.02, 1, 1}, 0},
		{"slower at few rows", small, [4]float64{1.1, .9, .9, .9}, 19},
		{"slower in between", small, [4]float64{.9, .9, 1.1, .9}, 73},
		{"always slower", small, [4]float64{1.1, 1.1, 1.1, 1.1}, never},
		{"faster at few rows already", large, [4]float64{.9, .9, .9, .9}, 13},
	} {
		var took, disturbed, few tunedTimes
		for i := range c.double {
			// Rounds of different speed: what counts is the difference within each.
			for round, slow := range []float64{1, 2, 1, 1, 3, 1, 1, 1} {
				one, two := slow, slow*c.double[i]
				took[i][0], took[i][1] = append(took[i][0], one), append(took[i][1], two)
				if round%3 == 0 { // a third of the rounds say the contrary
					one, two = two, one
				}
				disturbed[i][0], disturbed[i][1] = append(disturbed[i][0], one), append(disturbed[i][1], two)
			}
			few[i] = trialTimes{took[i][0][:tunedFewest-1], took[i][1][:tunedFewest-1]}
		}
		took[0][0][3], took[2][1][5] = 9, 9 // each once interrupted
		if got := took.decide(c.m); got != c.want {
			t.Errorf("%s: from %d rows on, want %d", c.name, got, c.want)
		}
		if got := disturbed.decide(c.m); got != 0 {
			t.Errorf("%s, and the contrary: from %d rows on, want what the rule says", c.name, got)
		}
		if got := few.decide(c.m); got != 0 {
			t.Errorf("%s, in few rounds: from %d rows on, want what the rule says", c.name, got)
		}
	}
}

// A trial of few rows multiplies as few rows are multiplied when nothing is measured, whatever the trial before it has set.
func TestTrialsOfFewRows(t *testing.T) {
	m := PackInt8(64, 64, make([]int8, 64*64), make([]float32, 64))
	for _, trial := range tunedTrials(nil) {
		for variant := range 2 {
			*m.from() = 1
			trial.set(m, variant)
			if trial.rows <= fewRows && doublePays(trial.rows, m.bytes(), *m.from()) {
				t.Errorf("variant %d of %d rows has two panels at a time", variant, trial.rows)
			}
		}
	}
}

// A variant is chosen if it is faster by its gain, and not only now and then.
func TestTuningDecidesBetween(t *testing.T) {
	for _, c := range []struct {
		times []float64 // of rounds, where the other variant takes 1
		gain  float64
		want  int
	}{
		{[]float64{.8, .9, .8, .9, .8, .9}, tunedGain, 1},
		{[]float64{.8, .9, .8, 1.2, .8, .9}, tunedGain, 1},
		{[]float64{.8, 1.1, .8, 1.2, .8, .9}, tunedGain, 0},
		{[]float64{.97, .98, .97, .98, .97, .98}, tunedGain, 0},
		{[]float64{1.2, 1.2, 1.2, 1.2, 1.2, 1.2}, tunedGain, 0},
		{[]float64{.8, .8, .8, .8}, tunedGain, 0},
		{[]float64{.98, .99, .98, .99, .98, .99}, lowGain, 1},
		{[]float64{.98, .99, 1.01, .99, 1.01, .99}, lowGain, 0},
		{[]float64{.998, .999, .998, .999, .998, .999}, lowGain, 0},
	} {
		times := trialTimes{slices.Repeat([]float64{1}, len(c.times)), c.times}
		if got := decideBetween(times, c.gain); got != c.want {
			t.Errorf("times %v: %d, want %d", c.times, got, c.want)
		}
	}
}

// Lists pay up to where they take as long as a product without them, a little less.
func TestListedShare(t *testing.T) {
	for _, c := range []struct {
		without, low, high float64
		want               int
	}{
		{1, 0.2, 0.8, 475},
		{1, 0.5, 2, 190},
		{1, 1.2, 4, 73},
		{1, 2, 3, listedLeast},
		{1, 0.1, 0.2, listedMost},
		{1, 0.5, 0.4, 0}, // a disturbed moment
		{0, 0, 0, 0},
	} {
		times := trialTimes{slices.Repeat([]float64{c.without}, tunedFewest), slices.Repeat([]float64{c.low}, tunedFewest), slices.Repeat([]float64{c.high}, tunedFewest)}
		times[0][1], times[2][3] = 99, 99 // each once interrupted
		if got := decideListed(times); got != c.want {
			t.Errorf("%v without lists, %v and %v with them: up to %d in a thousand, want %d", c.without, c.low, c.high, got, c.want)
		}
		for i := range times {
			times[i] = times[i][:tunedFewest-1]
		}
		if got := decideListed(times); got != 0 {
			t.Errorf("%v, %v and %v in few rounds: up to %d in a thousand, want what the rule says", c.without, c.low, c.high, got)
		}
	}
}

// Matrices of one shape are measured, those of which activations may be listed and the others.
func TestTuningMeasuresBothKindsOfAShape(t *testing.T) {
	cputest.Each(t, func(t *testing.T) {
		var matrices []Matrix
		for range 2 * tunedMatrices {
			matrices = append(matrices, PackInt8(64, 64, make([]int8, 64*64), make([]float32, 64)))
		}
		matrices = append(matrices, PackInt8Rectified(64, 64, make([]int8, 64*64), make([]float32, 64)))
		tuning := Tuning{}
		tuning.Tune(time.Minute, matrices...)
		if !tuning.Knows(matrices...) {
			t.Errorf("%v does not know what was measured", tuning)
		}
	})
}

// What is measured has as many activations as it says.
func TestListedInput(t *testing.T) {
	for _, share := range []int{listedLow, listedHigh} {
		nonzero, bytes := 0, newListedInput([]*tunedShape{{whole: PackInt8(1536, 256, make([]int8, 1536*256), make([]float32, 256))}}, share).bytes
		for _, b := range bytes {
			if b < int8Zero {
				t.Fatal("an activation is negative")
			}
			if b > int8Zero {
				nonzero++
			}
		}
		if got := 1000 * nonzero / len(bytes); got < share-10 || got > share+10 {
			t.Errorf("%d in a thousand are something, want %d", got, share)
		}
	}
}

// What a trial of one thing sets does not change what the next ones measure.
func TestTrialsOfHighBlocks(t *testing.T) {
	cputest.Each(t, func(t *testing.T) {
		m := PackInt8(64, 64, make([]int8, 64*64), make([]float32, 64))
		if m.low() == nil {
			return
		}
		trials := tunedTrials(nil)
		for _, trial := range trials[:lowTrial] {
			if trial.rows <= fewRows {
				continue
			}
			trials[lowTrial].set(m, 1)
			if trial.set(m, 1); *m.low() {
				t.Errorf("blocks of %d rows are low after a trial of low blocks", trial.rows)
			}
		}
	})
}

// Whatever a tuning says, results have the same bits.
func TestTuningChangesNoBits(t *testing.T) {
	cputest.Each(t, func(t *testing.T) {
		r := source(2)
		const k, n, most = 70, 150, 40
		a, aScales, x := uint8s(r, most*Int8Stride(k)), normals(r, most), normals(r, most*k)
		words := int16s(r, most*Int16Stride(k), 100)
		eight, sixteen := PackInt8(k, n, int8s(r, k*n), normals(r, n)), PackInt16(k, n, int16s(r, k*n, 1000), normals(r, n))
		float := PackFloat32(k, n, normals(r, k*n))
		const listedK, listedN = 128, 192
		zeros, listed := thinned(r, most*listedK, 300), PackInt8Rectified(listedK, listedN, trained(r, listedK*listedN, 20), normals(r, listedN))
		for _, rows := range []int{1, 2, 5, 6, 7, 13, most} {
			var want [4][]float32
			for i, from := range []int{never, 1, 0, 7, -3} {
				*eight.from(), *sixteen.from(), *float.from() = from, from, from
				eight.unfetched, eight.lowBlocks = i%2 == 1, i%3 == 1
				if share := listed.listed(); share != nil {
					*share = []nonzeroShare{neverListed, alwaysListed, 0, math.MaxInt32, -3}[i]
				}
				var got [4][]float32
				for j := range got {
					got[j] = make([]float32, rows*max(n, listedN))
				}
				MulInt8(got[3], listedN, zeros, aScales, rows, listed, nil, None)
				MulInt8(got[0], n, a, aScales, rows, eight, nil, None)
				MulInt16(got[1], n, words, aScales, rows, sixteen, nil, Rectified)
				MulFloat32(got[2], n, x, k, rows, float, nil, None)
				if i == 0 {
					want = got
				}
				for j := range got {
					if !slices.Equal(float32Bits(got[j]), float32Bits(want[j])) {
						t.Errorf("product %d of %d rows differs with variant %d, two panels at a time from %d rows on, low blocks: %v", j, rows, i, from, eight.lowBlocks)
					}
				}
			}
		}
	})
}

func float32Bits(x []float32) []uint32 {
	bits := make([]uint32, len(x))
	for i, v := range x {
		bits[i] = math.Float32bits(v)
	}
	return bits
}
