package recipe

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"

	"github.com/sluice-mt/sluice/internal/jobfile"
	"github.com/sluice-mt/sluice/internal/score"
	"github.com/sluice-mt/sluice/train/report"
	"github.com/sluice-mt/sluice/translator/marian"
	"github.com/sluice-mt/sluice/translator/model"
)

// Evaluate measures models. Its output is what sluice eval --json prints, for one model after another.
type Evaluate struct {
	Systems []System  `yaml:"systems" desc:"What is measured."`
	Sets    []TestSet `yaml:"sets" desc:"On which test sets."`
	Repeat  int       `yaml:"repeat" desc:"How often each set is translated to measure the speed: small sets take too short. Default 1."`
	To      string    `yaml:"to" desc:"The file to write, as sluice eval --json writes it."`
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
	output, err := w.output(e.To)
	if err != nil {
		return err
	}
	return replace(output, func(out io.Writer) error {
		encoder := json.NewEncoder(out)
		for i, t := range trials {
			evaluation, err := e.try(w, t, w.part(float64(i)/float64(len(trials)), float64(i+1)/float64(len(trials))))
			if err != nil {
				return err
			}
			if err := encoder.Encode(evaluation); err != nil {
				return err
			}
		}
		return nil
	})
}

// A measurement is what a system did on a test set, and in which way.
type measurement struct {
	report.Set
	Precision string
	Workers   int
}

// try measures a system on all test sets.
func (e *Evaluate) try(w *work, t trial, done func(share float64)) (report.Evaluation, error) {
	result := report.Evaluation{Name: t.name, Model: strings.Join(t.models, " ")}
	if err := weigh(w, &result, t.models); err != nil {
		return result, err
	}
	for i := range e.Sets {
		var m measurement
		kept, err := w.once(t.name+"."+e.Sets[i].Name+".json", func(path string) error {
			measured, err := e.measure(w, t, &e.Sets[i])
			if err != nil {
				return err
			}
			return writeJSON(path, measured)
		})
		if err != nil {
			return result, err
		}
		if !readJSON(kept, &m) {
			return result, errors.Join(fmt.Errorf("%s is damaged; run the recipe again", kept), os.Remove(kept))
		}
		result.Precision, result.Workers = m.Precision, m.Workers
		result.Sets = append(result.Sets, m.Set)
		done(float64(i+1) / float64(len(e.Sets)))
		w.logger.Info("measured", "system", t.name, "set", m.Name, "bleu", round(m.BLEU), "chrf", round(m.CHRF),
			"words_per_second", math.Round(float64(m.Words)/m.Seconds), "bytes", result.Bytes)
	}
	return result, nil
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
func (e *Evaluate) measure(w *work, t trial, set *TestSet) (measurement, error) {
	var m measurement
	source, reference := set.texts(w, t.system.Inverse)
	references, err := all(reference)
	if err != nil {
		return m, err
	}
	sources, err := all(source)
	if err != nil {
		return m, err
	}
	translations, speed, err := e.translations(w, t, sources)
	if err != nil {
		return m, err
	}
	m = measurement{Precision: speed.Precision, Workers: speed.Workers, Set: report.Set{
		Name: set.Name, Lines: len(sources), Words: speed.Words, Seconds: speed.Seconds, CPUSeconds: speed.CPUSeconds,
	}}
	bleu, err := score.BLEU(translations, [][]string{references}, score.BLEUOptions{})
	if err != nil {
		return m, fmt.Errorf("%w: the test set %s: %w", ErrFormat, set.Name, err)
	}
	chrf, err := score.CHRF(translations, [][]string{references}, score.CHRFOptions{})
	m.BLEU, m.CHRF = bleu.Score, chrf.Score
	return m, err
}

// round keeps as many digits as are worth reading.
func round(score float64) float64 { return math.Round(score*100) / 100 }

// translations translates a set, as often as Repeat says. What was interrupted begins anew, since its time would not count.
func (e *Evaluate) translations(w *work, t trial, sources []string) ([]string, Throughput, error) {
	folder := filepath.Join(w.scratch, "measuring")
	if err := errors.Join(os.RemoveAll(folder), os.MkdirAll(folder, 0o777)); err != nil {
		return nil, Throughput{}, err
	}
	input, output := filepath.Join(folder, "source"), filepath.Join(folder, "translation")
	err := WriteText(input, func(out *bufio.Writer) error {
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
		models: t.models, inverse: t.system.Inverse, shortlist: t.system.Shortlist, options: t.system.Options, text: input, own: true, measured: true,
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

// weigh adds up what models take.
func weigh(w *work, e *report.Evaluation, names []string) error {
	var stored []string
	for _, name := range names {
		path := w.input(name)
		info, err := os.Stat(path)
		if err != nil {
			return err
		}
		file, err := marian.Open(path)
		if err != nil {
			return err
		}
		m, err := model.Load(file, nil)
		if err != nil {
			return errors.Join(err, file.Close())
		}
		of := m.Report()
		e.Bytes += info.Size()
		e.Parameters += of.Parameters
		if len(of.Stored) > 0 {
			stored = append(stored, of.Stored[0].Type.String())
		}
		if err := file.Close(); err != nil {
			return err
		}
	}
	e.Stored = strings.Join(stored, " ")
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
