package paritytest

import (
	"math"
	"path"
	"strings"
	"testing"
)

// Mainline Marian quantises activations with one multiplier for a whole tensor, and so by company and beam; we use one for
// each row. Lines cannot all be equal, then, but most have to be, and where the best translation is the same its log-probability has
// to be nearly the same.
func TestQuantisedRecordings(t *testing.T) {
	for _, r := range recordings(t) {
		if !r.quantised() {
			continue
		}
		t.Run(strings.TrimPrefix(r.output, "models/"), func(t *testing.T) {
			t.Parallel()
			want := r.group(t, sharedLines(t, r.output))
			same, distance := 0, 0.0
			for i, result := range r.open(t).translate(t, &r, r.source(t), nil) {
				best := &result.Hypotheses[0]
				text := want[i][0]
				if r.list {
					text = strings.Split(text, " ||| ")[1]
				}
				if best.Text != text {
					continue
				}
				same++
				if r.list && text != "" {
					distance = max(distance, math.Abs(float64(best.Score)-lastNumber(t, want[i][0])))
				}
			}
			t.Logf("%d of %d lines are equal, their normalised scores within %.2g", same, len(want), distance)
			if same*10 < len(want)*6 || distance > 0.05 {
				t.Errorf("only %d of %d lines are equal, their normalised scores within %.2g", same, len(want), distance)
			}
		})
	}
}

// Recurrent models, of which no quantised files are recorded, are quantised at load: most greedy translations stay what they
// are, and all scores of the others are close as long as the words agree.
func TestRecurrentModelsInInt8(t *testing.T) {
	for _, r := range recordings(t) {
		if !strings.HasSuffix(r.output, "beam4.nbest.txt") || len(r.models) > 1 || !isRecurrent(t, path.Dir(r.models[0])) {
			continue
		}
		t.Run(strings.TrimPrefix(r.output, "models/"), func(t *testing.T) {
			t.Parallel()
			r.int8 = true
			want := r.group(t, sharedLines(t, r.output))
			same, distance := 0, 0.0
			for i, result := range r.open(t).translate(t, &r, r.source(t), nil) {
				best := &result.Hypotheses[0]
				if best.Text != strings.Split(want[i][0], " ||| ")[1] {
					continue
				}
				same++
				if best.Text != "" {
					distance = max(distance, math.Abs(float64(best.Score)-lastNumber(t, want[i][0])))
				}
			}
			t.Logf("%d of %d lines are equal, their normalised scores within %.2g", same, len(want), distance)
			if same*10 < len(want)*6 || distance > 0.1 {
				t.Errorf("only %d of %d lines are equal, their normalised scores within %.2g", same, len(want), distance)
			}
		})
	}
}
