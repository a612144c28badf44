package recipe

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-mt/sluice/internal/jobfile"
	"github.com/sluice-mt/sluice/train"
)

// A shouter is an Engine that translates into capitals and counts its calls. It fails when it is told to.
type shouter struct {
	calls []string // base names of outputs
	fail  error
}

func (s *shouter) Check(option jobfile.Option) error {
	if option.Name == "beam-size" || option.Name == "output-sampling" || option.Name == "precision" {
		return nil
	}
	return errors.New("unknown option")
}

func (s *shouter) Train(ctx context.Context, config train.Config, logger *slog.Logger) (train.Result, error) {
	return train.Run(ctx, config, logger)
}

// Rescore takes the first translation of each sentence.
func (s *shouter) Rescore(_ context.Context, r Rescoring) error {
	s.calls = append(s.calls, filepath.Base(r.Output))
	if s.fail != nil {
		return s.fail
	}
	if r.Weights != "" {
		if err := os.WriteFile(r.Weights, []byte(r.TuneReference), 0o666); err != nil {
			return err
		}
	}
	return WriteText(r.Output, func(out *bufio.Writer) error {
		last := ""
		for line, err := range Lines(r.List) {
			if err != nil {
				return err
			}
			if fields := strings.Split(line, " ||| "); fields[0] != last {
				last = fields[0]
				fmt.Fprintln(out, fields[1])
			}
		}
		return nil
	})
}

func (s *shouter) Translate(_ context.Context, t Translation) (Throughput, error) {
	s.calls = append(s.calls, filepath.Base(t.Output))
	if s.fail != nil {
		return Throughput{}, s.fail
	}
	var beam int
	for _, option := range t.Options {
		if option.Name == "beam-size" {
			fmt.Sscan(option.Values[0], &beam)
		}
	}
	number := 0
	err := WriteText(t.Output, func(out *bufio.Writer) error {
		for line, err := range Lines(t.Input) {
			if err != nil {
				return err
			}
			if t.Column > 0 {
				line = strings.Split(line, "\t")[t.Column-1]
			}
			text := strings.ToUpper(line)
			if !t.NBest {
				fmt.Fprintln(out, text)
			}
			for i := range beam * toInt(t.NBest) { // the last one is the best
				fmt.Fprintf(out, "%d ||| %s ||| F0= -1 ||| -1\n", number, strings.TrimSuffix(text, strings.Repeat("!", beam-i-1)))
			}
			number++
		}
		return nil
	})
	t.Progress(1)
	return Throughput{Lines: int64(number), Words: int64(number), Seconds: 1}, err
}

func toInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

var quiet = slog.New(slog.DiscardHandler)

func none(string) (string, bool) { return "", false }

// chain translates twice, one after the other.
const chain = `
name: chain
vocabularies: vocab
steps:
  - name: second
    translate: {text: first.txt, models: model, to: deep/second.txt}
  - name: first
    translate: {text: in.txt, models: model, to: first.txt}
  - name: other
    translate: {text: other.txt, models: model, to: other.gz}
`

// place writes files into a new folder and returns it.
func place(t *testing.T, files map[string]string) string {
	t.Helper()
	folder := t.TempDir()
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(content), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	return folder
}

func parse(t *testing.T, folder, content string) *Recipe {
	t.Helper()
	r, err := Parse([]byte(content), filepath.Join(folder, "recipe.yml"), none, new(shouter))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// run runs a recipe and returns what the engine was asked for.
func run(t *testing.T, r *Recipe) []string {
	t.Helper()
	engine := new(shouter)
	if err := Run(t.Context(), r, engine, quiet); err != nil {
		t.Fatal(err)
	}
	return engine.calls
}

func read(t *testing.T, path ...string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(path...))
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

func expect(t *testing.T, what string, got, want []string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: %q, want %q", what, got, want)
	}
}

func TestOnlyWhatChangedIsDone(t *testing.T) {
	folder := place(t, map[string]string{"in.txt": "a\nb\n", "other.txt": "c\n", "model": "m", "vocab": "v"})
	r := parse(t, folder, chain)
	expect(t, "at first", run(t, r), []string{"first.txt", "second.txt", "other.gz"})
	if got := read(t, folder, "chain", "deep", "second.txt"); got != "A\nB\n" {
		t.Errorf("%q", got)
	}
	expect(t, "again", run(t, r), nil)
	write := func(name, content string) {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(content), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	write("in.txt", "x\n")
	expect(t, "after another input", run(t, r), []string{"first.txt", "second.txt"})
	write("in.txt", "X\n")
	expect(t, "where the first output stays the same", run(t, r), []string{"first.txt"})
	write("chain/deep/second.txt", "spoilt\n")
	expect(t, "after a damaged output", run(t, r), []string{"second.txt"})
	write("vocab", "w")
	expect(t, "after another vocabulary", run(t, r), []string{"first.txt", "second.txt", "other.gz"})
	changed := parse(t, folder, strings.Replace(chain, "{text: in.txt,", "{text: in.txt, options: {beam-size: 2},", 1))
	expect(t, "after another setting", run(t, changed), []string{"first.txt"})
	moved := parse(t, folder, "\n\n"+strings.Replace(chain, "{text: in.txt,", "{text: in.txt,   options: {beam-size: 2},", 1))
	expect(t, "after other white space", run(t, moved), nil)
	if leftovers, _ := filepath.Glob(filepath.Join(folder, "chain", stateFolder, "work", "*")); len(leftovers) > 0 {
		t.Errorf("left: %q", leftovers)
	}
}

// TestAStampThatWasCutIsNone takes the outputs out of a stamp, and an output with them.
func TestAStampThatWasCutIsNone(t *testing.T) {
	folder := place(t, map[string]string{"in.txt": "a\nb\n", "other.txt": "c\n", "model": "m", "vocab": "v"})
	r := parse(t, folder, chain)
	run(t, r)
	var s stamp
	path := filepath.Join(folder, "chain", stateFolder, "done", "first.json")
	if !readJSON(path, &s) {
		t.Fatal("no stamp")
	}
	s.Outputs = nil
	if err := errors.Join(writeJSON(path, s), os.Remove(filepath.Join(folder, "chain", "first.txt"))); err != nil {
		t.Fatal(err)
	}
	expect(t, "with a stamp without outputs", run(t, r), []string{"first.txt"})
}

// TestWhatCannotBeRead: a recipe ends with an error instead of reading for ever.
func TestWhatCannotBeRead(t *testing.T) {
	folder := place(t, map[string]string{"other.txt": "c\n", "model": "m", "vocab": "v"})
	if err := os.Symlink(os.DevNull, filepath.Join(folder, "in.txt")); err != nil {
		t.Skip(err)
	}
	if err := Run(t.Context(), parse(t, folder, chain), new(shouter), quiet); !errors.Is(err, ErrInput) || !strings.Contains(err.Error(), "is a device or a pipe") {
		t.Errorf("%v", err)
	}
}

// TestWhatCannotBeWritten: the error says so, and nothing half done stays.
func TestWhatCannotBeWritten(t *testing.T) {
	folder := place(t, map[string]string{"in.txt": "a\nb\n", "other.txt": "c\n", "model": "m", "vocab": "v", "chain": "not a folder"})
	if err := Run(t.Context(), parse(t, folder, chain), new(shouter), quiet); !errors.Is(err, ErrOutput) {
		t.Errorf("%v", err)
	}
	path := filepath.Join(folder, "replaced")
	full := errors.New("full")
	if err := replace(path, func(w io.Writer) error { return full }); !errors.Is(err, full) || errors.Is(err, ErrOutput) {
		t.Errorf("%v", err)
	}
	if err := replace(path, func(w io.Writer) error {
		if err := w.(marked).Writer.(io.Closer).Close(); err != nil {
			return err
		}
		_, err := w.Write([]byte("x"))
		return err
	}); !errors.Is(err, ErrOutput) {
		t.Errorf("%v", err)
	}
	if left, _ := filepath.Glob(path + "*"); len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
}

func TestInterruption(t *testing.T) {
	folder := place(t, map[string]string{"in.txt": "a\nb\n", "other.txt": "c\n", "model": "m", "vocab": "v"})
	r := parse(t, folder, chain)
	engine := &shouter{fail: fmt.Errorf("%w: so", ErrInterrupted)}
	if err := Run(t.Context(), r, engine, quiet); !errors.Is(err, ErrInterrupted) || !strings.Contains(err.Error(), "step first") {
		t.Errorf("%v", err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := Run(ended, r, new(shouter), quiet); !errors.Is(err, ErrInterrupted) {
		t.Errorf("%v", err)
	}
	release, err := lock(filepath.Join(folder, "chain", stateFolder, "lock"))
	if err != nil {
		t.Fatal(err)
	}
	if err := Run(t.Context(), r, new(shouter), quiet); !errors.Is(err, ErrBusy) {
		t.Errorf("%v", err)
	}
	release()
	expect(t, "in the end", run(t, r), []string{"first.txt", "second.txt", "other.gz"})
}

// A file that the recipe has not made is not replaced.
func TestForeignOutput(t *testing.T) {
	folder := place(t, map[string]string{"in.txt": "a\nb\n", "other.txt": "c\n", "model": "m", "vocab": "v", "first.txt": "mine"})
	r := parse(t, folder, "folder: .\n"+chain)
	if err := Run(t.Context(), r, new(shouter), quiet); !errors.Is(err, ErrExists) || read(t, folder, "first.txt") != "mine" {
		t.Errorf("%v", err)
	}
	if err := os.Remove(filepath.Join(folder, "first.txt")); err != nil {
		t.Fatal(err)
	}
	expect(t, "without it", run(t, r), []string{"first.txt", "second.txt", "other.gz"})
	changed := parse(t, folder, "folder: .\n"+strings.Replace(chain, "{text: in.txt,", "{text: in.txt, options: {beam-size: 2},", 1))
	expect(t, "its own output", run(t, changed), []string{"first.txt"})
}

// TestPublishing kills a run, as far as files can tell, between any two steps of bringing outputs to their places.
func TestPublishing(t *testing.T) {
	const two = `
name: two
vocabularies: vocab
steps:
  - name: all
    train: {corpora: in.tsv, models: 2, to: m.npz}
`
	folder := place(t, map[string]string{"in.tsv": "a\tb\n", "vocab": "v"})
	r := parse(t, folder, two)
	for moved := range 7 {
		if err := os.RemoveAll(r.folder()); err != nil {
			t.Fatal(err)
		}
		runner, err := newRunner(r, new(shouter), quiet)
		if err != nil {
			t.Fatal(err)
		}
		n := runner.order[0]
		from, err := runner.origin(n)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := runner.begin(n, from); err != nil {
			t.Fatal(err)
		}
		s := stamp{From: from, Seconds: 7}
		for i, name := range n.kind.outputs() {
			w := &work{scratch: runner.scratch(n)}
			path, err := w.output(name)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(name), 0o666); err != nil {
				t.Fatal(err)
			}
			f, err := identify(name, path)
			if err != nil {
				t.Fatal(err)
			}
			s.Outputs = append(s.Outputs, f)
			if i < moved {
				if err := os.Rename(path, filepath.Join(r.folder(), name)); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := writeJSON(filepath.Join(runner.scratch(n), "done.json"), s); err != nil {
			t.Fatal(err)
		}
		run(t, r)
		for _, name := range n.kind.outputs() {
			if got := read(t, r.folder(), name); got != name {
				t.Errorf("%d moved: %s holds %q", moved, name, got)
			}
		}
		var plan bytes.Buffer
		if err := WritePlan(&plan, r); err != nil || !strings.Contains(plan.String(), "everything is done") || !strings.Contains(plan.String(), "7s") {
			t.Errorf("%d moved: %v, %s", moved, err, plan.String())
		}
	}
}

func TestPlan(t *testing.T) {
	folder := place(t, map[string]string{"in.txt": "a\nb\n", "other.txt": "c\n", "model": "m", "vocab": "v"})
	r := parse(t, folder, chain)
	plan := func() string {
		var out bytes.Buffer
		if err := WritePlan(&out, r); err != nil {
			t.Fatal(err)
		}
		return out.String()
	}
	if got := plan(); !strings.Contains(got, "after first") || !strings.Contains(got, "3 of 3 steps left; how long") {
		t.Error(got)
	}
	run(t, r)
	if err := os.WriteFile(filepath.Join(folder, "in.txt"), []byte("other"), 0o666); err != nil {
		t.Fatal(err)
	}
	runner, err := newRunner(r, nil, quiet)
	if err != nil {
		t.Fatal(err)
	}
	path := runner.stampPath(runner.order[1])
	var s stamp
	if !readJSON(path, &s) {
		t.Fatal("no stamp")
	}
	s.Seconds = 100
	if err := writeJSON(path, s); err != nil {
		t.Fatal(err)
	}
	got := plan()
	for _, want := range []string{"again, changed: in.txt", "about 1m40s", "2 of 3 steps left, about 1m40"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in %s", want, got)
		}
	}
	from, err := runner.origin(runner.order[0])
	if err != nil {
		t.Fatal(err)
	}
	if err := writeJSON(filepath.Join(runner.scratch(runner.order[0]), "begun.json"), begun{from, 30, 0.25}); err != nil {
		t.Fatal(err)
	}
	if got := plan(); !strings.Contains(got, "begun, 25%") || !strings.Contains(got, "1m30s left") {
		t.Error(got)
	}
}

// What is done already, and does not depend on the step at work, is not counted as left.
func TestTimeLeft(t *testing.T) {
	folder := place(t, map[string]string{"in.txt": "a\n", "other.txt": "c\n", "model": "m", "vocab": "v"})
	r := parse(t, folder, chain)
	runner, err := newRunner(r, nil, quiet)
	if err != nil {
		t.Fatal(err)
	}
	if seconds, unknown := runner.restAfter(runner.order[0]); seconds != 0 || unknown != 2 {
		t.Errorf("before anything was done: %v, %d", seconds, unknown)
	}
	run(t, r)
	for _, n := range runner.order {
		var s stamp
		if !readJSON(runner.stampPath(n), &s) {
			t.Fatal("no stamp")
		}
		s.Seconds = 100
		if err := writeJSON(runner.stampPath(n), s); err != nil {
			t.Fatal(err)
		}
	}
	if seconds, unknown := runner.restAfter(runner.order[0]); seconds != 100 || unknown != 0 {
		t.Errorf("where one step follows: %v, %d", seconds, unknown)
	}
	if seconds, unknown := runner.restAfter(runner.order[1]); seconds != 0 || unknown != 0 {
		t.Errorf("where none follows: %v, %d", seconds, unknown)
	}
	if left, known := remaining(30, 0.25); left != 90 || !known {
		t.Errorf("%v, %v", left, known)
	}
}

func TestProblems(t *testing.T) {
	const begin = "name: x\nvocabularies: v\nsteps:\n- name: a\n  "
	for text, want := range map[string]string{
		"name: a b\nsteps: []\n":                                                                                  "1:7: name",
		"name: x\nsteps: 3\n":                                                                                     "2:8: steps: expected a list",
		"name: x\n'': y\n":                                                                                        "2:1: unknown setting",
		begin + "kind: 3":                                                                                         "5:3: steps[0]: unknown setting \"kind\"",
		"name: x\nvocabularies: v\nsteps:\n- name: a\n":                                                           "4:3: steps[0]: expected exactly one of clean",
		begin + "translate: {text: t, models: m, to: ../out}":                                                     "within the folder",
		begin + "translate: {text: t, models: m, to: /out}":                                                       "within the folder",
		begin + "translate: {text: t, models: m, to: .recipe/x}":                                                  "within the folder",
		begin + "translate: {models: m, to: o}":                                                                   "5:14: steps[0].translate.text: missing",
		begin + "translate: {text: t, models: m, to: o, options: {beam: 3}}":                                      "steps[0].translate.options.beam: unknown option",
		begin + "translate: {text: t, models: '*.npz', to: o}":                                                    "no step writes anything that \"*.npz\" matches",
		begin + "train: {corpora: c, to: m.bin}":                                                                  "expected an .npz file",
		begin + "train: {corpora: c, to: m.npz, models: 1000}":                                                    "at most 100",
		begin + "train: {corpora: c, to: m.npz, settings: {dim-emb: many}}":                                       "5:54: steps[0].train.settings.dim-emb: \"many\" is not a value",
		begin + "train: {corpora: c, to: m.npz, settings: {dim-emb: [1, 2]}}":                                     "is not a value that dim-emb takes",
		begin + "train: {corpora: c, to: m.npz, settings: {vocabs: v}}":                                           "a recipe sets this with vocabularies",
		begin + "train: {corpora: c, to: m.npz, grid: {dec-depth: [1, x]}}":                                       "\"x\" is not a value",
		begin + "train: {corpora: c, to: m.npz, settings: {transformer-dropout: 2}}":                              "transformer-dropout is 2",
		begin + "translate: {text: t, models: m, to: 'a/b'}\n- name: b\n  translate: {text: t, models: m, to: a}": "a and a/b, which the step \"a\" writes, cannot both be files",
		begin + "translate: {text: t, models: m, to: a}\n- name: b\n  translate: {text: t, models: m, to: a/b}":   "a/b and a, which the step \"a\" writes, cannot both be files",
		begin + "translate: {text: t, models: m, to: \"a\\0b\"}":                                                  "has no control characters",
		begin + "distil: {corpus: c, models: m, to: d.tsv}":                                                       "steps[0].distil.corpus: \"c\": sentence pairs are in a .tsv",
		begin + "evaluate: {systems: [{name: s, models: m}], sets: [{name: t, source: s}], to: e}":                "either corpus, or source and reference",
		begin + "evaluate: {systems: [{name: '', models: m}], sets: [], to: e}":                                   "sets: missing",
		begin + "translate: {text: t, models: m, to: o}\n- name: a\n  translate: {text: t, models: m, to: o}":     "another step is called",
		"name: x\nsteps: [{name: a, translate: {text: t, models: m, to: o}}]":                                     "vocabularies: missing",
	} {
		_, err := Parse([]byte(text), "r.yml", none, new(shouter))
		var problems jobfile.Problems
		if !errors.As(err, &problems) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s\n%v\nwant %s", text, err, want)
		}
	}
}

func TestGrid(t *testing.T) {
	folder := place(t, nil)
	r := parse(t, folder, `
name: x
vocabularies: v
steps:
- name: students
  train:
    corpora: c.tsv
    to: s/s.npz
    models: 2
    grid: {dec-depth: [1, 2], transformer-tied-layers: ["1,1"]}
    settings: {seed: 5, dec-depth: 6, optimizer-params: [0.9, 0.98, 1e-9], valid-metrics: bleu}
`)
	step := r.Steps[0].Train
	var names []string
	for _, v := range step.variants() {
		names = append(names, v.name)
	}
	expect(t, "models", names, []string{
		"s/s.dec-depth-1.transformer-tied-layers-1-1.1.npz", "s/s.dec-depth-1.transformer-tied-layers-1-1.2.npz",
		"s/s.dec-depth-2.transformer-tied-layers-1-1.1.npz", "s/s.dec-depth-2.transformer-tied-layers-1-1.2.npz",
	})
	config, err := step.config(step.variants()[3])
	if err != nil {
		t.Fatal(err)
	}
	if config.DecDepth != 2 || config.Seed != 6 || !slices.Equal(config.TiedLayers, []int{1, 1}) || config.OptimizerParams[2] != 1e-9 ||
		!slices.Equal(config.ValidMetrics, []string{"bleu"}) {
		t.Errorf("%+v", config)
	}
}

// The data of every kind comes out as its description says, from an engine that is as good as it is loud.
func TestSyntheticData(t *testing.T) {
	folder := place(t, map[string]string{
		"list":  "0 ||| x ||| F0= 1 ||| 1\n1 ||| YES ||| F0= 1 ||| 1\n1 ||| ja ||| F0= 1 ||| 1\n2 ||| e ||| F0= 1 ||| 1\n",
		"c.tsv": "guten tag!!\tGUTEN TAG!\nja\tYES\n \tempty\n", "m": "model", "i": "inverse", "v": "vocabulary", "mono": "ONE\nTWO\n",
	})
	r := parse(t, folder, `
name: x
vocabularies: v
steps:
- {name: a, distil: {corpus: c.tsv, models: m, options: {beam-size: 3}, to: distilled.tsv}}
- {name: l, distil: {corpus: c.tsv, inverse: true, n-best: list, to: chosen.tsv}}
- {name: b, back-translate: {text: mono, inverse-models: i, models: m, to: mono.tsv}}
- {name: c, back-translate: {text: c.tsv, inverse-models: i, models: m, to: back.tsv}}
- {name: d, dual: {corpus: c.tsv, models: m, inverse-models: i, to: dual.tsv.gz}}
`)
	run(t, r)
	for name, want := range map[string]string{
		"distilled.tsv": "guten tag!!\tGUTEN TAG!\nja\tJA\n \t \n",
		"chosen.tsv":    "x\tGUTEN TAG!\nja\tYES\ne\tempty\n",
		"mono.tsv":      "ONE\tONE\nTWO\tTWO\n",
		"back.tsv":      "GUTEN TAG!\tGUTEN TAG!\nYES\tYES\nEMPTY\tEMPTY\n",
	} {
		if got := read(t, folder, "x", name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	var dual []string
	for p, err := range pairs(filepath.Join(folder, "x", "dual.tsv.gz")) {
		if err != nil {
			t.Fatal(err)
		}
		dual = append(dual, p.source+"|"+p.target)
	}
	expect(t, "dual", dual, []string{
		"guten tag!!|GUTEN TAG!", "ja|YES", " |empty",
		"guten tag!!|GUTEN TAG!!", "ja|JA", " | ",
		"GUTEN TAG!|GUTEN TAG!", "YES|YES", "EMPTY|empty",
	})
}

func TestSchema(t *testing.T) {
	got, err := Schema()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join("..", "..", "docs", "recipe.schema.json")
	if os.Getenv("SLUICE_UPDATE") != "" {
		if err := os.WriteFile(path, got, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	if want := read(t, path); want != string(got) {
		t.Error("docs/recipe.schema.json is not what the program goes by: run this test with SLUICE_UPDATE=1")
	}
	if strings.Contains(string(got), `"description": ""`) {
		t.Error("a setting has no description")
	}
	if !json.Valid(got) {
		t.Error("not JSON")
	}
}

// Recipes that come with the program can be read, and have a title.
func TestExamples(t *testing.T) {
	for _, example := range Examples() {
		if _, err := Parse(example.Text, "r.yml", none, new(shouter)); err != nil {
			t.Errorf("%s: %v", example.Name, err)
		}
		if !strings.HasPrefix(string(example.Text), "# ") || len(example.Title) < 20 {
			t.Errorf("%s: %q is no title", example.Name, example.Title)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(chain))
	for _, example := range Examples() {
		f.Add(example.Text)
	}
	f.Fuzz(func(t *testing.T, content []byte) {
		r, err := Parse(content, "r.yml", none, new(shouter))
		if (r == nil) == (err == nil) {
			t.Errorf("a recipe %v and an error %v", r, err)
		}
		if err == nil {
			if err := WritePlan(io.Discard, r); err != nil {
				t.Error(err)
			}
		}
	})
}

// TestRescore gives the engine what a rescoring needs, whether texts are lines or corpora.
func TestRescore(t *testing.T) {
	folder := place(t, map[string]string{
		"c.tsv": "a\tx\nb\ty\n", "t": "a\nb\n", "n": "0 ||| x ||| F0= -1 ||| -1\n1 ||| y ||| F0= -1 ||| -1\n", "v": "", "m.npz": "",
	})
	calls := run(t, parse(t, folder, "name: x\nvocabularies: v\nsteps:\n"+
		"- {name: a, rescore: {text: c.tsv, list: n, models: m.npz, tune-corpus: c.tsv, tune-list: n, weights: w.yml, to: o}}\n"+
		"- {name: b, rescore: {text: t, list: n, models: m.npz, to: p}}\n"))
	expect(t, "calls", calls, []string{"o", "p"})
	for _, name := range []string{"o", "p"} {
		if got := read(t, folder, "x", name); got != "x\ny\n" {
			t.Errorf("%s: %q", name, got)
		}
	}
	if reference := read(t, folder, "x", "w.yml"); filepath.Base(reference) != "tune.target" {
		t.Errorf("references in %s", reference)
	}
	for setting, want := range map[string]string{"tune-list: n": "belong together", "weights: w": "tune-corpus is missing", "tune-corpus: c.txt, tune-list: n": "sentence pairs are in a .tsv"} {
		_, err := Parse([]byte("name: x\nvocabularies: v\nsteps:\n- {name: a, rescore: {text: t, list: n, models: m, to: o, "+setting+"}}\n"), "r.yml", none, new(shouter))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", setting, err, want)
		}
	}
}
