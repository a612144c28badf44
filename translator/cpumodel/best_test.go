package cpumodel

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/sluice-mt/sluice/internal/cpu/cputest"
	"github.com/sluice-mt/sluice/translator/marian"
	"github.com/sluice-mt/sluice/translator/model"
	"github.com/sluice-mt/sluice/translator/search"
)

// TestBestInCommon compares the best candidates of rows that are multiplied together, tile by tile, with the first of the largest among
// all scores of a row: with tokens that are suppressed, banned, or as good as others, and with scores that are not finite.
func TestBestInCommon(t *testing.T) {
	const vocabulary, rows = 2*tileColumns + 500, commonBlock + 9
	for _, spoilt := range []float32{0, float32(math.NaN()), float32(math.Inf(1)), minusInf} {
		random := rand.New(rand.NewPCG(12, 12))
		m := synthesise(t, describe(fmt.Sprintf("dim-vocabs: [%d, %d]\ntied-embeddings: true", vocabulary, vocabulary)), false, random)
		const broken, closedBroken, rareBroken = 777, 888, 999 // with scores that are not finite
		const closed, closedRare = 60, 55                      // which would be the best
		const even, first, leading, last = 8, 10, 20, 400      // which are the best, and equal: even ones are in even rows
		makeTwins(t, m, random, map[int]float32{broken: spoilt, closedBroken: spoilt, rareBroken: spoilt, closed: 50, closedRare: 50})
		makeTwin(t, m, leading, leading, 30)
		makeTwin(t, m, leading, first, 30)
		makeTwin(t, m, leading, last, 30)
		makeTwin(t, m, leading, even, 30)
		suppressed := []search.Token{1, 5, closedRare, closed, closedBroken, 901}
		special := []search.Token{broken, closedBroken, rareBroken, closed, closedRare, even, first, leading, last}
		s := pack(t, m, Int8, Options{Suppress: suppressed}).NewStepper(rows)
		frequent := randomCandidates(random, vocabulary, 2*tileColumns+100, special...)
		var sources []search.Source
		for i := range rows {
			candidates := append(slices.Clone(frequent), randomCandidates(random, vocabulary, 60, special...)...)
			switch i % 30 {
			case 7, 8, 9, 10, 11:
				candidates = append(candidates, broken)
			case 12, 13, 14, 15, 16:
				candidates = append(candidates, closedBroken)
			case 20:
				candidates = append(candidates, rareBroken)
			case 21:
				candidates = append(candidates, closedRare)
			case 22:
				candidates = append(candidates, first)
			case 23:
				candidates = append(candidates, last)
			}
			if i%2 == 0 {
				candidates = append(candidates, closed, even)
			}
			if i%30 >= 17 {
				candidates = append(candidates, leading)
			}
			slices.Sort(candidates)
			sources = append(sources, search.Source{Tokens: append(randomTokens(random, 3, vocabulary), 0), Candidates: slices.Compact(candidates)})
		}
		answers := compareBest(t, s, sources, random, suppressed)
		if answers.common == 0 || answers.tied == 0 || answers.next == 0 || (answers.broken == 0) != (spoilt == 0) {
			t.Errorf("%v: %+v", spoilt, answers)
		}
	}
}

// TestBestOfAll does so for rows that may take any token, alone and beside a few that may not.
func TestBestOfAll(t *testing.T) {
	const vocabulary, rows = 2*tileColumns + 500, commonBlock + 9
	cputest.Each(t, func(t *testing.T) {
		for _, spoilt := range []int{-1, 888, 999} { // a token whose score is not finite: none, one that is suppressed, one that is not
			for _, few := range []int{0, 3, 9} { // rows with candidates: none, too few to have anything in common, enough
				random := rand.New(rand.NewPCG(13, 13))
				m := synthesise(t, describe(fmt.Sprintf("dim-vocabs: [%d, %d]\ntied-embeddings: true", vocabulary, vocabulary)), false, random)
				biases := map[int]float32{60: 50}
				if spoilt >= 0 {
					biases[spoilt] = float32(math.NaN())
				}
				makeTwins(t, m, random, biases)
				makeTwin(t, m, 620, 620, 30)
				makeTwin(t, m, 620, 1100, 30)
				suppressed := []search.Token{1, 5, 60, 888}
				s := pack(t, m, Int8, Options{Suppress: suppressed}).NewStepper(rows)
				var sources []search.Source
				for i := range rows {
					source := search.Source{Tokens: append(randomTokens(random, 3, vocabulary), 0)}
					if i%8 == 3 && i/8 < few {
						source.Candidates = randomCandidates(random, vocabulary, 30)
					}
					sources = append(sources, source)
				}
				seen := compareBest(t, s, sources, random, suppressed)
				if seen.common == 0 || seen.tied == 0 && spoilt < 0 || seen.next == 0 && spoilt < 0 || (seen.broken == 0) != (spoilt < 0) {
					t.Errorf("not finite: %d, rows with candidates: %d: %+v", spoilt, few, seen)
				}
			}
		}
	})
}

// Answers are how many were of a kind.
type answers struct{ common, tied, next, broken int }

// compareBest steps the sentences together and compares the best of each row.
func compareBest(t *testing.T, s *Stepper, sources []search.Source, random *rand.Rand, suppressed []search.Token) (seen answers) {
	t.Helper()
	contexts := make([]search.Context, len(sources))
	s.Encode(sources, contexts)
	var slots []search.Slot
	var rows []int32
	tokens := slices.Repeat([]search.Token{search.NoToken}, len(sources))
	for i := range sources {
		s.Begin(search.Slot(i), contexts[i])
		slots, rows = append(slots, search.Slot(i)), append(rows, int32(i))
	}
	var all []search.Token
	for token := range s.Vocabulary() {
		all = append(all, search.Token(token))
	}
	for range 4 {
		s.Step(slots, tokens, false)
		best, banned := make([]search.Scored, len(rows)), make([][]search.Token, len(rows))
		compare := func(i int) (want search.Scored, ties int) {
			y := slices.Clone(s.raw(i, 0))
			candidates := sources[i].Candidates
			if len(candidates) == 0 {
				candidates = all
			}
			want, ties = naiveBest(y, candidates, suppressed, banned[i])
			if best[i].Token != want.Token || best[i].Score != want.Score && best[i].Score == best[i].Score {
				t.Fatalf("row %d: %v, want %v; banned %v", i, best[i], want, banned[i])
			}
			return want, ties
		}
		s.Best(rows, nil, best)
		for i := range rows {
			compare(i)
			if i%3 == 0 && best[i].Token != search.NoToken { // what would have been best is not allowed
				banned[i] = append(randomTokens(random, 5, s.Vocabulary()), best[i].Token)
			}
		}
		s.Best(rows, banned, best)
		for i, row := range rows {
			want, ties := compare(i)
			_, common := s.inCommon(int(row))
			_, whole := s.inWhole(int(row))
			if common || whole {
				seen.common++
			}
			if ties > 1 {
				seen.tied++
			}
			if banned[i] != nil {
				seen.next++
			}
			if want.Score != want.Score {
				seen.broken++
			}
		}
		for i := range tokens {
			tokens[i] = search.Token(random.IntN(s.Vocabulary()))
		}
	}
	return seen
}

// naiveBest finds the first of the largest scores in the plainest way, and how many are as large.
func naiveBest(y []float32, candidates, suppressed, banned []search.Token) (best search.Scored, ties int) {
	best = search.Scored{Token: search.NoToken, Score: minusInf}
	for i, score := range y {
		if math.IsNaN(float64(score)) || math.IsInf(float64(score), 0) {
			return search.Scored{Token: candidates[0], Score: float32(math.NaN())}, 0
		}
		if slices.Contains(suppressed, candidates[i]) || slices.Contains(banned, candidates[i]) {
			continue
		}
		if score > best.Score {
			best, ties = search.Scored{Token: candidates[i], Score: score}, 0
		}
		if score == best.Score {
			ties++
		}
	}
	return best, ties
}

// randomCandidates are tokens without repetition, ascending, the end of sentence among them and some others not.
func randomCandidates(random *rand.Rand, vocabulary, n int, without ...search.Token) []search.Token {
	list := []search.Token{0}
	for _, token := range random.Perm(vocabulary)[:n] {
		if !slices.Contains(without, search.Token(token)) && token > 0 {
			list = append(list, search.Token(token))
		}
	}
	slices.Sort(list)
	return list
}

// makeTwins gives every token the output of the one 300 before it, in half of the cases, and sets the biases of some.
func makeTwins(t *testing.T, m *model.Model, random *rand.Rand, biases map[int]float32) {
	t.Helper()
	bias := parameter(t, m, "decoder_ff_logit_out_b")
	table := m.TargetEmbedding
	for token := 300; token < table.Shape[0]; token++ {
		if random.IntN(2) == 0 {
			width := 4 * table.Shape[1]
			copy(table.Data[token*width:(token+1)*width], table.Data[(token-300)*width:])
			copy(bias.Data[4*token:4*token+4], bias.Data[4*(token-300):])
		}
	}
	for token, value := range biases {
		binary.LittleEndian.PutUint32(bias.Data[4*token:], math.Float32bits(value))
	}
}

// makeTwin gives a token the output of another one, and a bias.
func makeTwin(t *testing.T, m *model.Model, of, token int, bias float32) {
	t.Helper()
	width := 4 * m.TargetEmbedding.Shape[1]
	copy(m.TargetEmbedding.Data[token*width:(token+1)*width], m.TargetEmbedding.Data[of*width:])
	binary.LittleEndian.PutUint32(parameter(t, m, "decoder_ff_logit_out_b").Data[4*token:], math.Float32bits(bias))
}

func parameter(t *testing.T, m *model.Model, name string) *marian.Tensor {
	t.Helper()
	for _, p := range m.Parameters() {
		if p.Name == name {
			return p
		}
	}
	t.Fatalf("there is no %s", name)
	return nil
}
