package mert

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// ratio is a score that is no sum of scores of sentences, as BLEU is none.
func ratio(counts []int64) float64 {
	return 100 * float64(counts[0]) / float64(1+counts[1]) * math.Exp(-math.Abs(float64(counts[2]))/50)
}

func randomProblem(random *rand.Rand, sentences, features int) Problem {
	p := Problem{Points: ratio}
	for range sentences {
		candidates := make([]Candidate, 1+random.IntN(8))
		for i := range candidates {
			c := &candidates[i]
			for range features {
				c.Features = append(c.Features, math.Round(20*random.NormFloat64())/4) // ties among them
			}
			c.Counts = []int64{int64(random.IntN(10)), 10, int64(random.IntN(7) - 3)}
		}
		p.Sentences = append(p.Sentences, candidates)
	}
	return p
}

func randomWeights(random *rand.Rand, n int) []float64 {
	weights := make([]float64, n)
	for k := range weights {
		weights[k] = random.NormFloat64()
	}
	return weights
}

// bestByTrial tries a place between all neighbouring places at which any two candidates of a sentence are equal.
func bestByTrial(p *Problem, weights, direction []float64) float64 {
	var places []float64
	for _, candidates := range p.Sentences {
		for i, a := range candidates {
			for _, b := range candidates[:i] {
				slope := product(b.Features, direction) - product(a.Features, direction)
				if place := (product(a.Features, weights) - product(b.Features, weights)) / slope; !math.IsNaN(place) && !math.IsInf(place, 0) {
					places = append(places, place)
				}
			}
		}
	}
	slices.Sort(places)
	if len(places) == 0 {
		return p.points(weights)
	}
	trials := []float64{places[0] - 1, places[len(places)-1] + 1}
	for i := 1; i < len(places); i++ {
		if wide(places[i-1], places[i]) {
			trials = append(trials, (places[i-1]+places[i])/2)
		}
	}
	best := math.Inf(-1)
	for _, step := range trials {
		best = max(best, p.points(along(weights, direction, step)))
	}
	return best
}

func TestLineFindsTheBestPlace(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 400 {
		features := 1 + random.IntN(4)
		p := randomProblem(random, 1+random.IntN(10), features)
		weights, direction := randomWeights(random, features), randomWeights(random, features)
		step, points := p.line(weights, direction)
		if there := p.points(along(weights, direction, step)); there != points {
			t.Fatalf("the line promises %v at %v, where there are %v", points, step, there)
		}
		if want := bestByTrial(&p, weights, direction); points != want {
			t.Fatalf("the line finds %v at %v, but there are %v somewhere", points, step, want)
		}
	}
}

// Two weights have one degree of freedom: all angles can be tried.
func TestTuneFindsTheBestOfTwoWeights(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	for range 30 {
		p := randomProblem(random, 12, 2)
		want := math.Inf(-1)
		for _, half := range []float64{1, -1} { // lines through both half-planes see every angle
			want = max(want, bestByTrial(&p, []float64{0, half}, []float64{1, 0}))
		}
		got, err := Tune(p, []float64{1, 1}, Options{Starts: 20, Seed: 5})
		if err != nil {
			t.Fatal(err)
		}
		if got.After != want || got.After != p.points(got.Weights) || got.Before != p.points([]float64{1, 1}) {
			t.Errorf("the result is %+v, but there are %v somewhere, and %v with these weights", got, want, p.points(got.Weights))
		}
		if size := math.Abs(got.Weights[0]) + math.Abs(got.Weights[1]); math.Abs(size-1) > 1e-12 {
			t.Errorf("the weights add up to %v", size)
		}
	}
}

// What is known to be good is found: the metric counts what one hidden combination of features prefers.
func TestTuneFindsHiddenWeights(t *testing.T) {
	random := rand.New(rand.NewPCG(6, 7))
	hidden := []float64{1, -0.5, 0.25, 2}
	p := randomProblem(random, 60, len(hidden))
	for _, candidates := range p.Sentences {
		best := slices.MaxFunc(candidates, func(a, b Candidate) int {
			return int(math.Copysign(1, product(a.Features, hidden)-product(b.Features, hidden)))
		})
		for i := range candidates {
			candidates[i].Counts = []int64{0, 1, 0}
			if slices.Equal(candidates[i].Features, best.Features) {
				candidates[i].Counts[0] = 1
			}
		}
	}
	got, err := Tune(p, []float64{1, 1, 1, 1}, Options{Starts: 10, Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	if best := p.points(hidden); got.After < best-4 || got.After <= got.Before {
		t.Errorf("from %v to %v, but the hidden weights have %v", got.Before, got.After, best)
	}
}

func TestWorkersChangeNothing(t *testing.T) {
	p := randomProblem(rand.New(rand.NewPCG(8, 9)), 20, 3)
	var first Tuning
	for workers := range 5 {
		got, err := Tune(p, []float64{1, 0, 0}, Options{Starts: 7, Seed: 3, Workers: workers})
		if err != nil {
			t.Fatal(err)
		}
		if workers == 0 {
			first = got
		}
		if !slices.Equal(got.Weights, first.Weights) || got.After != first.After {
			t.Errorf("%d workers find %+v, one finds %+v", workers, got, first)
		}
	}
}

func TestTuneRefuses(t *testing.T) {
	good := Candidate{Features: []float64{1}, Counts: []int64{1, 1, 1}}
	for name, p := range map[string]Problem{
		"no sentences":       {},
		"no candidates":      {Sentences: [][]Candidate{{good}, {}}},
		"features that lack": {Sentences: [][]Candidate{{good, {Counts: good.Counts}}}},
		"counts that lack":   {Sentences: [][]Candidate{{good, {Features: good.Features}}}},
		"a feature NaN":      {Sentences: [][]Candidate{{{Features: []float64{math.NaN()}, Counts: good.Counts}}}},
	} {
		p.Points = ratio
		if got, err := Tune(p, []float64{1}, Options{}); !errors.Is(err, ErrProblem) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
	if _, err := Tune(Problem{Sentences: [][]Candidate{{good}}, Points: ratio}, nil, Options{}); !errors.Is(err, ErrProblem) {
		t.Errorf("no weights: %v", err)
	}
}
