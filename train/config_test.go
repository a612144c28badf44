package train

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestReadConfig(t *testing.T) {
	path := filepath.Join(t.TempDir(), "train.yml")
	text := `
model: student.npz
train-sets: [a.en.gz, a.de.gz]
vocabs: [vocab.spm]
dim-emb: 256
transformer-dim-ffn: 1536
transformer-decoder-autoreg: rnn
dec-cell: ssru
tied-embeddings-all: true
optimizer-params: [0.9, 0.98, 1e-09]
mini-batch-fit: true
valid-metrics:
  - bleu
  - perplexity
`
	write := func(text string) {
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	write(text)
	c, err := ReadConfig(path)
	if err != nil {
		t.Fatal(err)
	}
	if c.DimEmb != 256 || c.DecCell != "ssru" || c.Heads != 8 || !c.MiniBatchFit || len(c.ValidMetrics) != 2 || c.OptimizerParams[2] != 1e-9 {
		t.Errorf("%+v", c)
	}
	for lines, want := range map[string]string{
		"dim-embb: 3":                        "dim-embb",
		"dim-emb: many":                      "line",
		"model: x.bin":                       ".npz",
		"train-sets: [a]":                    "train-sets has 1 files",
		"vocabs: []":                         "vocabs",
		"valid-sets: [a, b, c]":              "valid-sets has 3 files",
		"cost-type: mean":                    "cost-type is \"mean\"",
		"valid-metrics: [ter]":               "valid-metrics is \"ter\"",
		"transformer-dropout: 1":             "transformer-dropout is 1",
		"label-smoothing: .nan":              "label-smoothing",
		"optimizer-params: [0.9]":            "optimizer-params has 1",
		"optimizer-params: [0.9, 1.5, 1e-9]": "optimizer-params begin",
		"precision: [bfloat16]":              "precision has 1 types",
		"precision: [float16, float32]":      "precision: products read",
		"precision: [int8, float32]":         "precision begins with \"int8\"",
		"precision: [bfloat16, bfloat16]":    "precision ends with \"bfloat16\"",
		"cpu-threads: 0":                     "cpu-threads is 0",
		"learn-rate: 0":                      "learn-rate",
		"guided-alignment-cost: mult":        "guided-alignment-cost",
		"guided-alignment-weight: -1":        "guided-alignment-weight",
		"type: lm-transformer\ntrain-sets: [a]\nvalid-metrics: [bleu]": "does not translate",
		"tsv: true":         "train-sets has 2 files, but must have 1",
		"early-stopping: 5": "early-stopping is 5, but there are no valid-sets",
		"keep-best: true":   "keep-best is set, but there are no valid-sets",
	} {
		changed := text
		for line := range strings.SplitSeq(lines, "\n") {
			key, _, _ := strings.Cut(line, ":")
			if at := strings.Index(changed, "\n"+key+":"); at >= 0 {
				end := strings.IndexByte(changed[at+1:], '\n') + at + 1
				for strings.HasPrefix(changed[end+1:], "  ") {
					end = strings.IndexByte(changed[end+1:], '\n') + end + 1
				}
				changed = changed[:at] + changed[end:]
			}
			changed += line + "\n"
		}
		write(changed)
		if _, err := ReadConfig(path); !errors.Is(err, ErrConfig) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", lines, err, want)
		}
	}
	if _, err := ReadConfig(path + ".missing"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a missing file: %v", err)
	}
}

// TestUnsupportedArchitecture: what package model refuses cannot be trained.
func TestUnsupportedArchitecture(t *testing.T) {
	folder := t.TempDir()
	toy(t, folder, 10)
	for key, change := range map[string]func(*Config){
		"transformer-heads": func(c *Config) { c.Heads = 5 },
		"dec-cell":          func(c *Config) { c.Type, c.DecCell = "devlin", "lstm" },
		"train-sets has 2":  func(c *Config) { c.Type = "multi-s2s" },
		"nematus":           func(c *Config) { c.Type = "nematus" },
		"factored":          func(c *Config) { c.FactorsDimEmb = 8 },
	} {
		c := toyConfig(folder)
		change(&c)
		if _, err := Run(testContext(t), c, silence()); !errors.Is(err, ErrConfig) || !strings.Contains(err.Error(), key) {
			t.Errorf("%s: %v", key, err)
		}
	}
}

func FuzzParseConfig(f *testing.F) {
	f.Add([]byte("model: a.npz\ntrain-sets: [a, b]\nvocabs: [v]\n"))
	f.Add([]byte("optimizer-params: [1]\nvalid-metrics: {}\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := parseConfig(data)
		if err != nil {
			if !errors.Is(err, ErrConfig) {
				t.Error(err)
			}
			return
		}
		if o := c.optimiser(); o.Validate() != nil || c.CPUThreads < 1 || len(c.TrainSets) == 0 {
			t.Errorf("%+v", c)
		}
	})
}
