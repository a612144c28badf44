package m2

import (
	"math"
	"slices"
)

// A goldEdit is an edit of an annotator with the tokens it replaces.
type goldEdit struct {
	Edit
	original string
}

// matches says whether the edge of a graph is the edit.
func (g *graph) matches(e edge, gold *goldEdit) bool {
	return int(g.vertices[e.from].source) == gold.Start && int(g.vertices[e.to].source) == gold.End &&
		g.original(e) == gold.original && slices.Contains(gold.Corrections, g.correction(e))
}

// perEdit is what an edit costs beside its steps, so that of two ways of as many steps the one with fewer edits is taken.
const perEdit = 0.001

// bestEdits returns the edits from the source to the candidate, in order: as many of the gold edits as possible, then as few
// steps as possible, then as few edits as possible. The sums are in the scorer's order, since their last bits decide between
// ways that are equal otherwise.
func (g *graph) bestEdits(gold []goldEdit) []edge {
	weights := g.weights(gold)
	distance, before := make([]float64, len(g.vertices)), make([]int32, len(g.vertices))
	for i := range distance {
		distance[i], before[i] = math.Inf(1), -1
	}
	distance[0] = 0
	for changed, round := true, 1; changed && round < len(g.vertices); round++ {
		changed = false
		for i, e := range g.edges {
			if d := distance[e.from] + weights[i]; d < distance[e.to] {
				distance[e.to], before[e.to], changed = d, e.from, true
			}
		}
	}
	var edits []edge
	for at := int32(len(g.vertices) - 1); before[at] >= 0; at = before[at] {
		if e := (edge{before[at], at}); !g.cell(e.from, e.to).noop {
			edits = append(edits, e)
		}
	}
	slices.Reverse(edits)
	return edits
}

// A weighing finds the weights of edges.
type weighing struct {
	*graph
	byEdge map[edge]float64
	match  float64 // weight of an edge that is a gold edit
}

// weights returns the weight of each edge of the list.
func (g *graph) weights(gold []goldEdit) []float64 {
	w := &weighing{g, make(map[edge]float64, len(g.edges)), -float64(len(g.edges))}
	spans := map[[2]int][]edge{}
	for _, e := range g.edges {
		w.byEdge[e] = float64(g.cell(e.from, e.to).steps)
		span := [2]int{int(g.vertices[e.from].source), int(g.vertices[e.to].source)}
		spans[span] = append(spans[span], e)
	}
	golden := map[[2]int][]*goldEdit{}
	for i := range gold {
		span := [2]int{gold[i].Start, gold[i].End}
		golden[span] = append(golden[span], &gold[i])
	}
	for span, edges := range spans {
		if span[0] == span[1] {
			slices.SortStableFunc(edges, edge.compare)
			w.weighInsertions(edges, golden[span])
		} else {
			w.weighReplacements(edges, golden[span])
		}
	}
	weights := make([]float64, len(g.edges))
	for i, e := range g.edges {
		weights[i] = w.byEdge[e]
	}
	return weights
}

// weighReplacements weighs edges that cover source tokens.
func (w *weighing) weighReplacements(edges []edge, gold []*goldEdit) {
	for _, e := range edges {
		switch {
		case slices.ContainsFunc(gold, func(g *goldEdit) bool { return w.matches(e, g) }):
			w.byEdge[e] = w.match
		case !w.cell(e.from, e.to).noop:
			w.byEdge[e] += perEdit
		}
	}
}

// weighInsertions weighs edges that insert at one place, in their order. Each gold edit may be there once: edges are looked
// at from both ends in turn, and those from the left take the first gold edits, those from the right the last.
func (w *weighing) weighInsertions(edges []edge, gold []*goldEdit) {
	left, right, current := 0, len(edges)-1, 0
	first, last := 0, len(gold)-1
	for left <= right {
		e, fromLeft := edges[current], current == left
		i := w.insertion(e, gold, first, last, fromLeft)
		switch {
		case i >= 0 && fromLeft:
			w.byEdge[e] = w.match
			first = i + 1
			for left++; left < len(edges) && edges[left].from != e.to; left++ {
				w.byEdge[edges[left]] += perEdit
			}
			current = left
		case i >= 0:
			w.byEdge[e] = w.match
			last = i - 1
			for right--; right >= 0 && edges[right].to != e.from; right-- {
				w.byEdge[edges[right]] += perEdit
			}
			current = right
		default:
			w.byEdge[e] += perEdit
			if fromLeft {
				left, current = left+1, right
			} else {
				right, current = right-1, left
			}
		}
	}
}

// insertion returns the place of the first gold edit between two places, seen from one end, that an edge is; -1 for none.
func (w *weighing) insertion(e edge, gold []*goldEdit, first, last int, fromLeft bool) int {
	for i := first; i <= last; i++ {
		at := i
		if !fromLeft {
			at = first + last - i
		}
		if w.matches(e, gold[at]) {
			return at
		}
	}
	return -1
}
