package rescore_test

import (
	"context"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/sluice-mt/sluice/internal/sharedtest"
	"github.com/sluice-mt/sluice/translator/cpumodel"
	"github.com/sluice-mt/sluice/translator/marian"
	"github.com/sluice-mt/sluice/translator/model"
	"github.com/sluice-mt/sluice/translator/rescore"
	"github.com/sluice-mt/sluice/translator/search"
	"github.com/sluice-mt/sluice/translator/vocab"
)

// A reference is a model that Marian trained. Its files lie in models/reference.
type reference struct {
	name              string
	vocabs            []string // of each source and the target
	sources           []string
	target            string
	scorerIsNoDecoder bool // marian-scorer computes something else than marian-decoder
}

var (
	joint      = []string{"vocab/joint.spm", "vocab/joint.spm"}
	input      = []string{"data/input.en"}
	references = []reference{
		{name: "transformer-selfatt", vocabs: joint, sources: input},
		{name: "transformer-prenorm", vocabs: joint, sources: input, scorerIsNoDecoder: true},
		{name: "transformer-aan", vocabs: joint, sources: input},
		{name: "transformer-ssru-tied", vocabs: joint, sources: input},
		{name: "s2s-gru", vocabs: joint, sources: input},
		{name: "s2s-deep", vocabs: joint, sources: input},
		{name: "right-left", vocabs: []string{"vocab/bpe.spm", "vocab/bpe.spm"}, sources: input},
		{name: "transformer-untied", vocabs: []string{"vocab/src.spm", "vocab/trg.spm"}, sources: input},
		{name: "nematus", vocabs: []string{"vocab/word.en.yml", "vocab/word.de.yml"}, sources: []string{"data/input.word.en"}, target: "data/reference.word.de"},
		{name: "multi-transformer", vocabs: []string{"vocab/joint.spm", "vocab/joint.spm", "vocab/joint.spm"}, sources: []string{"data/input.en", "data/input.mt"}},
		{name: "lm-transformer", vocabs: joint[:1]},
	}
)

func lines(t *testing.T, name string) []string {
	t.Helper()
	content, err := os.ReadFile(sharedtest.Path(t, "models/reference/"+name))
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSuffix(string(content), "\n"), "\n")
}

func openVocab(t *testing.T, name string) vocab.Vocabulary {
	t.Helper()
	v, err := vocab.Open(sharedtest.Path(t, "models/reference/"+name))
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func (r *reference) scorer(t *testing.T, workers, slots int) *rescore.Scorer {
	t.Helper()
	file, err := marian.Open(sharedtest.Path(t, "models/reference/"+r.name+"/model.npz"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	m, err := model.Load(file, nil)
	if err != nil {
		t.Fatal(err)
	}
	weights, err := cpumodel.Load(m, cpumodel.Float32, cpumodel.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var vocabularies []vocab.Vocabulary
	for _, name := range r.vocabs {
		vocabularies = append(vocabularies, openVocab(t, name))
	}
	last := len(vocabularies) - 1
	s, err := rescore.New(rescore.Config{
		Devices: []rescore.Device{{
			NewStepper: func(slots int) (search.Stepper, error) { return weights.NewStepper(slots), nil }, Workers: workers, Slots: slots,
		}},
		Sources: vocabularies[:last], Target: vocabularies[last], RightLeft: m.RightLeft, MaxLength: 1000,
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// source returns the source texts, those of several sources with tabs between.
func (r *reference) source(t *testing.T) []string {
	if len(r.sources) == 0 {
		return make([]string, len(lines(t, "data/reference.de")))
	}
	texts := lines(t, r.sources[0])
	for _, name := range r.sources[1:] {
		for i, line := range lines(t, name) {
			texts[i] += "\t" + line
		}
	}
	return texts
}

func near(x, y float64) bool { return math.Abs(x-y) <= 1e-3+1e-5*math.Abs(y) }

func number(t *testing.T, text string) float64 {
	t.Helper()
	x, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

// Reference translations score what marian-scorer gives them, empty lines included.
func TestScoresAreThoseOfMarianScorer(t *testing.T) {
	for _, r := range references {
		if r.scorerIsNoDecoder {
			continue
		}
		t.Run(r.name, func(t *testing.T) {
			t.Parallel()
			target := "data/reference.de"
			if r.target != "" {
				target = r.target
			}
			var lists []rescore.List
			source := r.source(t)
			for i, line := range lines(t, target) {
				lists = append(lists, rescore.List{Source: source[i], Translations: []string{line}})
			}
			got, err := r.scorer(t, 2, 0).Score(context.Background(), lists)
			if err != nil {
				t.Fatal(err)
			}
			for i, want := range lines(t, r.name+"/scorer.reference.txt") {
				if want := number(t, want); !near(got[i][0].LogProb, want) {
					t.Errorf("line %d scores %v, but %v in Marian", i+1, got[i][0].LogProb, want)
				}
			}
		})
	}
}

// A translation that marian-decoder wrote keeps its score to each word when the model that wrote it is asked again, wherever
// its text is encoded to the pieces that were generated.
func TestTranslationsKeepTheirScores(t *testing.T) {
	for _, r := range references {
		if len(r.sources) == 0 || r.name == "nematus" { // which have no recorded pieces
			continue
		}
		t.Run(r.name, func(t *testing.T) {
			t.Parallel()
			lists, wanted := r.translations(t)
			got, err := r.scorer(t, 1, 0).Score(context.Background(), lists)
			if err != nil {
				t.Fatal(err)
			}
			if len(wanted) < 15 {
				t.Errorf("only %d translations can be compared", len(wanted))
			}
			for i, want := range wanted {
				words := got[i][0].Words
				if !slices.EqualFunc(words, want, func(x float32, y float64) bool { return near(float64(x), y) }) {
					t.Errorf("%q: the words score %v, but %v in Marian", lists[i].Translations[0], words, want)
				}
			}
		})
	}
}

// translations reads the recorded pieces that are what their text is encoded to, and their word scores.
func (r *reference) translations(t *testing.T) (lists []rescore.List, words [][]float64) {
	t.Helper()
	vocabulary := openVocab(t, r.vocabs[len(r.vocabs)-1])
	source := r.source(t)
	for i, line := range lines(t, r.name+"/greedy.pieces.txt") {
		pieces, numbers, _ := strings.Cut(line, " ||| WordScores=")
		var ids []int32
		for _, piece := range strings.Fields(pieces) {
			id, ok := vocabulary.ID(piece)
			if !ok {
				t.Fatalf("line %d: piece %q is not in the vocabulary", i+1, piece)
			}
			ids = append(ids, id)
		}
		var scores []float64
		for _, word := range strings.Fields(numbers) {
			scores = append(scores, number(t, word))
		}
		text := string(vocabulary.Decode(ids, nil))
		ended := len(scores) == len(ids)+1
		if len(ids) > 0 && ended && slices.Equal(vocabulary.Encode(text, nil), ids) {
			lists, words = append(lists, rescore.List{Source: source[i], Translations: []string{text}}), append(words, scores)
		}
	}
	return lists, words
}

// The sizes of batches and the number of workers change no bit.
func TestScoresDoNotDependOnBatches(t *testing.T) {
	r := references[0]
	var lists []rescore.List
	targets := lines(t, "data/reference.de")
	for i, source := range r.source(t) {
		lists = append(lists, rescore.List{Source: source, Translations: []string{targets[i], targets[(i+1)%len(targets)], targets[i] + " " + targets[i]}})
	}
	want, err := r.scorer(t, 1, 0).Score(context.Background(), lists)
	if err != nil {
		t.Fatal(err)
	}
	for _, sizes := range [][2]int{{1, 1}, {2, 3}, {3, 40}} {
		got, err := r.scorer(t, sizes[0], sizes[1]).Score(context.Background(), lists)
		if err != nil {
			t.Fatal(err)
		}
		for i := range want {
			for j := range want[i] {
				if !slices.Equal(got[i][j].Words, want[i][j].Words) {
					t.Fatalf("with %d workers and %d slots, list %d has other scores", sizes[0], sizes[1], i)
				}
			}
		}
	}
}
