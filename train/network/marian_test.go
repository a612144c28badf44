package network

import (
	"bytes"
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/sluice-mt/sluice/internal/sharedtest"
	"github.com/sluice-mt/sluice/train/autodiff"
	"github.com/sluice-mt/sluice/translator/cpumodel"
	"github.com/sluice-mt/sluice/translator/marian"
	"github.com/sluice-mt/sluice/translator/model"
	"github.com/sluice-mt/sluice/translator/search"
	"github.com/sluice-mt/sluice/translator/vocab"
)

func loadModel(t testing.TB, path string) *model.Model {
	t.Helper()
	file, err := marian.Open(sharedtest.Path(t, "models", path))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := file.Close(); err != nil {
			t.Error(err)
		}
	})
	m, err := model.Load(file, nil)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// trainable returns the network of a model and its parameters.
func trainable(t testing.TB, m *model.Model) (*Network, []float32) {
	t.Helper()
	n, err := New(m)
	if err != nil {
		t.Fatal(err)
	}
	vector := make([]float32, n.Size())
	if err := n.Load(vector); err != nil {
		t.Fatal(err)
	}
	return n, vector
}

func openVocab(t testing.TB, path string) vocab.Vocabulary {
	t.Helper()
	v, err := vocab.Open(sharedtest.Path(t, "models", path))
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func readLines(t testing.TB, path string) []string {
	t.Helper()
	data, err := os.ReadFile(sharedtest.Path(t, path))
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for line := range bytes.Lines(data) {
		lines = append(lines, strings.TrimSuffix(string(line), "\n"))
	}
	return lines
}

// encode returns the pieces of a line, and the end of sentence.
func encode(v vocab.Vocabulary, line string, rightLeft bool) []int32 {
	tokens := v.Encode(line, nil)
	if rightLeft {
		slices.Reverse(tokens)
	}
	return append(tokens, v.EOS())
}

// sentenceScores returns the log-probability of each target sentence of a batch.
func sentenceScores(r *Replica[float32], b *Batch) []float64 {
	words := make([]float64, len(b.Target.Tokens))
	r.Evaluate(b, words)
	scores := make([]float64, b.Sentences())
	for s := range scores {
		for _, p := range words[b.Target.Sentences[s]:b.Target.Sentences[s+1]] {
			scores[s] += p
		}
	}
	return scores
}

// TestScorer compares the log-probabilities of translations, in one batch, with those that marian-scorer gives them.
func TestScorer(t *testing.T) {
	for _, c := range []struct{ name, source, target string }{
		{"s2s-gru", "joint", "joint"}, {"s2s-deep", "joint", "joint"}, {"nematus", "word.en.yml", "word.de.yml"},
		{"multi-transformer", "joint", "joint"},
		{"transformer-selfatt", "joint", "joint"}, {"transformer-prenorm", "joint", "joint"}, {"transformer-aan", "joint", "joint"},
		{"transformer-aan-plain", "joint", "joint"}, {"transformer-ssru-tied", "joint", "joint"}, {"transformer-sru", "joint", "joint"},
		{"transformer-untied", "src", "trg"}, {"transformer-rms", "joint", "joint"}, {"right-left", "bpe", "bpe"},
		{"lm-transformer", "joint", "joint"},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := loadModel(t, "reference/"+c.name+"/model.npz")
			n, vector := trainable(t, m)
			r := NewReplica(n, autodiff.Device[float32](new(autodiff.CPU)), vector)
			source, target := openReferenceVocab(t, c.source), openReferenceVocab(t, c.target)
			batch := &Batch{Further: make([]Side, 1)}
			input, output := "input.en", "reference.de"
			if c.name == "nematus" {
				input, output = "input.word.en", "reference.word.de"
			}
			inputs, outputs := readLines(t, "models/reference/data/"+input), readLines(t, "models/reference/data/"+output)
			others := readLines(t, "models/reference/data/input.mt")
			for i := range inputs {
				batch.Source.Add(encode(source, inputs[i], m.RightLeft))
				batch.Further[0].Add(encode(source, others[i], m.RightLeft))
				batch.Target.Add(encode(target, outputs[i], m.RightLeft))
			}
			scores := sentenceScores(r, batch)
			for i, line := range readLines(t, "models/reference/"+c.name+"/scorer.reference.txt") {
				want, err := strconv.ParseFloat(line, 64)
				if err != nil {
					t.Fatal(err)
				}
				if math.Abs(scores[i]-want) > 1e-4*float64(batch.Target.Sentences.Len(i))+1e-3 {
					t.Errorf("line %d scores %v, want %v", i+1, scores[i], want)
				}
			}
		})
	}
}

func openReferenceVocab(t *testing.T, name string) vocab.Vocabulary {
	t.Helper()
	if !strings.Contains(name, ".") {
		name += ".spm"
	}
	return openVocab(t, "reference/vocab/"+name)
}

// TestForcedDecoding compares the log-probabilities of a student's own words with those that the engine's model gives them,
// step by step.
func TestForcedDecoding(t *testing.T) {
	m := loadModel(t, "ende-tiny/model.npz")
	n, vector := trainable(t, m)
	r := NewReplica(n, autodiff.Device[float32](new(autodiff.CPU)), vector)
	v := openVocab(t, "ende-tiny/vocab.spm")
	weights, err := cpumodel.Load(m, cpumodel.Float32, cpumodel.Options{})
	if err != nil {
		t.Fatal(err)
	}
	batch := new(Batch)
	inputs, outputs := readLines(t, "data/test-mix.en")[:6], readLines(t, "data/test-mix.de")[:6]
	for i := range inputs {
		batch.Source.Add(encode(v, inputs[i], false))
		batch.Target.Add(encode(v, outputs[i], false))
	}
	compareForced(t, r, weights, batch)
}

// sentence returns the tokens of a sentence.
func (s *Side) sentence(i int) []int32 { return s.Tokens[s.Sentences[i]:s.Sentences[i+1]] }

// compareForced compares the log-probabilities that a replica gives the words of a batch with those of the engine's model.
func compareForced(t *testing.T, r *Replica[float32], weights *cpumodel.Weights, batch *Batch) {
	t.Helper()
	stepper := weights.NewStepper(1)
	words := make([]float64, len(batch.Target.Tokens))
	loss, sum := r.Evaluate(batch, words), 0.0
	for s := range batch.Sentences() {
		contexts := make([]search.Context, 1)
		source := search.Source{}
		if sources := r.network.Model.Sources(); sources > 0 {
			source.Tokens = batch.Source.sentence(s)
			for i := range sources - 1 {
				source.Further = append(source.Further, batch.Further[i].sentence(s))
			}
		}
		stepper.Encode([]search.Source{source}, contexts)
		stepper.Begin(0, contexts[0])
		before := search.NoToken
		for i := batch.Target.Sentences[s]; i < batch.Target.Sentences[s+1]; i++ {
			stepper.Step([]search.Slot{0}, []search.Token{before}, false)
			before = batch.Target.Tokens[i]
			want := float64(stepper.LogProbs(0)[before])
			sum -= want
			if math.Abs(words[i]-want) > 2e-4 {
				t.Errorf("sentence %d, token %d: log-probability %v, the engine's is %v", s, i, words[i], want)
			}
		}
		stepper.Release(contexts[0])
	}
	if math.Abs(loss.CrossEntropy-sum) > 1e-5*sum {
		t.Errorf("cross-entropy %v, the engine's is %v", loss.CrossEntropy, sum)
	}
}

// TestFile writes models that were read, and compares the bytes.
func TestFile(t *testing.T) {
	for _, name := range []string{"transformer-ssru-tied", "s2s-deep"} {
		t.Run(name, func(t *testing.T) { testFile(t, sharedtest.Path(t, "models/reference/"+name+"/model.npz")) })
	}
}

func testFile(t *testing.T, path string) {
	t.Helper()
	file, err := marian.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	m, err := model.Load(file, nil)
	if err != nil {
		t.Fatal(err)
	}
	n, vector := trainable(t, m)
	written := filepath.Join(t.TempDir(), "model.npz")
	if err := marian.WriteNPZ(written, n.File(vector, file.Config)); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(written)
	if err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("the file differs from Marian's: %d bytes, want %d", len(got), len(want))
	}
}

func TestUntrainable(t *testing.T) {
	_, err := New(loadModel(t, "ende-tiny/model.intgemm.alphas.bin"))
	if !errors.Is(err, ErrUntrainable) || !strings.Contains(err.Error(), "intgemm8") {
		t.Errorf("a quantised model: %v", err)
	}
}

// TestInitialise looks at the values that a model starts from.
func TestInitialise(t *testing.T) {
	n := newNetwork(t, describe("dim-emb: 64\ntransformer-dim-ffn: 128\ntransformer-depth-scaling: true"))
	vector := make([]float32, n.Size())
	n.Initialise(vector, 7)
	for _, c := range []struct {
		name     string
		low, top float64 // of the largest magnitude
	}{
		{"Wemb", 0.98 * math.Sqrt(3.0/64), math.Sqrt(3.0 / 64)},
		{"encoder_l1_ffn_W1", 0.98 * math.Sqrt(6.0/192), math.Sqrt(6.0 / 192)},
		{"encoder_l2_ffn_W1", 0.98 * math.Sqrt(3.0/192), math.Sqrt(3.0 / 192)},
		{"encoder_l1_ffn_b1", 0, 0}, {"encoder_l1_self_Wo_ln_scale", 1, 1}, {"encoder_l1_self_Wo_ln_bias", 0, 0},
	} {
		i := slices.IndexFunc(n.Parameters, func(p Parameter) bool { return p.Name == c.name })
		largest := 0.0
		for _, v := range Values(&n.Parameters[i], vector) {
			largest = max(largest, math.Abs(float64(v)))
		}
		if largest < c.low || largest > c.top*(1+1e-6) {
			t.Errorf("the largest magnitude in %s is %v, want %v to %v", c.name, largest, c.low, c.top)
		}
	}
	again := make([]float32, n.Size())
	n.Initialise(again, 7)
	if !slices.Equal(vector, again) {
		t.Error("the same seed gives other values")
	}
	if n.Initialise(again, 8); slices.Equal(vector, again) {
		t.Error("another seed gives the same values")
	}
}
