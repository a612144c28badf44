package translator

import (
	"github.com/sluice-mt/sluice/internal/job"
	"github.com/sluice-mt/sluice/translator/search"
	"github.com/sluice-mt/sluice/translator/vocab"
)

// result turns what the search found for a unit into text, in memory of b.
func (x *Text) result(u *unit, found *search.Result, b *blocks) job.Result {
	details := u.task.segment.Details
	result := job.Result{
		SourceTokens: len(found.Sentence.Source.Tokens),
		TargetTokens: len(found.Hypotheses[0].Tokens),
		Hypotheses:   b.list(len(found.Hypotheses)),
	}
	if found.Flags&search.Unfinished != 0 {
		result.Flags |= job.Unfinished
	}
	for i := range found.Hypotheses {
		result.Hypotheses[i] = x.hypothesis(&found.Hypotheses[i], x.KeepPieces || details, b)
	}
	if details {
		result.SourcePieces = pieces(x.Source, u.tokens)
	}
	return result
}

func (x *Text) hypothesis(h *search.Hypothesis, keepPieces bool, b *blocks) job.Hypothesis {
	tokens := h.Tokens
	if x.RightLeft {
		tokens = b.backwards(tokens, h.Finished)
	}
	out := job.Hypothesis{
		Text:        b.decode(x.Target, tokens),
		Finished:    h.Finished,
		Score:       h.Score,
		ModelScores: h.ModelScores,
		WordScores:  h.WordScores,
		Alignment:   h.Alignment,
	}
	if keepPieces {
		out.Pieces = pieces(x.Target, tokens)
	}
	return out
}

func pieces(vocabulary vocab.Vocabulary, tokens []search.Token) []string {
	list := make([]string, len(tokens))
	for i, token := range tokens {
		list[i] = vocabulary.Piece(token)
	}
	return list
}
