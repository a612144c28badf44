package recipe

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/sluice-mt/sluice/internal/jobfile"
	"github.com/sluice-mt/sluice/train"
)

// Train trains models. Its outputs are, for each model NAME, the model, NAME.decoder.yml, with which it is translated, and
// NAME.metrics.jsonl, its course.
type Train struct {
	Corpora    []string         `yaml:"corpora" desc:"Sentence pairs to learn from, one corpus after another: source, tab, target."`
	Valid      string           `yaml:"valid" desc:"Sentence pairs to validate with."`
	Inverse    bool             `yaml:"inverse" desc:"Translate from the target language into the source language."`
	Alignments string           `yaml:"alignments" desc:"Alignments of the corpora, for guided alignment."`
	Weights    string           `yaml:"weights" desc:"Weights of the target pieces of the corpora, as the step edits makes them."`
	StartFrom  string           `yaml:"start-from" desc:"A model of the same architecture to start from."`
	Models     int              `yaml:"models" desc:"How many models, for an ensemble: they differ in their seed, and are called NAME.1.npz, NAME.2.npz and so on. Default 1."`
	Grid       []jobfile.Option `yaml:"grid" desc:"Settings with several values each: a model for every combination, called after it, such as NAME.dec-depth-1.npz."`
	Settings   []jobfile.Option `yaml:"settings" desc:"Settings of sluice train, which are those of Marian's training."`
	To         string           `yaml:"to" desc:"The model to write, an .npz file."`
}

// stepSets are settings of training that a recipe says in another place.
var stepSets = map[string]string{
	"model": "to", "train-sets": "corpora", "valid-sets": "valid", "vocabs": "vocabularies of the recipe", "pretrained-model": "start-from",
	"guided-alignment": "alignments", "tsv": "corpora", "tempdir": "nothing: the recipe's folder is used", "dim-vocabs": "vocabularies of the recipe",
	"data-weighting": "weights", "data-weighting-type": "weights", "embedding-vectors": "nothing: the files are not the recipe's",
}

func (t *Train) inputs() []string {
	return append(slices.Clone(t.Corpora), t.Valid, t.Alignments, t.Weights, t.StartFrom)
}

func (t *Train) outputs() []string {
	var names []string
	for _, v := range t.variants() {
		names = append(names, v.name, v.name+".decoder.yml", v.name+".metrics.jsonl")
	}
	return names
}

func (t *Train) check(c *checking) {
	c.need(map[string]bool{"corpora": len(t.Corpora) > 0, "to": t.To != ""})
	if t.To != "" && !strings.HasSuffix(t.To, ".npz") {
		c.at("to", "%q: expected an .npz file; a later step may store it in another way", t.To)
	}
	if t.Models > maxModels || len(t.variants()) > maxModels {
		c.at("", "%d models; at most %d", max(t.Models, len(t.variants())), maxModels)
		return
	}
	sound := true
	for i, option := range append(slices.Clone(t.Settings), t.Grid...) {
		name, ofGrid := "settings", i >= len(t.Settings)
		if ofGrid {
			name = "grid"
		}
		var config train.Config
		if err := checkSetting(&config, option, ofGrid); err != nil {
			c.at(name+"."+option.Name, "%v", err)
			sound = false
		}
	}
	if !sound || t.To == "" {
		return
	}
	for _, v := range t.variants() {
		config, err := t.config(v)
		config.Model, config.TrainSets, config.Vocabs = v.name, []string{"-", "-"}, []string{"-"}
		if err == nil {
			err = config.Validate()
		}
		if err != nil {
			c.at("settings", "%v", strings.TrimPrefix(err.Error(), train.ErrConfig.Error()+": "))
			return
		}
	}
}

// sayUnused tells of settings that mean nothing without validations. They are not refused as in training alone: steps share settings.
func (t *Train) sayUnused(w *work) {
	for _, option := range append(slices.Clone(t.Settings), t.Grid...) {
		if t.Valid == "" && needsValidation(option) {
			w.logger.Warn("a setting means nothing here, since the step names no corpus to validate with (valid)", "setting", option.Name)
		}
	}
}

// needsValidation says whether a setting says what follows from validations.
func needsValidation(option jobfile.Option) bool {
	return (option.Name == "early-stopping" || option.Name == "keep-best") &&
		slices.ContainsFunc(option.Values, func(value string) bool { return value != "0" && value != "false" })
}

// maxModels bounds the models of one step.
const maxModels = 100

// checkSetting sets one option, with each of its values if it is of a grid.
func checkSetting(config *train.Config, option jobfile.Option, grid bool) error {
	if place, ok := stepSets[option.Name]; ok {
		return fmt.Errorf("a recipe sets this with %s", place)
	}
	if !grid {
		return set(config, option.Name, option.Values)
	}
	for _, value := range option.Values {
		if err := set(config, option.Name, strings.Split(value, ",")); err != nil {
			return err
		}
	}
	return nil
}

// set gives a setting its value, or its values if it is a list.
func set(config *train.Config, name string, values []string) error {
	value := &yaml.Node{Kind: yaml.SequenceNode, Style: yaml.FlowStyle}
	for _, v := range values {
		value.Content = append(value.Content, &yaml.Node{Kind: yaml.ScalarNode, Value: v})
	}
	forms := []*yaml.Node{value}
	if len(values) == 1 {
		forms = []*yaml.Node{value.Content[0], value} // a list of one may be written without brackets
	}
	var failures []error
	for _, form := range forms {
		text, err := yaml.Marshal(&yaml.Node{Kind: yaml.MappingNode, Content: []*yaml.Node{{Kind: yaml.ScalarNode, Value: name}, form}})
		if err != nil {
			return err
		}
		decoder := yaml.NewDecoder(bytes.NewReader(text))
		decoder.KnownFields(true)
		if err = decoder.Decode(config); err == nil {
			return nil
		}
		failures = append(failures, err)
	}
	return settingError(name, values, errors.Join(failures...))
}

func settingError(name string, values []string, err error) error {
	if strings.Contains(err.Error(), "not found in type") {
		return errors.New("no setting of sluice train has this name")
	}
	return fmt.Errorf("%q is not a value that %s takes", strings.Join(values, ", "), name)
}

// A variant is one of the models that a step trains.
type variant struct {
	name string           // of the model
	grid []jobfile.Option // what the grid gives it
	seed int              // added to the seed
}

// variants lists the models in the order in which they are trained; of more than maxModels not all.
func (t *Train) variants() []variant {
	list := []variant{{name: strings.TrimSuffix(t.To, ".npz")}}
	for _, option := range t.Grid {
		list = multiply(list, option)
	}
	if t.Models > 1 {
		list = t.seeded(list)
	}
	for i := range list {
		list[i].name += ".npz"
	}
	return list
}

// multiply gives every variant each of the values.
func multiply(list []variant, option jobfile.Option) []variant {
	var longer []variant
	for _, v := range list {
		for _, value := range option.Values {
			one := jobfile.Option{Name: option.Name, Values: strings.Split(value, ",")}
			name := v.name + "." + option.Name + "-" + strings.ReplaceAll(value, ",", "-")
			if longer = append(longer, variant{name: name, grid: append(slices.Clone(v.grid), one)}); len(longer) > maxModels {
				return longer
			}
		}
	}
	return longer
}

// seeded makes as many of every variant as the ensemble has.
func (t *Train) seeded(list []variant) []variant {
	var longer []variant
	for _, v := range list {
		for i := range min(t.Models, maxModels) {
			longer = append(longer, variant{v.name + "." + strconv.Itoa(i+1), v.grid, i})
		}
	}
	return longer
}

// config returns the settings of a model, without files.
func (t *Train) config(v variant) (train.Config, error) {
	config := train.DefaultConfig()
	for _, option := range append(slices.Clone(t.Settings), v.grid...) {
		if err := set(&config, option.Name, option.Values); err != nil {
			return config, err
		}
	}
	config.Seed += uint64(v.seed)
	return config, nil
}

func (t *Train) run(w *work) error {
	t.sayUnused(w)
	sets, err := t.prepare(w, "train", t.Corpora)
	if err != nil {
		return err
	}
	var valid []string
	if t.Valid != "" {
		if valid, err = t.prepare(w, "valid", []string{t.Valid}); err != nil {
			return err
		}
	}
	variants := t.variants()
	for i, v := range variants {
		done := w.part(float64(i)/float64(len(variants)), float64(i+1)/float64(len(variants)))
		if err := t.train(w, v, sets, valid, done); err != nil {
			return err
		}
	}
	return nil
}

// prepare writes the two sides of corpora, that of the model's source first.
func (t *Train) prepare(w *work, name string, corpora []string) ([]string, error) {
	paths := []string{filepath.Join(w.scratch, name+".source"), filepath.Join(w.scratch, name+".target")}
	return paths, writeSides(w.paths(corpora), paths, t.Inverse)
}

// train trains a model, unless it was done before an interruption.
func (t *Train) train(w *work, v variant, sets, valid []string, done func(float64)) error {
	output, err := w.output(v.name)
	if err != nil {
		return err
	}
	if _, err := os.Stat(output); err == nil {
		return nil
	}
	config, err := t.config(v)
	if err != nil {
		return err
	}
	folder := filepath.Join(w.scratch, "training", filepath.FromSlash(v.name))
	config.Model, config.TrainSets, config.ValidSets = filepath.Join(folder, "model.npz"), sets, valid
	config.Vocabs, config.TempDir = w.direction(t.Inverse), w.scratch
	if t.StartFrom != "" {
		config.PretrainedModel = w.input(t.StartFrom)
	}
	if t.Weights != "" {
		config.DataWeighting, config.DataWeightingType = w.input(t.Weights), "word"
	}
	if t.Alignments != "" {
		config.GuidedAlignment = w.input(t.Alignments)
	}
	if err := os.MkdirAll(folder, 0o777); err != nil {
		return err
	}
	stop := follow(config.Model+".metrics.jsonl", config, done)
	_, err = w.engine.Train(w.ctx, config, w.logger.With("trains", v.name))
	stop()
	if errors.Is(err, train.ErrInterrupted) {
		return ErrInterrupted
	}
	if err != nil {
		return err
	}
	return t.keep(w, v, config, output)
}

// keep takes what is wanted of a finished training, the model last, and removes the rest.
func (t *Train) keep(w *work, v variant, config train.Config, output string) error {
	model := config.Model
	if config.KeepBest && len(config.ValidSets) > 0 {
		model = strings.TrimSuffix(config.Model, ".npz") + ".best-" + config.ValidMetrics[0] + ".npz"
	}
	if err := writeDecoderConfig(w, v.name, output, t.Inverse, config); err != nil {
		return err
	}
	course, err := os.ReadFile(config.Model + ".metrics.jsonl")
	if err != nil {
		return err
	}
	if err := os.WriteFile(output+".metrics.jsonl", course, 0o666); err != nil {
		return err
	}
	if err := syncFile(model); err != nil {
		return err
	}
	if err := os.Rename(model, output); err != nil {
		return err
	}
	return os.RemoveAll(filepath.Dir(config.Model))
}

// writeDecoderConfig writes MODEL.decoder.yml, with paths as seen from where the model will be.
func writeDecoderConfig(w *work, name, output string, inverse bool, config train.Config) error {
	folder := filepath.Dir(filepath.Join(w.folder, filepath.FromSlash(name)))
	var vocabularies []string
	for _, vocabulary := range w.direction(inverse) {
		if seen, err := filepath.Rel(folder, vocabulary); err == nil {
			vocabulary = filepath.ToSlash(seen)
		}
		vocabularies = append(vocabularies, vocabulary)
	}
	text, err := yaml.Marshal(struct {
		Relative     bool     `yaml:"relative-paths"`
		Models       []string `yaml:"models,flow"`
		Vocabularies []string `yaml:"vocabs,flow"`
		Beam         int      `yaml:"beam-size"`
		Normalize    float64  `yaml:"normalize"`
	}{true, []string{path.Base(name)}, vocabularies, config.BeamSize, config.Normalize})
	if err != nil {
		return err
	}
	return os.WriteFile(output+".decoder.yml", text, 0o666)
}

// follow watches the course of a training and tells which share of it is done, where the settings say when it ends at the latest.
func follow(metrics string, config train.Config, done func(share float64)) (stop func()) {
	end, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		ticker := time.NewTicker(2 * time.Second)
		defer ticker.Stop()
		for {
			select {
			case <-end:
				return
			case <-ticker.C:
				if share := trained(metrics, config); share > 0 {
					done(share)
				}
			}
		}
	}()
	return func() { close(end); <-ended }
}

// trained is the share of a training that its metrics speak of, 0 if that is not known.
func trained(metrics string, config train.Config) float64 {
	content, err := os.ReadFile(metrics)
	if err != nil {
		return 0
	}
	content = bytes.TrimRight(content, "\n")
	var last train.Measurement
	if json.Unmarshal(content[bytes.LastIndexByte(content, '\n')+1:], &last) != nil {
		return 0
	}
	var share float64
	if config.AfterBatches > 0 {
		share = float64(last.Update) / float64(config.AfterBatches)
	}
	if config.AfterEpochs > 0 {
		share = max(share, float64(last.Epoch-1)/float64(config.AfterEpochs))
	}
	return share
}
