package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"

	"github.com/spf13/pflag"

	"github.com/sluice-mt/sluice/translator/cpumodel"
	"github.com/sluice-mt/sluice/translator/marian"
	"github.com/sluice-mt/sluice/translator/model"
	"github.com/sluice-mt/sluice/translator/rescore"
	"github.com/sluice-mt/sluice/translator/search"
	"github.com/sluice-mt/sluice/translator/vocab"
)

// scorerFlags say which models score, and on how much of the machine.
type scorerFlags struct {
	models    []string
	vocabs    []string
	features  []string
	precision string
	maxLength int
	recipe    []recipeModel // of a configuration file, in place of models

	threads        int
	slots          int
	miniBatchWords int
	devices        []string
	streams        int
	tuneKernels    bool
	said           map[string]bool // options on the command line
	device         deviceChoice
}

func (f *scorerFlags) add(s *pflag.FlagSet) {
	s.StringArrayVarP(&f.models, "models", "m", nil, "models that score: `FILES` (.npz or .bin) or folders")
	s.StringArrayVarP(&f.vocabs, "vocabs", "v", nil, "vocabulary `FILES` of all these models, of each source and the target; found beside each model if left out")
	s.StringArrayVar(&f.features, "feature", nil, "`NAME` of the feature of each model, in their order; may be repeated")
	s.StringVar(&f.precision, "precision", "auto", "arithmetic: auto (as the model is stored; float16 on GPUs), float32, bfloat16, int16, int8; on GPUs float16, bfloat16, int8, fp8")
	s.IntVar(&f.maxLength, "max-length", 1000, "most pieces of a source or hypothesis; of longer ones the beginning is scored")
}

func (f *scorerFlags) machine() flagGroup {
	g := newGroup("Batches and machine (but for --devices, scores never depend on these)")
	g.flags.StringArrayVarP(&f.devices, "devices", "d", nil, "score on these `GPUS`: numbers beginning with 0, all, auto (or else on the CPU), cpu (the default); see docs/gpu.md")
	g.flags.IntVar(&f.streams, "streams", 0, "workers of each GPU, one per stream (0: chosen)")
	g.flags.BoolVar(&f.tuneKernels, "tune-kernels", true, "measure once with how many streams and slots a kind of GPU scores most, and remember it in the user's cache folder; scores are the same")
	countVar(g.flags, &f.threads, "cpu-threads", mostWorkers, "workers (0: one per core)")
	countVar(g.flags, &f.miniBatchWords, "mini-batch-words", mostMiniBatchPieces, "source pieces of one encoder batch (0: automatic)")
	countVar(g.flags, &f.slots, "slots", mostSlots, "prefixes that one worker decodes at a time (0: automatic)")
	return g
}

// none says whether there is no model at all.
func (f *scorerFlags) none() bool { return len(f.models) == 0 && len(f.recipe) == 0 }

func (f *scorerFlags) check(cores int) error {
	switch {
	case f.maxLength < 2:
		return usageErrorf("--max-length %d: at least 2", f.maxLength)
	case len(f.features) > len(f.models):
		return usageErrorf("--feature names %d features of %d models", len(f.features), len(f.models))
	case f.streams < 0:
		return usageErrorf("--streams %d: at least 0, which lets it be chosen", f.streams)
	}
	var err error
	if f.device, err = f.onDevices("").chooseDevices(f.threads); err != nil {
		return err
	}
	if f.threads == 0 {
		f.threads = cores
	}
	return nil
}

// list is the models in the form of a recipe, wherever they were named.
func (f *scorerFlags) list() []recipeModel {
	list := slices.Clone(f.recipe)
	for i, path := range f.models {
		m := recipeModel{Model: path, Vocabs: f.vocabs}
		if i < len(f.features) {
			m.Feature = f.features[i]
		}
		list = append(list, m)
	}
	for i := range list {
		if list[i].Precision == "" {
			list[i].Precision = f.precision
		}
	}
	return list
}

// files are all that is read for the models, as far as they are named.
func (f *scorerFlags) files() []string {
	var files []string
	for _, m := range f.list() {
		files = append(append(files, m.Model), m.Vocabs...)
	}
	return files
}

// A scoringModel is a model that scores hypotheses.
type scoringModel struct {
	path        string
	feature     string
	readsSource bool
	inFloat32   bool // nothing is more precise: what GPUs cannot hold is scored so, too
	scorer      *rescore.Scorer
	gpus        *scoringGPUs // on which the scorer works; nil for the processor
	file        *marian.File
}

// close gives back what the model has on its devices, and its file.
func (m *scoringModel) close() {
	if m.scorer != nil {
		m.scorer.Close()
	}
	if m.gpus != nil {
		m.gpus.close()
	}
	if m.file != nil {
		m.file.Close()
	}
}

// adviceOnScores says what to do about scores that are not finite.
func (m *scoringModel) adviceOnScores() string {
	if m.inFloat32 {
		return "sluice model verify looks for what is wrong with the model"
	}
	return "--precision float32 may help"
}

func closeScoring(models []scoringModel) {
	for i := range models {
		models[i].close()
	}
}

// open opens all models, which are to be closed. What may be left out, such as measuring, is left out once ctx is done.
func (f *scorerFlags) open(ctx context.Context, logger *slog.Logger) ([]scoringModel, error) {
	var models []scoringModel
	o := scorerOpener{scorerFlags: f, count: map[string]int{}, logger: logger}
	for _, wanted := range f.list() {
		m, err := o.open(ctx, wanted)
		models = append(models, m)
		if err != nil {
			closeScoring(models)
			return nil, err
		}
	}
	return models, nil
}

// A scorerOpener opens models one after another.
type scorerOpener struct {
	*scorerFlags
	count  map[string]int // of models of each kind that have been opened, for their names
	opened openedGPUs
	logger *slog.Logger
}

// open opens a model. What is returned with an error has to be closed, too.
func (o *scorerOpener) open(ctx context.Context, wanted recipeModel) (s scoringModel, err error) {
	found, err := resolveModel(wanted.Model)
	if err != nil {
		return s, err
	}
	file, loaded, err := openModel(found.Model)
	s.path, s.file = found.Model, file
	if err != nil {
		return s, err
	}
	s.feature, s.readsSource = wanted.Feature, loaded.HasEncoder()
	if s.feature == "" {
		kind := scoringKind(loaded)
		s.feature = fmt.Sprintf("%s%d", kind, o.count[kind])
		o.count[kind]++
	}
	names := wanted.Vocabs
	if len(names) == 0 && found.Target != "" {
		names = []string{found.Source, found.Target}
	}
	sources, target, err := scoringVocabularies(loaded, found.Model, names)
	if err != nil {
		return s, err
	}
	if err := loaded.CheckPieces(target.EOS(), nil); err != nil {
		return s, modelError{fmt.Errorf("%s: %w", found.Model, err)}
	}
	config := rescore.Config{Sources: sources, Target: target, RightLeft: loaded.RightLeft, MaxLength: o.maxLength}
	err = o.place(ctx, &s, loaded, wanted.Precision, config)
	return s, err
}

// scoringKind names a model by what it does.
func scoringKind(m *model.Model) string {
	switch {
	case !m.HasEncoder():
		return "LM"
	case m.RightLeft:
		return "R2L"
	}
	return "L2R"
}

// packForScoring readies a model for the processor, and returns in which precision it computes. No piece is forbidden: a hypothesis may hold what
// the search would never have written.
func packForScoring(m *model.Model, precision string) (newStepper func(int) (search.Stepper, error), chosen cpumodel.Precision, err error) {
	flags := modelFlags{precision: precision}
	if chosen, err = flags.choosePrecision((&ensemble{models: []*model.Model{m}}).stored()); err != nil {
		return nil, 0, err
	}
	weights, err := cpumodel.Load(m, chosen, cpumodel.Options{IgnoreAlphas: flags.quantisation().ignoreAlphas, ForScoring: true})
	if err != nil {
		return nil, 0, modelError{err}
	}
	return func(slots int) (search.Stepper, error) { return weights.NewStepper(slots), nil }, chosen, nil
}

// scoringVocabularies opens a model's vocabularies: those of its sources, none for a language model, and that of the target.
func scoringVocabularies(m *model.Model, path string, names []string) (sources []vocab.Vocabulary, target vocab.Vocabulary, err error) {
	sizes := append([]int{m.SourceVocabulary}, m.FurtherVocabularies...)
	if !m.HasEncoder() {
		sizes = nil
	}
	switch {
	case len(names) == 0:
		return nil, nil, modelError{fmt.Errorf("no vocabulary lies beside %s: name it with -v", path)}
	case len(names) == 1: // for everything
		names = slices.Repeat(names, len(sizes)+1)
	case len(sizes) == 0:
		names = names[len(names)-1:]
	}
	if len(names) != len(sizes)+1 {
		return nil, nil, usageErrorf("%s needs %d vocabularies, one for each source and one for the target; %d were given", path, len(sizes)+1, len(names))
	}
	sizes = append(sizes, m.TargetVocabulary)
	opened := map[string]vocab.Vocabulary{}
	var all []vocab.Vocabulary
	var problems []error
	for i, name := range names {
		if opened[name] == nil {
			if opened[name], err = openVocabulary(name); err != nil {
				return nil, nil, err
			}
		}
		all = append(all, opened[name])
		if opened[name].Size() != sizes[i] {
			problems = append(problems, fmt.Errorf("%s has %d pieces, but the model %s has %d: it belongs to another model",
				name, opened[name].Size(), path, sizes[i]))
		}
	}
	if err := errors.Join(problems...); err != nil {
		return nil, nil, modelError{err}
	}
	last := len(all) - 1
	return all[:last], all[last], nil
}
