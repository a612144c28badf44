package main

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/sluice-mt/sluice/internal/sharedtest"
)

// nearTies are the lines of outputs on which two continuations are closer to each other than float32 sums in another order:
// package paritytest shows that they are.
var nearTies = map[string][]int{
	"transformer-aan-plain/greedy.de":             {55},
	"transformer-aan-plain/greedy.batch8.de":      {55},
	"transformer-aan-plain/greedy.pieces.txt":     {55},
	"transformer-aan-plain/greedy.align-hard.txt": {55},
}

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
		if errA != nil || errB != nil || math.Abs(a-b) > 1e-3+1e-5*math.Abs(b) { // six printed digits
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
	for i := range want {
		if !sameLine(got[i], want[i], 1) && !slices.Contains(ties, i+1) {
			t.Errorf("line %d:\n got %s\nwant %s", i+1, got[i], want[i])
		}
	}
}

// A recordedCommand is a command line of marian-decoder, to be run in its folder, and the file that it wrote there.
type recordedCommand struct {
	folder    string
	arguments []string // without -o and its value
	output    string
}

// recordedCommands are the command lines by which marian-decoder wrote the reference outputs.
func recordedCommands(t *testing.T) []recordedCommand {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(sharedtest.Path(t, "models", "reference"), "*", "commands.txt"))
	if err != nil || len(found) == 0 {
		t.Fatalf("no commands: %v", err)
	}
	var all []recordedCommand
	for _, name := range found {
		for _, line := range readTextLines(t, name) {
			words := strings.Fields(line)
			if words[0] != "marian-decoder" {
				continue
			}
			i := slices.Index(words, "-o")
			output := words[i+1]
			all = append(all, recordedCommand{folder: filepath.Dir(name), output: output, arguments: slices.Delete(words, i, i+2)[1:]})
		}
	}
	return all
}

func (c *recordedCommand) name() string { return filepath.Base(c.folder) + "/" + c.output }

// inputs are the texts that the models of the folder were tried with.
func (c *recordedCommand) inputs() []string {
	switch filepath.Base(c.folder) {
	case "nematus":
		return []string{"input.word.en"}
	case "multi-transformer":
		return []string{"input.en", "input.mt"}
	}
	return []string{"input.en"}
}

// The command prints what marian-decoder printed for the same command line: translations, pieces, n-best lists of single
// models and ensembles, word scores, alignments. One thing is added: normalisation is on here unless it is turned off.
func TestPrintsWhatMarianPrints(t *testing.T) {
	for _, c := range recordedCommands(t) {
		t.Run(c.name(), func(t *testing.T) {
			t.Chdir(c.folder)
			if !slices.Contains(c.arguments, "-n") {
				c.arguments = append(c.arguments, "-n", "0")
			}
			got, want := translateTo(t, c.arguments...), readTextLines(t, c.output)
			switch {
			case strings.Contains(c.output, "intgemm8"):
				compareMost(t, bestOfEach(got), bestOfEach(want))
			case strings.Contains(c.output, "batch8"):
				compareButForTails(t, got, want, nearTies[c.name()])
			case slices.Contains(c.arguments, "--n-best"):
				compareNBest(t, got, want)
			default:
				compareLines(t, got, want, nearTies[c.name()])
			}
		})
	}
}

// compareMost wants more than half of the texts to be equal: Marian's multipliers of 8-bit activations are those of a whole
// batch, ours a row's. Package paritytest looks at the scores as well.
func compareMost(t *testing.T, got, want []string) {
	t.Helper()
	equal := 0
	for i := range min(len(got), len(want)) {
		if got[i] == want[i] {
			equal++
		}
	}
	if len(got) != len(want) || equal*2 <= len(want) {
		t.Errorf("%d lines, %d of them equal; Marian has %d", len(got), equal, len(want))
	}
}

// bestOfEach returns the first text for each sentence of an n-best list. Lines that are no list are returned as they are.
func bestOfEach(lines []string) []string {
	var best []string
	last := ""
	for _, line := range lines {
		fields := strings.Split(line, " ||| ")
		if len(fields) == 1 {
			return lines
		}
		if fields[0] != last {
			best = append(best, fields[1])
		}
		last = fields[0]
	}
	return best
}

// compareButForTails compares with lines that Marian decoded in batches, where the longest source sets the cap of all and the
// first sentence that reaches it ends the others.
func compareButForTails(t *testing.T, got, want []string, ties []int) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%d lines; Marian has %d", len(got), len(want))
	}
	for i := range want {
		if !strings.HasPrefix(got[i], want[i]) && !strings.HasPrefix(want[i], got[i]) && !slices.Contains(ties, i+1) {
			t.Errorf("line %d:\n got %s\nwant %s", i+1, got[i], want[i])
		}
	}
}

// The configuration that Marian wrote beside each model is enough to get its n-best list.
func TestReadsMarianConfigurations(t *testing.T) {
	configs, err := filepath.Glob(filepath.Join(sharedtest.Path(t, "models", "reference"), "*", "decoder.yml"))
	if err != nil || len(configs) == 0 {
		t.Fatalf("no configurations: %v", err)
	}
	for _, config := range configs {
		c := recordedCommand{folder: filepath.Dir(config), output: "beam4.nbest.txt"}
		t.Run(filepath.Base(c.folder), func(t *testing.T) {
			arguments := []string{"-c", config, "-i"}
			for _, name := range c.inputs() {
				arguments = append(arguments, sharedtest.Path(t, "models", "reference", "data", name))
			}
			got := translateTo(t, arguments...)
			compareNBest(t, got, readTextLines(t, filepath.Join(c.folder, c.output)))
		})
	}
}

// Marian's own alignments by threshold are not recorded, but the weights that they come from are.
func TestPrintsAlignmentsByThreshold(t *testing.T) {
	t.Chdir(sharedtest.Path(t, "models", "reference", "transformer-selfatt"))
	joint := filepath.Join("..", "vocab", "joint.spm")
	got := translateTo(t, "-m", "model.npz", "-v", joint, joint, "-i", "first12.en", "--alignment", "0.2")
	for i, line := range readTextLines(t, "greedy.align-soft.first12.txt") {
		text, weights, _ := strings.Cut(line, " ||| ")
		if want := text + " ||| " + pairsAbove(t, weights, 0.2); got[i] != want {
			t.Errorf("line %d:\n got %s\nwant %s", i+1, got[i], want)
		}
	}
}

// pairsAbove turns a printed soft alignment into the pairs of source and target whose weight is above a threshold, sorted.
func pairsAbove(t *testing.T, soft string, threshold float64) string {
	t.Helper()
	var pairs [][2]int
	for target, row := range strings.Fields(soft) {
		for source, field := range strings.Split(row, ",") {
			weight, err := strconv.ParseFloat(field, 64)
			if err != nil {
				t.Fatal(err)
			}
			if weight > threshold {
				pairs = append(pairs, [2]int{source, target})
			}
		}
	}
	slices.SortStableFunc(pairs, func(a, b [2]int) int { return a[0] - b[0] })
	var words []string
	for _, pair := range pairs {
		words = append(words, fmt.Sprintf("%d-%d", pair[0], pair[1]))
	}
	return strings.Join(words, " ")
}

// compareNBest is compareLines for lists, whose lines begin with a number that has to be the same.
func compareNBest(t *testing.T, got, want []string) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%d lines; Marian has %d", len(got), len(want))
	}
	for i := range want {
		if !sameLine(got[i], want[i], 2) {
			t.Errorf("line %d:\n got %s\nwant %s", i+1, got[i], want[i])
		}
	}
}

func TestPrintsMarianBeamsOfTheStudent(t *testing.T) {
	student := sharedtest.Path(t, "models", "ende-tiny")
	data := sharedtest.Path(t, "data")
	base := []string{"-m", filepath.Join(student, "model.npz"), "-b", "4"}
	tests := []struct {
		name, source, recorded string
		lines                  int
		options                []string
	}{
		{"n-best", "test-mix.en", "mix-100.beam4.n1.nbest.scores.hardalign.f32.txt", 100, []string{"-n", "1", "--n-best", "--word-scores", "--alignment", "hard"}},
		{"shortlist", "test-mix.en", "mix-100.beam4.n1.lex100-100.f32.de", 100, []string{"-n", "1", "--shortlist", filepath.Join(student, "lex.s2t.gz"), "100", "100"}},
		{"word penalty", "test-mix.en", "mix-100.beam4.n0.6.wp0.2.f32.de", 100, []string{"-n", "0.6", "--word-penalty", "0.2"}},
		{"multi30k", "test-multi30k-2016.en", "multi30k-2016-300.beam4.n1.f32.de", 300, []string{"-n", "1"}},
		{"soft alignment", "test-mix.en", "mix-20.greedy.softalign.f32.txt", 20, []string{"-b", "1", "--alignment", "soft"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if testing.Short() && test.lines > 100 {
				t.Skip("translates hundreds of lines")
			}
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

// A file with a column for each source gives what as many files give.
func TestReadsSourcesFromColumns(t *testing.T) {
	t.Chdir(sharedtest.Path(t, "models", "reference", "multi-transformer"))
	first := readTextLines(t, filepath.Join("..", "data", "input.en"))
	second := readTextLines(t, filepath.Join("..", "data", "input.mt"))
	var rows strings.Builder
	for i := range first {
		fmt.Fprintf(&rows, "%s\t%s\n", first[i], second[i])
	}
	joint := filepath.Join("..", "vocab", "joint.spm")
	for _, name := range []string{"in.tsv", "in.txt"} {
		input := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(input, []byte(rows.String()), 0o666); err != nil {
			t.Fatal(err)
		}
		got := translateTo(t, "-m", "model.npz", "-v", joint, joint, joint, "-i", input)
		compareLines(t, got, readTextLines(t, "greedy.de"), nil)
	}
}

// What does not fit a model of two sources is refused with what would.
func TestSourcesMustBeComplete(t *testing.T) {
	t.Chdir(sharedtest.Path(t, "models", "reference", "multi-transformer"))
	joint, data := filepath.Join("..", "vocab", "joint.spm"), filepath.Join("..", "data", "input.en")
	for _, test := range []struct {
		arguments []string
		want      string
	}{
		{[]string{"-v", joint, joint, "-i", data}, "-v names 2 vocabularies, but the model has 3"},
		{[]string{"-v", joint, joint, joint, "-i", data, data, data}, "the model reads 2 sources, but there are 3 inputs"},
		{[]string{"-v", joint, filepath.Join("..", "vocab", "src.spm"), joint, "-i", data, data}, "src.spm has 1500 pieces, but the model model.npz reads 2000"},
	} {
		root := newRootCommand(beginEngine)
		root.SetArgs(prepareArguments(root, append([]string{"translate", "-m", "model.npz"}, test.arguments...)))
		if err := root.Execute(); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%v: %v, want %q", test.arguments, err, test.want)
		}
	}
}

// Activations are quantised row by row unless the arithmetic is named by one of the names that stand for the model's alphas.
func TestAlphasAreUsedByName(t *testing.T) {
	model := sharedtest.Path(t, "models", "ende-tiny", "model.intgemm.alphas.bin")
	input := sharedtest.Path(t, "models", "reference", "data", "input.en")
	translate := func(options ...string) []string {
		return translateTo(t, append([]string{"-m", model, "-i", input}, options...)...)
	}
	rows := translate()
	for _, options := range [][]string{{"--precision", "int8"}, {"--gemm-precision", "int8shiftAll"}, {"--gemm-precision", "int8"}} {
		if !slices.Equal(translate(options...), rows) {
			t.Errorf("%v differs from the default", options)
		}
	}
	alphas := translate("--gemm-precision", "int8shiftAlphaAll")
	if slices.Equal(alphas, rows) {
		t.Error("int8shiftAlphaAll does not use the alphas")
	}
	if !slices.Equal(translate("--gemm-precision", "int8Alpha"), alphas) {
		t.Error("int8Alpha differs from int8shiftAlphaAll")
	}
}

// A language model alone would give every line the same translation.
func TestLanguageModelAlone(t *testing.T) {
	t.Chdir(sharedtest.Path(t, "models", "reference", "lm-transformer"))
	joint := filepath.Join("..", "vocab", "joint.spm")
	arguments := []string{"translate", "--quiet", "-m", "model.npz", "-v", joint, joint, "-i", filepath.Join("..", "data", "input.en")}
	if code := run(arguments); code != exitModel {
		t.Errorf("exit code %d, want %d", code, exitModel)
	}
}
