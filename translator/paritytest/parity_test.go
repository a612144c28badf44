package paritytest

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/sluice-mt/sluice/internal/job"
)

// quantised says whether the recording was made with an 8-bit model.
func (r *recording) quantised() bool { return strings.Contains(r.models[0], "intgemm8") }

// print returns the lines that Marian prints for a result.
func (r *recording) print(id int64, result *job.Result) []string {
	hypotheses := slices.Clone(result.Hypotheses)
	if r.pieces {
		for i := range hypotheses {
			hypotheses[i].Text = strings.TrimSuffix(strings.Join(hypotheses[i].Pieces, " "), " </s>")
		}
	}
	if !r.list {
		return []string{string(r.format.AppendLine(nil, &hypotheses[0]))}
	}
	return strings.Split(string(r.format.AppendNBest(nil, id, hypotheses)), "\n")
}

// group gathers the lines that belong to each sentence.
func (r *recording) group(t *testing.T, lines []string) [][]string {
	t.Helper()
	var groups [][]string
	for _, line := range lines {
		if !r.list {
			groups = append(groups, []string{line})
			continue
		}
		number, _, _ := strings.Cut(line, " ||| ")
		id, err := strconv.Atoi(number)
		if err != nil || id != len(groups) && id != len(groups)-1 {
			t.Fatalf("line %q does not follow", line)
		}
		if id == len(groups) {
			groups = append(groups, nil)
		}
		groups[id] = append(groups[id], line)
	}
	return groups
}

// near says whether two printed scores or weights are within a thousandth, as far as six significant digits can tell.
func near(x, y float64) bool { return math.Abs(x-y) <= 1e-3+1e-5*math.Abs(y) }

// sameLine compares a line field by field: texts exactly, numbers with a tolerance.
func (r *recording) sameLine(got, want string) bool {
	g, w := strings.Split(got, " ||| "), strings.Split(want, " ||| ")
	if len(g) != len(w) {
		return false
	}
	exact := 1
	if r.list {
		exact = 2
	}
	for i := range w {
		if g[i] != w[i] && (i < exact || !sameNumbers(g[i], w[i])) {
			return false
		}
	}
	return true
}

// sameNumbers compares words, numbers among them with a tolerance.
func sameNumbers(got, want string) bool {
	separates := func(r rune) bool { return r == ' ' || r == ',' }
	g, w := strings.FieldsFunc(got, separates), strings.FieldsFunc(want, separates)
	if len(g) != len(w) {
		return false
	}
	for i := range g {
		if g[i] == w[i] {
			continue
		}
		x, errX := strconv.ParseFloat(g[i], 64)
		y, errY := strconv.ParseFloat(w[i], 64)
		if errX != nil || errY != nil || !near(x, y) {
			return false
		}
	}
	return true
}

// same says whether a result is what Marian wrote. An empty line's never reaches the model, so that Marian's F0= is left out.
func (r *recording) same(id int, result *job.Result, want []string) bool {
	if r.batched {
		return sameButForTail(result, want[0])
	}
	return slices.EqualFunc(r.print(int64(id), result), want, r.sameLine)
}

// sameButForTail compares with a line that Marian decoded in a batch. There the longest source sets the cap of all, and the
// first sentence that reaches it ends the others: either may have a tail that the other lacks.
func sameButForTail(result *job.Result, want string) bool {
	got := result.Hypotheses[0].Text
	cut := result.Flags&job.Unfinished != 0
	return got == want || strings.HasPrefix(got, want) || cut && strings.HasPrefix(want, got)
}

// Translations, scores, alignments and n-best lists are Marian's, for all lines.
func TestRecordings(t *testing.T) {
	for _, r := range recordings(t) {
		if r.target != "" || r.quantised() {
			continue
		}
		t.Run(strings.TrimPrefix(r.output, "models/"), func(t *testing.T) {
			if testing.Short() && strings.Contains(r.output, "multi30k") {
				t.Skip("translates hundreds of lines")
			}
			t.Parallel()
			r.test(t)
		})
	}
}

func (r *recording) test(t *testing.T) {
	want := r.group(t, sharedLines(t, r.output))
	input := r.source(t)[:len(want)]
	s := r.open(t)
	tied, tails := 0, 0
	for i, result := range s.translate(t, r, input, nil) {
		if r.batched && result.Hypotheses[0].Text != want[i][0] {
			tails++
		}
		if strings.TrimSpace(input[i]) == "" || r.same(i, &result, want[i]) {
			continue
		}
		t.Logf("line %d is\n%s\nwant\n%s", i+1, strings.Join(r.print(int64(i), &result), "\n"), strings.Join(want[i], "\n"))
		if !r.withinRounding(t, s, i, input[i], want[i]) {
			t.Errorf("line %d is not Marian's, nor within rounding", i+1)
		}
		tied++
	}
	if tied > 1 && tied > len(want)/200 {
		t.Errorf("%d of %d lines are Marian's only when rounded otherwise", tied, len(want))
	}
	if tails > len(want)/3 {
		t.Errorf("%d of %d lines end elsewhere than in Marian's batches", tails, len(want))
	}
}

// attempts is how many ways of rounding are tried before a line is said to be wrong.
const attempts = 200

// withinRounding shows that a line that differs is a tie: that search gives what Marian gave, scores and all, once
// log-probabilities are moved by no more than float32 arithmetic in another order moves them.
func (r *recording) withinRounding(t *testing.T, s *setup, i int, input string, want []string) bool {
	for seed := range uint64(attempts) {
		result := s.translate(t, r, []string{input}, &noise{seed: seed, size: reach})
		if r.same(i, &result[0], want) {
			t.Logf("line %d is Marian's with log-probabilities rounded in another way, the %d. that was tried", i+1, seed+1)
			return true
		}
	}
	return false
}

// Rounding explains no error: what is wrong by a piece or by more than the tolerance is not found among the ways to round.
func TestRoundingExcusesNoError(t *testing.T) {
	for _, r := range recordings(t) {
		if r.output != reference+"/transformer-aan-plain/greedy.pieces.txt" {
			continue
		}
		s := r.open(t)
		want := sharedLines(t, r.output)
		for _, i := range []int{3, 54} { // the second is a tie
			input := r.source(t)[i]
			for _, wrong := range []string{strings.Replace(want[i], " ▁", " ", 1), strings.Replace(want[i], "= -", "= -1", 1)} {
				if wrong == want[i] {
					t.Fatalf("line %d cannot be spoilt", i+1)
				}
				if r.withinRounding(t, s, i, input, []string{wrong}) {
					t.Errorf("line %d spoilt is within rounding", i+1)
				}
			}
		}
	}
}
