package shortlist_test

import (
	"bytes"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-mt/sluice/internal/compress"
	"github.com/sluice-mt/sluice/internal/sharedtest"
	"github.com/sluice-mt/sluice/translator/shortlist"
	"github.com/sluice-mt/sluice/translator/vocab"
)

type sentencePair struct{ source, target []int32 }

func corpusOf(pairs []sentencePair) shortlist.Corpus {
	return func(yield func(source, target []int32) error) error {
		for _, p := range pairs {
			if err := yield(p.source, p.target); err != nil {
				return err
			}
		}
		return nil
	}
}

func textOf(t *testing.T, table *shortlist.Table, source, target words) string {
	t.Helper()
	var out bytes.Buffer
	name := func(w words) func(int32) string { return func(id int32) string { return w[id] } }
	if err := table.WriteText(&out, name(source), name(target)); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// The example by which Koehn explains IBM model 1: what co-occurs everywhere explains nothing.
func TestBuildFindsTranslations(t *testing.T) {
	source, target := words{"das", "Haus", "Buch", "ein"}, words{"the", "house", "book", "a"}
	options := shortlist.DefaultBuildOptions(4, 4)
	options.Diagonal, options.Iterations, options.Least = 0, 50, 0
	table, err := shortlist.Build(corpusOf([]sentencePair{
		{[]int32{0, 1}, []int32{0, 1}}, {[]int32{0, 2}, []int32{0, 2}}, {[]int32{3, 2}, []int32{3, 2}},
	}), options)
	if err != nil {
		t.Fatal(err)
	}
	first := map[string]string{}
	for line := range strings.Lines(textOf(t, table, source, target)) {
		fields := strings.Fields(line)
		if _, seen := first[fields[1]]; !seen {
			first[fields[1]] = fields[0]
		}
	}
	for i, piece := range source {
		if first[piece] != target[i] {
			t.Errorf("%s is translated as %q, want %s", piece, first[piece], target[i])
		}
	}
}

func TestBuildRefuses(t *testing.T) {
	good := shortlist.DefaultBuildOptions(2, 2)
	for _, pairs := range [][]sentencePair{nil, {{nil, []int32{1}}}, {{[]int32{2}, []int32{1}}}, {{[]int32{0}, []int32{-1}}}} {
		if _, err := shortlist.Build(corpusOf(pairs), good); !errors.Is(err, shortlist.ErrCorpus) {
			t.Errorf("%v: got %v", pairs, err)
		}
	}
	bad := good
	bad.Null = 1
	if _, err := shortlist.Build(corpusOf([]sentencePair{{[]int32{0}, []int32{1}}}), bad); err == nil {
		t.Error("a null share of 1 was accepted")
	}
}

// Worked out by hand: s0 has three links and stands alone once; s1 has one link.
func TestLinkCounter(t *testing.T) {
	c := shortlist.NewLinkCounter(3, 3)
	for _, add := range []struct {
		source, target []int32
		links          string
	}{
		{[]int32{0, 1}, []int32{0, 1}, "0-0 1-1"}, {[]int32{0}, []int32{0, 2}, "0-0 0-1"}, {[]int32{0}, []int32{1}, ""},
	} {
		if err := c.Add(add.source, add.target, add.links); err != nil {
			t.Fatal(err)
		}
	}
	want := "t0 s0 0.500000\nt2 s0 0.250000\nt1 s1 1.000000\n"
	if got := textOf(t, c.Table(), numbered("s", 3), numbered("t", 3)); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	for _, links := range []string{"0", "0-x", "1-0", "0-1", "-1-0", "0--1", "99999999999999999999-0"} {
		if err := c.Add([]int32{0}, []int32{0}, links); !errors.Is(err, shortlist.ErrCorpus) {
			t.Errorf("%q: got %v", links, err)
		}
	}
}

func FuzzLinks(f *testing.F) {
	f.Add("0-0 1-2 2-1")
	f.Add("0-0\t1-9 -")
	f.Fuzz(func(t *testing.T, links string) {
		c := shortlist.NewLinkCounter(4, 4)
		if err := c.Add([]int32{0, 1, 2}, []int32{3, 2, 1}, links); err == nil {
			if got := c.Table().Pairs(); got > 9 {
				t.Errorf("%d pairs of three pieces each", got)
			}
		}
	})
}

// Rare pairs go when there are too many, frequent ones stay.
func TestBuildKeepsToItsBound(t *testing.T) {
	var pairs []sentencePair
	for i := range int32(2000) {
		pairs = append(pairs, sentencePair{[]int32{i % 7, 10 + i}, []int32{i % 7, 10 + i}})
	}
	options := shortlist.DefaultBuildOptions(3000, 3000)
	options.MaxPairs = 500
	table, err := shortlist.Build(corpusOf(pairs), options)
	if err != nil {
		t.Fatal(err)
	}
	if table.Pairs() > options.MaxPairs {
		t.Errorf("%d pairs, more than %d", table.Pairs(), options.MaxPairs)
	}
	list, err := table.Shortlist(shortlist.Parameters{Best: 1}, false)
	if err != nil {
		t.Fatal(err)
	}
	for piece := range int32(7) {
		if got := list.Of(piece, nil); !slices.Equal(got, []int32{piece}) {
			t.Errorf("piece %d is translated as %v", piece, got)
		}
	}
}

// tatoeba reads pairs of sentences in pieces.
func tatoeba(t *testing.T, v vocab.Vocabulary) []sentencePair {
	t.Helper()
	file, err := os.Open(sharedtest.Path(t, "data/tatoeba.en-de.tsv.xz"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	plain, err := compress.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	var text bytes.Buffer
	if _, err := text.ReadFrom(plain); err != nil {
		t.Fatal(err)
	}
	var pairs []sentencePair
	for line := range strings.Lines(text.String()) {
		source, target, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		pairs = append(pairs, sentencePair{v.Encode(source, nil), v.Encode(target, nil)})
	}
	return pairs
}

// coverage is the share of reference pieces that are candidates, and the mean number of candidates.
func coverage(list *shortlist.Shortlist, pairs []sentencePair) (share, candidates float64) {
	var found []int32
	hits, pieces, total := 0, 0, 0
	for _, p := range pairs {
		found = list.Candidates(p.source, found[:0])
		total += len(found)
		for _, id := range p.target {
			pieces++
			if _, ok := slices.BinarySearch(found, id); ok {
				hits++
			}
		}
	}
	return float64(hits) / float64(pieces), float64(total) / float64(len(pairs))
}

func TestBuiltShortlistCoversReferences(t *testing.T) {
	if testing.Short() {
		t.Skip("learns from 20,000 pairs of sentences")
	}
	options := demoOptions(t)
	pieces := options.Source.(vocab.Vocabulary)
	pairs := tatoeba(t, pieces)
	training, heldOut := pairs[:20_000], pairs[len(pairs)-2000:]
	build := shortlist.DefaultBuildOptions(pieces.Size(), pieces.Size())
	var texts [2]bytes.Buffer
	for i := range texts {
		table, err := shortlist.Build(corpusOf(training), build)
		if err != nil {
			t.Fatal(err)
		}
		if err := table.WriteText(&texts[i], pieces.Piece, pieces.Piece); err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			t.Logf("%d pairs of pieces", table.Pairs())
		}
	}
	if !bytes.Equal(texts[0].Bytes(), texts[1].Bytes()) {
		t.Error("the same corpus gave two tables")
	}
	built, err := shortlist.Read(&texts[0], options)
	if err != nil {
		t.Fatal(err)
	}
	demo, err := shortlist.Open(sharedtest.Path(t, "models/ende-tiny/lex.s2t.gz"), options)
	if err != nil {
		t.Fatal(err)
	}
	share, candidates := coverage(built, heldOut)
	demoShare, demoCandidates := coverage(demo, heldOut)
	t.Logf("built from 20,000 pairs: %.2f %% of reference pieces, %.0f candidates; the demo model's lexicon: %.2f %%, %.0f",
		100*share, candidates, 100*demoShare, demoCandidates)
	if share < 0.85 {
		t.Errorf("covers only %.2f %% of the reference pieces", 100*share)
	}
}
