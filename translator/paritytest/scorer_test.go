package paritytest

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/sluice-mt/sluice/translator"
	"github.com/sluice-mt/sluice/translator/search"
)

// A translation that is forced from its first piece to its last has the log-probability that marian-scorer gives it.
func TestForcedTranslationsScoreAsMarianScoresThem(t *testing.T) {
	for _, r := range recordings(t) {
		if r.target == "" {
			continue
		}
		t.Run(strings.TrimPrefix(r.output, "models/"), func(t *testing.T) {
			t.Parallel()
			want, sources := sharedLines(t, r.output), r.source(t)
			var asked []int
			for i, line := range sources {
				if strings.TrimSpace(line) != "" {
					asked = append(asked, i)
				}
			}
			for j, score := range r.open(t).score(t, &r, asked) {
				i := asked[j]
				if expected := lastNumber(t, want[i]); !near(score, expected) {
					t.Errorf("line %d scores %v, but %v in Marian", i+1, score, expected)
				}
			}
		})
	}
}

// score returns the log-probabilities of a recording's given translations of some lines.
func (s *setup) score(t *testing.T, r *recording, lines []int) []float64 {
	t.Helper()
	models := translator.Models(&s.device)
	if s.gpu != nil {
		models = s.gpu
	}
	decoder, err := search.NewDecoder(models.NewSteppers(1), nil, s.text.Target.EOS())
	if err != nil {
		t.Fatal(err)
	}
	var scores []float64
	sources, targets := r.source(t), sharedLines(t, r.target)
	for _, i := range lines {
		texts := strings.Split(sources[i], "\t")
		source, target := s.text.Source.Encode(texts[0], nil), s.text.Target.Encode(targets[i], nil)
		if s.text.RightLeft {
			slices.Reverse(source)
			slices.Reverse(target)
		}
		var further [][]search.Token
		for k, vocabulary := range s.text.Further {
			further = append(further, append(vocabulary.Encode(texts[k+1], nil), vocabulary.EOS()))
		}
		sentence := &search.Sentence{
			Source:  search.Source{Tokens: append(source, s.text.Source.EOS()), Further: further},
			Prefix:  append(target, s.text.Target.EOS()),
			Options: search.Options{Beam: 1, MaxLengthFactor: 3, Scores: true},
		}
		decoder.Encode([]*search.Sentence{sentence})
		decoder.Start(sentence)
		results := decoder.Step()
		for len(results) == 0 {
			results = decoder.Step()
		}
		if best := &results[0].Hypotheses[0]; len(best.Tokens) != len(sentence.Prefix) || !best.Finished {
			t.Fatalf("line %d: %d pieces were forced, %d came out", i+1, len(sentence.Prefix), len(best.Tokens))
		}
		scores = append(scores, float64(results[0].Hypotheses[0].ModelScores[0]))
	}
	return scores
}

// lastNumber is the number at the end of a line.
func lastNumber(t *testing.T, line string) float64 {
	t.Helper()
	fields := strings.Fields(line)
	if len(fields) == 0 {
		t.Fatal("an empty line")
	}
	number, err := strconv.ParseFloat(fields[len(fields)-1], 64)
	if err != nil || math.IsNaN(number) {
		t.Fatalf("line %q ends with no number", line)
	}
	return number
}
