package train

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-mt/sluice/train/autodiff"
	"github.com/sluice-mt/sluice/train/data"
	"github.com/sluice-mt/sluice/train/network"
	"github.com/sluice-mt/sluice/translator/rescore"
	"github.com/sluice-mt/sluice/translator/search"
	"github.com/sluice-mt/sluice/translator/vocab"
)

// toyKinds are changes to the toy settings that make models of other kinds than a transformer of one source.
var toyKinds = map[string]func(*Config){
	"s2s": func(c *Config) {
		c.Type, c.DecCell, c.DimRNN = "s2s", "gru", 40
	},
	"deep s2s": func(c *Config) {
		c.Type, c.DecCell, c.EncCell, c.DimRNN, c.EncDepth, c.DecDepth = "s2s", "lstm", "lstm", 32, 2, 2
		c.LayerNormalization, c.Skip, c.TiedEmbeddingsAll, c.EncType, c.AfterBatches = true, true, false, "alternating", 500
	},
	"nematus": func(c *Config) {
		c.Type, c.DecCell, c.EncCell, c.DimRNN, c.LayerNormalization = "nematus", "gru-nematus", "gru-nematus", 40, true
		c.EncCellDepth, c.DecBaseDepth, c.TiedEmbeddingsAll = 2, 3, false
	},
	"amun, right to left": func(c *Config) {
		c.Type, c.DecCell, c.DimRNN, c.RightLeft, c.TiedEmbeddingsAll = "amun", "gru", 40, true, false
		c.AfterBatches = 500
	},
	"devlin": func(c *Config) {
		c.Type, c.DecCell, c.DimRNN, c.FCDepth, c.AfterBatches = "devlin", "gru", 40, 3, 500
	},
	"transformer with GRU": func(c *Config) {
		c.DecCell, c.LayerNormalization = "gru", true
	},
	"two sources": func(c *Config) { twoSources(c, "multi-s2s") },
	"transformer of two sources": func(c *Config) {
		twoSources(c, "shared-multi-transformer")
		c.Autoregression = "self-attention"
	},
}

// twoSources gives a model the same text twice.
func twoSources(c *Config, kind string) {
	c.Type, c.DecCell, c.DimRNN = kind, "gru", 40
	c.TrainSets = []string{c.TrainSets[0], c.TrainSets[0], c.TrainSets[1]}
}

// TestKinds trains on a few pairs until they are known by heart. The engine must then translate them without error, and give the
// translations the log-probabilities that the trainer has for them.
func TestKinds(t *testing.T) {
	for name, change := range toyKinds {
		t.Run(name, func(t *testing.T) {
			if testing.Short() && name != "s2s" && name != "two sources" {
				t.Skip("takes seconds")
			}
			folder := t.TempDir()
			toy(t, folder, 60)
			c := toyConfig(folder)
			c.EncDepth, c.DecDepth, c.AfterBatches = 1, 1, 300
			change(&c)
			c.ValidSets, c.ValidMetrics = c.TrainSets, []string{"bleu", "ce-mean-words"}
			mustRun(t, c)
			for _, m := range readMetrics(t, c, "valid") {
				t.Logf("%s %.4f", m.Metric, m.Value)
				if translates(m.Metric) && m.Value < 99 || m.Metric == metricMeanWords && m.Value > 0.05 {
					t.Errorf("%s is %v", m.Metric, m.Value)
				}
			}
			compareScores(t, c)
		})
	}
}

// compareScores gives translations their log-probabilities with the trainer's network and with the engine.
func compareScores(t *testing.T, c Config) {
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
	words, err := vocab.Open(c.Vocabs[0])
	if err != nil {
		t.Fatal(err)
	}
	sources, further := []vocab.Vocabulary{words}, []vocab.Vocabulary(nil)
	if m.Sources() > 1 {
		further = []vocab.Vocabulary{words}
		sources = append(sources, words)
	}
	scorer, err := rescore.New(rescore.Config{
		Devices: []rescore.Device{{NewStepper: func(slots int) (search.Stepper, error) { return weights.NewStepper(slots), nil }, Workers: 1}},
		Sources: sources, Target: words, RightLeft: m.RightLeft, MaxLength: 100,
	})
	if err != nil {
		t.Fatal(err)
	}
	source, target, err := data.Texts(c.files(c.TrainSets))
	if err != nil {
		t.Fatal(err)
	}
	var lists []rescore.List
	for i := range 20 {
		lists = append(lists, rescore.List{Source: source[i], Translations: []string{target[(i+i%2)%20]}}) // every second one is wrong
	}
	scores, err := scorer.Score(testContext(t), lists)
	if err != nil {
		t.Fatal(err)
	}
	replica := network.NewEvaluator(n, autodiff.Device[float32](new(autodiff.CPU)), vector)
	for i, list := range lists {
		own := scoreOf(t, replica, data.Config{Source: words, Further: further, Target: words, RightLeft: m.RightLeft, MaxLength: 100}, list)
		if math.Abs(own-scores[i][0].LogProb) > 1e-4*(1+math.Abs(own)) {
			t.Errorf("%q scores %v in the trainer, %v in the engine", list.Source, own, scores[i][0].LogProb)
		}
	}
}

// scoreOf returns the log-probability that a network gives a translation.
func scoreOf(t *testing.T, r *network.Replica[float32], c data.Config, list rescore.List) float64 {
	t.Helper()
	path := filepath.Join(t.TempDir(), "pair.tsv")
	if err := os.WriteFile(path, []byte(list.Source+"\t"+list.Translations[0]+"\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	c.Files = data.Files{TSV: path, TSVSources: 1 + len(c.Further)}
	corpus, err := data.Read(c)
	if err != nil {
		t.Fatal(err)
	}
	defer corpus.Close()
	batches, err := corpus.Batches(data.Batching{Budget: data.Budget{Sentences: 1}, Maxi: 1}, data.Position{})
	if err != nil {
		t.Fatal(err)
	}
	var batch network.Batch
	if err := batches.Next(&batch); err != nil {
		t.Fatal(err)
	}
	loss := r.Evaluate(&batch, nil)
	return -loss.CrossEntropy
}

// TestRecurrentInterruption stops the training of recurrent models again and again: the end must be that of an undisturbed run, bit for
// bit.
func TestRecurrentInterruption(t *testing.T) {
	config := func(folder string) Config {
		toy(t, folder, 60)
		c := disturbedConfig(folder)
		c.EncDepth, c.DecDepth, c.ValidMetrics = 1, 1, []string{"ce-mean-words"}
		c.DropoutRNN, c.LayerNormalization = 0.2, true
		toyKinds["two sources"](&c)
		c.ValidSets = c.TrainSets
		return c
	}
	undisturbed := config(t.TempDir())
	mustRun(t, undisturbed)
	wantModel, wantState := artefacts(t, undisturbed)
	c := config(t.TempDir())
	for left := 3; ; left += 7 {
		n := left
		ctx, cancel := context.WithCancel(testContext(t))
		_, err := Run(ctx, c, slog.New(interrupter{slog.DiscardHandler, &n, cancel}))
		cancel()
		if err == nil {
			break
		}
		if !errors.Is(err, ErrInterrupted) {
			t.Fatal(err)
		}
	}
	compareArtefacts(t, c, wantModel, wantState)
}

// TestNematusFile looks at what a trained model of type nematus is written as: with the names and the mark of Nematus, and with the
// vocabularies' sizes in its description.
func TestNematusFile(t *testing.T) {
	folder := t.TempDir()
	toy(t, folder, 10)
	c := toyConfig(folder)
	c.EncDepth, c.DecDepth, c.AfterBatches = 1, 1, 2
	toyKinds["nematus"](&c)
	mustRun(t, c)
	file, err := os.ReadFile(c.Model)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"Wemb_dec.npy", "decoder_U_nl_drt_1.npy", "ff_logit_prev_W.npy", "decoder_c_tt.npy"} {
		if !bytes.Contains(file, []byte(name)) {
			t.Errorf("no %s", name)
		}
	}
	m, _ := trainedModel(t, c)
	if len(m.Unknown) > 0 || m.TargetVocabulary != 2+2*toyWords {
		t.Errorf("%v, %d words", m.Unknown, m.TargetVocabulary)
	}
	text, err := os.ReadFile(c.Model + ".decoder.yml")
	if err != nil || strings.Count(string(text), "vocab.yml") != 2 {
		t.Errorf("%s, %v", text, err)
	}
}
