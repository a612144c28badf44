package train

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-mt/sluice/translator/model"
)

// stepwise rewrites the translations of the toy language for hard attention: each word is that of the source word that is read, and s0, which is
// piece 2, moves on.
func stepwise(t *testing.T, folder string) {
	t.Helper()
	source, err := os.ReadFile(filepath.Join(folder, "train.s"))
	if err != nil {
		t.Fatal(err)
	}
	var target strings.Builder
	for line := range strings.Lines(string(source)) {
		for _, word := range strings.Fields(line) {
			fmt.Fprintf(&target, "t%s s0 ", word[1:])
		}
		target.WriteString("\n")
	}
	if err := os.WriteFile(filepath.Join(folder, "train.t"), []byte(target.String()), 0o666); err != nil {
		t.Fatal(err)
	}
}

// TestHardAttention trains models whose attention is hard until they know some pairs by heart. The engine must translate them without
// error, and score any translation as the trainer does.
func TestHardAttention(t *testing.T) {
	for _, kind := range []string{"hard-att", "hard-soft-att"} {
		if testing.Short() && kind != "hard-att" {
			continue
		}
		t.Run(kind, func(t *testing.T) {
			c := hardConfig(t, kind)
			c.ValidSets, c.ValidMetrics, c.AfterBatches = c.TrainSets, []string{"bleu", "ce-mean-words"}, 200
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

func hardConfig(t *testing.T, kind string) Config {
	t.Helper()
	folder := t.TempDir()
	toy(t, folder, 60)
	stepwise(t, folder)
	c := toyConfig(folder)
	c.Type, c.EncDepth, c.DecCell, c.DimRNN, c.SpecialVocab = kind, 1, "gru", 40, []int{model.StepToken}
	return c
}

// TestHardAttentionRefusals: what hard attention cannot be trained with.
func TestHardAttentionRefusals(t *testing.T) {
	for name, change := range map[string]func(*Config){
		"special-vocab is missing": func(c *Config) { c.SpecialVocab = nil },
		"no target piece":          func(c *Config) { c.SpecialVocab = []int{1000} },
		"never written":            func(c *Config) { c.SpecialVocab = []int{1} }, // the unknown word
		"guided-alignment":         func(c *Config) { c.GuidedAlignment = filepath.Join(filepath.Dir(c.Model), "train.align") },
	} {
		c := hardConfig(t, "hard-att")
		change(&c)
		if _, err := Run(testContext(t), c, silence()); err == nil || !strings.Contains(err.Error(), name) || !errors.Is(err, ErrConfig) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
