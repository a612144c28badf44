package translator

import (
	"github.com/sluice-mt/sluice/internal/job"
	"github.com/sluice-mt/sluice/translator/search"
)

// result turns what the search found into text.
func (x *Text) result(found *search.Result) job.Result {
	result := job.Result{
		SourceTokens: len(found.Sentence.Source.Tokens),
		TargetTokens: len(found.Hypotheses[0].Tokens),
		Hypotheses:   make([]job.Hypothesis, len(found.Hypotheses)),
	}
	if found.Flags&search.Unfinished != 0 {
		result.Flags |= job.Unfinished
	}
	for i := range found.Hypotheses {
		result.Hypotheses[i] = x.hypothesis(&found.Hypotheses[i])
	}
	return result
}

func (x *Text) hypothesis(h *search.Hypothesis) job.Hypothesis {
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
	if x.KeepPieces {
		out.Pieces = make([]string, len(tokens))
		for i, token := range tokens {
			out.Pieces[i] = x.Target.Piece(token)
		}
	}
	return out
}
