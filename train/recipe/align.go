package recipe

import (
	"bufio"
	"errors"
	"fmt"

	"github.com/sluice-mt/sluice/train/align"
	"github.com/sluice-mt/sluice/translator/vocab"
)

// Align finds out which pieces translate which, for guided alignment and for shortlists.
type Align struct {
	Corpora []string `yaml:"corpora" desc:"Sentence pairs; for guided alignment the same ones, in the same order, as are trained with."`
	Inverse bool     `yaml:"inverse" desc:"For models from the target language into the source language."`
	Method  string   `yaml:"method" oneof:"intersection union grow-diag grow-diag-final grow-diag-final-and" desc:"How the alignments of both directions are joined. Default grow-diag-final-and."`
	To      string   `yaml:"to" desc:"The alignments to write: pairs of positions such as 0-0 1-2, a line for each sentence pair."`
}

// alignedLength is the most pieces of a sentence that is aligned.
const alignedLength = 1000

func (a *Align) inputs() []string { return a.Corpora }

func (a *Align) outputs() []string { return []string{a.To} }

func (a *Align) check(c *checking) {
	c.need(map[string]bool{"corpora": len(a.Corpora) > 0, "to": a.To != ""})
	for _, name := range a.Corpora {
		c.corpus("corpora", name)
	}
}

func (a *Align) run(w *work) error {
	err := a.align(w)
	switch {
	case err != nil && w.ctx.Err() != nil:
		return fmt.Errorf("%w: %w", ErrInterrupted, err)
	case errors.Is(err, align.ErrCorpus):
		return fmt.Errorf("%w: %w", ErrFormat, err)
	}
	return err
}

func (a *Align) align(w *work) (err error) {
	corpus, err := align.NewCorpus(alignedLength, w.scratch)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, corpus.Close()) }()
	if err := eachInPieces(w, a.Corpora, a.Inverse, corpus.Add); err != nil {
		return err
	}
	options := align.DefaultOptions()
	options.Temporary = w.scratch
	directions := make([]*align.Links, 2)
	for i := range directions {
		done := w.part(0.1+0.4*float64(i), 0.5+0.4*float64(i))
		directions[i], err = align.Learn(w.ctx, corpus, i == 1, options, func(it align.Iteration) {
			done(float64(it.Number) / float64(options.Iterations))
		})
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, directions[i].Close()) }()
	}
	return a.writeLinks(w, corpus, directions)
}

// writeLinks joins both directions.
func (a *Align) writeLinks(w *work, corpus *align.Corpus, directions []*align.Links) error {
	method := align.GrowDiagFinalAnd
	if a.Method != "" {
		var err error
		if method, err = align.ParseMethod(a.Method); err != nil {
			return err
		}
	}
	output, err := w.output(a.To)
	if err != nil {
		return err
	}
	return WriteText(output, func(out *bufio.Writer) error {
		var line []byte
		return align.Each(w.ctx, corpus, directions[0], directions[1], method, func(_, _ []int32, links []align.Link) error {
			line = append(align.AppendPharaoh(line[:0], links), '\n')
			_, err := out.Write(line)
			return err
		})
	})
}

// eachInPieces calls f with the pieces of all pairs of corpora, the model's source first. The slices are used again.
func eachInPieces(w *work, corpora []string, inverse bool, f func(source, target []int32) error) error {
	source, target, err := openVocabularies(w.direction(inverse))
	if err != nil {
		return err
	}
	var left, right []int32
	for _, path := range w.paths(corpora) {
		for p, err := range pairs(path) {
			if err == nil && w.ctx.Err() != nil {
				err = fmt.Errorf("%w: %w", ErrInterrupted, w.ctx.Err())
			}
			if err != nil {
				return err
			}
			if inverse {
				p.source, p.target = p.target, p.source
			}
			left, right = source.Encode(p.source, left[:0]), target.Encode(p.target, right[:0])
			if err := f(left, right); err != nil {
				return err
			}
		}
	}
	return nil
}

// openVocabularies opens the vocabularies of source and target.
func openVocabularies(paths []string) (source, target vocab.Vocabulary, err error) {
	if source, err = vocab.Open(paths[0]); err != nil {
		return nil, nil, err
	}
	if paths[1] == paths[0] {
		return source, source, nil
	}
	target, err = vocab.Open(paths[1])
	return source, target, err
}
