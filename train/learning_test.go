package train

import (
	"bufio"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sluice-mt/sluice/internal/score"
	"github.com/sluice-mt/sluice/train/autodiff"
	"github.com/sluice-mt/sluice/train/network"
	"github.com/sluice-mt/sluice/train/optimiser"
	"github.com/sluice-mt/sluice/translator/cpumodel"
	"github.com/sluice-mt/sluice/translator/marian"
	"github.com/sluice-mt/sluice/translator/model"
)

const (
	learningWords = 4000 // most frequent words of both languages, beside end of sentence and unknown
	learningPairs = 64   // of a mini-batch
	learningHeld  = 500  // pairs to measure with, the first ones
	learningEpoch = 3125 // updates that see 200,000 pairs once
)

// TestLearning trains a small student on real sentence pairs for the same updates here and in JAX, from three seeds, and
// compares the losses on pairs that were held back, and the BLEU of what the engine translates with both models. The variable
// SLUICE_LEARNING names the corpus, which scripts/learning.sh makes: the test takes long. SLUICE_LEARNING_UPDATES is how many
// updates there are, instead of an epoch.
func TestLearning(t *testing.T) {
	path := os.Getenv("SLUICE_LEARNING")
	if path == "" {
		t.Skip("takes long: scripts/learning.sh runs it")
	}
	updates := learningEpoch
	if text := os.Getenv("SLUICE_LEARNING_UPDATES"); text != "" {
		var err error
		if updates, err = strconv.Atoi(text); err != nil || updates < 1 {
			t.Fatalf("SLUICE_LEARNING_UPDATES: %q", text)
		}
	}
	program := python(t)
	corpus := readLearning(t, path)
	t.Logf("%d mini-batches of %d pairs, %d updates, %d words", len(corpus.batches), learningPairs, updates, len(corpus.words))
	var ours, theirs [3][]float64 // training loss, loss and BLEU of each seed
	for seed := range uint64(3) {
		l := newLearner(t, corpus, updates, seed+1)
		own, other := l.train(t), l.trainJAX(t, program)
		for i := range own {
			ours[i], theirs[i] = append(ours[i], own[i]), append(theirs[i], other[i])
		}
		t.Logf("seed %d: loss of the last tenth %.4f, of other pairs %.4f, BLEU %.2f here; %.4f, %.4f and %.2f in JAX", seed+1,
			own[0], own[1], own[2], other[0], other[1], other[2])
	}
	for i, what := range []string{"loss of the last tenth", "loss of other pairs", "BLEU"} {
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
	held      [][2]sentence // to measure with
	reference []string
	words     []string
}

// readLearning reads pairs in their order: a source and a target with a tab between them.
func readLearning(t *testing.T, path string) *learningCorpus {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	var pairs [][2][]string
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		english, german, _ := strings.Cut(lines.Text(), "\t")
		pairs = append(pairs, [2][]string{learningTokens(english), learningTokens(german)})
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	if len(pairs) < learningHeld+learningPairs {
		t.Fatalf("%s has only %d pairs", path, len(pairs))
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
			c.held, c.reference = append(c.held, [2]sentence{number(pair[0]), number(pair[1])}), append(c.reference, strings.Join(pair[1], " "))
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

func newLearner(t *testing.T, corpus *learningCorpus, updates int, seed uint64) *learner {
	t.Helper()
	a := defaultArchitecture()
	a.DimEmb, a.Heads, a.EncDepth, a.DecDepth, a.DimFFN = 64, 8, 2, 1, 192
	a.FFNActivation, a.Autoregression, a.DecCell, a.TiedEmbeddingsAll = "relu", "rnn", "ssru", true
	l := &learner{corpus: corpus, settings: optimiser.Config{
		Beta1: 0.9, Beta2: 0.98, Epsilon: 1e-9, LearnRate: 3e-3, WarmUp: 100, InvSqrt: 100, ClipNorm: 1,
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
		Smoothing: 0.1, Adam: []float64{l.settings.Beta1, l.settings.Beta2, l.settings.Epsilon}, Clip: l.settings.ClipNorm,
		Batches: corpus.batches[:min(updates, len(corpus.batches))], limit: 3 * time.Hour,
	}
	for step := range updates {
		l.task.Rates = append(l.task.Rates, l.settings.Rate(step+1))
	}
	return l
}

// train returns the loss of the last tenth of the updates, and what there is to say of the trained model.
func (l *learner) train(t *testing.T) [3]float64 {
	t.Helper()
	values := slices.Clone(l.values)
	replica := network.NewReplica(l.network, autodiff.Device[float32](new(autodiff.CPU)), values)
	o, losses := optimiser.New(l.settings, values), []float64(nil)
	for step := range l.task.Rates {
		var batch network.Batch
		for _, pair := range l.task.Batches[step%len(l.task.Batches)] {
			batch.Source.Add(pair[0])
			batch.Target.Add(pair[1])
		}
		loss := replica.Train(&batch, network.Options{LabelSmoothing: l.task.Smoothing}, 1)
		losses = append(losses, loss.CrossEntropy/float64(loss.Words))
		if _, err := o.Step([][]float32{replica.Gradient}, 1/float64(loss.Words)); err != nil {
			t.Fatal(err)
		}
	}
	path := filepath.Join(t.TempDir(), "trained.npz")
	if err := marian.WriteNPZ(path, l.network.File(values, l.description)); err != nil {
		t.Fatal(err)
	}
	return l.measure(t, losses, path)
}

// trainJAX returns the same of a training in JAX.
func (l *learner) trainJAX(t *testing.T, program string) [3]float64 {
	t.Helper()
	folder := t.TempDir()
	if err := marian.WriteNPZ(filepath.Join(folder, "model.npz"), l.network.File(l.values, l.description)); err != nil {
		t.Fatal(err)
	}
	runJAX(t, program, folder, l.task, "XLA_FLAGS=--xla_backend_optimization_level=1 --xla_llvm_disable_expensive_passes=true")
	return l.measure(t, readNumbers(t, filepath.Join(folder, "losses.json")), filepath.Join(folder, "trained.npz"))
}

// measure returns the mean of the last tenth of the losses, the loss of a saved model on the pairs that were held back, and its
// BLEU there. The engine must translate with it as the network does that was trained.
func (l *learner) measure(t *testing.T, losses []float64, path string) [3]float64 {
	t.Helper()
	file, err := marian.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	m, err := model.Load(file, l.description)
	if err != nil {
		t.Fatal(err)
	}
	weights, err := cpumodel.Load(m, cpumodel.Float32, cpumodel.Options{})
	if err != nil {
		t.Fatal(err)
	}
	replica := network.NewEvaluator(l.network, autodiff.Device[float32](new(autodiff.CPU)), l.valuesOf(t, file))
	var held network.Loss
	var translations []string
	for i, pair := range l.corpus.held {
		var batch network.Batch
		batch.Source.Add(pair[0])
		batch.Target.Add(pair[1])
		held.Add(replica.Evaluate(&batch, nil))
		translation := greedyEngine(weights, pair[0])
		if i%10 == 0 && !slices.Equal(translation, greedyNetwork(replica, pair[0], m.TargetVocabulary)) {
			t.Errorf("pair %d is translated as %v by the engine, and otherwise by the network", i, translation)
		}
		var words []string
		for _, w := range translation {
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
	last := losses[len(losses)-max(1, len(losses)/10):]
	return [3]float64{mean(last), held.CrossEntropy / float64(held.Words), s.Score}
}

// valuesOf returns the parameters of a file as the network has them.
func (l *learner) valuesOf(t *testing.T, file *marian.File) []float32 {
	t.Helper()
	values := make([]float32, l.network.Size())
	for i := range l.network.Parameters {
		p := &l.network.Parameters[i]
		tensor := file.Tensor(p.Name)
		if tensor == nil {
			t.Fatalf("%s has no %s", file.Path, p.Name)
		}
		stored, err := tensor.Float32()
		if err != nil {
			t.Fatal(err)
		}
		copy(network.Values(p, values), stored)
	}
	return values
}
