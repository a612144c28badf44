package m2

import "fmt"

// unknownType is the type of extracted edits, of which only the tokens are known.
const unknownType = "UNK"

// Extract returns the edits that make a corrected text of its source, in order: those that the scorer finds in a candidate if
// there are no gold edits. maxUnchanged is how many unchanged tokens an edit may hold; with 0 neighbouring edits are one, and
// others stay apart.
func Extract(source, corrected string, maxUnchanged int) ([]Edit, error) {
	from, to := tokens(source), tokens(corrected)
	if n := len(from) + len(to); n > maxTokens {
		return nil, fmt.Errorf("%w: a sentence and its correction have %d tokens, more than %d", ErrInput, n, maxTokens)
	}
	g := newGraph(from, to, maxUnchanged)
	var edits []Edit
	for _, e := range g.bestEdits(nil) {
		edits = append(edits, Edit{
			Start: int(g.vertices[e.from].source), End: int(g.vertices[e.to].source), Type: unknownType,
			Corrections: []string{g.correction(e)},
		})
	}
	return edits, nil
}

// maxTable bounds the table of an alignment that only finds changed tokens, in cells of four bytes.
const maxTable = 16 << 20

// Changed says of each token of a target whether it is another than in the source: inserted, or in the place of another, in a
// cheapest Levenshtein alignment. Of texts that are so long that nobody would train with them it says that all is changed.
func Changed[T comparable](source, target []T) []bool {
	changed := make([]bool, len(target))
	if (len(source)+1)*(len(target)+1) > maxTable {
		for i := range changed {
			changed[i] = true
		}
		return changed
	}
	a := align(source, target, 1)
	i, j := len(source), len(target)
	for j > 0 {
		last := a.before(vertex{int32(i), int32(j)})[0]
		if int(last.from.candidate) < j {
			changed[j-1] = !last.noop
		}
		i, j = int(last.from.source), int(last.from.candidate)
	}
	return changed
}
