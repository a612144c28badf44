package paritytest

import (
	"math"
	"path"
	"strings"
	"testing"

	"github.com/sluice-mt/sluice/internal/sharedtest"
	"github.com/sluice-mt/sluice/translator/cpumodel"
	"github.com/sluice-mt/sluice/translator/marian"
	"github.com/sluice-mt/sluice/translator/model"
	"github.com/sluice-mt/sluice/translator/search"
)

// In 16 bits nearly all best translations of recurrent models and ensembles are those that Marian's beams gave in float32, and their
// normalised scores too.
func TestRecordingsInInt16(t *testing.T) {
	const lines = 30 // of each
	for _, r := range recordings(t) {
		if !r.list || r.quantised() || !strings.HasPrefix(r.output, reference) || len(r.models) == 1 && !isRecurrent(t, path.Dir(r.models[0])) {
			continue
		}
		s := r.open(t)
		for i, name := range r.models {
			s.device.weights[i] = inInt16(t, name, s)
		}
		want, equal, distance := r.group(t, sharedLines(t, r.output)), 0, 0.0
		for i, result := range s.translate(t, &r, r.source(t)[:lines], nil) {
			best := &result.Hypotheses[0]
			if best.Text != strings.Split(want[i][0], " ||| ")[1] {
				continue
			}
			equal++
			if best.Text != "" {
				distance = max(distance, math.Abs(float64(best.Score)-lastNumber(t, want[i][0])))
			}
		}
		t.Logf("%s: %d of %d lines are equal, their normalised scores within %.2g", r.output, equal, lines, distance)
		if equal*10 < lines*9 || distance > 0.01 {
			t.Errorf("%s: only %d of %d lines are equal, their normalised scores within %.2g", r.output, equal, lines, distance)
		}
	}
}

// inInt16 loads a model in 16 bits.
func inInt16(t *testing.T, name string, s *setup) *cpumodel.Weights {
	t.Helper()
	file, err := marian.Open(sharedtest.Path(t, name))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	m, err := model.Load(file, nil)
	if err != nil {
		t.Fatal(err)
	}
	weights, err := cpumodel.Load(m, cpumodel.Int16, cpumodel.Options{Suppress: []search.Token{s.text.Target.Unk()}})
	if err != nil {
		t.Fatal(err)
	}
	return weights
}
