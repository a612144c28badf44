package paritytest

import (
	"math"
	"slices"

	"github.com/sluice-mt/sluice/translator/search"
)

// reach is how far float32 arithmetic in another order moves a log-probability: word scores of the same history differ
// by up to 3e-5 between Marian and exact arithmetic.
const reach = 3e-5

// A noise moves log-probabilities by at most size, each in its own way, which seed decides.
type noise struct {
	seed uint64
	size float32
}

// of is the noise of a token in a row of a step.
func (n *noise) of(step uint64, row int32, token search.Token) float32 {
	x := n.seed*0x9e3779b97f4a7c15 ^ step<<40 ^ uint64(uint32(row))<<32 ^ uint64(uint32(token)) // splitmix64
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	x ^= x >> 31
	return n.size * float32(2*float64(x>>11)/(1<<53)-1)
}

// A noisyStepper answers as another Stepper does, but for noise.
type noisyStepper struct {
	search.Stepper
	noise      *noise
	step       uint64
	slots      []search.Slot
	candidates map[search.Context][]search.Token
	context    map[search.Slot]search.Context
	logProbs   []float32
}

func (s *noisyStepper) Encode(sources []search.Source, contexts []search.Context) {
	s.Stepper.Encode(sources, contexts)
	for i, source := range sources {
		if s.candidates == nil {
			s.candidates, s.context = map[search.Context][]search.Token{}, map[search.Slot]search.Context{}
		}
		s.candidates[contexts[i]] = source.Candidates
	}
}

func (s *noisyStepper) Begin(slot search.Slot, context search.Context) {
	s.Stepper.Begin(slot, context)
	s.context[slot] = context
}

func (s *noisyStepper) Reorder(dst, src []search.Slot) {
	s.Stepper.Reorder(dst, src)
	for i := range dst { // both are of one sentence
		s.context[dst[i]] = s.context[src[i]]
	}
}

func (s *noisyStepper) Step(slots []search.Slot, tokens []search.Token, align bool) {
	s.step++
	s.slots = append(s.slots[:0], slots...)
	s.Stepper.Step(slots, tokens, align)
}

func (s *noisyStepper) token(row int32, index int) search.Token {
	if candidates := s.candidates[s.context[s.slots[row]]]; candidates != nil {
		return candidates[index]
	}
	return search.Token(index)
}

func (s *noisyStepper) LogProbs(row int32) []float32 {
	s.logProbs = append(s.logProbs[:0], s.Stepper.LogProbs(row)...)
	for i := range s.logProbs {
		s.logProbs[i] += s.noise.of(s.step, row, s.token(row, i))
	}
	return s.logProbs
}

func (s *noisyStepper) Best(rows []int32, banned [][]search.Token, out []search.Scored) {
	s.Top(rows, 1, banned, out)
}

func (s *noisyStepper) Top(rows []int32, k int, banned [][]search.Token, out []search.Scored) {
	for i, row := range rows {
		best := out[i*k : i*k : (i+1)*k]
		for j, x := range s.LogProbs(row) {
			token := s.token(row, j)
			if banned != nil && slices.Contains(banned[i], token) {
				continue
			}
			place := len(best)
			for place > 0 && x > best[place-1].Score {
				place--
			}
			if place == k {
				continue
			}
			best = slices.Insert(best[:min(len(best), k-1)], place, search.Scored{Token: token, Score: x})
		}
		for len(best) < k {
			best = append(best, search.Scored{Token: search.NoToken, Score: float32(math.Inf(-1))})
		}
	}
}
