package train

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"

	"go.yaml.in/yaml/v3"

	"github.com/sluice-mt/sluice/train/checkpoint"
	"github.com/sluice-mt/sluice/train/data"
	"github.com/sluice-mt/sluice/train/optimiser"
	"github.com/sluice-mt/sluice/translator/marian"
	"github.com/sluice-mt/sluice/translator/model"
)

// state is what a run knows beside its vectors. It is saved in checkpoints, so its fields only grow.
type state struct {
	Description  string   `json:"description"`  // of the architecture
	Vocabularies []string `json:"vocabularies"` // their fingerprints

	Steps     int              `json:"steps"` // updates, skipped ones included
	Position  data.Position    `json:"position"`
	Words     int64            `json:"words"`
	Optimiser optimiser.Counts `json:"optimiser"`
	Window    window           `json:"window"`

	Products  string `json:"products,omitempty"`  // what computes those of a device: see Device.Multiply
	Precision string `json:"precision,omitempty"` // of what the processor's products read, if it is not float32

	Corpus data.Stats `json:"corpus"` // of the run before; none in older checkpoints

	Best      map[string]best `json:"best"`      // by metric
	Validated int             `json:"validated"` // update after which the last validation was
	Early     bool            `json:"early"`     // it did not improve any more
	Finished  bool            `json:"finished"`
}

// A window is what was learnt since the last display.
type window struct {
	Loss  float64 `json:"loss"`
	Words int     `json:"words"`
}

// best is the best value of a metric so far.
type best struct {
	Value   float64 `json:"value"`
	Stalled int     `json:"stalled"` // validations since
}

const (
	vectorValues  = "values"
	vectorMean    = "adam mean"
	vectorSquare  = "adam square"
	vectorAverage = "average"
)

// ErrOtherRun is wrapped by the errors about checkpoints that belong to a different training.
var ErrOtherRun = errors.New("the checkpoint is of another training")

func (r *run) folder() string { return r.config.Model + ".checkpoints" }

func (r *run) fingerprints() []string {
	prints := []string{r.target.Fingerprint()}
	if r.source != nil {
		prints = append(prints, r.source.Fingerprint())
	}
	for _, v := range r.further {
		prints = append(prints, v.Fingerprint())
	}
	return prints
}

// resume continues from the latest checkpoint, if there is one.
func (r *run) resume() error {
	r.saved = -1
	r.state = state{Description: string(r.description), Vocabularies: r.fingerprints(), Best: map[string]best{}}
	c, skipped, err := checkpoint.Latest(r.folder())
	if errors.Is(err, checkpoint.ErrNone) {
		return nil
	}
	if err != nil {
		return err
	}
	if skipped != nil {
		r.logger.Warn("a damaged checkpoint was passed over", "error", skipped)
	}
	var from state
	if err := json.Unmarshal(c.State, &from); err != nil {
		return fmt.Errorf("the state in a checkpoint in %s: %w", r.folder(), err)
	}
	if err := r.checkSame(&from); err != nil {
		return err
	}
	wanted := map[string][]float32{vectorValues: r.values, vectorMean: r.optimiser.Mean, vectorSquare: r.optimiser.Square}
	if r.optimiser.Average != nil {
		wanted[vectorAverage] = r.optimiser.Average
	}
	for name, to := range wanted {
		values := c.Vector(name)
		if len(values) != len(to) {
			return fmt.Errorf("%w: in %s, the vector %q has %d numbers, but this training has %d; remove the folder to start anew",
				ErrOtherRun, r.folder(), name, len(values), len(to))
		}
		copy(to, values)
	}
	r.state = from
	r.saved = from.Steps
	r.optimiser.Counts = from.Optimiser
	if r.state.Best == nil {
		r.state.Best = map[string]best{}
	}
	r.logger.Info("continuing", "update", r.state.Steps, "epoch", r.state.Position.Epoch+1)
	r.reopen()
	return nil
}

// reopen lets a finished training go on if the settings now ask for more.
func (r *run) reopen() {
	c := &r.config
	more := c.AfterBatches == 0 || r.state.Steps < c.AfterBatches
	more = more && (c.AfterEpochs == 0 || r.state.Position.Epoch+1 < c.AfterEpochs)
	if r.state.Finished && !r.state.Early && more {
		r.state.Finished = false
	}
}

func (r *run) checkSame(from *state) error {
	if !sameArchitecture(from.Description, r.state.Description) {
		return fmt.Errorf("%w: in %s, the architecture is different; choose another model file, or remove the folder to start anew",
			ErrOtherRun, r.folder())
	}
	for i, print := range r.state.Vocabularies {
		if i >= len(from.Vocabularies) || from.Vocabularies[i] != print {
			return fmt.Errorf("%w: in %s, the vocabularies are different; choose another model file, or remove the folder to start anew",
				ErrOtherRun, r.folder())
		}
	}
	return nil
}

// sameArchitecture says whether two descriptions are of the same model, though one may have been written by an older version, with
// fewer keys.
func sameArchitecture(a, b string) bool {
	x, err := model.Describe([]byte(a))
	if err != nil {
		return false
	}
	y, err := model.Describe([]byte(b))
	return err == nil && reflect.DeepEqual(x, y)
}

// checkpoint writes what is needed to continue.
func (r *run) checkpoint() error {
	if err := r.fetch(); err != nil {
		return err
	}
	text, err := json.Marshal(&r.state)
	if err != nil {
		return fmt.Errorf("saving the state: %w", err)
	}
	c := &checkpoint.Checkpoint{State: text, Vectors: []checkpoint.Vector{
		{Name: vectorValues, Values: r.values}, {Name: vectorMean, Values: r.optimiser.Mean},
		{Name: vectorSquare, Values: r.optimiser.Square},
	}}
	if r.optimiser.Average != nil {
		c.Vectors = append(c.Vectors, checkpoint.Vector{Name: vectorAverage, Values: r.optimiser.Average})
	}
	if err := checkpoint.Write(r.folder(), r.state.Steps, c, r.config.KeepSaved); err != nil {
		return fmt.Errorf("%w: %w", ErrOutput, err)
	}
	r.saved = r.state.Steps
	return nil
}

// save writes the model and a checkpoint.
func (r *run) save() error {
	if err := r.writeModel(r.config.Model); err != nil {
		return err
	}
	if err := r.writeDecoderConfig(); err != nil {
		return err
	}
	if err := r.checkpoint(); err != nil {
		return err
	}
	r.logger.Info("saved", "model", r.config.Model, "update", r.state.Steps)
	return nil
}

// writeModel writes the parameters to translate with.
func (r *run) writeModel(path string) error {
	if err := r.fetch(); err != nil {
		return err
	}
	r.refreshBest()
	if err := marian.WriteNPZ(path, r.network.File(r.best, bytes.Clone(r.description))); err != nil {
		return fmt.Errorf("%w: %w", ErrOutput, err)
	}
	return nil
}

// decoderConfig is what a translating program needs beside the model, in Marian's form.
type decoderConfig struct {
	RelativePaths bool     `yaml:"relative-paths"`
	Models        []string `yaml:"models,flow"`
	Vocabs        []string `yaml:"vocabs,flow"`
	BeamSize      int      `yaml:"beam-size"`
	Normalize     float64  `yaml:"normalize"`
}

// writeDecoderConfig writes MODEL.decoder.yml, with paths relative to its folder. A language model does not translate.
func (r *run) writeDecoderConfig() error {
	c := &r.config
	if c.languageModel() {
		return nil
	}
	d := decoderConfig{RelativePaths: true, Models: []string{filepath.Base(c.Model)}, BeamSize: c.BeamSize, Normalize: c.Normalize}
	for i := range c.Sources() + 1 {
		path, err := relative(filepath.Dir(c.Model), c.Vocabs[min(i, len(c.Vocabs)-1)])
		if err != nil {
			return fmt.Errorf("writing the decoder's configuration: %w", err)
		}
		d.Vocabs = append(d.Vocabs, path)
	}
	text, err := yaml.Marshal(d)
	if err == nil {
		err = replaceFile(c.Model+".decoder.yml", text)
	}
	if err != nil {
		return fmt.Errorf("%w: the decoder's configuration: %w", ErrOutput, err)
	}
	return nil
}

// replaceFile writes a small file so that it is never there in part.
func replaceFile(path string, text []byte) error {
	temporary := path + ".tmp" // nobody else writes it: the run has the lock
	err := os.WriteFile(temporary, text, 0o666)
	if err == nil {
		err = os.Rename(temporary, path)
	}
	if err != nil {
		return errors.Join(err, os.RemoveAll(temporary))
	}
	return nil
}

// relative returns a path as seen from a folder, or the absolute one if there is no way from there.
func relative(folder, path string) (string, error) {
	folder, err := filepath.Abs(folder)
	if err != nil {
		return "", err
	}
	if path, err = filepath.Abs(path); err != nil {
		return "", err
	}
	if seen, err := filepath.Rel(folder, path); err == nil {
		return filepath.ToSlash(seen), nil
	}
	return path, nil
}
