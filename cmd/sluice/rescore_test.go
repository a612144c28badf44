package main

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/sluice-mt/sluice/internal/nbest"
	"github.com/sluice-mt/sluice/internal/score"
	"github.com/sluice-mt/sluice/internal/sharedtest"
)

// runCommand runs a command and returns what it prints.
func runCommand(t *testing.T, command *cobra.Command, arguments ...string) string {
	t.Helper()
	var out bytes.Buffer
	command.SetOut(&out)
	command.SetArgs(arguments)
	command.SilenceUsage = true
	if err := command.ExecuteContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func writeTestFile(t *testing.T, name, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(content), 0o666); err != nil {
		t.Fatal(err)
	}
	return path
}

func entriesOf(t *testing.T, list string) []nbest.Entry {
	t.Helper()
	var entries []nbest.Entry
	for line := range strings.Lines(list) {
		e, err := nbest.Parse(strings.TrimSuffix(line, "\n"))
		if err != nil {
			t.Fatal(err)
		}
		entries = append(entries, e)
	}
	return entries
}

// A recipe of a model that writes from right to left, a language model and a recurrent one gives what marian-scorer gave.
func TestRescoringAsMarianScores(t *testing.T) {
	reference := sharedtest.Path(t, "models/reference")
	lines := func(name string) []string {
		text, err := os.ReadFile(filepath.Join(reference, name))
		if err != nil {
			t.Fatal(err)
		}
		return strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
	}
	var list strings.Builder
	for i, line := range lines("data/reference.de") {
		fmt.Fprintf(&list, "%d ||| %s\n", i, line)
	}
	recipe := writeTestFile(t, "recipe.yml", fmt.Sprintf(`models:
  - model: %[1]s/right-left
  - {model: %[1]s/lm-transformer/model.npz, vocabs: [%[1]s/vocab/joint.spm]}
  - {model: %[1]s/s2s-gru, feature: GRU}
`, reference))
	out := runCommand(t, newRescoreCommand(), "--features-only", "--config", recipe, "--source", filepath.Join(reference, "data/input.en"),
		"--input", writeTestFile(t, "list", list.String()))
	entries := entriesOf(t, out)
	for feature, model := range map[string]string{"R2L0": "right-left", "LM0": "lm-transformer", "GRU": "s2s-gru"} {
		want := lines(model + "/scorer.reference.txt")
		if len(entries) != len(want) {
			t.Fatalf("%d hypotheses, want %d", len(entries), len(want))
		}
		for i, e := range entries {
			expected, err := strconv.ParseFloat(want[i], 64)
			if err != nil {
				t.Fatal(err)
			}
			if got := e.Feature(feature); len(got) != 1 || math.Abs(got[0]-expected) > 1e-3+1e-5*math.Abs(expected) {
				t.Errorf("line %d: %s is %v, but %v in Marian", i+1, feature, got, expected)
			}
		}
	}
}

// The choice is the one that the definition makes: the greatest mean of the scores against all hypotheses.
func TestMinimumBayesRiskIsWhatItIsDefinedAs(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	words := strings.Fields("der alte Hund und die junge Katze sitzen vor dem Haus .")
	var list strings.Builder
	for id := range 300 {
		for range 1 + random.IntN(6) {
			var text []string
			for range random.IntN(7) {
				text = append(text, words[random.IntN(len(words))])
			}
			fmt.Fprintf(&list, "%d ||| %s ||| F0= %d ||| %.3f\n", id, strings.Join(text, " "), id, -random.Float64())
		}
	}
	path := writeTestFile(t, "list", list.String())
	grouped := map[int64][]nbest.Entry{}
	for _, e := range entriesOf(t, list.String()) {
		grouped[e.ID] = append(grouped[e.ID], e)
	}
	for _, metric := range []string{"chrf", "bleu"} {
		for _, scale := range []float64{0, 2.5} {
			out := runCommand(t, newMBRCommand(), "--metric", metric, "--scale", fmt.Sprint(scale), "--input", path)
			best := map[int64]nbest.Entry{}
			for _, e := range entriesOf(t, out) {
				if _, seen := best[e.ID]; !seen {
					best[e.ID] = e
				}
			}
			for id, entries := range grouped {
				text, expected := lowestRisk(t, metric, scale, entries)
				if got := best[id]; got.Text != text || math.Abs(got.Total-expected) > 1e-3 {
					t.Fatalf("%s, scale %v, sentence %d: %q with %v was chosen, want %q with %v", metric, scale, id, got.Text, got.Total, text, expected)
				}
			}
		}
	}
}

func lowestRisk(t *testing.T, metric string, scale float64, entries []nbest.Entry) (text string, best float64) {
	t.Helper()
	best = -1
	for _, hypothesis := range entries {
		expected, all := 0.0, 0.0
		for _, reference := range entries {
			var points float64
			if metric == "chrf" {
				s, err := score.SentenceCHRF(hypothesis.Text, []string{reference.Text}, score.CHRFOptions{})
				if err != nil {
					t.Fatal(err)
				}
				points = s.Score
			} else {
				s, err := score.SentenceBLEU(hypothesis.Text, []string{reference.Text}, score.BLEUOptions{EffectiveOrder: true})
				if err != nil {
					t.Fatal(err)
				}
				points = s.Score
			}
			expected += math.Exp(scale*reference.Total) * points
			all += math.Exp(scale * reference.Total)
		}
		if expected/all > best+1e-9 {
			text, best = hypothesis.Text, expected/all
		}
	}
	return text, best
}

// Whatever a recipe holds, it is read or refused, and what tuning writes is read as it was written.
func FuzzRecipe(f *testing.F) {
	f.Add([]byte("models:\n  - {model: a.npz, vocabs: [b.spm], feature: X, precision: int8}\nnormalize: 0.5\nweights: {F0: 1, TM: [1, 2]}\n"))
	f.Add([]byte("weights: {\"a b\": 1e300}"))
	f.Fuzz(func(t *testing.T, content []byte) {
		path := filepath.Join(t.TempDir(), "recipe.yml")
		if err := os.WriteFile(path, content, 0o666); err != nil {
			t.Fatal(err)
		}
		r, err := readRecipe(path)
		if err != nil || len(r.Weights) == 0 {
			return
		}
		text := formatRecipe(r.weights(), 1)
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
		again, err := readRecipe(path)
		if err != nil || !reflect.DeepEqual(again.weights(), r.weights()) {
			t.Fatalf("%v is written as\n%s\nand read as %v, %v", r.weights(), text, again.weights(), err)
		}
	})
}
