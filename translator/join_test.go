package translator

import (
	"fmt"
	"slices"
	"testing"

	"github.com/sluice-mt/sluice/internal/job"
	"github.com/sluice-mt/sluice/translator/split"
)

// dividedTask is a task of three parts, of which the middle one was only white space: two source pieces and "a b", three
// source pieces and "c". All but the last end of sentence disappear.
func dividedTask(backwards bool) *task {
	part := func(text string, pieces []string, scores []float32, finished bool, alignment ...[]float32) job.Result {
		return job.Result{Hypotheses: []job.Hypothesis{{
			Text: text, Pieces: pieces, WordScores: scores, ModelScores: []float32{-1}, Score: -1, Finished: finished, Alignment: alignment,
		}}}
	}
	return &task{
		backwards: backwards, parts: make([]split.Segment, 3),
		results: []job.Result{
			part("a b", []string{"a", "b", "</s>"}, []float32{-1, -2, -3}, true, []float32{.7, .2, .1}, []float32{.1, .8, .1}, []float32{0, 0, 1}),
			{},
			part("c", []string{"c", "</s>"}, []float32{-4, -5}, true, []float32{.1, .2, .3, .4}, []float32{.4, .3, .2, .1}),
		},
	}
}

func TestJoinedPartsGoTogether(t *testing.T) {
	for _, c := range []struct {
		backwards bool
		pieces    string
		scores    string
		alignment string
	}{
		{false, "[a b c </s>]", "[-1 -2 -4 -5]",
			"[[0.7 0.2 0 0 0 0.1] [0.1 0.8 0 0 0 0.1] [0 0 0.1 0.2 0.3 0.4] [0 0 0.4 0.3 0.2 0.1]]"},
		{true, "[a b c </s>]", "[-4 -1 -2 -3]",
			"[[0.1 0.2 0.3 0 0 0.4] [0 0 0 0.7 0.2 0.1] [0 0 0 0.1 0.8 0.1] [0 0 0 0 0 1]]"},
	} {
		task := dividedTask(c.backwards)
		h := task.joinHypotheses(0)
		if got := fmt.Sprint(h.Pieces); got != c.pieces {
			t.Errorf("pieces %s, want %s", got, c.pieces)
		}
		if got := fmt.Sprint(h.WordScores); got != c.scores {
			t.Errorf("word scores %s, want %s", got, c.scores)
		}
		if got := fmt.Sprint(h.Alignment); got != c.alignment {
			t.Errorf("alignment\n%s, want\n%s", got, c.alignment)
		}
		if !h.Finished || !slices.Equal(h.ModelScores, []float32{-2}) {
			t.Errorf("finished %v, scores %v", h.Finished, h.ModelScores)
		}
	}
}

// A part that the length cap ended has no end of sentence to leave out.
func TestJoinedPartWithoutEnd(t *testing.T) {
	task := dividedTask(false)
	task.results[0].Hypotheses[0].Finished = false
	h := task.joinHypotheses(0)
	if len(h.Pieces) != 5 || len(h.WordScores) != 5 || len(h.Alignment) != 5 {
		t.Errorf("%d pieces, %d scores, %d rows; want 5 of each", len(h.Pieces), len(h.WordScores), len(h.Alignment))
	}
}

func TestJoinedAlignmentIsBounded(t *testing.T) {
	wide := make([][]float32, 1500)
	for i := range wide {
		wide[i] = make([]float32, 1500)
	}
	part := &job.Hypothesis{Alignment: wide}
	if got := joinAlignments([]*job.Hypothesis{part}); len(got) != 1500 {
		t.Errorf("one part of 1500 pieces: %d rows", len(got))
	}
	if got := joinAlignments([]*job.Hypothesis{part, part}); got != nil {
		t.Errorf("two parts of 1500 pieces: %d rows, more than may be", len(got))
	}
}
