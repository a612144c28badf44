package recipe

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"

	"github.com/sluice-mt/sluice/internal/jobfile"
	"github.com/sluice-mt/sluice/internal/score"
	"github.com/sluice-mt/sluice/translator/marian"
)

// Evaluate measures models. Its output is a table, a JSON array of Measurements.
type Evaluate struct {
	Systems []System  `yaml:"systems" desc:"What is measured."`
	Sets    []TestSet `yaml:"sets" desc:"On which test sets."`
	Repeat  int       `yaml:"repeat" desc:"How often each set is translated to measure the speed: small sets take too short. Default 1."`
	To      string    `yaml:"to" desc:"The table to write, as JSON."`
}

// A System is a model, or several, with the options to translate with.
type System struct {
	Name      string           `yaml:"name" desc:"Names it in the table. With each, the models' names are added."`
	Models    []string         `yaml:"models" desc:"The model, or several as an ensemble. A pattern stands for all models of the recipe that match."`
	Each      bool             `yaml:"each" desc:"Measure each of the models on its own."`
	Inverse   bool             `yaml:"inverse" desc:"The models translate from the target language into the source language."`
	Shortlist string           `yaml:"shortlist" desc:"Shortlist of the models."`
	Options   []jobfile.Option `yaml:"options" desc:"Options of sluice translate."`
}

// A TestSet is sentences with their references.
type TestSet struct {
	Name      string `yaml:"name" desc:"Names it in the table."`
	Corpus    string `yaml:"corpus" desc:"Sentence pairs; instead of source and reference."`
	Source    string `yaml:"source" desc:"Sentences, one a line."`
	Reference string `yaml:"reference" desc:"Their translations."`
}

// A Measurement is a line of the table that an evaluation writes.
type Measurement struct {
	System         string   `json:"system"`
	Models         []string `json:"models"`
	Set            string   `json:"set"`
	Lines          int      `json:"lines"`
	Parameters     int      `json:"parameters"` // of all models together
	Bytes          int64    `json:"bytes"`
	BLEU           float64  `json:"bleu"`
	CHRF           float64  `json:"chrf"`
	WordsPerSecond float64  `json:"words_per_second"` // of the source
}

func (e *Evaluate) inputs() []string {
	var names []string
	for _, s := range e.Systems {
		names = append(append(names, s.Models...), s.Shortlist)
	}
	for _, s := range e.Sets {
		names = append(names, s.Corpus, s.Source, s.Reference)
	}
	return names
}

func (e *Evaluate) outputs() []string { return []string{e.To} }

func (e *Evaluate) check(c *checking) {
	c.need(map[string]bool{"systems": len(e.Systems) > 0, "sets": len(e.Sets) > 0, "to": e.To != ""})
	names := map[string]bool{}
	for i, s := range e.Systems {
		at := fmt.Sprintf("systems[%d]", i)
		if !validName.MatchString(s.Name) || names[s.Name] {
			c.at(at+".name", "%q: every system needs a name of its own: letters, digits, dots, dashes and underscores", s.Name)
		}
		names[s.Name] = true
		if len(s.Models) == 0 {
			c.at(at+".models", "missing")
		}
		c.options(at+".options", s.Options)
	}
	clear(names)
	for i, s := range e.Sets {
		at := fmt.Sprintf("sets[%d]", i)
		if !validName.MatchString(s.Name) || names[s.Name] {
			c.at(at+".name", "%q: every set needs a name of its own: letters, digits, dots, dashes and underscores", s.Name)
		}
		names[s.Name] = true
		c.corpus(at+".corpus", s.Corpus)
		if (s.Corpus == "") == (s.Source == "" && s.Reference == "") || (s.Source == "") != (s.Reference == "") {
			c.at(at, "expected either corpus, or source and reference")
		}
	}
}

// A trial is a system, or one of its models, to be measured.
type trial struct {
	name   string
	models []string
	system *System
}

func (e *Evaluate) trials(w *work) []trial {
	var trials []trial
	for i := range e.Systems {
		s := &e.Systems[i]
		models := w.matching(s.Models)
		if !s.Each {
			trials = append(trials, trial{s.Name, models, s})
			continue
		}
		for _, model := range models {
			name := s.Name + "." + strings.TrimSuffix(filepath.Base(model), filepath.Ext(model))
			trials = append(trials, trial{name, []string{model}, s})
		}
	}
	return trials
}

func (e *Evaluate) run(w *work) error {
	trials := e.trials(w)
	var table []Measurement
	for i, t := range trials {
		for j := range e.Sets {
			w.progress((float64(i) + float64(j)/float64(len(e.Sets))) / float64(len(trials)))
			var m Measurement
			kept, err := w.once(t.name+"."+e.Sets[j].Name+".json", func(path string) error {
				measured, err := e.measure(w, t, &e.Sets[j])
				if err != nil {
					return err
				}
				return writeJSON(path, measured)
			})
			if err != nil {
				return err
			}
			if !readJSON(kept, &m) {
				return errors.Join(fmt.Errorf("%s is damaged; run the recipe again", kept), os.Remove(kept))
			}
			w.logger.Info("measured", "system", m.System, "set", m.Set, "bleu", m.BLEU, "chrf", m.CHRF, "words_per_second", m.WordsPerSecond,
				"bytes", m.Bytes)
			table = append(table, m)
		}
	}
	text, err := json.MarshalIndent(table, "", "  ")
	if err != nil {
		return err
	}
	output, err := w.output(e.To)
	if err != nil {
		return err
	}
	return os.WriteFile(output, append(text, '\n'), 0o666)
}

// texts returns source and reference of a test set, as the system reads them.
func (s *TestSet) texts(w *work, inverse bool) (source, reference text) {
	if s.Corpus != "" {
		path := w.input(s.Corpus)
		return side(path, inverse), side(path, !inverse)
	}
	source, reference = plain(w.input(s.Source)), plain(w.input(s.Reference))
	if inverse {
		source, reference = reference, source
	}
	return source, reference
}

// measure translates a test set and compares with the references.
func (e *Evaluate) measure(w *work, t trial, set *TestSet) (Measurement, error) {
	m := Measurement{System: t.name, Models: t.models, Set: set.Name}
	source, reference := set.texts(w, t.system.Inverse)
	references, err := all(reference)
	if err != nil {
		return m, err
	}
	sources, err := all(source)
	if err != nil {
		return m, err
	}
	translations, speed, err := e.translations(w, t, set, sources)
	if err != nil {
		return m, err
	}
	m.Lines, m.WordsPerSecond = len(sources), math.Round(float64(speed.Words)/speed.Seconds)
	if err := m.weigh(w); err != nil {
		return m, err
	}
	bleu, err := score.BLEU(translations, [][]string{references}, score.BLEUOptions{})
	if err != nil {
		return m, err
	}
	chrf, err := score.CHRF(translations, [][]string{references}, score.CHRFOptions{})
	m.BLEU, m.CHRF = round(bleu.Score), round(chrf.Score)
	return m, err
}

// round keeps as many digits as are worth comparing.
func round(score float64) float64 { return math.Round(score*100) / 100 }

// translations translates a set, as often as Repeat says. What was interrupted begins anew, since its time would not count.
func (e *Evaluate) translations(w *work, t trial, set *TestSet, sources []string) ([]string, Throughput, error) {
	folder := filepath.Join(w.scratch, "measuring")
	if err := errors.Join(os.RemoveAll(folder), os.MkdirAll(folder, 0o777)); err != nil {
		return nil, Throughput{}, err
	}
	input, output := filepath.Join(folder, "source"), filepath.Join(folder, "translation")
	err := write(input, func(out *bufio.Writer) error {
		for range max(e.Repeat, 1) {
			for _, line := range sources {
				if _, err := out.WriteString(line + "\n"); err != nil {
					return err
				}
			}
		}
		return nil
	})
	if err != nil {
		return nil, Throughput{}, err
	}
	speed, err := w.translate(task{
		models: t.models, inverse: t.system.Inverse, shortlist: t.system.Shortlist, options: t.system.Options, text: input, own: true,
	}, output, func(float64) {})
	if err != nil {
		return nil, speed, err
	}
	translations, err := all(plain(output))
	if err == nil && len(translations) < len(sources) {
		err = fmt.Errorf("%d of %d lines were translated", len(translations), len(sources))
	}
	if err != nil {
		return nil, speed, err
	}
	return translations[:len(sources)], speed, nil
}

// weigh adds up what the models take.
func (m *Measurement) weigh(w *work) error {
	for _, name := range m.Models {
		path := w.input(name)
		info, err := os.Stat(path)
		if err != nil {
			return err
		}
		file, err := marian.Open(path)
		if err != nil {
			return err
		}
		m.Bytes += info.Size()
		m.Parameters += file.Parameters()
		if err := file.Close(); err != nil {
			return err
		}
	}
	return nil
}

// all reads a text that fits into memory.
func all(t text) ([]string, error) {
	var list []string
	for line, err := range t.lines {
		if err != nil {
			return nil, err
		}
		list = append(list, line)
	}
	return list, nil
}
