package pieces

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// someWords draws distinct words over a small alphabet, so that much is repeated.
func someWords(t *rapid.T) *words {
	alphabet := []rune("abc\u2581")
	drawn := rapid.MapOfN(rapid.StringOfN(rapid.RuneFrom(alphabet), 1, 7, -1), rapid.Int64Range(1, 9), 1, 12).Draw(t, "words")
	w, err := newWords(&tally{words: drawn}, slices.Sorted(slices.Values(alphabet)))
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// someLexicon draws pieces from the words, with all single symbols.
func someLexicon(t *rapid.T, w *words) *lexicon {
	texts := map[string][]symbol{}
	for s := range w.alphabet {
		texts[string(rune(s+1))] = []symbol{symbol(s + 1)}
	}
	for range rapid.IntRange(0, 12).Draw(t, "pieces") {
		word := w.word(rapid.IntRange(0, w.len()-1).Draw(t, "word"))
		start := rapid.IntRange(0, len(word)-1).Draw(t, "start")
		end := rapid.IntRange(start+1, len(word)).Draw(t, "end")
		texts[string(word[start:end])] = word[start:end]
	}
	var pieces []piece
	for _, text := range texts {
		pieces = append(pieces, piece{text, -rapid.Float64Range(0.1, 12).Draw(t, "score")})
	}
	return newLexicon(pieces, len(w.alphabet))
}

// divisions calls f with every way to divide a word, and the logarithm of its probability.
func divisions(l *lexicon, word []symbol, f func(pieces []int32, score float64)) {
	var visit func(rest []symbol, pieces []int32, score float64)
	visit = func(rest []symbol, pieces []int32, score float64) {
		if len(rest) == 0 {
			f(pieces, score)
			return
		}
		for i, p := range l.pieces {
			if len(p.text) <= len(rest) && slices.Equal(p.text, rest[:len(p.text)]) {
				visit(rest[len(p.text):], append(slices.Clone(pieces), int32(i)), score+p.score)
			}
		}
	}
	visit(word, nil, 0)
}

func near(a, b float64) bool { return math.Abs(a-b) <= 1e-9*max(1, math.Abs(a), math.Abs(b)) }

// TestExpectationsAreThoseOfAllDivisions compares with a count over all divisions, written out.
func TestExpectationsAreThoseOfAllDivisions(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := someWords(t)
		l := someLexicon(t, w)
		want := make([]float64, len(l.pieces))
		likelihood, occurrences := 0.0, 0.0
		for i := range w.len() {
			total := 0.0
			divisions(l, w.word(i), func(_ []int32, score float64) { total += math.Exp(score) })
			divisions(l, w.word(i), func(pieces []int32, score float64) {
				for _, p := range pieces {
					want[p] += float64(w.counts[i]) * math.Exp(score) / total
				}
			})
			likelihood += float64(w.counts[i]) * math.Log(total)
			occurrences += float64(w.counts[i])
		}
		got, err := newEstimator(w, 2).expect(t.Context(), l)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.EqualFunc(got.counts, want, near) || !near(got.likelihood, likelihood/occurrences) {
			t.Fatalf("expected are %v with likelihood %v, want %v with %v", got.counts, got.likelihood, want, likelihood/occurrences)
		}
	})
}

func TestBestDivision(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := someWords(t)
		l := someLexicon(t, w)
		var lattice lattice
		for i := range w.len() {
			without := int32(rapid.IntRange(-1, len(l.pieces)-1).Draw(t, "without"))
			if without >= 0 && len(l.pieces[without].text) == 1 {
				without = -1
			}
			best := math.Inf(-1)
			divisions(l, w.word(i), func(pieces []int32, score float64) {
				if !slices.Contains(pieces, without) {
					best = max(best, score)
				}
			})
			got := lattice.divide(l, w.word(i), without)
			sum := 0.0
			var text []symbol
			lattice.bestPieces(func(p int32) {
				sum += l.pieces[p].score
				text = append(text, l.pieces[p].text...)
				if p == without {
					t.Fatalf("piece %d was to be left out", p)
				}
			})
			if !near(got, best) || !near(sum, best) || !slices.Equal(text, w.word(i)) {
				t.Fatalf("the best division of %v has the score %v, its pieces %v; want %v", w.word(i), got, sum, best)
			}
		}
	})
}

// TestExpectationsDoNotDependOnWorkers: to the last bit.
func TestExpectationsDoNotDependOnWorkers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := someWords(t)
		l := someLexicon(t, w)
		one, err := newEstimator(w, 1).expect(t.Context(), l)
		if err != nil {
			t.Fatal(err)
		}
		e := newEstimator(w, 5)
		e.block = 1
		many, err := e.expect(t.Context(), l)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(one.counts, many.counts) || one.likelihood != many.likelihood {
			t.Fatal("they do")
		}
	})
}

// TestExpectationMaximisation: each step makes the text more probable, if the prior is left aside.
func TestExpectationMaximisation(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := someWords(t)
		l := someLexicon(t, w)
		e := newEstimator(w, 1)
		before := math.Inf(-1)
		for step := range 5 {
			expected, err := e.expect(t.Context(), l)
			if err != nil {
				t.Fatal(err)
			}
			if expected.likelihood < before-1e-9 {
				t.Fatalf("the likelihood fell from %v to %v", before, expected.likelihood)
			}
			if step > 0 { // what was drawn is no distribution
				before = expected.likelihood
			}
			var sum float64
			for _, n := range expected.counts {
				sum += n
			}
			for i, n := range expected.counts {
				l.pieces[i].score = math.Log(max(n, 1e-300)) - math.Log(sum)
			}
		}
	})
}

func TestDigamma(t *testing.T) {
	const euler = 0.57721566490153286060651209
	for _, c := range []struct{ x, want float64 }{
		{1, -euler}, {0.5, -euler - 2*math.Ln2}, {2, 1 - euler}, {10, 2.251752589066721107647},
		{0.01, -100.56088545786867450}, {1e6, 13.815510057964190876}, {1e12, math.Log(1e12) - 0.5e-12},
	} {
		if got := digamma(c.x); math.Abs(got-c.want) > 1e-10*max(1, math.Abs(c.want)) {
			t.Errorf("digamma(%v) = %.15g, want %.15g", c.x, got, c.want)
		}
	}
}

// TestLosses compares the loss of a piece with the difference of the likelihoods, counted out.
func TestLosses(t *testing.T) {
	counts := []int64{8, 3, 5, 4}
	total := 20.0
	logOf := func(counts []float64) (sum float64) {
		all := 0.0
		for _, n := range counts {
			all += n
		}
		for _, n := range counts {
			if n > 0 {
				sum += n * math.Log(n/all)
			}
		}
		return sum
	}
	got := lossOf(8, total, []int32{1, 2}, counts)
	// With the probabilities of the text without the piece, its 8 occurrences are paid for by twice as many pieces.
	want := 8 * (math.Log(8./20) - math.Log(11./28) - math.Log(13./28))
	if !near(got, want) {
		t.Errorf("loss %v, want %v", got, want)
	}
	if exact := logOf([]float64{8, 3, 5, 4}) - logOf([]float64{0, 11, 13, 4}); got <= 0 || exact <= 0 {
		t.Errorf("losing a frequent piece costs %v, or exactly %v", got, exact)
	}
}

func TestLexicon(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := someWords(t)
		l := someLexicon(t, w)
		text := rapid.SliceOfN(rapid.Int32Range(1, int32(len(w.alphabet))), 1, 8).Draw(t, "text")
		var got, want []int32
		for node, i := l.roots[text[0]], 1; node != 0; i++ {
			if p := l.nodes[node].piece; p >= 0 {
				got = append(got, p)
			}
			if i == len(text) {
				break
			}
			node = l.next(node, text[i])
		}
		for i, p := range l.pieces {
			if len(p.text) <= len(text) && slices.Equal(p.text, text[:len(p.text)]) {
				want = append(want, int32(i))
			}
		}
		slices.SortFunc(want, func(a, b int32) int { return len(l.pieces[a].text) - len(l.pieces[b].text) })
		if !slices.Equal(got, want) {
			t.Fatalf("%v begins with pieces %v, want %v", text, got, want)
		}
	})
}
