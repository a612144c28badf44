package cpumodel

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/sluice-mt/sluice/internal/score"
	"github.com/sluice-mt/sluice/internal/sharedtest"
	"github.com/sluice-mt/sluice/translator/search"
	"github.com/sluice-mt/sluice/translator/shortlist"
	"github.com/sluice-mt/sluice/translator/vocab"
)

// TestHardAlignments compares with the alignments that marian-decoder printed: for each target token, the source token of
// largest weight.
func TestHardAlignments(t *testing.T) {
	for _, r := range references {
		source, target := referenceVocab(t, r.source), referenceVocab(t, r.target)
		m := loadModel(t, "reference/"+r.name+"/model.npz")
		weights := pack(t, m, Float32, Options{Suppress: []int32{target.Unk()}})
		g := greedy{stepper: weights.NewStepper(16), eos: target.EOS(), align: true, cap: tripled}
		input, want := readLines(t, "models/reference/data/input.en"), readLines(t, "models/reference/"+r.name+"/greedy.align-hard.txt")
		different := 0
		for i, got := range g.translate(sources(source, input, m.RightLeft)) {
			line := text(target, got, m.RightLeft) + " ||| " + hardAlignment(got.attention)
			if input[i] != "" && line != want[i] {
				different++
				t.Logf("%s: line %d is\n%s\nwant\n%s", r.name, i+1, line, want[i])
			}
		}
		if different > 0 && r.name != "transformer-aan-plain" || different > 1 {
			t.Errorf("%s: %d lines differ", r.name, different)
		}
	}
}

// hardAlignment prints pairs sorted by source.
func hardAlignment(attention [][]float32) string {
	var pairs [][2]int
	for i, weights := range attention {
		pairs = append(pairs, [2]int{slices.Index(weights, slices.Max(weights)), i})
	}
	slices.SortStableFunc(pairs, func(a, b [2]int) int { return a[0] - b[0] })
	var parts []string
	for _, p := range pairs {
		parts = append(parts, fmt.Sprintf("%d-%d", p[0], p[1]))
	}
	return strings.Join(parts, " ")
}

// TestSoftAlignments compares attention weights with those that marian-decoder printed.
func TestSoftAlignments(t *testing.T) {
	for _, c := range []struct{ model, vocab, input, want string }{
		{"reference/transformer-selfatt/model.npz", "reference/vocab/joint.spm", "models/reference/transformer-selfatt/first12.en",
			"models/reference/transformer-selfatt/greedy.align-soft.first12.txt"},
		{"ende-tiny/model.npz", "ende-tiny/vocab.spm", "data/test-mix.en", "models/ende-tiny/ref/mix-20.greedy.softalign.f32.txt"},
	} {
		v := openVocab(t, c.vocab)
		weights := pack(t, loadModel(t, c.model), Float32, Options{Suppress: []int32{v.Unk()}})
		want := readLines(t, c.want)
		g := greedy{stepper: weights.NewStepper(8), eos: v.EOS(), align: true, cap: tripled}
		for i, got := range g.translate(sources(v, readLines(t, c.input)[:len(want)], false)) {
			_, numbers, _ := strings.Cut(want[i], " ||| ")
			for j, list := range strings.Fields(numbers) {
				var row vec
				for field := range strings.SplitSeq(list, ",") {
					x, err := strconv.ParseFloat(field, 64)
					if err != nil {
						t.Fatal(err)
					}
					row = append(row, x)
				}
				compareVectors(t, fmt.Sprintf("%s: line %d, token %d", c.want, i+1, j), got.attention[j], row, 1e-4)
			}
		}
	}
}

// TestScorer compares the log-probabilities of given translations with marian-scorer's.
func TestScorer(t *testing.T) {
	for _, r := range append(references, struct{ name, source, target string }{"lm-transformer", "joint", "joint"}) {
		if r.name == "transformer-prenorm" {
			continue // where marian-scorer computes something else than marian-decoder
		}
		source, target := referenceVocab(t, r.source), referenceVocab(t, r.target)
		m := loadModel(t, "reference/"+r.name+"/model.npz")
		s := pack(t, m, Float32, Options{}).NewStepper(1)
		inputs := sources(source, readLines(t, "models/reference/data/input.en"), m.RightLeft)
		outputs := sources(target, readLines(t, "models/reference/data/reference.de"), m.RightLeft)
		for i, line := range readLines(t, "models/reference/"+r.name+"/scorer.reference.txt") {
			want, err := strconv.ParseFloat(line, 64)
			if err != nil {
				t.Fatal(err)
			}
			if got := forced(s, inputs[i], outputs[i].Tokens); abs(got-want) > 1e-4*float64(len(outputs[i].Tokens))+1e-3 {
				t.Errorf("%s: line %d scores %v, want %v", r.name, i+1, got, want)
			}
		}
	}
}

// forced returns the log-probability of a translation.
func forced(s *Stepper, source search.Source, target []search.Token) float64 {
	contexts := make([]search.Context, 1)
	s.Encode([]search.Source{source}, contexts)
	s.Begin(0, contexts[0])
	token, sum := search.NoToken, 0.0
	for _, next := range target {
		s.Step([]search.Slot{0}, []search.Token{token}, false)
		sum += float64(s.LogProbs(0)[next])
		token = next
	}
	s.Release(contexts[0])
	return sum
}

func openShortlist(t testing.TB, v vocab.Vocabulary) *shortlist.Shortlist {
	t.Helper()
	list, err := shortlist.Open(sharedtest.Path(t, "models/ende-tiny/lex.s2t.gz"),
		shortlist.Options{Parameters: shortlist.Defaults(), Shared: true, Source: v, Target: v})
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// TestBeam compares beam search of the student with marian-decoder's, with and without a shortlist.
func TestBeam(t *testing.T) {
	v := openVocab(t, "ende-tiny/vocab.spm")
	weights := pack(t, loadModel(t, "ende-tiny/model.npz"), Float32, Options{Suppress: []int32{v.Unk()}})
	for _, c := range []struct {
		input, want string
		lines       int
		shortlist   bool
	}{
		{"data/test-multi30k-2016.en", "multi30k-2016-300.beam4.n1.f32.de", 100, false},
		{"data/test-mix.en", "mix-100.beam4.n1.lex100-100.f32.de", 100, true},
	} {
		input := sources(v, readLines(t, c.input)[:c.lines], false)
		if c.shortlist {
			list := openShortlist(t, v)
			for i := range input {
				input[i].Candidates = list.Candidates(input[i].Tokens, nil)
			}
		}
		want, different := readLines(t, "models/ende-tiny/ref/"+c.want), 0
		options := search.Options{Beam: 4, Normalize: 1, MaxLengthFactor: 3}
		for i, got := range decode(t, weights.NewStepper(64), v.EOS(), input, options) {
			if line := text(v, translation{tokens: got.Tokens}, false); line != want[i] {
				different++
				t.Logf("line %d is\n%s\nwant\n%s", i+1, line, want[i])
			}
		}
		if different > 0 {
			t.Errorf("%s: %d of %d lines differ", c.want, different, c.lines)
		}
	}
}

// decode returns the best hypothesis for each of the sources.
func decode(t testing.TB, s *Stepper, eos search.Token, sources []search.Source, options search.Options) []search.Hypothesis {
	t.Helper()
	d, err := search.NewDecoder([]search.Stepper{s}, nil, eos)
	if err != nil {
		t.Fatal(err)
	}
	out := make([]search.Hypothesis, len(sources))
	for done, next := 0, 0; done < len(sources); {
		for next < len(sources) {
			sentence := &search.Sentence{Source: sources[next], Options: options, Tag: next}
			if sentence.Slots() > d.Free() {
				break
			}
			d.Encode([]*search.Sentence{sentence})
			d.Start(sentence)
			next++
		}
		for _, result := range d.Step() {
			out[result.Sentence.Tag.(int)] = result.Clone().Hypotheses[0]
			done++
		}
	}
	return out
}

// TestInt8Quality compares the BLEU of 8-bit arithmetic with that of float32, which translations recorded elsewhere have.
func TestInt8Quality(t *testing.T) {
	if testing.Short() {
		t.Skip("translates a thousand lines three times")
	}
	v := openVocab(t, "ende-tiny/vocab.spm")
	list := openShortlist(t, v)
	references := [][]string{readLines(t, "data/test-multi30k-2016.de")}
	want := bleu(t, readLines(t, "models/ende-tiny/ref/multi30k-2016.greedy.f32.de"), references)
	input := sources(v, readLines(t, "data/test-multi30k-2016.en"), false)
	for i := range input {
		input[i].Candidates = list.Candidates(input[i].Tokens, nil)
	}
	for _, c := range []struct {
		file    string
		options Options
	}{
		{"model.npz", Options{}},
		{"model.intgemm.alphas.bin", Options{}},
		{"model.intgemm.alphas.bin", Options{IgnoreAlphas: true}},
	} {
		c.options.Suppress = []int32{v.Unk()}
		g := greedy{stepper: pack(t, loadModel(t, "ende-tiny/"+c.file), Int8, c.options).NewStepper(64), eos: v.EOS(), cap: tripled}
		var lines []string
		for _, got := range g.translate(input) {
			lines = append(lines, text(v, got, false))
		}
		got := bleu(t, lines, references)
		t.Logf("%s %+v: BLEU %.2f, in float32 %.2f", c.file, c.options, got, want)
		if got < want-0.2 {
			t.Errorf("%s %+v: BLEU %.2f, in float32 %.2f", c.file, c.options, got, want)
		}
	}
}

func bleu(t *testing.T, lines []string, references [][]string) float64 {
	b, err := score.BLEU(lines, references, score.BLEUOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return b.Score
}

// TestMainlineInt8 runs the 8-bit files of mainline Marian, which quantises activations otherwise (with one multiplier for a
// whole batch) and the output layer not at all. So translations need not be equal, but should be about as often as those of
// float32 are.
func TestMainlineInt8(t *testing.T) {
	v := referenceVocab(t, "joint")
	input := readLines(t, "models/reference/data/input.en")
	for _, name := range []string{"transformer-selfatt", "transformer-ssru-tied"} {
		m := loadModel(t, "reference/"+name+"/model.intgemm8.bin")
		g := greedy{stepper: pack(t, m, Int8, Options{Suppress: []int32{v.Unk()}}).NewStepper(8), eos: v.EOS(), cap: tripled}
		want, float := readLines(t, "models/reference/"+name+"/greedy.intgemm8.de"), readLines(t, "models/reference/"+name+"/greedy.de")
		same, floatSame := 0, 0
		for i, got := range g.translate(sources(v, input, false)) {
			if text(v, got, false) == want[i] {
				same++
			}
			if float[i] == want[i] {
				floatSame++
			}
		}
		t.Logf("%s: %d of %d lines equal Marian's int8; of its float32, %d", name, same, len(input), floatSame)
		if same < floatSame-6 {
			t.Errorf("%s: only %d of %d lines equal Marian's int8; of its float32, %d do", name, same, len(input), floatSame)
		}
	}
}
