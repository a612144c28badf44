package train

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluice-mt/sluice/train/autodiff"
	"github.com/sluice-mt/sluice/train/network"
	"github.com/sluice-mt/sluice/translator/cpumodel"
	"github.com/sluice-mt/sluice/translator/marian"
	"github.com/sluice-mt/sluice/translator/model"
	"github.com/sluice-mt/sluice/translator/search"
	"github.com/sluice-mt/sluice/translator/vocab"
)

const toyWords = 30

// toy writes a small language pair: the target has other words, in the opposite order.
func toy(t testing.TB, folder string, pairs int) {
	t.Helper()
	var words, source, target, points strings.Builder
	words.WriteString("</s>: 0\n<unk>: 1\n")
	for i := range toyWords {
		fmt.Fprintf(&words, "s%d: %d\nt%d: %d\n", i, 2*i+2, i, 2*i+3)
	}
	random := rand.New(rand.NewPCG(4, 2))
	for range pairs {
		n := 2 + random.IntN(6)
		sentence := make([]int, n)
		for i := range sentence {
			sentence[i] = random.IntN(toyWords)
			fmt.Fprintf(&source, "s%d ", sentence[i])
			fmt.Fprintf(&points, "%d-%d ", i, n-1-i)
		}
		slices.Reverse(sentence)
		for _, w := range sentence {
			fmt.Fprintf(&target, "t%d ", w)
		}
		source.WriteString("\n")
		target.WriteString("\n")
		points.WriteString("\n")
	}
	for name, content := range map[string]string{
		"vocab.yml": words.String(), "train.s": source.String(), "train.t": target.String(), "train.align": points.String(),
	} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(content), 0o666); err != nil {
			t.Fatal(err)
		}
	}
}

// toyConfig returns settings that learn the toy language in a second or two.
func toyConfig(folder string) Config {
	c := DefaultConfig()
	c.Model = filepath.Join(folder, "model.npz")
	c.TrainSets = []string{filepath.Join(folder, "train.s"), filepath.Join(folder, "train.t")}
	c.Vocabs = []string{filepath.Join(folder, "vocab.yml")}
	c.DimEmb, c.Heads, c.EncDepth, c.DecDepth, c.DimFFN, c.DimAAN = 32, 4, 2, 1, 64, 48
	c.FFNActivation, c.Autoregression, c.DecCell, c.TiedEmbeddingsAll = "relu", "rnn", "ssru", true
	c.CPUThreads, c.MiniBatchWords, c.MaxiBatch = 2, 150, 10
	c.LearnRate, c.LRWarmup, c.ClipNorm = 5e-3, 30, 1
	c.DispFreq, c.SaveFreq, c.ValidFreq = 10, 0, 0
	return c
}

// silence keeps the log of a run out of the test's.
func silence() *slog.Logger { return slog.New(slog.DiscardHandler) }

func testContext(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func mustRun(t testing.TB, c Config) Result {
	t.Helper()
	result, err := Run(testContext(t), c, silence())
	if err != nil {
		t.Fatal(err)
	}
	return result
}

func readMetrics(t testing.TB, c Config, kind string) []Measurement {
	t.Helper()
	data, err := os.ReadFile(c.Model + ".metrics.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	var all []Measurement
	for line := range bytes.Lines(data) {
		m := unmarshal(t, line)
		if m.Kind == kind {
			all = append(all, m)
		}
	}
	return all
}

// toyArchitectures are changes to the toy settings; greedy search with the engine must agree with the network for all of them.
var toyArchitectures = map[string]func(*Config){
	"ssru": func(*Config) {},
	"ssru, pre-norm, swish, tied layers": func(c *Config) {
		c.Preprocess, c.Postprocess, c.PostprocessTop, c.FFNActivation = "n", "da", "n", "swish"
		c.DecDepth, c.TiedLayers, c.LearnRate = 2, []int{1, 1}, 1e-2
	},
	"self-attention, gelu, untied": func(c *Config) {
		c.Autoregression, c.FFNActivation, c.TiedEmbeddingsAll = "self-attention", "gelu", false
	},
	"average attention": func(c *Config) {
		c.Autoregression, c.TiedEmbeddingsAll, c.TiedEmbeddings = "average-attention", false, true
	},
	"sru, RMS norm, right to left": func(c *Config) {
		c.DecCell, c.Postprocess, c.RightLeft = "sru", "dar", true
	},
}

// TestOverfitting trains on a hundred pairs until it knows them by heart. The engine must then translate them without error,
// and say exactly what the trained network says.
func TestOverfitting(t *testing.T) {
	for name, change := range toyArchitectures {
		t.Run(name, func(t *testing.T) {
			if testing.Short() && name != "ssru" {
				t.Skip("takes seconds")
			}
			folder := t.TempDir()
			toy(t, folder, 100)
			c := toyConfig(folder)
			change(&c)
			c.AfterBatches = 300
			c.ValidSets, c.ValidMetrics = c.TrainSets, []string{"bleu", "ce-mean-words", "chrf", "perplexity", "cross-entropy"}
			mustRun(t, c)
			last := readMetrics(t, c, "train")
			if loss := last[len(last)-1].Loss; loss > 0.02 {
				t.Errorf("the loss is %v per word after %d updates", loss, c.AfterBatches)
			}
			for _, m := range readMetrics(t, c, "valid") {
				t.Logf("%s %.4f", m.Metric, m.Value)
				if translates(m.Metric) && m.Value < 99 || m.Metric == metricMeanWords && m.Value > 0.02 {
					t.Errorf("%s is %v", m.Metric, m.Value)
				}
			}
			compareGreedy(t, c)
		})
	}
}

// trainedModel opens the model that was trained, and readies it for the engine.
func trainedModel(t *testing.T, c Config) (*model.Model, *cpumodel.Weights) {
	t.Helper()
	file, err := marian.Open(c.Model)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { file.Close() })
	m, err := model.Load(file, nil)
	if err != nil {
		t.Fatal(err)
	}
	weights, err := cpumodel.Load(m, cpumodel.Float32, cpumodel.Options{ForScoring: true})
	if err != nil {
		t.Fatal(err)
	}
	return m, weights
}

// compareGreedy translates sentences that were not seen in training with the engine's model and with the network.
func compareGreedy(t *testing.T, c Config) {
	t.Helper()
	m, weights := trainedModel(t, c)
	n, err := network.New(m)
	if err != nil {
		t.Fatal(err)
	}
	vector := make([]float32, n.Size())
	if err := n.Load(vector); err != nil {
		t.Fatal(err)
	}
	replica := network.NewEvaluator(n, autodiff.Device[float32](new(autodiff.CPU)), vector)
	random := rand.New(rand.NewPCG(9, 9))
	for range 30 {
		source := make([]int32, 3+random.IntN(12))
		for i := range source[:len(source)-1] {
			source[i] = int32(2 + 2*random.IntN(toyWords))
		}
		got, want := greedyEngine(weights, source), greedyNetwork(replica, source, m.TargetVocabulary)
		if !slices.Equal(got, want) {
			t.Errorf("%v: the engine says %v, the network %v", source, got, want)
		}
	}
}

// greedyLimit is the longest translation, in words.
const greedyLimit = 20

func greedyEngine(weights *cpumodel.Weights, source []int32) []int32 {
	s := weights.NewStepper(1)
	contexts := make([]search.Context, 1)
	s.Encode([]search.Source{{Tokens: source}}, contexts)
	s.Begin(0, contexts[0])
	var out []int32
	for token := search.NoToken; len(out) < greedyLimit && token != 0; {
		s.Step([]search.Slot{0}, []search.Token{token}, false)
		best := make([]search.Scored, 1)
		s.Best([]int32{0}, nil, best)
		token = best[0].Token
		out = append(out, token)
	}
	return out
}

// greedyNetwork runs the whole network again for every word.
func greedyNetwork(r *network.Replica[float32], source []int32, vocabulary int) []int32 {
	var out []int32
	for len(out) < greedyLimit && (len(out) == 0 || out[len(out)-1] != 0) {
		var b network.Batch
		b.Source.Add(source)
		b.Target.Add(append(slices.Clone(out), 0)) // the last word is not looked at
		logits := r.Logits(&b)
		last := logits[len(out)*vocabulary:]
		out = append(out, int32(slices.Index(last, slices.Max(last))))
	}
	return out
}

// TestGuidedAlignment: attention must learn to look where the alignment says.
func TestGuidedAlignment(t *testing.T) {
	folder := t.TempDir()
	toy(t, folder, 100)
	for _, cost := range []string{"ce", "mse"} {
		c := toyConfig(folder)
		c.Model = filepath.Join(folder, cost+".npz")
		c.GuidedAlignment, c.GuidedAlignmentCost, c.GuidedAlignmentWeight = filepath.Join(folder, "train.align"), cost, map[string]float64{"ce": 1, "mse": 5}[cost]
		c.AfterBatches = 300
		mustRun(t, c)
		if share := alignedShare(t, c); share < 0.95 {
			t.Errorf("%s: %v of the words look where they should", cost, share)
		}
	}
}

// alignedShare returns how many words of some sentences attend most to the source word that they translate.
func alignedShare(t *testing.T, c Config) float64 {
	t.Helper()
	_, weights := trainedModel(t, c)
	v, err := vocab.Open(c.Vocabs[0])
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(c.TrainSets[0])
	if err != nil {
		t.Fatal(err)
	}
	right, all := 0, 0
	for _, line := range strings.Split(string(data), "\n")[:20] {
		source := append(v.Encode(line, nil), 0)
		s := weights.NewStepper(1)
		contexts := make([]search.Context, 1)
		s.Encode([]search.Source{{Tokens: source}}, contexts)
		s.Begin(0, contexts[0])
		token := search.NoToken
		for i := range len(source) - 1 {
			s.Step([]search.Slot{0}, []search.Token{token}, true)
			attention := s.Attention(0)
			if all++; slices.Index(attention, slices.Max(attention)) == len(source)-2-i {
				right++
			}
			token = source[len(source)-2-i] + 1 // the right translation
		}
	}
	return float64(right) / float64(all)
}

func TestEarlyStopping(t *testing.T) {
	folder := t.TempDir()
	toy(t, folder, 100)
	c := toyConfig(folder)
	c.LearnRate = 1e-9 // nothing improves
	c.ValidSets, c.ValidFreq, c.EarlyStopping, c.KeepBest = c.TrainSets, 5, 3, true
	c.ValidMetrics = []string{"bleu", "ce-mean-words"}
	result := mustRun(t, c)
	if !result.Early || result.Updates != 20 {
		t.Errorf("%+v", result)
	}
	for _, metric := range c.ValidMetrics {
		if _, err := os.Stat(filepath.Join(folder, "model.best-"+metric+".npz")); err != nil {
			t.Error(err)
		}
	}
}

func TestEpochs(t *testing.T) {
	folder := t.TempDir()
	toy(t, folder, 100)
	c := toyConfig(folder)
	c.MiniBatchWords, c.MiniBatch, c.AfterEpochs = 0, 16, 2
	data, err := os.ReadFile(c.TrainSets[1])
	if err != nil {
		t.Fatal(err)
	}
	words := int64(len(strings.Fields(string(data))) + 100)
	if result := mustRun(t, c); result.Epochs != 2 || result.Words != 2*words || result.Updates != 7 {
		t.Errorf("%+v; two epochs have %d words, in 14 mini-batches for 2 workers", result, 2*words)
	}
	if result := mustRun(t, c); result.Updates != 7 {
		t.Errorf("again: %+v", result)
	}
	c.AfterEpochs = 3
	if result := mustRun(t, c); result.Epochs != 3 || result.Words != 3*words {
		t.Errorf("another epoch: %+v", result)
	}
}

// TestInterruptedWhileReading ends a training before it has begun: a corpus may take long to read.
func TestInterruptedWhileReading(t *testing.T) {
	folder := t.TempDir()
	toy(t, folder, 100)
	c := toyConfig(folder)
	ctx, cancel := context.WithCancel(testContext(t))
	c.Open = func(string) (io.ReadCloser, error) {
		cancel()
		return io.NopCloser(endless{}), nil
	}
	if _, err := Run(ctx, c, silence()); !errors.Is(err, ErrInterrupted) {
		t.Error(err)
	}
}

// endless is a text that never ends.
type endless struct{}

func (endless) Read(p []byte) (int, error) { return copy(p, "1 2 3\n"), nil }

func TestSizesOfVocabularies(t *testing.T) {
	folder := t.TempDir()
	toy(t, folder, 10)
	c := toyConfig(folder)
	c.AfterBatches = 1
	for _, sizes := range [][]int{{7, 9999}, {9999}} {
		c.DimVocabs = sizes
		if _, err := Run(testContext(t), c, silence()); !errors.Is(err, ErrConfig) || !strings.Contains(err.Error(), "dim-vocabs is") {
			t.Errorf("dim-vocabs %v: %v", sizes, err)
		}
	}
	c.DimVocabs = []int{0, 0}
	mustRun(t, c)
}

// TestDivergence trains with a rate that cannot go well.
func TestDivergence(t *testing.T) {
	folder := t.TempDir()
	toy(t, folder, 100)
	c := toyConfig(folder)
	c.LearnRate, c.LRWarmup, c.MaxSkipped = 1e30, 0, 4
	result, err := Run(testContext(t), c, silence())
	if !errors.Is(err, ErrDiverged) || !strings.Contains(err.Error(), "the last 4 updates") || result.Skipped != 4 {
		t.Errorf("%+v, %v", result, err)
	}
}

// TestMiniBatchFit compares the memory that mini-batches take with the limit.
func TestMiniBatchFit(t *testing.T) {
	folder := t.TempDir()
	toy(t, folder, 6000)
	architectures := maps.Clone(toyArchitectures)
	for _, name := range []string{"s2s", "devlin"} {
		architectures[name] = func(c *Config) {
			toyKinds[name](c)
			c.MaxLength = 40
			c.DimRNN = 48 // of other widths, the memory of each step is rounded up, and so less of it is filled
		}
	}
	for name, change := range architectures {
		c := toyConfig(folder)
		change(&c)
		c.MiniBatchWords, c.MiniBatchFit, c.Workspace, c.MaxiBatch, c.DropoutAttention = 0, true, 3, 200, 0.1
		r := &run{config: c, logger: silence()}
		if err := r.prepare(); err != nil {
			t.Fatal(err)
		}
		limit := float64(c.Workspace) * (1 << 20) / growth
		full := 0
		for range 10 {
			if err := r.update(); err != nil {
				t.Fatal(err)
			}
			for _, replica := range r.replicas {
				used := float64(replica.Memory())
				if used > limit*1.001 {
					t.Fatalf("%s: a mini-batch takes %v bytes of %v", name, used, limit)
				}
				if used > 0.95*limit {
					full++
				}
			}
		}
		if full < 14 {
			t.Errorf("%s: only %d of 20 mini-batches fill the memory", name, full)
		}
		if err := r.close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestLanguageModel learns the target side alone.
func TestLanguageModel(t *testing.T) {
	for _, kind := range []string{"lm-transformer", "lm"} {
		folder := t.TempDir()
		toy(t, folder, 50)
		c := toyConfig(folder)
		c.Type, c.TrainSets = kind, c.TrainSets[1:]
		c.TiedEmbeddingsAll, c.TiedEmbeddings, c.MiniBatchWords, c.MiniBatchFit = false, true, 0, true
		c.ValidSets, c.AfterBatches = c.TrainSets, 200
		if kind == "lm" {
			c.DecCell, c.DimRNN = "lstm", 40
		}
		mustRun(t, c)
		// The first word of a sentence can only be guessed, and often the second.
		if m := readMetrics(t, c, "valid")[0]; m.Value > 1.5 {
			t.Errorf("%s: %s is %v", kind, m.Metric, m.Value)
		}
	}
}

// TestWeights trains on two halves that contradict each other: the one with weight wins.
func TestWeights(t *testing.T) {
	folder := t.TempDir()
	toy(t, folder, 1)
	c := toyConfig(folder)
	var table, weights, words strings.Builder
	for i := range 40 {
		a, b := i%toyWords, (i+1)%toyWords
		fmt.Fprintf(&table, "s%d s%d\tt%d\ns%d s%d\tt%d\n", a, b, a, a, b, b)
		weights.WriteString("0\n1\n")
		words.WriteString("1 1\n0 0\n")
	}
	files := map[string]string{"t.tsv": table.String(), "weights": weights.String(), "words": words.String()}
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(content), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	for kind, name := range map[string]string{"sentence": "weights", "word": "words"} {
		c.Model = filepath.Join(folder, kind+".npz")
		c.TSV, c.TrainSets, c.AfterBatches = true, []string{filepath.Join(folder, "t.tsv")}, 150
		c.DataWeighting, c.DataWeightingType = filepath.Join(folder, name), kind
		mustRun(t, c)
		// Without weights the halves would leave a loss of ln(2) for every first word.
		m := readMetrics(t, c, "train")
		if loss := m[len(m)-1].Loss; loss > 0.05 {
			t.Errorf("%s: the loss is %v", kind, loss)
		}
	}
}

// TestWorkers: two workers with a mini-batch each do what one worker does with two.
func TestWorkers(t *testing.T) {
	folder := t.TempDir()
	toy(t, folder, 100)
	var values [2][]float32
	for i := range values {
		c := toyConfig(folder)
		c.Dropout, c.CPUThreads, c.OptimizerDelay = 0.1, 2-i, 1+i
		r := &run{config: c, logger: silence()}
		if err := r.prepare(); err != nil {
			t.Fatal(err)
		}
		for range 5 {
			if err := r.update(); err != nil {
				t.Fatal(err)
			}
		}
		values[i] = r.values
		if err := r.close(); err != nil {
			t.Fatal(err)
		}
	}
	var difference, moved float64
	r := &run{config: toyConfig(folder), logger: silence()} // where they started
	if err := errors.Join(r.prepare(), r.close()); err != nil {
		t.Fatal(err)
	}
	for i, v := range values[0] {
		difference += math.Pow(float64(v-values[1][i]), 2)
		moved += math.Pow(float64(v-r.values[i]), 2)
	}
	// Roundings differ, and Adam makes steps of gradients that are nothing but rounding, those of key biases.
	if difference > 1e-4*moved || moved == 0 {
		t.Errorf("parameters differ by %v, after they have moved by %v", math.Sqrt(difference), math.Sqrt(moved))
	}
}

// TestCostTypes compares the gradients of an update.
func TestCostTypes(t *testing.T) {
	folder := t.TempDir()
	toy(t, folder, 100)
	norm := func(costType string) (norm float64, words, sentences int) {
		c := toyConfig(folder)
		c.CostType = costType
		r := &run{config: c, logger: silence()}
		if err := errors.Join(r.prepare(), r.update(), r.close()); err != nil {
			t.Fatal(err)
		}
		for _, w := range r.losses {
			words, sentences = words+w[0].Words, sentences+w[0].Sentences
		}
		return r.report.Norm, words, sentences
	}
	sum, words, sentences := norm("ce-sum")
	perWord, _, _ := norm("ce-mean-words")
	perSentence, _, _ := norm("ce-mean")
	if math.Abs(perWord*float64(words)/sum-1) > 1e-5 || math.Abs(perSentence*float64(sentences)/sum-1) > 1e-5 {
		t.Errorf("norms %v in all, %v per word (%d), %v per sentence (%d)", sum, perWord, words, perSentence, sentences)
	}
}

func TestPretrained(t *testing.T) {
	folder := t.TempDir()
	toy(t, folder, 100)
	c := toyConfig(folder)
	c.AfterBatches = 200
	mustRun(t, c)
	further := c
	further.Model, further.PretrainedModel = filepath.Join(folder, "further.npz"), c.Model
	further.AfterBatches, further.LearnRate, further.DispFreq = 1, 1e-6, 1
	mustRun(t, further)
	if loss := readMetrics(t, further, "train")[0].Loss; loss > 0.5 {
		t.Errorf("the loss of a trained model is %v", loss)
	}
	for key, change := range map[string]func(*Config){
		"Wemb": func(c *Config) { c.DimEmb = 64 }, "transformer-heads": func(c *Config) { c.Heads = 8 },
		"transformer-ffn-activation": func(c *Config) { c.FFNActivation = "swish" },
	} {
		other := further
		other.Model = filepath.Join(folder, "other.npz")
		change(&other)
		_, err := Run(testContext(t), other, silence())
		if !errors.Is(err, ErrConfig) || !strings.Contains(err.Error(), "architecture") || !strings.Contains(err.Error(), key) {
			t.Errorf("%s: %v", key, err)
		}
	}
}

// TestPlantedNaNs plants NaNs among the parameters of single updates: the rate must be lowered once they are too many, and the run
// end with a clear word if they do not stop. Between them it learns, and a checkpoint keeps what was counted.
func TestPlantedNaNs(t *testing.T) {
	folder := t.TempDir()
	toy(t, folder, 100)
	c := toyConfig(folder)
	c.LRWarmup, c.MaxSkipped, c.LRLowerSkipped, c.LRLower = 0, 4, 2, 0.25
	r := &run{config: c, logger: silence()}
	if err := r.prepare(); err != nil {
		t.Fatal(err)
	}
	defer r.close() // where the test ends early
	update := func(plant bool) error {
		good := r.values[5]
		if plant {
			r.values[5] = float32(math.NaN())
			defer func() { r.values[5] = good }()
		}
		return r.update()
	}
	for i, plant := range []bool{false, true, false, true, false} {
		if err := update(plant); err != nil {
			t.Fatalf("update %d: %v", i+1, err)
		}
	}
	if want := c.LearnRate * c.LRLower; r.report.Rate != want || r.state.Optimiser.NotFinite != 2 || r.state.Optimiser.Updates != 3 {
		t.Errorf("a rate of %v, want %v; %+v", r.report.Rate, want, r.state.Optimiser)
	}
	if err := r.checkpoint(); err != nil {
		t.Fatal(err)
	}
	var err error
	for n := 0; err == nil && n < 10; n++ {
		err = update(true)
	}
	if !errors.Is(err, ErrDiverged) || !strings.Contains(err.Error(), "the last 4 updates were skipped") {
		t.Errorf("NaNs without end: %v", err)
	}
	if err := r.close(); err != nil { // one run at a time has the model
		t.Error(err)
	}
	again := &run{config: c, logger: silence()}
	if err := again.prepare(); err != nil {
		t.Fatal(err)
	}
	defer again.close()
	if again.optimiser.Lowered != 1 || again.optimiser.NotFinite != 2 {
		t.Errorf("the checkpoint has %+v", again.optimiser.Counts)
	}
}

// TestNotFinite puts an infinity among the parameters for one update: it must be skipped and counted.
func TestNotFinite(t *testing.T) {
	folder := t.TempDir()
	toy(t, folder, 100)
	r := &run{config: toyConfig(folder), logger: silence()}
	if err := r.prepare(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := r.close(); err != nil {
			t.Error(err)
		}
	}()
	for range 3 {
		if err := r.update(); err != nil {
			t.Fatal(err)
		}
	}
	good := slices.Clone(r.values)
	r.values[5] = float32(math.Inf(1))
	if err := r.update(); err != nil {
		t.Fatal(err)
	}
	r.values[5] = good[5]
	if !slices.Equal(r.values, good) || r.state.Optimiser.NotFinite != 1 || r.state.Optimiser.Updates != 3 || r.state.Steps != 4 {
		t.Errorf("after an infinity: %+v", r.state)
	}
	for range 3 {
		if err := r.update(); err != nil {
			t.Fatal(err)
		}
	}
	if r.state.Optimiser.Updates != 6 || slices.ContainsFunc(r.values, func(v float32) bool { return v != v }) {
		t.Errorf("it does not recover: %+v", r.state)
	}
}
