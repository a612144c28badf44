package paritytest

import (
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/sluice-mt/sluice/internal/nbest"
	"github.com/sluice-mt/sluice/internal/sharedtest"
	"github.com/sluice-mt/sluice/translator/search"
)

const (
	reference = "models/reference"
	student   = "models/ende-tiny"
)

// A recording is a file that Marian wrote, with what made it. Paths are below the shared folder.
type recording struct {
	output  string
	models  []string
	weights []float32
	vocabs  []string
	inputs  []string // one for each source
	target  string   // of marian-scorer: the translations that it scores
	options search.Options
	format  nbest.Format
	list    bool // whether it is an n-best list
	pieces  bool // whether it shows pieces
	int8    bool // whether to translate in 8 bits, whatever the model is stored in
	batched bool // whether Marian decoded more than one sentence at a time
	// shortlist names the text form of a shortlist, used with its default parameters.
	shortlist string
}

// recordings are all files that marian-decoder and marian-scorer wrote: what the commands.txt of the reference folders say, and
// the student's outputs.
func recordings(t *testing.T) []recording {
	t.Helper()
	var all []recording
	for _, folder := range referenceFolders(t) {
		for _, line := range sharedLines(t, path.Join(folder, "commands.txt")) {
			r, ok := parseCommand(t, folder, line)
			if ok && incomparable[r.output] == "" {
				all = append(all, r)
			}
		}
	}
	return append(all, studentRecordings()...)
}

// referenceFolders are the folders that hold commands.
func referenceFolders(t *testing.T) []string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(sharedtest.Path(t, reference), "*", "commands.txt"))
	if err != nil {
		t.Fatal(err)
	}
	for i, name := range found {
		found[i] = path.Join(reference, filepath.Base(filepath.Dir(name)))
	}
	return found
}

// isRecurrent says whether a model is a recurrent one.
func isRecurrent(t *testing.T, folder string) bool {
	name := modelType(t, folder)
	return name == "s2s" || name == "nematus"
}

// modelType reads the type from the description that lies beside a model.
func modelType(t *testing.T, folder string) string {
	t.Helper()
	content, err := os.ReadFile(sharedtest.Path(t, path.Join(folder, "model.yml")))
	if err != nil {
		t.Fatal(err)
	}
	var description struct{ Type string }
	if err := yaml.Unmarshal(content, &description); err != nil {
		t.Fatal(err)
	}
	return description.Type
}

// parseCommand reads a command line of Marian's decoder or scorer. It reports false for another program.
func parseCommand(t *testing.T, folder, line string) (recording, bool) {
	t.Helper()
	words := strings.Fields(line)
	if len(words) == 0 || words[0] != "marian-decoder" && words[0] != "marian-scorer" {
		return recording{}, false
	}
	r := recording{options: search.Options{Beam: 12, MaxLengthFactor: 3}} // Marian's defaults
	for i := 1; i < len(words); {
		name := words[i]
		end := i + 1
		for end < len(words) && !strings.HasPrefix(words[end], "-") && words[end] != ">" {
			end++
		}
		r.set(t, folder, name, words[i+1:end])
		i = end
	}
	if r.list {
		r.options.NBest = r.options.Beam
	}
	return r, true
}

// set takes one option of a command line.
func (r *recording) set(t *testing.T, folder, name string, values []string) {
	t.Helper()
	below := func(name string) string { return path.Join(folder, name) }
	all := func(names []string) []string {
		var paths []string
		for _, name := range names {
			paths = append(paths, below(name))
		}
		return paths
	}
	number := func() float32 {
		x, err := strconv.ParseFloat(values[0], 32)
		if err != nil {
			t.Fatalf("%s: option %s: %v", folder, name, err)
		}
		return float32(x)
	}
	switch name {
	case "-m":
		r.models = all(values)
	case "--weights":
		for i := range values {
			x, err := strconv.ParseFloat(values[i], 32)
			if err != nil {
				t.Fatal(err)
			}
			r.weights = append(r.weights, float32(x))
		}
	case "-v":
		r.vocabs = all(values)
	case "-i":
		r.inputs = all(values)
	case "-t":
		r.inputs, r.target = all(values[:max(1, len(values)-1)]), below(values[len(values)-1])
	case "-o", ">":
		r.output = below(values[0])
	case "-b":
		r.options.Beam = int(number())
	case "-n":
		r.options.Normalize = number()
	case "--word-penalty":
		r.options.WordPenalty = number()
	case "--max-length-factor":
		r.options.MaxLengthFactor = number()
	case "--n-best":
		r.list, r.options.Scores = true, true
	case "--word-scores":
		r.format.WordScores, r.options.WordScores = true, true
	case "--no-spm-decode":
		r.pieces = true
	case "--mini-batch":
		r.batched = number() > 1
	case "--alignment":
		alignment, err := nbest.ParseAlignment(values[0])
		if err != nil {
			t.Fatal(err)
		}
		r.format.Alignment, r.options.Align = alignment, true
	case "--cpu-threads", "--quiet", "--quiet-translation", "--maxi-batch", "--maxi-batch-sort", "--max-length":
	default:
		t.Fatalf("%s: option %s is new to this test", folder, name)
	}
}

// studentRecordings are the outputs for the student; the folder's README says how they were made.
func studentRecordings() []recording {
	var all []recording
	add := func(output, input string, options search.Options, change func(*recording)) {
		options.MaxLengthFactor = 3
		r := recording{
			output: student + "/ref/" + output, models: []string{student + "/model.npz"}, inputs: []string{"data/" + input},
			vocabs: []string{student + "/vocab.spm", student + "/vocab.spm"}, options: options,
		}
		if change != nil {
			change(&r)
		}
		all = append(all, r)
	}
	beam := search.Options{Beam: 4, Normalize: 1}
	add("multi30k-2016.greedy.f32.de", "test-multi30k-2016.en", search.Options{Beam: 1}, nil)
	add("mix-500.greedy.f32.de", "test-mix.en", search.Options{Beam: 1}, nil)
	add("multi30k-2016-300.beam4.n1.f32.de", "test-multi30k-2016.en", beam, nil)
	add("mix-100.beam4.n1.lex100-100.f32.de", "test-mix.en", beam, func(r *recording) { r.shortlist = student + "/lex.s2t.gz" })
	add("mix-100.beam4.n0.6.wp0.2.f32.de", "test-mix.en", search.Options{Beam: 4, Normalize: 0.6, WordPenalty: 0.2}, nil)
	add("mix-100.beam4.n1.nbest.scores.hardalign.f32.txt", "test-mix.en", beam, func(r *recording) {
		r.options.NBest, r.options.WordScores, r.options.Align, r.list = 4, true, true, true
		r.format = nbest.Format{Alignment: nbest.Alignment{Kind: nbest.Hard}, WordScores: true}
	})
	add("mix-20.greedy.softalign.f32.txt", "test-mix.en", search.Options{Beam: 1}, func(r *recording) {
		r.options.Align, r.format.Alignment.Kind = true, nbest.Soft
	})
	return all
}

// notCompared are the files of the reference folders that are no output of a decoder, or are compared elsewhere.
var notCompared = map[string]string{
	"model.npz":          "a model",
	"model.yml":          "its description",
	"names.txt":          "its parameters",
	"training.txt":       "how it was trained",
	"commands.txt":       "the commands that this test reads",
	"decoder.yml":        "options, with which the tests of the command translate",
	"first12.en":         "an input",
	"model.float32.bin":  "a model; package marian writes it byte for byte",
	"model.intgemm8.bin": "a model; package marian writes it byte for byte",
	"README.md":          "about the folder",
}

// incomparable are outputs for which Marian computes something else than its decoder does.
var incomparable = map[string]string{
	reference + "/transformer-prenorm/scorer.reference.txt": "the scorer normalises keys and values that the decoder does not",
}

// Every file that Marian wrote is compared. A new one fails until it is.
func TestNothingIsLeftOut(t *testing.T) {
	compared := map[string]bool{}
	for _, r := range recordings(t) {
		if compared[r.output] {
			t.Errorf("%s is made by two commands", r.output)
		}
		compared[r.output] = true
	}
	folders := referenceFolders(t)
	if len(folders) < 15 || len(compared) < 100 {
		t.Errorf("%d folders and %d outputs: fewer than there were", len(folders), len(compared))
	}
	for _, folder := range append(folders, student+"/ref") {
		entries, err := os.ReadDir(sharedtest.Path(t, folder))
		if err != nil {
			t.Fatal(err)
		}
		for _, entry := range entries {
			name := path.Join(folder, entry.Name())
			left := notCompared[entry.Name()] != "" || incomparable[name] != ""
			if compared[name] == left {
				t.Errorf("%s: compared %v, left out %v", name, compared[name], left)
			}
			delete(compared, name)
		}
	}
	for name := range compared {
		t.Errorf("%s does not exist", name)
	}
}

// source returns what is translated, a line for each sentence; where the models read several sources, tabs are between them.
func (r *recording) source(t *testing.T) []string {
	t.Helper()
	lines := slices.Clone(sharedLines(t, r.inputs[0]))
	for _, name := range r.inputs[1:] {
		for i, line := range sharedLines(t, name) {
			lines[i] += "\t" + line
		}
	}
	return lines
}

// sharedLines returns the lines of a file of the shared folder.
func sharedLines(t *testing.T, name string) []string {
	t.Helper()
	content, err := os.ReadFile(sharedtest.Path(t, name))
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSuffix(string(content), "\n"), "\n")
}
