package train

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestNoise trains with noise, and wants it to change what is learnt, but not between two runs.
func TestNoise(t *testing.T) {
	folder := t.TempDir()
	toy(t, folder, 100)
	var models [3][]byte
	for i, upper := range []float64{0, 0.5, 0.5} {
		c := toyConfig(folder)
		c.Model, c.AfterBatches, c.NoiseUpper = filepath.Join(folder, string(rune('a'+i))+".npz"), 12, upper
		c.GuidedAlignment = filepath.Join(folder, "train.align")
		mustRun(t, c)
		var err error
		if models[i], err = os.ReadFile(c.Model); err != nil {
			t.Fatal(err)
		}
	}
	if bytes.Equal(models[0], models[1]) {
		t.Error("noise changes nothing")
	}
	if !bytes.Equal(models[1], models[2]) {
		t.Error("noise changes from run to run")
	}
}

func TestNoiseThatDoesNotFit(t *testing.T) {
	for word, change := range map[string]func(*Config){
		"data-weighting-type": func(c *Config) { c.DataWeighting, c.DataWeightingType = "weights", "word" },
		"mse":                 func(c *Config) { c.GuidedAlignment, c.GuidedAlignmentCost = "points", "mse" },
		"one source":          func(c *Config) { c.Type, c.TrainSets = "lm-transformer", c.TrainSets[:1] },
		"between 0 and 1":     func(c *Config) { c.NoiseLower = 1.5 },
		"1.05 together":       func(c *Config) { c.NoiseLower = 0.95 },
	} {
		c := toyConfig(t.TempDir())
		c.NoiseUpper = 0.1
		change(&c)
		if err := c.Validate(); !errors.Is(err, ErrConfig) || !strings.Contains(err.Error(), word) {
			t.Errorf("%s: %v", word, err)
		}
	}
}
