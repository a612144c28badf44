package translator

import (
	"github.com/sluice-mt/sluice/internal/job"
	"github.com/sluice-mt/sluice/translator/search"
	"github.com/sluice-mt/sluice/translator/vocab"
)

// result turns what the search found for a unit into text.
func (x *Text) result(u *unit, found *search.Result) job.Result {
	details := u.task.segment.Details
	result := job.Result{
		SourceTokens: len(found.Sentence.Source.Tokens),
		TargetTokens: len(found.Hypotheses[0].Tokens),
		Hypotheses:   make([]job.Hypothesis, len(found.Hypotheses)),
	}
	if found.Flags&search.Unfinished != 0 {
		result.Flags |= job.Unfinished
	}
	for i := range found.Hypotheses {
		result.Hypotheses[i] = x.hypothesis(&found.Hypotheses[i], x.KeepPieces || details)
	}
	if details {
		result.SourcePieces = pieces(x.Source, u.tokens)
	}
	return result
}

func (x *Text) hypothesis(h *search.Hypothesis, keepPieces bool) job.Hypothesis {
	tokens := h.Tokens
	if x.RightLeft {
		tokens = append([]search.Token(nil), tokens...)
		end := len(tokens)
		if h.Finished {
			end--
		}
		reverse(tokens[:end])
	}
	out := job.Hypothesis{
		Text:        x.Target.Decode(tokens),
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
