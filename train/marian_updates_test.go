package train

import (
	"encoding/json"
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/sluice-mt/sluice/internal/sharedtest"
	"github.com/sluice-mt/sluice/translator/marian"
)

// marianUpdates is how many updates TestMarianUpdates compares: twice through its sentences.
const marianUpdates = 16

// updateOptions are what TestMarianUpdates changes in the options of the reference models. The learning rate is the same all the time,
// for Marian's is that of an update before, and zero in the first one of a warm-up. It is low, so that the scales of norms stay close to
// one: Marian's gradient of a layer norm is right only where they are all the same.
var updateOptions = map[string][]string{
	"mini-batch": {"8"}, "maxi-batch": {"1"}, "shuffle": {"none"}, "max-length": {"300"}, "disp-freq": {"1"},
	"learn-rate": {"0.0003"}, "lr-warmup": {"0"}, "lr-decay-inv-sqrt": {"0"}, "after-batches": {strconv.Itoa(marianUpdates)},
}

// TestMarianUpdates trains a model of every family on a few sentences, and compares the loss of each update with Marian's: from the same
// parameters and with the same mini-batches, it is loss, gradient, clipping and Adam that make it. Marian's losses are in
// testdata/marian-updates.json. If SLUICE_MARIAN is the path of Marian's program for training, Marian computes them anew.
func TestMarianUpdates(t *testing.T) {
	data, err := os.ReadFile("testdata/marian-updates.json")
	if err != nil {
		t.Fatal(err)
	}
	var known map[string][]float64
	if err := json.Unmarshal(data, &known); err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		t.Run(family, func(t *testing.T) { compareUpdates(t, family, known[family]) })
	}
}

func compareUpdates(t *testing.T, family string, want []float64) {
	t.Helper()
	options, _, _ := readMarianLog(t, family)
	delete(options, "mini-batch-words")
	for key, values := range updateOptions {
		options[key] = values
	}
	folder := t.TempDir()
	c := familyConfig(t, folder, options, shortText)
	c.PretrainedModel = filepath.Join(folder, "start.npz")
	options["pretrained-model"] = []string{c.PretrainedModel}
	writeStart(t, &c)
	if program := os.Getenv("SLUICE_MARIAN"); program != "" {
		costs := marianCosts(t, program, folder, options)
		want = nil
		for update := range marianUpdates {
			want = append(want, costs[update+1])
		}
		line, err := json.Marshal(want)
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%q: %s", family, line)
	}
	if len(want) != marianUpdates {
		t.Fatalf("%d losses of Marian", len(want))
	}
	if _, err := Run(t.Context(), c, silence()); err != nil {
		t.Fatal(err)
	}
	losses := displayedLosses(t, c.Model+".metrics.jsonl")
	for i := range want {
		if got := losses[i+1]; !(math.Abs(got-want[i]) < 1e-3) {
			t.Errorf("update %d: the loss is %.5f, Marian's was %.5f", i+1, got, want[i])
		}
	}
}

// writeStart writes the model that a run starts from without another one.
func writeStart(t *testing.T, c *Config) {
	t.Helper()
	r := run{config: *c, logger: silence()}
	r.config.PretrainedModel = ""
	if err := errors.Join(r.openVocabularies(), r.makeNetwork()); err != nil {
		t.Fatal(err)
	}
	if err := marian.WriteNPZ(c.PretrainedModel, r.network.File(r.values, r.description)); err != nil {
		t.Fatal(err)
	}
}

// shortText writes a side of the sixty sentences with which the reference models were decoded, without the empty one and the longest.
func shortText(t *testing.T, folder, name string) string {
	t.Helper()
	from := map[string]string{
		"train.en": "input.en", "train.de": "reference.de", "train.mt": "input.mt", "train.word.en": "input.word.en", "train.word.de": "reference.word.de",
	}[name]
	text, err := os.ReadFile(sharedtest.Path(t, "models/reference/data/"+from))
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.SplitAfter(string(text), "\n")
	lines = slices.Delete(lines, 40, 41)
	lines = slices.Delete(lines, 20, 21)
	path := filepath.Join(folder, name)
	if err := os.WriteFile(path, []byte(strings.Join(lines, "")), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}
