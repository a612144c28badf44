package recipe

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/sluice-mt/sluice/internal/compress"
	"github.com/sluice-mt/sluice/internal/m2"
	"github.com/sluice-mt/sluice/train/corpus"
)

// PlantErrors makes sentence pairs for a model that corrects out of text that needs no correction: sources with errors, and the
// text itself as target.
type PlantErrors struct {
	Text          string  `yaml:"text" desc:"Correct sentences: lines, or a corpus (.tsv), whose sources are taken."`
	Confusions    string  `yaml:"confusions" desc:"Words that writers take for each other, a set on each line."`
	ConfusionRate float64 `yaml:"confusion-rate" desc:"Share of those words that become another of their set. Default 0.2."`
	Typos         float64 `yaml:"typos" desc:"Share of sentences with typing errors. Default 0: none."`
	TypoRate      float64 `yaml:"typo-rate" desc:"Share of the words of such a sentence that have one; one at least. Default 0."`
	Copies        int     `yaml:"copies" desc:"How often each sentence is there, with other errors each time. Default 1."`
	Seed          int     `yaml:"seed" desc:"Decides which errors there are."`
	To            string  `yaml:"to" desc:"The corpus to write: source with errors, tab, target."`
}

// defaultConfusionRate is the share of words that are confused if nothing is said.
const defaultConfusionRate = 0.2

func (p *PlantErrors) inputs() []string { return []string{p.Text, p.Confusions} }

func (p *PlantErrors) outputs() []string { return []string{p.To} }

func (p *PlantErrors) check(c *checking) {
	c.need(map[string]bool{"text": p.Text != "", "to": p.To != ""})
	c.corpus("to", p.To)
	if p.Copies < 0 {
		c.at("copies", "%d: at least 1", p.Copies)
	}
	if p.Confusions == "" && p.Typos == 0 {
		c.at("", "neither confusions nor typos: nothing would be wrong")
	}
	noise := p.noise()
	if err := noise.Check(); err != nil {
		c.at("", "%v", err)
	}
}

func (p *PlantErrors) noise() corpus.Noise {
	n := corpus.Noise{Typos: p.Typos, TypoRate: p.TypoRate}
	if p.Confusions != "" {
		n.ConfusionRate = p.ConfusionRate
		if n.ConfusionRate == 0 {
			n.ConfusionRate = defaultConfusionRate
		}
	}
	return n
}

func (p *PlantErrors) run(w *work) error {
	noise := p.noise()
	if p.Confusions != "" {
		var err error
		if noise.Confusions, err = readConfusions(w.input(p.Confusions)); err != nil {
			return err
		}
	}
	from := plain(w.input(p.Text))
	if isCorpus(p.Text) {
		from = side(w.input(p.Text), false)
	}
	output, err := w.output(p.To)
	if err != nil {
		return err
	}
	var changes corpus.Changes
	err = WriteText(output, func(out *bufio.Writer) error {
		for copied := range max(p.Copies, 1) {
			noise.Seed = uint64(p.Seed) + uint64(copied)<<32
			var line uint64
			for text, err := range from.lines {
				if err != nil {
					return err
				}
				planted := corpus.Pair{Source: text, Target: text}
				noise.Apply(line, &planted, &changes)
				line++
				if err := writePair(out, pair{planted.Source, planted.Target}); err != nil {
					return err
				}
			}
		}
		return nil
	})
	w.logger.Info("errors planted", "pairs", changes.Lines, "with_confusions", changes.Confused, "with_typos", changes.Typos)
	return err
}

// readConfusions reads a file of words that are confused, compressed or not.
func readConfusions(path string) (confusions corpus.Confusions, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	text, err := compress.NewReader(f)
	if err == nil {
		defer func() { err = errors.Join(err, text.Close()) }()
		confusions, err = corpus.ReadConfusions(text)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrFormat, path, err)
	}
	return confusions, nil
}

// Edits finds what the pairs of corpora change: gold edits to score corrections with, weights to train with.
type Edits struct {
	Corpora []string `yaml:"corpora" desc:"Sentences with their corrections; for weights the same corpora, in the same order, as are trained with."`
	Gold    string   `yaml:"gold" desc:"File of the edits in the M² format, for sluice score m2."`
	Weight  int      `yaml:"weight" desc:"Weight of target pieces that are not those of the source. Default 3."`
	Weights string   `yaml:"weights" desc:"File of weights: a number for each target piece."`
}

// defaultEditWeight is the weight of changed pieces if nothing is said; Junczys-Dowmunt et al. 2018 chose it on a development set.
const defaultEditWeight = 3

func (e *Edits) inputs() []string { return e.Corpora }

func (e *Edits) outputs() []string {
	var names []string
	for _, name := range []string{e.Gold, e.Weights} {
		if name != "" {
			names = append(names, name)
		}
	}
	return names
}

func (e *Edits) check(c *checking) {
	c.need(map[string]bool{"corpora": len(e.Corpora) > 0})
	for _, name := range e.Corpora {
		c.corpus("corpora", name)
	}
	if e.Gold == "" && e.Weights == "" {
		c.at("", "gold or weights: the file to write")
	}
	if e.Weight < 0 {
		c.at("weight", "%d: at least 1", e.Weight)
	}
}

func (e *Edits) run(w *work) error {
	if e.Gold != "" {
		if err := e.writeGold(w); err != nil {
			return err
		}
	}
	if e.Weights == "" {
		return nil
	}
	output, err := w.output(e.Weights)
	if err != nil {
		return err
	}
	weight := e.Weight
	if weight == 0 {
		weight = defaultEditWeight
	}
	return WriteText(output, func(out *bufio.Writer) error {
		return eachInPieces(w, e.Corpora, false, func(source, target []int32) error {
			words := make([]string, len(target))
			for i, changed := range m2.Changed(source, target) {
				words[i] = "1"
				if changed {
					words[i] = strconv.Itoa(weight)
				}
			}
			_, err := out.WriteString(strings.Join(words, " ") + "\n")
			return err
		})
	})
}

func (e *Edits) writeGold(w *work) error {
	output, err := w.output(e.Gold)
	if err != nil {
		return err
	}
	return WriteText(output, func(out *bufio.Writer) error {
		for _, path := range w.paths(e.Corpora) {
			line := 0
			for p, err := range pairs(path) {
				if err != nil {
					return err
				}
				line++
				edits, err := m2.Extract(p.source, p.target, 0)
				if err == nil {
					err = m2.Write(out, &m2.Sentence{Source: p.source, Annotations: []m2.Annotation{{Edits: edits}}})
				}
				if errors.Is(err, m2.ErrInput) || errors.Is(err, m2.ErrUnwritable) {
					err = fmt.Errorf("%w: %s, line %d: %w", ErrFormat, path, line, err)
				}
				if err != nil {
					return err
				}
			}
		}
		return nil
	})
}
