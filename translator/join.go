package translator

import (
	"slices"

	"github.com/sluice-mt/sluice/internal/job"
	"github.com/sluice-mt/sluice/translator/split"
)

// maxJoinedWeights bounds the alignment of a divided text, which grows with the square of its length. It is about what one
// undivided sentence of the default --max-length can have: 1,000 pieces, and three times as many translated.
const maxJoinedWeights = 4 << 20

// joinHypotheses joins the i-th hypothesis of every part. Scores are sums over the parts. Only the last part keeps its end of
// sentence, so that pieces, their scores and the alignment go together.
func (t *task) joinHypotheses(i int) job.Hypothesis {
	var joined job.Hypothesis
	texts := make([]string, len(t.results))
	for part, result := range t.results {
		if len(result.Hypotheses) == 0 {
			continue
		}
		h := &result.Hypotheses[i]
		texts[part] = h.Text
		joined.Score += h.Score
		if joined.ModelScores == nil {
			joined.ModelScores = make([]float32, len(h.ModelScores))
		}
		for model, score := range h.ModelScores {
			joined.ModelScores[model] += score
		}
	}
	joined.Text = split.Join(t.parts, texts)
	parts := t.hypotheses(i)
	for k, h := range parts {
		joined.Pieces = append(joined.Pieces, withoutEnd(h.Pieces, h, k == len(parts)-1)...)
	}
	if t.backwards {
		slices.Reverse(parts)
	}
	for k, h := range parts {
		last := k == len(parts)-1
		joined.WordScores = append(joined.WordScores, withoutEnd(h.WordScores, h, last)...)
		joined.Finished = h.Finished
	}
	joined.Alignment = joinAlignments(parts)
	return joined
}

// joinSources puts the source pieces of the parts, in the order in which they were read, one behind the other, with the last
// part's end of sentence at the end.
func (t *task) joinSources() (joined []string) {
	parts := slices.Clone(t.results)
	if t.backwards {
		slices.Reverse(parts)
	}
	for _, part := range parts {
		if len(part.SourcePieces) == 0 {
			continue
		}
		if len(joined) > 0 {
			joined = joined[:len(joined)-1]
		}
		joined = append(joined, part.SourcePieces...)
	}
	return joined
}

// hypotheses are the i-th hypotheses of the parts that the model was asked about, in the order of the text.
func (t *task) hypotheses(i int) []*job.Hypothesis {
	var list []*job.Hypothesis
	for part := range t.results {
		if of := t.results[part].Hypotheses; len(of) > 0 {
			list = append(list, &of[i])
		}
	}
	return list
}

// withoutEnd leaves out what belongs to the end of sentence, which comes last, but for the last part.
func withoutEnd[T any](of []T, h *job.Hypothesis, last bool) []T {
	if last || !h.Finished || len(of) == 0 {
		return of
	}
	return of[:len(of)-1]
}

// joinAlignments puts the alignments of parts, in the order in which they were written, one behind the other: the pieces of
// a part are counted on from those of the parts before it. The weight on a part's end of sentence is that on the end of the
// whole. There is none where it would be too large.
func joinAlignments(parts []*job.Hypothesis) [][]float32 {
	rows, columns := 0, 1 // the end of the whole
	for k, h := range parts {
		if len(h.Alignment) == 0 {
			return nil
		}
		rows += len(withoutEnd(h.Alignment, h, k == len(parts)-1))
		columns += len(h.Alignment[0]) - 1
	}
	if rows > maxJoinedWeights/columns {
		return nil
	}
	joined, offset := make([][]float32, 0, rows), 0
	weights := make([]float32, rows*columns)
	for k, h := range parts {
		for _, row := range withoutEnd(h.Alignment, h, k == len(parts)-1) {
			whole := weights[:columns:columns]
			weights = weights[columns:]
			end := len(row) - 1
			copy(whole[offset:], row[:end])
			whole[columns-1] = row[end]
			joined = append(joined, whole)
		}
		offset += len(h.Alignment[0]) - 1
	}
	return joined
}
