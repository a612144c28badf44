package recipe

import (
	"errors"
	"fmt"
	"iter"
	"os"
	"slices"
	"strings"

	"github.com/sluice-mt/sluice/translator/shortlist"
)

// Shortlist learns a lexical shortlist.
type Shortlist struct {
	Corpora    []string `yaml:"corpora" desc:"Sentence pairs."`
	Alignments string   `yaml:"alignments" desc:"Alignments of the corpora, as a step that aligns writes them. Without them they are learnt in one direction."`
	Inverse    bool     `yaml:"inverse" desc:"For models from the target language into the source language."`
	First      int      `yaml:"first" desc:"How many of the most frequent pieces are candidates of every sentence. Default 100."`
	Best       int      `yaml:"best" desc:"How many translations of each source piece are candidates. Default 100."`
	To         string   `yaml:"to" desc:"The shortlist to write, a .bin file."`
}

func (s *Shortlist) inputs() []string { return append(slices.Clone(s.Corpora), s.Alignments) }

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
	table, err := s.table(w)
	if errors.Is(err, shortlist.ErrCorpus) {
		return fmt.Errorf("%w: %w", ErrFormat, err)
	}
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
	paths := w.direction(s.Inverse)
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

// table returns the probabilities that the corpora give: counted from alignments, or learnt.
func (s *Shortlist) table(w *work) (*shortlist.Table, error) {
	source, target, err := openVocabularies(w.direction(s.Inverse))
	if err != nil {
		return nil, err
	}
	if s.Alignments == "" {
		return shortlist.Build(func(yield func(source, target []int32) error) error {
			return eachInPieces(w, s.Corpora, s.Inverse, yield)
		}, shortlist.DefaultBuildOptions(source.Size(), target.Size()))
	}
	counter := shortlist.NewLinkCounter(source.Size(), target.Size())
	path := w.input(s.Alignments)
	next, stop := iter.Pull2(Lines(path))
	defer stop()
	number := 0
	err = eachInPieces(w, s.Corpora, s.Inverse, func(source, target []int32) error {
		number++
		links, err, ok := next()
		if err == nil && !ok {
			err = fmt.Errorf("%w: %s has %d lines, fewer than there are pairs", ErrFormat, path, number-1)
		}
		if err != nil {
			return err
		}
		if err := counter.Add(source, target, links); err != nil {
			return fmt.Errorf("%w: %s, line %d: %w", ErrFormat, path, number, err)
		}
		return nil
	})
	if _, _, more := next(); err == nil && more {
		err = fmt.Errorf("%w: %s has more lines than the %d pairs there are", ErrFormat, path, number)
	}
	return counter.Table(), err
}
