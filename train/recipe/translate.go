package recipe

import (
	"bufio"
	"iter"
	"os"
	"slices"
	"strings"

	"github.com/sluice-mt/sluice/internal/jobfile"
)

// Translate translates a text through the engine's pipeline.
type Translate struct {
	Text      string           `yaml:"text" desc:"What is translated: lines, or a corpus (.tsv) of which one side is."`
	Models    []string         `yaml:"models" desc:"The model, or several as an ensemble. A pattern stands for all models of the recipe that match."`
	Inverse   bool             `yaml:"inverse" desc:"The models translate from the target language into the source language."`
	Shortlist string           `yaml:"shortlist" desc:"Shortlist of the models."`
	Options   []jobfile.Option `yaml:"options" desc:"Options of sluice translate, without dashes."`
	NBest     bool             `yaml:"n-best" desc:"Write as many translations as the beam has, in Marian's form."`
	To        string           `yaml:"to" desc:"What is written, compressed as the name says."`
}

func (t *Translate) inputs() []string {
	return append(append([]string{t.Text}, t.Models...), t.Shortlist)
}

func (t *Translate) outputs() []string { return []string{t.To} }

func (t *Translate) check(c *checking) {
	c.need(map[string]bool{"text": t.Text != "", "models": len(t.Models) > 0, "to": t.To != ""})
	c.options("options", t.Options)
}

func (t *Translate) run(w *work) error {
	output, err := w.output(t.To)
	if err != nil {
		return err
	}
	task := task{models: t.Models, inverse: t.Inverse, options: t.Options, text: t.Text, nBest: t.NBest, shortlist: t.Shortlist}
	_, err = w.translate(task, output, w.progress)
	return err
}

// A task is a translation in the words of a recipe.
type task struct {
	models    []string // names and patterns
	inverse   bool
	shortlist string
	options   []jobfile.Option
	text      string // name of an input, or path of a file of the step's own
	own       bool   // text is of the step's own
	nBest     bool
	measured  bool // for its speed
}

// translate translates, unless that was done before an interruption.
func (w *work) translate(t task, output string, done func(share float64)) (Throughput, error) {
	if _, err := os.Stat(output); err == nil {
		done(1)
		return Throughput{}, nil
	}
	text := t.text
	if !t.own {
		text = w.input(t.text)
	}
	list := ""
	if t.shortlist != "" {
		list = w.input(t.shortlist)
	}
	return w.engine.Translate(w.ctx, Translation{
		Models: w.paths(t.models), Vocabularies: w.direction(t.inverse), Shortlist: list, Options: t.options,
		Input: text, Column: column(text, t.inverse), NBest: t.nBest, Measured: t.measured, Output: output, Logger: w.logger, Progress: done,
	})
}

// isCorpus says whether a text is a table of pairs.
func isCorpus(path string) bool {
	for _, suffix := range []string{".gz", ".zst", ".xz", ".bz2"} {
		path = strings.TrimSuffix(path, suffix)
	}
	return strings.HasSuffix(path, ".tsv")
}

// column is the side of a corpus that models read, 0 for plain text.
func column(path string, inverse bool) int {
	switch {
	case !isCorpus(path):
		return 0
	case inverse:
		return 2
	}
	return 1
}

// withDefault adds an option unless it is there.
func withDefault(options []jobfile.Option, name string, values ...string) []jobfile.Option {
	if slices.ContainsFunc(options, func(o jobfile.Option) bool { return o.Name == name }) {
		return options
	}
	return append(slices.Clone(options), jobfile.Option{Name: name, Values: values})
}

// teacherBeam is how many translations a teacher proposes.
const teacherBeam = "8"

// Distil makes the data that a student learns from, by interpolated sequence-level distillation (Kim and Rush 2016).
type Distil struct {
	Corpus  string           `yaml:"corpus" desc:"Sentence pairs."`
	Models  []string         `yaml:"models" desc:"The teacher, or several as an ensemble. A pattern stands for all models of the recipe that match."`
	Inverse bool             `yaml:"inverse" desc:"The teachers translate from the target language into the source language; sources are distilled."`
	Options []jobfile.Option `yaml:"options" desc:"Options of sluice translate. beam-size, which is how many translations there are to choose from, is 8 by default."`
	NBest   string           `yaml:"n-best" desc:"Instead of models: what sluice translate --n-best made of the corpus' sources elsewhere, in Marian's form."`
	To      string           `yaml:"to" desc:"The corpus to write: sources with the chosen translations."`
}

func (d *Distil) inputs() []string { return append([]string{d.Corpus, d.NBest}, d.Models...) }

func (d *Distil) outputs() []string { return []string{d.To} }

func (d *Distil) check(c *checking) {
	c.need(map[string]bool{"corpus": d.Corpus != "", "to": d.To != ""})
	if (d.NBest == "") == (len(d.Models) == 0) {
		c.at("", "expected either models or n-best")
	}
	c.options("options", d.Options)
	c.corpus("corpus", d.Corpus)
	c.corpus("to", d.To)
}

// corpus reports a name that is not that of a table of pairs.
func (c *checking) corpus(setting, name string) {
	if name != "" && !isCorpus(name) {
		c.at(setting, "%q: sentence pairs are in a .tsv: source, tab, target (.tsv.gz, .tsv.zst and so on are read and written, too)", name)
	}
}

func (d *Distil) run(w *work) error {
	candidates, err := d.candidates(w)
	if err != nil {
		return err
	}
	output, err := w.output(d.To)
	if err != nil {
		return err
	}
	counts, err := writeClosest(output, pairs(w.input(d.Corpus)), candidates, d.Inverse)
	w.logger.Info("chosen by sentence BLEU", "pairs", counts.kept, "without_translation", counts.empty)
	return err
}

// candidates is the n-best list to choose from.
func (d *Distil) candidates(w *work) (string, error) {
	if d.NBest != "" {
		return w.input(d.NBest), nil
	}
	return w.once("n-best.zst", func(path string) error {
		_, err := w.translate(task{
			models: d.Models, inverse: d.Inverse, options: withDefault(d.Options, "beam-size", teacherBeam), text: d.Corpus, nBest: true,
		}, path, w.part(0, 0.95))
		return err
	})
}

// BackTranslate makes pairs out of target text: sources that inverse models sample, and of the translations that models give of
// these the one that is closest to the original target.
type BackTranslate struct {
	Text            string           `yaml:"text" desc:"Text in the target language: lines, or a corpus (.tsv), whose targets are taken."`
	Inverse         []string         `yaml:"inverse-models" desc:"Models from the target language into the source language; several are an ensemble. A pattern stands for all models of the recipe that match."`
	Models          []string         `yaml:"models" desc:"Models from the source language into the target language, likewise."`
	SamplingOptions []jobfile.Option `yaml:"sampling-options" desc:"Options of sluice translate for the inverse models. output-sampling is gumbel by default: Gumbel noise added to the scores."`
	Options         []jobfile.Option `yaml:"options" desc:"Options for the models. beam-size is 8 by default."`
	To              string           `yaml:"to" desc:"The corpus to write: sampled sources with the chosen translations."`
}

func (b *BackTranslate) inputs() []string {
	return append(append([]string{b.Text}, b.Inverse...), b.Models...)
}

func (b *BackTranslate) outputs() []string { return []string{b.To} }

func (b *BackTranslate) check(c *checking) {
	c.need(map[string]bool{
		"text": b.Text != "", "inverse-models": len(b.Inverse) > 0, "models": len(b.Models) > 0, "to": b.To != "",
	})
	c.options("sampling-options", b.SamplingOptions)
	c.options("options", b.Options)
	c.corpus("to", b.To)
}

func (b *BackTranslate) run(w *work) error {
	sampled, err := w.once("sampled", func(path string) error {
		_, err := w.translate(task{
			models: b.Inverse, inverse: true, options: withDefault(b.SamplingOptions, "output-sampling", "gumbel"), text: b.Text,
		}, path, w.part(0, 0.3))
		return err
	})
	if err != nil {
		return err
	}
	candidates, err := w.once("n-best.zst", func(path string) error {
		_, err := w.translate(task{
			models: b.Models, options: withDefault(b.Options, "beam-size", teacherBeam), text: sampled, own: true, nBest: true,
		}, path, w.part(0.3, 0.95))
		return err
	})
	if err != nil {
		return err
	}
	output, err := w.output(b.To)
	if err != nil {
		return err
	}
	counts, err := writeClosest(output, sideBySide(plain(sampled), b.original(w)), candidates, false)
	w.logger.Info("chosen by sentence BLEU", "pairs", counts.kept, "without_translation", counts.empty)
	return err
}

// original is the text that is translated back.
func (b *BackTranslate) original(w *work) text {
	if path := w.input(b.Text); isCorpus(path) {
		return side(path, true)
	}
	return plain(w.input(b.Text))
}

// Dual makes the data of dual learning with several agents (Wang et al. 2019), as the fast student models of the shared tasks on
// efficient translation used it: every pair as it is, with its target replaced by a translation of its source, and with its
// source replaced by a translation of its target.
type Dual struct {
	Corpus  string           `yaml:"corpus" desc:"Sentence pairs."`
	Models  []string         `yaml:"models" desc:"Models from the source language into the target language; several are an ensemble. A pattern stands for all models of the recipe that match."`
	Inverse []string         `yaml:"inverse-models" desc:"Models from the target language into the source language, likewise."`
	Options []jobfile.Option `yaml:"options" desc:"Options of sluice translate for both. beam-size is 4 by default."`
	To      string           `yaml:"to" desc:"The corpus to write: original pairs, then those with synthetic targets, then those with synthetic sources."`
}

func (d *Dual) inputs() []string {
	return append(append([]string{d.Corpus}, d.Models...), d.Inverse...)
}

func (d *Dual) outputs() []string { return []string{d.To} }

func (d *Dual) check(c *checking) {
	c.need(map[string]bool{
		"corpus": d.Corpus != "", "models": len(d.Models) > 0, "inverse-models": len(d.Inverse) > 0, "to": d.To != "",
	})
	c.options("options", d.Options)
	c.corpus("corpus", d.Corpus)
	c.corpus("to", d.To)
}

func (d *Dual) run(w *work) error {
	options := withDefault(d.Options, "beam-size", "4")
	forward, err := w.once("forward", func(path string) error {
		_, err := w.translate(task{models: d.Models, options: options, text: d.Corpus}, path, w.part(0, 0.45))
		return err
	})
	if err != nil {
		return err
	}
	backward, err := w.once("backward", func(path string) error {
		_, err := w.translate(task{models: d.Inverse, inverse: true, options: options, text: d.Corpus}, path, w.part(0.45, 0.95))
		return err
	})
	if err != nil {
		return err
	}
	output, err := w.output(d.To)
	if err != nil {
		return err
	}
	corpus := w.input(d.Corpus)
	return WriteText(output, func(out *bufio.Writer) error {
		parts := []iter.Seq2[pair, error]{
			pairs(corpus), sideBySide(side(corpus, false), plain(forward)), sideBySide(plain(backward), side(corpus, true)),
		}
		for _, part := range parts {
			for p, err := range part {
				if err != nil {
					return err
				}
				if p.source == "" || p.target == "" {
					continue
				}
				if err := writePair(out, p); err != nil {
					return err
				}
			}
		}
		return nil
	})
}
