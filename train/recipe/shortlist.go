package recipe

import (
	"fmt"
	"os"
	"strings"

	"github.com/sluice-mt/sluice/translator/shortlist"
	"github.com/sluice-mt/sluice/translator/vocab"
)

// Shortlist learns a lexical shortlist.
type Shortlist struct {
	Corpora []string `yaml:"corpora" desc:"Sentence pairs."`
	Inverse bool     `yaml:"inverse" desc:"For models from the target language into the source language."`
	First   int      `yaml:"first" desc:"How many of the most frequent pieces are candidates of every sentence. Default 100."`
	Best    int      `yaml:"best" desc:"How many translations of each source piece are candidates. Default 100."`
	To      string   `yaml:"to" desc:"The shortlist to write, a .bin file."`
}

func (s *Shortlist) inputs() []string { return s.Corpora }

func (s *Shortlist) outputs() []string { return []string{s.To} }

func (s *Shortlist) check(c *checking) {
	c.need(map[string]bool{"corpora": len(s.Corpora) > 0, "to": s.To != ""})
	if s.To != "" && !strings.HasSuffix(s.To, ".bin") {
		c.at("to", "%q: expected a .bin file", s.To)
	}
}

func (s *Shortlist) run(w *work) error {
	output, err := w.output(s.To)
	if err != nil {
		return err
	}
	paths := w.direction(s.Inverse)
	source, err := vocab.Open(paths[0])
	if err != nil {
		return err
	}
	target, err := vocab.Open(paths[1])
	if err != nil {
		return err
	}
	table, err := shortlist.Build(s.corpus(w, source, target), shortlist.DefaultBuildOptions(source.Size(), target.Size()))
	if err != nil {
		return err
	}
	parameters := shortlist.Defaults()
	if s.First > 0 {
		parameters.First = s.First
	}
	if s.Best > 0 {
		parameters.Best = s.Best
	}
	chosen, err := table.Shortlist(parameters, paths[0] == paths[1])
	if err != nil {
		return err
	}
	f, err := os.Create(output)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = chosen.WriteTo(f)
	return err
}

// corpus gives the pieces of all pairs.
func (s *Shortlist) corpus(w *work, source, target vocab.Vocabulary) shortlist.Corpus {
	return func(yield func(source, target []int32) error) error {
		var left, right []int32
		for _, path := range w.paths(s.Corpora) {
			for p, err := range pairs(path) {
				if err == nil && w.ctx.Err() != nil {
					err = fmt.Errorf("%w: %w", ErrInterrupted, w.ctx.Err())
				}
				if err != nil {
					return err
				}
				if s.Inverse {
					p.source, p.target = p.target, p.source
				}
				left, right = source.Encode(p.source, left[:0]), target.Encode(p.target, right[:0])
				if err := yield(left, right); err != nil {
					return err
				}
			}
		}
		return nil
	}
}
