package main

import (
	"math"
	"slices"
	"testing"
)

// operationsAlone is a card on which a pass takes as many seconds as its products have operations, and numbersAlone one on which it takes as many as its
// kernels move numbers.
var operationsAlone, numbersAlone = card{tensor: 1, bandwidth: 1e30}, card{tensor: 1e30, bandwidth: 2}

// All engines multiply what the student has, and move what is said of them.
func TestModelledEngines(t *testing.T) {
	const rows, places, words = 512, 30, 20
	s := attentiveStudents()[2]
	d, products := float64(s.Dim), float64(s.Decoder)*operationsAlone.sum(s.stepProducts(rows))+s.size().outputProduct(rows).operations()
	encoder := float64(s.Encoder)*operationsAlone.sum(s.layerProducts(rows*places)) + float64(s.Decoder)*s.contextProduct(rows*places).operations()
	attention := float64(s.Encoder) * 4 * rows * places * places * d
	logits, cache := float64(rows*s.Vocabulary), float64(rows*(places+words)*2*s.Decoder)*d
	for i, c := range []struct{ attention, logits, cache float64 }{ // of a decoder: operations, and how often logits and caches are moved at least
		{0, 0, 1}, {4 * rows * (places + words) * d * float64(s.Decoder), 4, (places + 3.0*words) / (places + words)}, {0, 2, 1},
	} {
		e := modelledEngines()[i]
		step, encode, moved := account{card: operationsAlone}, account{card: operationsAlone}, account{card: numbersAlone}
		e.step(&step, s, rows, places, words)
		if want := products + c.attention; math.Abs(step.seconds-want) > 1e-9*want {
			t.Errorf("%s: a step has %v operations, want %v", e.name, step.seconds, want)
		}
		e.encode(&encode, s, rows, places)
		if want := encoder + attention; math.Abs(encode.seconds-want) > 1e-9*want {
			t.Errorf("%s: the encoder has %v operations, want %v", e.name, encode.seconds, want)
		}
		e.step(&moved, s, rows, places, words)
		if least := c.logits*logits + c.cache*cache; moved.seconds < least || moved.seconds > least+1.2*cache+float64(s.Vocabulary)*d {
			t.Errorf("%s: a step moves %v numbers, and logits and caches alone are %v", e.name, moved.seconds, least)
		}
	}
}

// What mini-batches that are padded take: of sentences that end, rows stay until all have ended, or leave.
func TestModelledMiniBatch(t *testing.T) {
	e := modelledEngine{pads: true,
		encode: func(a *account, _ student, sentences, length float64) { a.seconds += 1000 * sentences * length },
		step:   func(a *account, _ student, rows, places, words float64) { a.seconds += rows * (100*places + words) },
	}
	lengths := []int{3, 2, 2} // steps: 3 rows, 3 rows, 1 row
	if have, want := e.miniBatch(card{}, student{}, lengths), 9000.0+3*3*(300+3); have != want {
		t.Errorf("rows that stay take %v, want %v", have, want)
	}
	e.shrink = true
	if have, want := e.miniBatch(card{}, student{}, lengths), 9000.0+3*(300+1)+3*(300+2)+1*(300+3); have != want {
		t.Errorf("rows that leave take %v, want %v", have, want)
	}
	if have, want := e.bound(card{}, student{}, lengths), 7/(9000.0+3*301+3*302+303); math.Abs(have-want) > 1e-12 {
		t.Errorf("%v pieces a second, want %v", have, want)
	}
	e.pads = false // the mean piece is in a sentence of (9 + 4 + 4) / 7 pieces
	mean := 17.0 / 7
	if have, want := e.bound(card{}, student{}, lengths), 1/(1000+100*mean+(mean+1)/2); math.Abs(have-want) > 1e-12 {
		t.Errorf("%v pieces a second without padding, want %v", have, want)
	}
}

// Lengths are those that were asked for, the longest first.
func TestModelLengths(t *testing.T) {
	lengths := modelLengths(usualSpread)
	sum, logarithms, squares := 0.0, 0.0, 0.0
	for _, length := range lengths {
		sum += float64(length)
		logarithms, squares = logarithms+math.Log(float64(length)), squares+math.Log(float64(length))*math.Log(float64(length))
	}
	n := float64(len(lengths))
	if mean, spread := sum/n, math.Sqrt(squares/n-logarithms/n*logarithms/n); math.Abs(mean-modelLength) > 0.3 || math.Abs(spread-usualSpread) > 0.02 {
		t.Errorf("%v pieces in the mean, with a spread of %v", mean, spread)
	}
	if !slices.IsSortedFunc(lengths, func(a, b int) int { return b - a }) || lengths[0] != usualLongest {
		t.Errorf("the longest sentence has %d pieces, and the first %d", slices.Max(lengths), lengths[0])
	}
	if alike := modelLengths(0); slices.Min(alike) != modelLength || slices.Max(alike) != modelLength {
		t.Errorf("lengths from %d to %d, want %d", slices.Min(alike), slices.Max(alike), modelLength)
	}
}

// By the account that is made for other engines, too, sluice does about as much as by the roofline, which leaves the bytes of small kernels out, and gives each
// layer the time to begin its kernels. Spread lengths cost engines that pad more than one that does not.
func TestPeersBesideTheRoofline(t *testing.T) {
	for _, c := range cards() {
		for _, s := range attentiveStudents()[:len(students())] {
			alike, news := modelLengths(0), modelLengths(usualSpread)
			roofline := c.roofline(s, modelRows, 1)
			var lost []float64
			for _, e := range modelledEngines() {
				bound := e.bound(c, s, alike)
				if bound > 1.15*roofline {
					t.Errorf("%s, %s: %s could do %v pieces a second, and the roofline is %v", c.name, s.Name, e.name, bound, roofline)
				}
				lost = append(lost, bound/e.bound(c, s, news))
			}
			if own := modelledEngines()[0].bound(c, s, alike); own < 0.7*roofline {
				t.Errorf("%s, %s: %v pieces a second are far less than the roofline of %v", c.name, s.Name, own, roofline)
			}
			if !(lost[0] >= 1 && lost[1] > lost[0] && lost[2] > lost[1]) {
				t.Errorf("%s, %s: with lengths of news all alike would be %v times as many", c.name, s.Name, lost)
			}
		}
	}
}
