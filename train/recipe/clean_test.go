package recipe

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-mt/sluice/translator/vocab"
)

const cleaned = `
name: x
steps:
- name: a
  clean:
    from: [{corpus: c.tsv}, {source: s, target: t}]
    max-words: 8
    hold-back: [{pairs: 20, to: dev.tsv}, {pairs: 30, to: test.tsv.gz}]
    to: train.tsv
`

// corpusText is 400 pairs, in which every source has two targets and some targets two sources.
func corpusText() string {
	var b strings.Builder
	for i := range 200 {
		fmt.Fprintf(&b, "source %d\ttarget %d\nsource %d\tother target %d\n", i, i, i, i/2)
	}
	return b.String()
}

func readPairs(t *testing.T, path string) []pair {
	t.Helper()
	var list []pair
	for p, err := range pairs(path) {
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, p)
	}
	return list
}

func TestClean(t *testing.T) {
	folder := place(t, map[string]string{
		"c.tsv": corpusText() + "\tno source\none\ttwo two two two two two two two\ncopy\tcopy\n  spaces \u00a0 everywhere \t between\twords\n" +
			strings.Repeat("long ", 9) + "\t" + strings.Repeat("lang ", 9) + "\n" + corpusText(),
		"s": "source 7\nfrom a file\n", "t": "target 7\naus einer Datei\n",
	})
	run(t, parse(t, folder, cleaned))
	train := readPairs(t, filepath.Join(folder, "x", "train.tsv"))
	dev, test := readPairs(t, filepath.Join(folder, "x", "dev.tsv")), readPairs(t, filepath.Join(folder, "x", "test.tsv.gz"))
	if len(dev) != 20 || len(test) != 30 || len(train) < 250 || len(train) > 352 {
		t.Fatalf("%d, %d and %d pairs", len(dev), len(test), len(train))
	}
	seen := map[pair]bool{}
	for _, p := range slices.Concat(train, dev, test) {
		if seen[p] {
			t.Errorf("%q twice", p)
		}
		seen[p] = true
		if p.source == "" || strings.Contains(p.target, "two two") || strings.Contains(p.source, "long") || p.source == "copy" {
			t.Errorf("%q was kept", p)
		}
	}
	if !seen[pair{"spaces everywhere", "between"}] || !seen[pair{"from a file", "aus einer Datei"}] {
		t.Error("pairs are missing")
	}
	sides := map[string]int{}
	for i, part := range [][]pair{train, dev, test} {
		for _, p := range part {
			for _, side := range []string{"s" + p.source, "t" + p.target} {
				if other, known := sides[side]; known && other != i {
					t.Errorf("%q is in two parts", side)
				}
				sides[side] = i
			}
		}
	}
	if slices.IsSortedFunc(train, func(a, b pair) int { return strings.Compare(a.source, b.source) }) {
		t.Error("not shuffled")
	}
}

// The order depends on the pairs and the seed, not on the order in which they come.
func TestCleanOrder(t *testing.T) {
	lines := strings.SplitAfter(corpusText(), "\n")
	slices.Reverse(lines)
	files := map[string]string{"c.tsv": corpusText(), "s": "x\n", "t": "y\n"}
	first, second := place(t, files), ""
	run(t, parse(t, first, cleaned))
	files["c.tsv"] = strings.Join(lines, "")
	second = place(t, files)
	run(t, parse(t, second, cleaned))
	if read(t, first, "x", "train.tsv") != read(t, second, "x", "train.tsv") {
		t.Error("another order of the input gives another corpus")
	}
	run(t, parse(t, second, strings.Replace(cleaned, "max-words", "seed: 2\n    max-words", 1)))
	if read(t, first, "x", "train.tsv") == read(t, second, "x", "train.tsv") {
		t.Error("another seed gives the same order")
	}
	languages := parse(t, second, strings.Replace(cleaned, "max-words", "source-sample: s\n    target-sample: t\n    max-words", 1))
	run(t, languages)
	many := parse(t, second, strings.Replace(cleaned, "pairs: 30", "pairs: 3000", 1))
	if err := Run(t.Context(), many, new(shouter), quiet); !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), "too few") {
		t.Errorf("%v", err)
	}
}

// From a text to vocabulary, alignments and shortlist.
func TestVocabularyToShortlist(t *testing.T) {
	nouns := []string{"Hund:dog", "Katze:cat", "Baum:tree", "Haus:house", "Buch:book", "Tisch:table"}
	verbs := []string{"schläft:sleeps", "brennt:burns", "fällt:falls", "wartet:waits"}
	var text strings.Builder
	for i := range 240 {
		german, english, _ := strings.Cut(nouns[i%len(nouns)], ":")
		verb, doing, _ := strings.Cut(verbs[i/6%len(verbs)], ":")
		fmt.Fprintf(&text, "the %s %s\tdas %s %s\n", english, doing, german, verb)
	}
	folder := place(t, map[string]string{"c.tsv": text.String()})
	run(t, parse(t, folder, `
name: x
vocabularies: v.spm
steps:
- {name: v, vocabulary: {corpora: c.tsv, size: 300, character-coverage: 1, to: v.spm}}
- {name: w, vocabulary: {corpora: c.tsv, type: bpe, side: target, size: 300, to: w.spm}}
- {name: a, align: {corpora: c.tsv, to: a.gz}}
- {name: b, align: {corpora: c.tsv, inverse: true, method: intersection, to: b}}
- {name: s, shortlist: {corpora: c.tsv, alignments: a.gz, first: 1, best: 5, to: a.bin}}
- {name: t, shortlist: {corpora: c.tsv, first: 1, best: 5, to: b.bin}}
`))
	for _, name := range []string{"v.spm", "w.spm"} {
		vocabulary, err := vocab.Open(filepath.Join(folder, "x", name))
		if err != nil {
			t.Fatal(err)
		}
		if vocabulary.Size() != 300 || vocabulary.EOS() != 0 {
			t.Errorf("%s: %d pieces, end of sentence %d", name, vocabulary.Size(), vocabulary.EOS())
		}
	}
	count := 0
	for line, err := range Lines(filepath.Join(folder, "x", "a.gz")) {
		if err != nil || !strings.HasPrefix(line, "0-0") {
			t.Fatalf("line %d: %q, %v", count, line, err)
		}
		count++
	}
	if count != 240 {
		t.Errorf("%d lines", count)
	}
	for _, name := range []string{"a.bin", "b.bin"} {
		if len(read(t, folder, "x", name)) < 100 {
			t.Errorf("%s is too small", name)
		}
	}
}

func TestNoise(t *testing.T) {
	folder := place(t, map[string]string{"c.tsv": strings.Repeat("This is a longer sentence.\tDas ist ein Satz.\n", 200)})
	const recipe = "name: x\nsteps:\n- {name: n, noise: {corpus: c.tsv, to: n.tsv}}\n"
	run(t, parse(t, folder, recipe))
	first := read(t, folder, "x", "n.tsv")
	changed := 0
	for _, p := range readPairs(t, filepath.Join(folder, "x", "n.tsv")) {
		if p.source != "This is a longer sentence." {
			changed++
		}
	}
	if changed < 20 || changed > 100 {
		t.Errorf("%d of 200 sources changed", changed)
	}
	run(t, parse(t, folder, strings.Replace(recipe, "to:", "seed: 7, to:", 1)))
	if read(t, folder, "x", "n.tsv") == first {
		t.Error("another seed changes nothing")
	}
}
