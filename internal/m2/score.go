package m2

import (
	"errors"
	"fmt"
	"strings"
)

// Options are the scorer's.
type Options struct {
	Beta         float64 // how many times as much recall counts as precision
	MaxUnchanged int     // unchanged tokens that an edit of the candidate may hold
	// IgnoreCaseAndSpace leaves out the candidate's edits that change only case or white space.
	IgnoreCaseAndSpace bool
}

// DefaultOptions are the scorer's defaults.
func DefaultOptions() Options { return Options{Beta: 0.5, MaxUnchanged: 2} }

// ErrOptions is wrapped by the errors about options that make no sense.
var ErrOptions = errors.New("options of M²")

// Check says what is wrong with the options.
func (o *Options) Check() error {
	switch {
	case !(o.Beta >= 0 && o.Beta <= 1e6):
		return fmt.Errorf("%w: beta is %v, but must be between 0 and 1e6", ErrOptions, o.Beta)
	case o.MaxUnchanged < 0 || o.MaxUnchanged > maxTokens:
		return fmt.Errorf("%w: the number of unchanged words is %d, but must be between 0 and %d", ErrOptions, o.MaxUnchanged, maxTokens)
	}
	return nil
}

// A Score is how well corrections agree with gold edits. Edits are counted against the annotator who gives the highest
// cumulative F, sentence by sentence.
type Score struct {
	Correct, Proposed, Gold int

	Precision, Recall, F float64 // 0 to 1
}

// maxTokens bounds the tokens of a source and its correction together.
const maxTokens = 2000

// ErrInput is wrapped by the errors about texts that cannot be scored.
var ErrInput = errors.New("these corrections cannot be scored")

// Compute scores candidates, the corrected sources, one for each sentence.
func Compute(candidates []string, sentences []Sentence, o Options) (Score, error) {
	if err := o.Check(); err != nil {
		return Score{}, err
	}
	if len(candidates) != len(sentences) {
		return Score{}, fmt.Errorf("%w: there are %d, but the gold edits are for %d sentences", ErrInput, len(candidates), len(sentences))
	}
	var s Score
	for i := range sentences {
		source, candidate := tokens(sentences[i].Source), tokens(candidates[i])
		if n := len(source) + len(candidate); n > maxTokens {
			return Score{}, fmt.Errorf("%w: sentence %d and its correction have %d tokens, more than %d: leave it out of both", ErrInput, i+1, n, maxTokens)
		}
		s = s.add(newGraph(source, candidate, o.MaxUnchanged), sentences[i].Annotations, &o)
	}
	s.Precision, s.Recall = ratio(s.Correct, s.Proposed), ratio(s.Correct, s.Gold)
	square := o.Beta * o.Beta
	if below := float64(square*s.Precision) + s.Recall; below > 0 {
		s.F = float64((1+square)*s.Precision) * s.Recall / below
	}
	return s, nil
}

func tokens(text string) []string { return strings.FieldsFunc(text, isSpace) }

// ratio is 1 where there is nothing that could be wrong.
func ratio(part, all int) float64 {
	if all == 0 {
		return 1
	}
	return float64(part) / float64(all)
}

// add returns the counts with those of a sentence against its best annotator: the one who gives the highest F so far, then the
// most correct edits, then the fewest others.
func (s Score) add(g *graph, annotations []Annotation, o *Options) Score {
	square := o.Beta * o.Beta
	var best Score
	for i, a := range annotations {
		gold := golden(g.source, a.Edits)
		edits := g.bestEdits(gold)
		if o.IgnoreCaseAndSpace {
			edits = g.significant(edits)
		}
		own := Score{Correct: s.Correct + g.correct(edits, gold), Proposed: s.Proposed + len(edits), Gold: s.Gold + len(gold)}
		own.F = own.cumulative(square)
		switch {
		case i == 0, own.F > best.F, own.F == best.F && own.Correct > best.Correct,
			own.F == best.F && own.Correct == best.Correct && own.others(square) < best.others(square):
			best = own
		}
	}
	return best
}

func (s *Score) others(square float64) float64 {
	return float64(s.Proposed) + float64(square*float64(s.Gold))
}

// cumulative is F from counts, by the formula that the scorer uses to choose an annotator.
func (s *Score) cumulative(square float64) float64 {
	below := float64(square*float64(s.Gold)) + float64(s.Proposed)
	switch {
	case below > 0:
		return float64((1+square)*float64(s.Correct)) / below
	case s.Correct == 0:
		return 1
	}
	return 0
}

func golden(source []string, edits []Edit) []goldEdit {
	gold := make([]goldEdit, len(edits))
	for i, e := range edits {
		gold[i] = goldEdit{e, strings.Join(source[e.Start:e.End], " ")}
	}
	return gold
}

// significant leaves out edits of case and white space.
func (g *graph) significant(edits []edge) []edge {
	var kept []edge
	for _, e := range edits {
		if plain(g.original(e)) != plain(g.correction(e)) {
			kept = append(kept, e)
		}
	}
	return kept
}

func plain(text string) string { return strings.ToLower(strings.ReplaceAll(text, " ", "")) }

// correct counts edits that are gold edits, both in their order. A gold edit that is there twice in a row counts twice, as the
// scorer has it.
func (g *graph) correct(edits []edge, gold []goldEdit) int {
	count, from := 0, 0
	for _, e := range edits {
		for i := from; i < len(gold); i++ {
			if g.matches(e, &gold[i]) {
				count++
				from = i + 1
			}
		}
	}
	return count
}
