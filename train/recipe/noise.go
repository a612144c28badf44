package recipe

import (
	"bufio"

	"github.com/sluice-mt/sluice/train/corpus"
)

// Noise makes a corpus as careless as people write, so that a student learns to translate that, too.
type Noise struct {
	Corpus string `yaml:"corpus" desc:"Sentence pairs."`
	Seed   int    `yaml:"seed" desc:"Decides what happens to which pair."`
	To     string `yaml:"to" desc:"The corpus to write."`
}

func (n *Noise) inputs() []string { return []string{n.Corpus} }

func (n *Noise) outputs() []string { return []string{n.To} }

func (n *Noise) check(c *checking) {
	c.need(map[string]bool{"corpus": n.Corpus != "", "to": n.To != ""})
	c.corpus("corpus", n.Corpus)
	c.corpus("to", n.To)
}

func (n *Noise) run(w *work) error {
	output, err := w.output(n.To)
	if err != nil {
		return err
	}
	noise := corpus.DefaultNoise()
	noise.Seed = uint64(n.Seed)
	var changes corpus.Changes
	err = WriteText(output, func(out *bufio.Writer) error {
		var line uint64
		for p, err := range pairs(w.input(n.Corpus)) {
			if err != nil {
				return err
			}
			changed := corpus.Pair{Source: p.source, Target: p.target}
			noise.Apply(line, &changed, &changes)
			line++
			if err := writePair(out, pair{changed.Source, changed.Target}); err != nil {
				return err
			}
		}
		return nil
	})
	w.logger.Info("noise", "lines", changes.Lines, "upper", changes.Upper, "title", changes.Title, "lower", changes.Lower,
		"unpunctuated", changes.Unpunctuated, "typos", changes.Typos)
	return err
}
