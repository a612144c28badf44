package recipe

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/sluice-mt/sluice/train/pieces"
	"github.com/sluice-mt/sluice/translator/vocab"
)

// Vocabulary trains a SentencePiece vocabulary.
type Vocabulary struct {
	Corpora   []string `yaml:"corpora" desc:"Sentence pairs."`
	Side      string   `yaml:"side" oneof:"both source target" desc:"Which side of them. Default both."`
	Type      string   `yaml:"type" oneof:"unigram bpe" desc:"How words are divided. Default unigram."`
	Size      int      `yaml:"size" desc:"How many pieces. Default 32000."`
	Coverage  float64  `yaml:"character-coverage" desc:"Share of the characters of the text that are pieces; others are written in bytes. Default 0.9995."`
	Sentences int      `yaml:"sentences" desc:"How many sentences are looked at, chosen at random. Default all."`
	Digits    bool     `yaml:"split-digits" desc:"Every digit is a piece of its own."`
	To        string   `yaml:"to" desc:"The vocabulary to write, an .spm file."`
}

func (v *Vocabulary) inputs() []string { return v.Corpora }

func (v *Vocabulary) outputs() []string { return []string{v.To} }

func (v *Vocabulary) check(c *checking) {
	c.need(map[string]bool{"corpora": len(v.Corpora) > 0, "to": v.To != ""})
	if v.To != "" && !strings.HasSuffix(v.To, ".spm") {
		c.at("to", "%q: expected an .spm file", v.To)
	}
	for _, name := range v.Corpora {
		c.corpus("corpora", name)
	}
}

func (v *Vocabulary) options() pieces.Options {
	options := pieces.Defaults()
	if v.Type == "bpe" {
		options.Spec.Type = vocab.BPEModel
	}
	if v.Size > 0 {
		options.Spec.VocabSize = v.Size
	}
	if v.Coverage > 0 {
		options.Spec.CharacterCoverage = v.Coverage
	}
	options.Spec.InputSentenceSize, options.Spec.SplitDigits = v.Sentences, v.Digits
	return options
}

func (v *Vocabulary) run(w *work) error {
	result, err := pieces.Train(w.ctx, v.corpus(w), v.options(), w.logger)
	if w.ctx.Err() != nil && err != nil {
		return fmt.Errorf("%w: %w", ErrInterrupted, err)
	}
	if errors.Is(err, pieces.ErrCorpus) {
		return fmt.Errorf("%w: %w", ErrFormat, err)
	}
	if err != nil {
		return err
	}
	content, err := result.Model.Marshal()
	if err != nil {
		return err
	}
	output, err := w.output(v.To)
	if err != nil {
		return err
	}
	return os.WriteFile(output, content, 0o666)
}

// corpus gives the sentences of the wanted sides.
func (v *Vocabulary) corpus(w *work) pieces.Corpus {
	return func(yield func(sentence string) error) error {
		for _, path := range w.paths(v.Corpora) {
			for p, err := range pairs(path) {
				if err == nil && v.Side != "target" {
					err = yield(p.source)
				}
				if err == nil && v.Side != "source" {
					err = yield(p.target)
				}
				if err != nil {
					return err
				}
			}
		}
		return nil
	}
}
