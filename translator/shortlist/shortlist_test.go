package shortlist_test

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/sluice-mt/sluice/internal/sharedtest"
	"github.com/sluice-mt/sluice/translator/shortlist"
	"github.com/sluice-mt/sluice/translator/vocab"
)

// words is a vocabulary of given tokens, the first of which stands for unknown ones.
type words []string

func (w words) ID(piece string) (int32, bool) {
	i := slices.Index(w, piece)
	return int32(i), i >= 0
}
func (w words) Size() int           { return len(w) }
func (w words) Unk() int32          { return 0 }
func (w words) Fingerprint() string { return strings.Join(w, " ") }

func numbered(prefix string, n int) words {
	w := make(words, n)
	for i := range w {
		w[i] = prefix + strconv.Itoa(i)
	}
	return w
}

// table is the plain reading of the text form: probability by source and target id, the last line of a pair counting.
type table map[int32]map[int32]float32

func readTable(t testing.TB, r io.Reader, source, target shortlist.Vocabulary) table {
	t.Helper()
	id := func(v shortlist.Vocabulary, piece string) int32 {
		if id, ok := v.ID(piece); ok {
			return id
		}
		return v.Unk()
	}
	probabilities := table{}
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) == 0 || fields[0] == "NULL" || fields[1] == "NULL" {
			continue
		}
		p, err := strconv.ParseFloat(fields[2], 32)
		if err != nil {
			t.Fatal(err)
		}
		s := id(source, fields[1])
		if probabilities[s] == nil {
			probabilities[s] = map[int32]float32{}
		}
		probabilities[s][id(target, fields[0])] = float32(p)
	}
	return probabilities
}

// candidates says by brute force what Shortlist.Candidates has to give.
func (probabilities table) candidates(source []int32, o shortlist.Options) []int32 {
	set := map[int32]bool{}
	for id := range min(o.First, o.Target.Size()) {
		set[int32(id)] = true
	}
	for _, s := range source {
		if o.Shared {
			set[s] = true
		}
		for id, p := range probabilities[s] {
			better := 0 // pairs that come before this one
			for other, q := range probabilities[s] {
				if q > p || q == p && other > id {
					better++
				}
			}
			if better < o.Best && p > float32(o.Threshold) {
				set[id] = true
			}
		}
	}
	for id := o.First; len(set)%8 != 0 && id < o.Target.Size(); id++ {
		set[int32(id)] = true
	}
	var sorted []int32
	for id := range set {
		sorted = append(sorted, id)
	}
	slices.Sort(sorted)
	return sorted
}

func TestCandidatesOfRandomTables(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		source, target := numbered("s", 1+random.IntN(30)), numbered("t", 1+random.IntN(90))
		options := shortlist.Options{
			Parameters: shortlist.Parameters{First: random.IntN(20), Best: random.IntN(6), Threshold: float64(random.IntN(4)) / 8},
			Source:     source, Target: target,
			Shared: random.IntN(2) == 0,
		}
		if options.Shared { // as one vocabulary, but with a name for each side
			options.Target = numbered("t", source.Size())
		}
		var text strings.Builder
		for range random.IntN(200) {
			// Few different probabilities, so that ties and repeated pairs are frequent.
			fmt.Fprintf(&text, "t%d s%d %.3f\n", random.IntN(95), random.IntN(32), float64(random.IntN(8))/8)
		}
		text.WriteString("NULL s0 0.5\nt0 NULL 0.5\n")
		checkRandomTable(t, text.String(), options, random)
	}
}

func checkRandomTable(t *testing.T, text string, options shortlist.Options, random *rand.Rand) {
	t.Helper()
	list, err := shortlist.Read(strings.NewReader(text), options)
	if err != nil {
		t.Fatal(err)
	}
	probabilities := readTable(t, strings.NewReader(text), options.Source, options.Target)
	again := viaBinary(t, list, options)
	for range 5 {
		sentence := make([]int32, random.IntN(6))
		for i := range sentence {
			sentence[i] = int32(random.IntN(options.Source.Size()))
		}
		want := probabilities.candidates(sentence, options)
		if got := list.Candidates(sentence, nil); !slices.Equal(got, want) {
			t.Fatalf("%+v, sentence %v of\n%s\n got %v\nwant %v", options.Parameters, sentence, text, got, want)
		}
		dummy := options.First == 0 && slices.Contains(sentence, int32(options.Source.Size()-1)) // gets id 0 in binary form
		if got := again.Candidates(sentence, nil); !dummy && !slices.Equal(got, want) {
			t.Fatalf("binary form: got %v, want %v", got, want)
		}
	}
}

func viaBinary(t testing.TB, list *shortlist.Shortlist, options shortlist.Options) *shortlist.Shortlist {
	t.Helper()
	var data bytes.Buffer
	if _, err := list.WriteTo(&data); err != nil {
		t.Fatal(err)
	}
	again, err := shortlist.Read(&data, options)
	if err != nil {
		t.Fatal(err)
	}
	return again
}

func demoOptions(t testing.TB) shortlist.Options {
	t.Helper()
	v, err := vocab.Open(sharedtest.Path(t, "models/ende-tiny/vocab.spm"))
	if err != nil {
		t.Fatal(err)
	}
	return shortlist.Options{Parameters: shortlist.Defaults(), Shared: true, Source: v, Target: v}
}

func demoSentences(t testing.TB, v shortlist.Vocabulary) [][]int32 {
	t.Helper()
	text, err := os.ReadFile(sharedtest.Path(t, "data/test-multi30k-2016.en"))
	if err != nil {
		t.Fatal(err)
	}
	pieces := v.(vocab.Vocabulary)
	var sentences [][]int32
	for line := range strings.Lines(string(text)) {
		sentences = append(sentences, append(pieces.Encode(strings.TrimSuffix(line, "\n"), nil), pieces.EOS()))
	}
	return sentences
}

// The mean is that of a running Marian (browsermt) at 100/100.
func TestCandidatesOfTheDemoModel(t *testing.T) {
	options := demoOptions(t)
	path := sharedtest.Path(t, "models/ende-tiny/lex.s2t.gz")
	list, err := shortlist.Open(path, options)
	if err != nil {
		t.Fatal(err)
	}
	binary := viaBinary(t, list, options)
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	plain, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	probabilities := readTable(t, plain, options.Source, options.Target)
	sentences := demoSentences(t, options.Source)
	total := 0
	for i, sentence := range sentences {
		got := list.Candidates(sentence, nil)
		total += len(got)
		if i%10 == 0 { // brute force is slow
			if want := probabilities.candidates(sentence, options); !slices.Equal(got, want) {
				t.Fatalf("line %d:\n got %v\nwant %v", i+1, got, want)
			}
		}
		if other := binary.Candidates(sentence, nil); !slices.Equal(got, other) {
			t.Fatalf("line %d: text and binary form differ", i+1)
		}
	}
	mean := float64(total) / float64(len(sentences))
	t.Logf("%.1f candidates on average", mean)
	if mean < 621.5 || mean >= 622.5 {
		t.Errorf("%.1f candidates on average, but Marian has 622", mean)
	}
}

func smallList(t testing.TB) *shortlist.Shortlist {
	t.Helper()
	options := shortlist.Options{
		Parameters: shortlist.Parameters{First: 3, Best: 2},
		Source:     numbered("s", 5), Target: numbered("t", 100),
	}
	list, err := shortlist.Read(strings.NewReader("t90 s1 .5\nt91 s1 .4\nt92 s1 .3\nt50 s2 1\n"), options)
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func TestRequiredIDsAreCandidates(t *testing.T) {
	scratch := smallList(t).NewScratch()
	got := scratch.Candidates([]int32{1, 2, 77, -1}, []int32{99, 90, 4, -1, 100}, nil)
	if want := []int32{0, 1, 2, 4, 50, 90, 91, 99}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	got = scratch.Candidates([]int32{1}, nil, []int32{-7})
	if want := []int32{-7, 0, 1, 2, 3, 4, 5, 90, 91}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v: something was left from the call before", got, want)
	}
}

func TestCandidatesConcurrently(t *testing.T) {
	list := smallList(t)
	var group sync.WaitGroup
	for worker := range int32(4) {
		group.Go(func() {
			want := list.NewScratch().Candidates([]int32{worker}, nil, nil)
			for range 200 {
				if got := list.Candidates([]int32{worker}, nil); !slices.Equal(got, want) {
					t.Errorf("got %v, want %v", got, want)
				}
			}
		})
	}
	group.Wait()
}

func TestCandidatesDoNotAllocate(t *testing.T) {
	list := smallList(t)
	scratch, dst, source := list.NewScratch(), make([]int32, 0, 64), []int32{1, 2, 3}
	if n := testing.AllocsPerRun(100, func() { dst = scratch.Candidates(source, nil, dst[:0]) }); n != 0 {
		t.Errorf("%v allocations with a scratch", n)
	}
}

func BenchmarkOpenText(b *testing.B) {
	options := demoOptions(b)
	path := sharedtest.Path(b, "models/ende-tiny/lex.s2t.gz")
	for b.Loop() {
		if _, err := shortlist.Open(path, options); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkCandidates(b *testing.B) {
	options := demoOptions(b)
	list, err := shortlist.Open(sharedtest.Path(b, "models/ende-tiny/lex.s2t.gz"), options)
	if err != nil {
		b.Fatal(err)
	}
	sentences := demoSentences(b, options.Source)
	scratch := list.NewScratch()
	var dst []int32
	i := 0
	for b.Loop() {
		dst = scratch.Candidates(sentences[i%len(sentences)], nil, dst[:0])
		i++
	}
}
