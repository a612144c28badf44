package train

import (
	"bufio"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-mt/sluice/internal/compress"
	"github.com/sluice-mt/sluice/internal/score"
	"github.com/sluice-mt/sluice/internal/sharedtest"
	"github.com/sluice-mt/sluice/train/autodiff"
	"github.com/sluice-mt/sluice/train/network"
	"github.com/sluice-mt/sluice/train/optimiser"
	"github.com/sluice-mt/sluice/translator/cpumodel"
	"github.com/sluice-mt/sluice/translator/marian"
	"github.com/sluice-mt/sluice/translator/model"
)

const (
	learningWords   = 2000 // most frequent words of both languages, beside end of sentence and unknown
	learningPairs   = 48   // of a mini-batch
	learningBatches = 90
	learningUpdates = 270 // three times all of them
	learningHeld    = 300 // pairs that are translated afterwards
	learningLast    = 45  // updates whose losses are averaged
)

// TestLearning trains a small student on real sentence pairs for the same updates here and in JAX, from three seeds, and
// compares the losses of the end and the BLEU of what the engine translates with both models. It runs only if the variable
// SLUICE_LEARNING is set: it takes minutes.
func TestLearning(t *testing.T) {
	if os.Getenv("SLUICE_LEARNING") == "" {
		t.Skip("takes minutes: set SLUICE_LEARNING")
	}
	program := python(t)
	corpus := readLearning(t)
	var ours, theirs [2][]float64 // loss and BLEU of each seed
	for seed := range uint64(3) {
		l := newLearner(t, corpus, seed+1)
		own, other := l.train(t), l.trainJAX(t, program)
		for i := range own {
			ours[i], theirs[i] = append(ours[i], own[i]), append(theirs[i], other[i])
		}
		t.Logf("seed %d: loss %.4f and BLEU %.2f here, %.4f and %.2f in JAX", seed+1, own[0], own[1], other[0], other[1])
	}
	for i, what := range []string{"loss", "BLEU"} {
		difference := math.Abs(mean(ours[i]) - mean(theirs[i]))
		spread := slices.Max(theirs[i]) - slices.Min(theirs[i])
		t.Logf("%s: %.4f here, %.4f in JAX, which differs by %.4f from seed to seed", what, mean(ours[i]), mean(theirs[i]), spread)
		if difference > spread {
			t.Errorf("%s differs by %.4f, more than from seed to seed", what, difference)
		}
	}
}

func mean(values []float64) float64 {
	sum := 0.0
	for _, v := range values {
		sum += v
	}
	return sum / float64(len(values))
}

// A learningCorpus is pairs of short sentences as numbers of words.
type learningCorpus struct {
	batches   [][][2]sentence
	held      []sentence // to translate
	reference []string
	words     []string
}

// readLearning takes the shortest pairs of the example corpus, in their order.
func readLearning(t *testing.T) *learningCorpus {
	t.Helper()
	file, err := os.Open(sharedtest.Path(t, "data/tatoeba.en-de.tsv.xz"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	reader, err := compress.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	var pairs [][2][]string
	lines := bufio.NewScanner(reader)
	for len(pairs) < learningBatches*learningPairs+learningHeld && lines.Scan() {
		english, german, _ := strings.Cut(lines.Text(), "\t")
		pair := [2][]string{learningTokens(english), learningTokens(german)}
		if len(pair[0]) <= 10 && len(pair[1]) <= 10 {
			pairs = append(pairs, pair)
		}
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return numberPairs(pairs)
}

// learningTokens splits text at spaces and before punctuation.
func learningTokens(text string) []string {
	return strings.Fields(strings.NewReplacer(".", " .", ",", " ,", "?", " ?", "!", " !").Replace(text))
}

// numberPairs gives the frequent words their numbers.
func numberPairs(pairs [][2][]string) *learningCorpus {
	counts := map[string]int{}
	for _, pair := range pairs {
		for _, w := range slices.Concat(pair[0], pair[1]) {
			counts[w]++
		}
	}
	c := &learningCorpus{words: []string{"</s>", "<unk>"}}
	var frequent []string
	for w := range counts {
		frequent = append(frequent, w)
	}
	slices.SortFunc(frequent, func(a, b string) int {
		if counts[a] != counts[b] {
			return counts[b] - counts[a]
		}
		return strings.Compare(a, b)
	})
	c.words = append(c.words, frequent[:learningWords]...)
	numbers := map[string]int32{}
	for i, w := range c.words {
		numbers[w] = int32(i)
	}
	number := func(words []string) sentence {
		var s sentence
		for _, w := range words {
			n, known := numbers[w]
			if !known {
				n = 1
			}
			s = append(s, n)
		}
		return append(s, 0)
	}
	for i, pair := range pairs {
		if i < learningHeld {
			c.held, c.reference = append(c.held, number(pair[0])), append(c.reference, strings.Join(pair[1], " "))
			continue
		}
		if (i-learningHeld)%learningPairs == 0 {
			c.batches = append(c.batches, nil)
		}
		last := &c.batches[len(c.batches)-1]
		*last = append(*last, [2]sentence{number(pair[0]), number(pair[1])})
	}
	return c
}

// A learner is a small student before its training.
type learner struct {
	corpus      *learningCorpus
	description []byte
	network     *network.Network
	values      []float32
	settings    optimiser.Config
	task        jaxTask
}

func newLearner(t *testing.T, corpus *learningCorpus, seed uint64) *learner {
	t.Helper()
	a := defaultArchitecture()
	a.DimEmb, a.Heads, a.EncDepth, a.DecDepth, a.DimFFN = 64, 8, 2, 1, 192
	a.FFNActivation, a.Autoregression, a.DecCell, a.TiedEmbeddingsAll = "relu", "rnn", "ssru", true
	l := &learner{corpus: corpus, settings: optimiser.Config{
		Beta1: 0.9, Beta2: 0.98, Epsilon: 1e-9, LearnRate: 3e-3, WarmUp: 60, InvSqrt: 90, ClipNorm: 1,
	}}
	var err error
	if l.description, err = describe(a, []int{len(corpus.words), len(corpus.words)}); err != nil {
		t.Fatal(err)
	}
	m, err := model.New(l.description)
	if err != nil {
		t.Fatal(err)
	}
	if l.network, err = network.New(m); err != nil {
		t.Fatal(err)
	}
	l.values = make([]float32, l.network.Size())
	l.network.Initialise(l.values, seed)
	l.task = jaxTask{
		Dim: a.DimEmb, Heads: a.Heads, EncDepth: a.EncDepth, DecDepth: a.DecDepth, Activation: a.FFNActivation, Recurrent: true,
		Smoothing: 0.1, Adam: []float64{l.settings.Beta1, l.settings.Beta2, l.settings.Epsilon}, Clip: l.settings.ClipNorm, Batches: corpus.batches,
	}
	for step := range learningUpdates {
		l.task.Rates = append(l.task.Rates, l.settings.Rate(step+1))
	}
	return l
}

// train returns the loss of the last updates and the BLEU of the trained model.
func (l *learner) train(t *testing.T) [2]float64 {
	t.Helper()
	values := slices.Clone(l.values)
	replica := network.NewReplica(l.network, autodiff.Device[float32](new(autodiff.CPU)), values)
	o, losses := optimiser.New(l.settings, values), []float64(nil)
	for step := range learningUpdates {
		var batch network.Batch
		for _, pair := range l.corpus.batches[step%len(l.corpus.batches)] {
			batch.Source.Add(pair[0])
			batch.Target.Add(pair[1])
		}
		loss := replica.Train(&batch, network.Options{LabelSmoothing: l.task.Smoothing}, 1)
		losses = append(losses, loss.CrossEntropy/float64(loss.Words))
		if _, err := o.Step([][]float32{replica.Gradient}, 1/float64(loss.Words)); err != nil {
			t.Fatal(err)
		}
	}
	return [2]float64{mean(losses[learningUpdates-learningLast:]), l.bleu(t, l.network.File(values, l.description))}
}

// trainJAX returns the same of a training in JAX.
func (l *learner) trainJAX(t *testing.T, program string) [2]float64 {
	t.Helper()
	folder := t.TempDir()
	if err := marian.WriteNPZ(filepath.Join(folder, "model.npz"), l.network.File(l.values, l.description)); err != nil {
		t.Fatal(err)
	}
	runJAX(t, program, folder, l.task, "XLA_FLAGS=--xla_backend_optimization_level=1 --xla_llvm_disable_expensive_passes=true")
	trained, err := marian.Open(filepath.Join(folder, "trained.npz"))
	if err != nil {
		t.Fatal(err)
	}
	defer trained.Close()
	losses := readNumbers(t, filepath.Join(folder, "losses.json"))
	return [2]float64{mean(losses[learningUpdates-learningLast:]), l.bleu(t, trained)}
}

// bleu translates the sentences that were held back with the engine.
func (l *learner) bleu(t *testing.T, file *marian.File) float64 {
	t.Helper()
	m, err := model.Load(file, l.description)
	if err != nil {
		t.Fatal(err)
	}
	weights, err := cpumodel.Load(m, cpumodel.Float32, cpumodel.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var translations []string
	for _, source := range l.corpus.held {
		var words []string
		for _, w := range greedyEngine(weights, source) {
			if w != 0 {
				words = append(words, l.corpus.words[w])
			}
		}
		translations = append(translations, strings.Join(words, " "))
	}
	s, err := score.BLEU(translations, [][]string{l.corpus.reference}, score.BLEUOptions{Tokenizer: score.TokenizeNone})
	if err != nil {
		t.Fatal(err)
	}
	return s.Score
}
