package data

import (
	"compress/gzip"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-mt/sluice/train/autodiff"
	"github.com/sluice-mt/sluice/train/network"
	"github.com/sluice-mt/sluice/translator/vocab"
)

// letters is a vocabulary of </s>, <unk>, and w0 to w97.
func letters(t testing.TB) vocab.Vocabulary {
	t.Helper()
	var b strings.Builder
	b.WriteString("</s>: 0\n<unk>: 1\n")
	for i := range 98 {
		fmt.Fprintf(&b, "w%d: %d\n", i, i+2)
	}
	path := write(t, "vocab.yml", b.String())
	v, err := vocab.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func write(t testing.TB, name, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(content), 0o666); err != nil {
		t.Fatal(err)
	}
	return path
}

// smallCorpus writes n random pairs, each of which is unmistakable, and reads them.
func smallCorpus(t testing.TB, n int, memory int64) *Corpus {
	t.Helper()
	random := rand.New(rand.NewPCG(1, 1))
	var source, target strings.Builder
	for i := range n {
		fmt.Fprintf(&source, "w%d w%d w%d%s\n", i/10000, i/100%100%98, i%98, strings.Repeat(" w5", random.IntN(9)))
		fmt.Fprintf(&target, "w%d%s\n", i%98, strings.Repeat(" w7", random.IntN(9)))
	}
	v := letters(t)
	c, err := Read(Config{Source: v, Target: v, MaxLength: 50, Memory: memory, Temporary: t.TempDir(),
		Files: Files{Source: write(t, "x", source.String()), Target: write(t, "y", target.String())}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// epochOf reads an epoch and returns the pairs of each mini-batch, as text.
func epochOf(t testing.TB, b *Batches, epoch int) [][]string {
	t.Helper()
	var all [][]string
	var batch network.Batch
	for {
		if err := b.Next(&batch); err != nil {
			t.Fatal(err)
		}
		if b.Position().Epoch != epoch {
			return all
		}
		all = append(all, texts(&batch))
	}
}

func texts(b *network.Batch) []string {
	var out []string
	for s := range b.Sentences() {
		out = append(out, fmt.Sprint(
			b.Source.Tokens[b.Source.Sentences[s]:b.Source.Sentences[s+1]], b.Target.Tokens[b.Target.Sentences[s]:b.Target.Sentences[s+1]]))
	}
	return out
}

// TestEpochs: every epoch has every pair once, in an order of its own, in memory and with little of it.
func TestEpochs(t *testing.T) {
	for _, memory := range []int64{1 << 30, 3 << 19} {
		c := smallCorpus(t, 120000, memory)
		if limited := memory < 1<<30; limited != (c.file != nil) || limited != (c.epoch(1, 0, false).parts > 1) {
			t.Fatalf("memory %d: %d bytes in %d parts, file %v", memory, c.size, c.epoch(1, 0, false).parts, c.file != nil)
		}
		batching := Batching{Budget: Budget{Words: 900}, Maxi: 3000, Seed: 1}
		b, err := c.Batches(batching, Position{})
		if err != nil {
			t.Fatal(err)
		}
		first, second := slices.Concat(epochOf(t, b, 0)...), slices.Concat(epochOf(t, b, 1)...)
		if len(first) != 120000 {
			t.Fatalf("an epoch has %d pairs", len(first))
		}
		if slices.Equal(first[:100], second[:100]) {
			t.Error("two epochs begin alike")
		}
		slices.Sort(first)
		if len(slices.Compact(first)) < 119900 {
			t.Error("pairs come more than once")
		}
	}
}

// TestContinuing: batches from any position on are those that would have come.
func TestContinuing(t *testing.T) {
	c := smallCorpus(t, 500, 1<<20)
	batching := Batching{Budget: Budget{Sentences: 16, Words: 90}, Maxi: 100, Seed: 5}
	b, err := c.Batches(batching, Position{})
	if err != nil {
		t.Fatal(err)
	}
	var batch network.Batch
	for range 150 {
		from := b.Position()
		other, err := c.Batches(batching, from)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(b.Next(&batch)); err != nil {
			t.Fatal(err)
		}
		want := texts(&batch)
		if err := other.Next(&batch); err != nil {
			t.Fatal(err)
		}
		if got := texts(&batch); !slices.Equal(got, want) || other.Position() != b.Position() {
			t.Fatalf("from %+v: %v at %+v, want %v at %+v", from, got, other.Position(), want, b.Position())
		}
	}
	if b.Position().Epoch < 2 {
		t.Error("the test ends too early")
	}
	if _, err := c.Batches(batching, Position{Epoch: 1, Batch: 1000}); err == nil || !strings.Contains(err.Error(), "not the same") {
		t.Errorf("beyond the epoch: %v", err)
	}
}

// TestBudget: no mini-batch exceeds a limit unless it is a single pair, and most are nearly full.
func TestBudget(t *testing.T) {
	c := smallCorpus(t, 2000, 1<<20)
	cost := func(s, target int) float64 { return float64(s*s + target) }
	for _, budget := range []Budget{{Sentences: 10}, {Words: 60}, {Cost: cost, Limit: 300}, {Words: 1}} {
		b, err := c.Batches(Batching{Budget: budget, Maxi: 500, Seed: 5}, Position{})
		if err != nil {
			t.Fatal(err)
		}
		var batch network.Batch
		count := 0
		for ; ; count++ {
			if err := b.Next(&batch); err != nil {
				t.Fatal(err)
			}
			if b.Position().Epoch > 0 {
				break
			}
			total := 0.0
			for s := range batch.Sentences() {
				total += cost(batch.Source.Sentences.Len(s), batch.Target.Sentences.Len(s))
			}
			n := batch.Sentences()
			if n > 1 && (budget.Sentences > 0 && n > budget.Sentences || budget.Words > 0 && len(batch.Target.Tokens) > budget.Words ||
				budget.Cost != nil && total > budget.Limit) {
				t.Fatalf("%+v: %d pairs, %d words, cost %v", budget, n, len(batch.Target.Tokens), total)
			}
		}
		if budget.Sentences == 10 && count > 204 {
			t.Errorf("%d mini-batches of 10 hold 2000 pairs", count)
		}
	}
}

func TestFilters(t *testing.T) {
	v := letters(t)
	source := write(t, "x", "w1 w2\n\nw1\nw1 w2 w3 w4 w5\nw1\nw3 zzz\r\n")
	target := write(t, "y", "w1\nw1\n \nw1\nw1 w2 w3\nw4 w5")
	read := func(change func(*Config)) *Corpus {
		config := Config{Source: v, Target: v, MaxLength: 5, Memory: 1 << 20, Files: Files{Source: source, Target: target}}
		change(&config)
		c, err := Read(config)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	pairs := func(c *Corpus) (all []string) {
		if err := c.each(func(_ uint64, record []byte) {
			var p Pair
			unpack(record, &p)
			all = append(all, fmt.Sprint(p.Source, p.Target))
		}); err != nil {
			t.Fatal(err)
		}
		return all
	}
	c := read(func(*Config) {})
	if want := (Stats{Pairs: 3, Empty: 2, TooLong: 1, SourceTokens: 8, TargetTokens: 9}); c.Stats != want {
		t.Errorf("%+v, want %+v", c.Stats, want)
	}
	if got, want := pairs(c), []string{"[3 4 0] [3 0]", "[3 0] [3 4 5 0]", "[5 1 0] [6 7 0]"}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if c := read(func(c *Config) { c.MaxRatio = 2 }); c.Stats.Unbalanced != 1 {
		t.Errorf("%+v", c.Stats)
	}
	if got := pairs(read(func(c *Config) { c.Crop, c.RightLeft, c.MaxLength = true, true, 4 }))[1]; got != "[5 4 3 0] [3 0]" {
		t.Errorf("cropped and reversed: %s", got)
	}
	if _, err := Read(Config{Source: v, Target: v, MaxLength: 1, Files: Files{Source: source, Target: target}}); !errors.Is(err, ErrEmpty) {
		t.Errorf("nothing left: %v", err)
	}
}

// TestExtras reads alignments and weights, also of reversed sentences.
func TestExtras(t *testing.T) {
	v := letters(t)
	files := Files{
		TSV:       write(t, "x.tsv", "w1 w2 w3\tw4 w5\trest\n"),
		Alignment: write(t, "a", "2-1 0-0 1-0 3-2 9-9 1-0\n"), Weights: write(t, "w", "0.5 2\n"), WordWeights: true,
	}
	for _, reversed := range []bool{false, true} {
		c, err := Read(Config{Source: v, Target: v, MaxLength: 9, Files: files, RightLeft: reversed})
		if err != nil {
			t.Fatal(err)
		}
		b, err := c.Batches(Batching{Budget: Budget{Words: 10}}, Position{})
		if err != nil {
			t.Fatal(err)
		}
		var batch network.Batch
		if err := b.Next(&batch); err != nil {
			t.Fatal(err)
		}
		want := []autodiff.AlignmentPoint{{Query: 0, Key: 0}, {Query: 0, Key: 1}, {Query: 1, Key: 2}, {Query: 2, Key: 3}}
		weights := []float32{0.5, 2, 1}
		if reversed {
			want = []autodiff.AlignmentPoint{{Query: 0, Key: 0}, {Query: 1, Key: 1}, {Query: 1, Key: 2}, {Query: 2, Key: 3}}
			weights = []float32{2, 0.5, 1}
		}
		if !reflect.DeepEqual(batch.Alignment, want) || !slices.Equal(batch.Weights, weights) {
			t.Errorf("reversed %v: points %v, weights %v", reversed, batch.Alignment, batch.Weights)
		}
	}
}

// TestWeightsOfCropped: a sentence that is cropped keeps the weights of what is left of it, and that of its end.
func TestWeightsOfCropped(t *testing.T) {
	v := letters(t)
	for weights, want := range map[string][]float32{"1 2 3 4\n": {1, 2, 1}, "1 2 3 4 5\n": {1, 2, 5}} {
		files := Files{TSV: write(t, "x.tsv", "w1\tw1 w2 w3 w4\n"), Weights: write(t, "w", weights), WordWeights: true}
		for _, reversed := range []bool{false, true} {
			c, err := Read(Config{Source: v, Target: v, MaxLength: 3, Crop: true, Files: files, RightLeft: reversed})
			if err != nil {
				t.Fatal(err)
			}
			b, err := c.Batches(Batching{Budget: Budget{Words: 10}}, Position{})
			if err != nil {
				t.Fatal(err)
			}
			var batch network.Batch
			if err := b.Next(&batch); err != nil {
				t.Fatal(err)
			}
			ordered := slices.Clone(want)
			if reversed {
				slices.Reverse(ordered[:2])
			}
			if !slices.Equal(batch.Weights, ordered) {
				t.Errorf("%q, reversed %v: weights %v, want %v", weights, reversed, batch.Weights, ordered)
			}
		}
	}
}

func TestBadLines(t *testing.T) {
	v := letters(t)
	good := write(t, "g", "w1\nw2\n")
	long := write(t, "long", strings.Repeat("w1 ", maxLine))
	for _, c := range []struct {
		files Files
		want  string
	}{
		{Files{Source: good, Target: write(t, "y", "w1\n")}, "has 1 lines"},
		{Files{TSV: good}, "line 1 has 1 columns"},
		{Files{Source: good, Target: good, Alignment: write(t, "a", "0-0\n0:0\n")}, "line 2 holds \"0:0\""},
		{Files{Source: good, Target: good, Alignment: write(t, "b", "0-0\n0--1\n")}, "line 2 holds"},
		{Files{Source: good, Target: good, Weights: write(t, "w", "1\nnan\n")}, "line 2 holds \"nan\""},
		{Files{Source: good, Target: good, Weights: write(t, "z", "1 2 3\n1\n")}, "line 1 holds 3 weights"},
		{Files{Source: long, Target: long}, "longer than"},
		{Files{Source: good, Target: "missing"}, "missing"},
	} {
		if _, err := Read(Config{Source: v, Target: v, MaxLength: 9, Files: c.files}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %s", c.files, err, c.want)
		}
	}
}

func TestCompressed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.gz")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	z := gzip.NewWriter(f)
	if _, err := z.Write([]byte("w1 w2\nw3\n")); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(z.Close(), f.Close()); err != nil {
		t.Fatal(err)
	}
	v := letters(t)
	c, err := Read(Config{Target: v, MaxLength: 9, Files: Files{Target: path}})
	if err != nil || c.Stats.Pairs != 2 || c.Stats.TargetTokens != 5 {
		t.Errorf("%+v, %v", c, err)
	}
}

// FuzzRecord packs and unpacks pairs.
func FuzzRecord(f *testing.F) {
	f.Add([]byte{1, 2, 3}, []byte{4}, uint16(300))
	f.Fuzz(func(t *testing.T, source, target []byte, n uint16) {
		var p, got Pair
		for _, b := range source {
			p.Source = append(p.Source, int32(b)*int32(n))
		}
		for i, b := range target {
			p.Target = append(p.Target, int32(b))
			p.Weights = append(p.Weights, float32(n)/7)
			p.Alignment = append(p.Alignment, autodiff.AlignmentPoint{Query: int32(i), Key: int32(n)})
		}
		record := appendRecord(nil, &p)
		c := Corpus{records: record}
		if err := c.each(func(_ uint64, r []byte) { unpack(r, &got) }); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(got.Source, p.Source) || !slices.Equal(got.Target, p.Target) ||
			!slices.Equal(got.Weights, p.Weights) || !slices.Equal(got.Alignment, p.Alignment) {
			t.Errorf("%+v, want %+v", got, p)
		}
	})
}

// FuzzRead reads files of any content: what comes out must be fit to train with.
func FuzzRead(f *testing.F) {
	f.Add([]byte("w1 w2\nw3\n"), []byte("w1\nw2\n"), []byte("0-0 1-0\n\n"), []byte("1\n2\n"), false)
	f.Add([]byte("w1\r\n"), []byte("w2 w3"), []byte("5-5"), []byte("0.5 1 2\n"), true)
	v := letters(f)
	folder := f.TempDir()
	f.Fuzz(func(t *testing.T, source, target, points, weights []byte, words bool) {
		paths := map[string][]byte{"s": source, "t": target, "a": points, "w": weights}
		for name, content := range paths {
			if err := os.WriteFile(filepath.Join(folder, name), content, 0o666); err != nil {
				t.Fatal(err)
			}
		}
		c, err := Read(Config{Source: v, Target: v, MaxLength: 20, RightLeft: words, Files: Files{
			Source: filepath.Join(folder, "s"), Target: filepath.Join(folder, "t"),
			Alignment: filepath.Join(folder, "a"), Weights: filepath.Join(folder, "w"), WordWeights: words,
		}})
		if err != nil {
			return
		}
		if err := c.each(func(number uint64, record []byte) {
			var p Pair
			unpack(record, &p)
			checkPair(t, &p, v)
		}); err != nil {
			t.Error(err)
		}
	})
}

func checkPair(t *testing.T, p *Pair, v vocab.Vocabulary) {
	t.Helper()
	for _, tokens := range [][]int32{p.Source, p.Target} {
		if n := len(tokens); n < 2 || n > 20 || tokens[n-1] != v.EOS() {
			t.Errorf("a sentence %v", tokens)
		}
		for _, token := range tokens {
			if token < 0 || int(token) >= v.Size() {
				t.Errorf("token %d", token)
			}
		}
	}
	if len(p.Weights) != len(p.Target) {
		t.Errorf("%d weights for %d tokens", len(p.Weights), len(p.Target))
	}
	for i, point := range p.Alignment {
		if int(point.Query) >= len(p.Target) || int(point.Key) >= len(p.Source) || point.Query < 0 || point.Key < 0 {
			t.Errorf("point %+v", point)
		}
		if i > 0 && point.Query < p.Alignment[i-1].Query {
			t.Error("points are not in order")
		}
	}
}

// TestSeveralSources reads pairs with two sources from files and from a table, with all of them in memory and without.
func TestSeveralSources(t *testing.T) {
	v := letters(t)
	files := Files{
		Source: write(t, "x", "w1 w2\nw3\nw1\nw4\n"), Further: []string{write(t, "y", "w5\nw6 w7 w8\n\nw1 w1 w1 w1 w1\n")}, Target: write(t, "z", "w9\nw10\nw1\nw2\n"),
	}
	table := Files{TSV: write(t, "tsv", "w1 w2\tw5\tw9\tmore\nw3\tw6 w7 w8\tw10\nw1\t\tw1\nw4\tw1 w1 w1 w1 w1\tw2\n"), TSVSources: 2}
	for _, f := range []Files{files, table} {
		c, err := Read(Config{Source: v, Further: []vocab.Vocabulary{v}, Target: v, Files: f, MaxLength: 5, RightLeft: true, Memory: 1 << 20})
		if err != nil {
			t.Fatal(err)
		}
		if s := c.Stats; s.Pairs != 2 || s.Empty != 1 || s.TooLong != 1 {
			t.Errorf("%+v", s)
		}
		b, err := c.Batches(Batching{Budget: Budget{Sentences: 2}, Maxi: 2, Ordered: true}, Position{})
		if err != nil {
			t.Fatal(err)
		}
		var batch network.Batch
		for range 2 { // the second time in the same memory
			if err := b.Next(&batch); err != nil {
				t.Fatal(err)
			}
			if got := fmt.Sprint(batch.Source, batch.Further, batch.Target); got != "{[5 0 4 3 0] [0 2 5]} [{[10 9 8 0 7 0] [0 4 6]}] {[12 0 11 0] [0 2 4]}" {
				t.Errorf("%s", got)
			}
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
	texts, _, err := Texts(table)
	if err != nil || texts[1] != "w3\tw6 w7 w8" {
		t.Errorf("%q, %v", texts, err)
	}
	cost := Budget{Cost: func(source, _ int) float64 { return float64(source) }, Limit: 5}
	if n := cost.fit([]Pair{{Source: []int32{1}, Further: [][]int32{{1, 2, 3}}}, {Source: []int32{1}, Further: [][]int32{{1, 2, 3}}}}); n != 1 {
		t.Errorf("%d pairs fit", n)
	}
}
