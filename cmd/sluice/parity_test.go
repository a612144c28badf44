package main

import (
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/sluice-mt/sluice/internal/sharedtest"
)

// transformers are the folders of small models that Marian itself trained and decoded.
var transformers = []string{
	"transformer-selfatt", "transformer-prenorm", "transformer-aan", "transformer-aan-plain", "transformer-ssru-tied",
	"transformer-sru", "transformer-untied", "transformer-rms", "right-left",
}

// nearTies are lines on which two continuations are closer to each other than float32 sums in another order.
var nearTies = map[string][]int{"transformer-aan-plain": {55}}

// translateTo runs the command and returns the lines that it writes.
func translateTo(t *testing.T, arguments ...string) []string {
	t.Helper()
	output := filepath.Join(t.TempDir(), "out")
	arguments = append([]string{"translate", "--keep-repetition", "--quiet", "--tolerate", "all", "-o", output}, arguments...)
	if code := run(arguments); code != exitOK {
		t.Fatalf("sluice %s: exit code %d", strings.Join(arguments, " "), code)
	}
	return readTextLines(t, output)
}

func readTextLines(t *testing.T, path string) []string {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSuffix(string(content), "\n"), "\n")
}

// sameLine compares the fields of a line. Text and sentence numbers are the same bytes; numbers after them, which are
// scores and alignments, may differ by a thousandth. An n-best line begins with its number, another with the text.
func sameLine(got, want string, exact int) bool {
	g, w := strings.Split(got, " ||| "), strings.Split(want, " ||| ")
	if len(g) != len(w) {
		return false
	}
	for i := range w {
		if g[i] != w[i] && (i < exact || !sameNumbers(g[i], w[i])) {
			return false
		}
	}
	return true
}

func sameNumbers(got, want string) bool {
	between := func(r rune) bool { return r == ' ' || r == ',' }
	g, w := strings.FieldsFunc(got, between), strings.FieldsFunc(want, between)
	if len(g) != len(w) {
		return false
	}
	for i := range g {
		if g[i] == w[i] {
			continue
		}
		a, errA := strconv.ParseFloat(g[i], 64)
		b, errB := strconv.ParseFloat(w[i], 64)
		if errA != nil || errB != nil || math.Abs(a-b) > 1.0001e-3 { // six printed digits are not exact
			return false
		}
	}
	return true
}

// compareLines holds what was printed against what Marian printed. Lines of ties (numbered from 1) may differ.
func compareLines(t *testing.T, got, want []string, ties []int) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%d lines; Marian has %d", len(got), len(want))
	}
	tied := map[int]bool{}
	for _, line := range ties {
		tied[line] = true
	}
	for i := range want {
		if !sameLine(got[i], want[i], 1) && !tied[i+1] {
			t.Errorf("line %d:\n got %s\nwant %s", i+1, got[i], want[i])
		}
	}
}

// The command prints what marian-decoder printed for the same options and models, n-best lists, word scores and
// alignments included.
func TestPrintsWhatMarianPrints(t *testing.T) {
	reference := sharedtest.Path(t, "models", "reference")
	input := filepath.Join(reference, "data", "input.en")
	for _, name := range transformers {
		t.Run(name, func(t *testing.T) {
			folder := filepath.Join(reference, name)
			config := filepath.Join(folder, "decoder.yml")
			got := translateTo(t, "-c", config, "-i", input, "-b", "1", "--n-best=false", "--word-scores=false")
			compareLines(t, got, readTextLines(t, filepath.Join(folder, "greedy.de")), nearTies[name])
			if testing.Short() {
				return
			}
			got = translateTo(t, "-c", config, "-i", input, "-b", "4", "-n", "1", "--n-best", "--word-scores")
			compareNBest(t, got, readTextLines(t, filepath.Join(folder, "beam4.nbest.txt")))
		})
	}
}

// compareNBest is compareLines, but for empty lines the models are not asked: their F0= is 0, not the model's score.
func compareNBest(t *testing.T, got, want []string) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%d lines; Marian has %d", len(got), len(want))
	}
	for i := range want {
		if fields := strings.Split(want[i], " ||| "); fields[1] == "" {
			if ours := strings.Split(got[i], " ||| "); ours[0] != fields[0] || ours[1] != "" {
				t.Errorf("line %d: an empty line gives %q", i+1, got[i])
			}
			continue
		}
		if !sameLine(got[i], want[i], 2) {
			t.Errorf("line %d:\n got %s\nwant %s", i+1, got[i], want[i])
		}
	}
}

func TestPrintsMarianEnsembles(t *testing.T) {
	reference := sharedtest.Path(t, "models", "reference")
	joint := filepath.Join(reference, "vocab", "joint.spm")
	model := func(name string) string { return filepath.Join(reference, name, "model.npz") }
	got := translateTo(t, "-m", model("transformer-selfatt"), model("transformer-prenorm"), "-v", joint, joint, "--weights", "0.6", "0.4",
		"-b", "4", "-n", "1", "--n-best", "--word-scores", "-i", filepath.Join(reference, "data", "input.en"))
	compareNBest(t, got, readTextLines(t, filepath.Join(reference, "ensemble", "selfatt-prenorm.beam4.nbest.txt")))
}

func TestPrintsMarianBeamsOfTheStudent(t *testing.T) {
	student := sharedtest.Path(t, "models", "ende-tiny")
	data := sharedtest.Path(t, "data")
	base := []string{"-m", filepath.Join(student, "model.npz"), "--shortlist", "none", "-b", "4"}
	tests := []struct {
		name, source, recorded string
		lines                  int
		options                []string
	}{
		{"n-best", "test-mix.en", "mix-100.beam4.n1.nbest.scores.hardalign.f32.txt", 100, []string{"-n", "1", "--n-best", "--word-scores", "--alignment", "hard"}},
		{"word penalty", "test-mix.en", "mix-100.beam4.n0.6.wp0.2.f32.de", 100, []string{"-n", "0.6", "--word-penalty", "0.2"}},
		{"multi30k", "test-multi30k-2016.en", "multi30k-2016-300.beam4.n1.f32.de", 300, []string{"-n", "1"}},
		{"soft alignment", "test-mix.en", "mix-20.greedy.softalign.f32.txt", 20, []string{"-b", "1", "--alignment", "soft"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			lines := readTextLines(t, filepath.Join(data, test.source))[:test.lines]
			input := filepath.Join(t.TempDir(), "in")
			if err := os.WriteFile(input, []byte(strings.Join(lines, "\n")+"\n"), 0o666); err != nil {
				t.Fatal(err)
			}
			got := translateTo(t, append(append([]string{"-i", input}, base...), test.options...)...)
			want := readTextLines(t, filepath.Join(student, "ref", test.recorded))
			if test.name == "n-best" {
				compareNBest(t, got, want)
				return
			}
			compareLines(t, got, want, nil)
		})
	}
}

// Recurrent and multi-source models are refused by name.
func TestRefusesOtherFamilies(t *testing.T) {
	reference := sharedtest.Path(t, "models", "reference")
	joint := filepath.Join(reference, "vocab", "joint.spm")
	for _, name := range []string{"s2s-gru", "s2s-deep", "nematus", "multi-transformer"} {
		if code := run([]string{"translate", "-m", filepath.Join(reference, name, "model.npz"), "-v", joint, joint, "-i", os.DevNull}); code != exitModel {
			t.Errorf("%s: exit code %d, not %d", name, code, exitModel)
		}
	}
}
