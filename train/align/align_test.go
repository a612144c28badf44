package align

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// corpusOf keeps pairs of sentences of numbers.
func corpusOf(t testing.TB, pairs [][2][]int32) *Corpus {
	t.Helper()
	c, err := NewCorpus(100, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	for _, p := range pairs {
		if err := c.Add(p[0], p[1]); err != nil {
			t.Fatal(err)
		}
	}
	return c
}

// learn aligns a corpus in one direction.
func learn(t testing.TB, c *Corpus, reverse bool, o Options) ([][]Link, []Iteration) {
	t.Helper()
	o.Temporary = t.TempDir()
	var found []Iteration
	links, err := Learn(context.Background(), c, reverse, o, func(i Iteration) { found = append(found, i) })
	if err != nil {
		t.Fatal(err)
	}
	var all [][]Link
	forward, back := links, (*Links)(nil)
	if reverse {
		forward, back = nil, links
	}
	err = Each(context.Background(), c, forward, back, Intersection, func(_, _ []int32, links []Link) error {
		all = append(all, slices.Clone(links))
		return nil
	})
	if err := errors.Join(err, links.Close()); err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(o.Temporary); err != nil || len(left) > 0 {
		t.Fatalf("%v was left behind, %v", left, err)
	}
	return all, found
}

// synthetic makes sentences and their translations word by word, with some neighbours exchanged, words that have no
// counterpart, and words whose translation depends on chance. It returns the true links.
func synthetic(seed uint64, sentences, vocabulary int) (pairs [][2][]int32, truth [][]Link) {
	random := rand.New(rand.NewPCG(seed, 1))
	word := func() int32 { // Zipf's law, roughly
		return int32(float64(vocabulary) * math.Pow(random.Float64(), 3))
	}
	for range sentences {
		n := 3 + random.IntN(12)
		source := make([]int32, n)
		order := make([]int, n)
		for i := range source {
			source[i], order[i] = word(), i
		}
		for i := 1; i < n; i++ {
			if random.IntN(6) == 0 {
				order[i-1], order[i] = order[i], order[i-1]
			}
		}
		var target []int32
		var links []Link
		for _, i := range order {
			if random.IntN(15) == 0 {
				target = append(target, int32(2*vocabulary)+int32(random.IntN(3))) // from nowhere
			}
			links = append(links, Link{i, len(target)})
			target = append(target, 2*source[i]+int32(random.IntN(4)/3))
		}
		slices.SortFunc(links, func(a, b Link) int { return a.Source - b.Source })
		pairs, truth = append(pairs, [2][]int32{source, target}), append(truth, links)
	}
	return pairs, truth
}

// errorRate is the alignment error rate of Och and Ney 2003, all true links being sure.
func errorRate(found, truth [][]Link) float64 {
	common, total := 0, 0
	for k := range truth {
		for _, link := range found[k] {
			if slices.Contains(truth[k], link) {
				common++
			}
		}
		total += len(found[k]) + len(truth[k])
	}
	return 1 - 2*float64(common)/float64(total)
}

func TestFindsKnownAlignments(t *testing.T) {
	pairs, truth := synthetic(1, 2000, 200)
	c := corpusOf(t, pairs)
	for _, learning := range []Learning{Customary, Exact, Fixed} {
		o := DefaultOptions()
		o.Learning = learning
		forward, _ := learn(t, c, false, o)
		reverse, _ := learn(t, c, true, o)
		for name, found := range map[string][][]Link{"forward": forward, "reverse": reverse} {
			if rate := errorRate(found, truth); rate > 0.06 {
				t.Errorf("%v, %s: alignment error rate %.4f", learning, name, rate)
			}
		}
	}
}

// TestSameForEveryone: the links do not depend on the number of workers, nor on how often the table is too small.
func TestSameForEveryone(t *testing.T) {
	pairs, _ := synthetic(2, 600, 3000)
	c := corpusOf(t, pairs)
	want, history := learn(t, c, false, DefaultOptions())
	for _, memory := range []int64{0, 300_000, 1 << 30} {
		for _, workers := range []int{1, 2, 5} {
			o := DefaultOptions()
			o.Memory, o.Workers = memory, workers
			got, found := learn(t, c, false, o)
			if !slices.EqualFunc(got, want, func(a, b []Link) bool { return slices.Equal(a, b) }) {
				t.Errorf("%d bytes, %d workers: other links", memory, workers)
			}
			parts := found[0].Parts
			if several := memory < 1<<30; several != (parts > 1) {
				t.Errorf("%d bytes: %d parts", memory, parts)
			}
			for i := range found {
				found[i].Parts = 1
				if found[i] != history[i] {
					t.Errorf("%d bytes, %d workers: %+v, want %+v", memory, workers, found[i], history[i])
				}
			}
		}
	}
}

func checkClose(t *testing.T, what string, got, want float64) {
	t.Helper()
	if !(math.Abs(got-want) <= 1e-9*math.Abs(want)) {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}

// TestDirectionsMirror: exchanging the sides and the direction exchanges the ends of all links.
func TestDirectionsMirror(t *testing.T) {
	pairs, _ := synthetic(3, 500, 100)
	var exchanged [][2][]int32
	for _, p := range pairs {
		exchanged = append(exchanged, [2][]int32{p[1], p[0]})
	}
	there, _ := learn(t, corpusOf(t, pairs), true, DefaultOptions())
	back, _ := learn(t, corpusOf(t, exchanged), false, DefaultOptions())
	for k := range there {
		var mirrored []Link
		for _, link := range back[k] {
			mirrored = append(mirrored, Link{link.Target, link.Source})
		}
		slices.SortFunc(mirrored, func(a, b Link) int { return a.Source - b.Source })
		if !slices.Equal(there[k], mirrored) {
			t.Fatalf("sentence %d: %v and %v", k, there[k], mirrored)
		}
	}
}

// TestNamesOfWordsDoNotMatter: other numbers for the words give the same links.
func TestNamesOfWordsDoNotMatter(t *testing.T) {
	pairs, _ := synthetic(4, 500, 100)
	random := rand.New(rand.NewPCG(5, 5))
	names := random.Perm(1000)
	var renamed [][2][]int32
	for _, p := range pairs {
		var other [2][]int32
		for side, words := range p {
			for _, word := range words {
				other[side] = append(other[side], int32(names[word]))
			}
		}
		renamed = append(renamed, other)
	}
	want, _ := learn(t, corpusOf(t, pairs), false, DefaultOptions())
	got, _ := learn(t, corpusOf(t, renamed), false, DefaultOptions())
	if !slices.EqualFunc(got, want, func(a, b []Link) bool { return slices.Equal(a, b) }) {
		t.Error("other links")
	}
}

// TestLikelihoodGrows: without a prior on translations and with a fixed tension, expectation maximisation never makes the
// text less probable; and learning the tension exactly makes it more probable than leaving it.
func TestLikelihoodGrows(t *testing.T) {
	pairs, _ := synthetic(6, 1000, 200)
	c := corpusOf(t, pairs)
	o := DefaultOptions()
	o.Alpha, o.Learning, o.Iterations = 0, Fixed, 12
	_, fixed := learn(t, c, false, o)
	for i := 1; i < len(fixed); i++ {
		if fixed[i].Entropy > fixed[i-1].Entropy+1e-9 {
			t.Errorf("iteration %d: %v bits after %v", i+1, fixed[i].Entropy, fixed[i-1].Entropy)
		}
	}
	o.Learning = Exact
	_, exact := learn(t, c, false, o)
	if last := len(fixed) - 1; exact[last].Entropy >= fixed[last].Entropy || exact[last].Tension == o.Tension {
		t.Errorf("%+v is not better than %+v", exact[last], fixed[last])
	}
}

// TestModel1 is the example by which Koehn explains IBM model 1, with the links worked out by looking at it.
func TestModel1(t *testing.T) {
	source, target := NewWords(MaxWords), NewWords(MaxWords)
	var pairs [][2][]int32
	for _, p := range [][2]string{{"das Haus", "the house"}, {"das Buch", "the book"}, {"ein Buch", "a book"}} {
		pairs = append(pairs, [2][]int32{source.Encode(p[0], nil), target.Encode(p[1], nil)})
	}
	o := DefaultOptions()
	o.Tension, o.Learning, o.Iterations, o.Alpha = 0, Fixed, 30, 0
	found, _ := learn(t, corpusOf(t, pairs), false, o)
	for k, links := range found {
		if got := string(AppendPharaoh(nil, links)); got != "0-0 1-1" {
			t.Errorf("%s ||| %s: %s", source.Word(pairs[k][0][1]), target.Word(pairs[k][1][1]), got)
		}
	}
}

// TestUnusable: what cannot be aligned is counted and gets no links, and a corpus of nothing else is refused.
func TestUnusable(t *testing.T) {
	long := make([]int32, 101)
	pairs := [][2][]int32{{nil, {1}}, {{1}, {2}}, {long, {2}}, {{1}, nil}, {nil, nil}, {{1}, {2}}}
	c := corpusOf(t, pairs)
	found, _ := learn(t, c, false, DefaultOptions())
	lines := make([]string, len(found))
	for k, links := range found {
		lines[k] = string(AppendPharaoh(nil, links))
	}
	if got := strings.Join(lines, ","); got != ",0-0,,,,0-0" || c.Skipped != 4 || c.Sentences != 6 {
		t.Errorf("%q, skipped %d of %d", got, c.Skipped, c.Sentences)
	}
	if _, err := Learn(context.Background(), corpusOf(t, pairs[:1]), false, DefaultOptions(), nil); !errors.Is(err, ErrCorpus) {
		t.Errorf("got %v", err)
	}
	for _, word := range []int32{-1, math.MaxInt32} {
		if err := c.Add([]int32{word}, []int32{1}); !errors.Is(err, ErrCorpus) {
			t.Errorf("word %d: %v", word, err)
		}
	}
}

func TestOptionsAreChecked(t *testing.T) {
	c := corpusOf(t, [][2][]int32{{{1}, {2}}})
	for _, change := range []func(*Options){
		func(o *Options) { o.Iterations = 1 },
		func(o *Options) { o.Tension = -1 },
		func(o *Options) { o.Tension = math.NaN() },
		func(o *Options) { o.Null = 1 },
		func(o *Options) { o.Null = 0 },
		func(o *Options) { o.Alpha = -0.1 },
		func(o *Options) { o.Alpha = math.Inf(1) },
		func(o *Options) { o.Memory = -1 },
		func(o *Options) { o.Workers = -1 },
	} {
		o := DefaultOptions()
		change(&o)
		if _, err := Learn(context.Background(), c, false, o, nil); !errors.Is(err, ErrOptions) {
			t.Errorf("%+v: %v", o, err)
		}
	}
	for _, length := range []int{0, LongestSentence + 1} {
		if _, err := NewCorpus(length, ""); !errors.Is(err, ErrOptions) {
			t.Errorf("longest sentence %d: %v", length, err)
		}
	}
}

func TestCancel(t *testing.T) {
	pairs, _ := synthetic(7, 100, 50)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	o := DefaultOptions()
	o.Temporary = t.TempDir()
	if _, err := Learn(ctx, corpusOf(t, pairs), false, o, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if left, err := os.ReadDir(o.Temporary); err != nil || len(left) > 0 {
		t.Errorf("%v was left behind, %v", left, err)
	}
}

// TestDiagonal compares with the formulas written out.
func TestDiagonal(t *testing.T) {
	for _, tension := range []float64{0, 0.1, 4, 14} {
		for n := 1; n < 12; n++ {
			for m := 1; m < 12; m++ {
				sum := 0.0
				for j := 1; j <= m; j++ {
					weights := make([]float64, n)
					total, want, far := diagonal(weights, j, m, tension), 0.0, 0.0
					for i := range weights {
						w := math.Exp(-tension * math.Abs(float64(i+1)/float64(n)-float64(j)/float64(m)))
						checkClose(t, fmt.Sprintf("weight %d of %d for %d of %d", i+1, n, j, m), weights[i], w)
						want += w
						far += w * math.Abs(float64(i+1)/float64(n)-float64(j)/float64(m))
					}
					checkClose(t, "sum of weights", total, want)
					sum += far / want
				}
				if got := expectedDistance(make([]float64, n), m, tension); math.Abs(got-sum) > 1e-12 {
					t.Errorf("expected distance for %d and %d: %v, want %v", n, m, got, sum)
				}
			}
		}
	}
}

// TestDigamma uses what is known of it: digamma(1) is minus Euler's constant, digamma(1/2) is less by 2 ln 2, and
// digamma(x+1) = digamma(x) + 1/x.
func TestDigamma(t *testing.T) {
	const euler = 0.57721566490153286060651209
	checkClose(t, "digamma(1)", digamma(1), -euler)
	checkClose(t, "digamma(1/2)", digamma(0.5), -euler-2*math.Ln2)
	for x := 0.01; x < 1000; x *= 1.7 {
		if got, want := digamma(x+1), digamma(x)+1/x; math.Abs(got-want) > 1e-11*max(1, 1/x) {
			t.Errorf("digamma(%v) = %v, want %v", x+1, got, want)
		}
	}
}

// TestAnyCorpus: whatever the sentences and options, numbers are finite and links within their sentences.
func TestAnyCorpus(t *testing.T) {
	folder := t.TempDir()
	rapid.Check(t, func(r *rapid.T) {
		sentence := rapid.SliceOfN(rapid.Int32Range(0, 20), 0, 8)
		c, err := NewCorpus(6, folder)
		if err != nil {
			r.Fatal(err)
		}
		defer c.Close()
		if err := c.Add([]int32{1}, []int32{2}); err != nil {
			r.Fatal(err)
		}
		for range rapid.IntRange(0, 20).Draw(r, "sentences") {
			if err := c.Add(sentence.Draw(r, "source"), sentence.Draw(r, "target")); err != nil {
				r.Fatal(err)
			}
		}
		o := DefaultOptions()
		o.Memory, o.Workers, o.Temporary = 1<<20, rapid.IntRange(1, 3).Draw(r, "workers"), folder
		o.Alpha = rapid.SampledFrom([]float64{0, 1e-6, 0.01, 1}).Draw(r, "alpha")
		o.Tension = rapid.Float64Range(0, maxTension).Draw(r, "tension")
		o.Null = rapid.Float64Range(1e-6, 1-1e-6).Draw(r, "null")
		o.Learning = Learning(rapid.IntRange(0, 2).Draw(r, "learning"))
		reverse := rapid.Bool().Draw(r, "reverse")
		links, err := Learn(context.Background(), c, reverse, o, func(i Iteration) {
			if math.IsNaN(i.Entropy) || !(i.Tension >= 0 && i.Tension <= maxTension) || !(i.Null >= 0 && i.Null <= 1.000001) {
				r.Errorf("%+v", i)
			}
		})
		if err != nil {
			r.Fatal(err)
		}
		defer links.Close()
		forward, back := links, (*Links)(nil)
		if reverse {
			forward, back = nil, links
		}
		err = Each(context.Background(), c, forward, back, Union, func(source, target []int32, links []Link) error {
			for _, link := range links {
				if link.Source < 0 || link.Source >= len(source) || link.Target < 0 || link.Target >= len(target) {
					return fmt.Errorf("%v of %v and %v", link, source, target)
				}
			}
			return nil
		})
		if err != nil {
			r.Error(err)
		}
	})
}
