package m2

import (
	"cmp"
	"slices"
	"strings"
)

// A graph holds every way in which a source may have become a candidate: vertices are pairs of positions in both, edges are
// edits, of one token or, by transitivity, of several. It has the vertices that lie on a cheapest alignment, with the cost of a
// substitution being 1, or being 2.
type graph struct {
	source, candidate []string
	vertices          []vertex // ascending
	edges             []edge   // first those of one token, ascending; some are there twice, which counts for the weights
	table             []cell   // of each pair of vertices
}

// A vertex is how many tokens of the source and of the candidate are behind it.
type vertex struct{ source, candidate int32 }

func (v vertex) compare(w vertex) int {
	return cmp.Or(cmp.Compare(v.source, w.source), cmp.Compare(v.candidate, w.candidate))
}

// An edge leads from one vertex to a later one; both are places in the list of vertices.
type edge struct{ from, to int32 }

// A cell is what is known about an edge.
type cell struct {
	steps     uint16 // edits of one token, unchanged tokens included; 0 where there is no edge
	unchanged uint16 // tokens among them
	noop      bool   // nothing else is
}

func (g *graph) cell(from, to int32) *cell { return &g.table[int(from)*len(g.vertices)+int(to)] }

// original and correction are the texts of an edit between two vertices.
func (g *graph) original(e edge) string {
	return strings.Join(g.source[g.vertices[e.from].source:g.vertices[e.to].source], " ")
}

func (g *graph) correction(e edge) string {
	return strings.Join(g.candidate[g.vertices[e.from].candidate:g.vertices[e.to].candidate], " ")
}

// maxVertices is the size of graphs from which on a single alignment is taken in place of all: their edges are up to half the
// square of their vertices, and the time to find them grows with the cube. Sentences of 40 words that have nothing in
// common reach it; corrections do not.
const maxVertices = 1500

// newGraph makes the graph of a source and a candidate, with edges that hold up to maxUnchanged tokens that are the same in
// both.
func newGraph(source, candidate []string, maxUnchanged int) *graph {
	g := &graph{source: source, candidate: candidate}
	steps := append(align(source, candidate, 1).steps(false), align(source, candidate, 2).steps(false)...)
	if g.setVertices(steps); len(g.vertices) > maxVertices {
		steps = align(source, candidate, 1).steps(true)
		g.setVertices(steps)
	}
	g.table = make([]cell, len(g.vertices)*len(g.vertices))
	for _, s := range steps {
		e := edge{g.place(s.from), g.place(s.to)}
		g.edges = append(g.edges, e)
		*g.cell(e.from, e.to) = cell{1, 0, false}
		if s.noop {
			*g.cell(e.from, e.to) = cell{1, 1, true}
		}
	}
	slices.SortStableFunc(g.edges, edge.compare)
	g.addTransitive(maxUnchanged)
	g.removeUnchanged()
	return g
}

func (e edge) compare(f edge) int {
	return cmp.Or(cmp.Compare(e.from, f.from), cmp.Compare(e.to, f.to))
}

func (g *graph) setVertices(steps []step) {
	g.vertices = append(g.vertices[:0], vertex{})
	for _, s := range steps {
		g.vertices = append(g.vertices, s.from, s.to)
	}
	slices.SortFunc(g.vertices, vertex.compare)
	g.vertices = slices.Compact(g.vertices)
}

func (g *graph) place(v vertex) int32 {
	at, _ := slices.BinarySearchFunc(g.vertices, v, vertex.compare)
	return int32(at)
}

// addTransitive joins edges that follow each other, as Floyd and Warshall do: an edge takes the place of one of more steps.
func (g *graph) addTransitive(maxUnchanged int) {
	n := int32(len(g.vertices))
	var before, behind []int32
	for k := range n {
		before, behind = before[:0], behind[:0]
		for i := range n {
			if g.cell(i, k).steps > 0 {
				before = append(before, i)
			}
			if g.cell(k, i).steps > 0 {
				behind = append(behind, i)
			}
		}
		for _, i := range before {
			first := *g.cell(i, k)
			for _, j := range behind {
				second, both := *g.cell(k, j), g.cell(i, j)
				joined := cell{first.steps + second.steps, first.unchanged + second.unchanged, first.noop && second.noop}
				if (both.steps == 0 || joined.steps < both.steps) && int(joined.unchanged) <= maxUnchanged {
					*both = joined
					g.edges = append(g.edges, edge{i, j})
				}
			}
		}
	}
}

// removeUnchanged removes edges over several unchanged tokens. Of two that follow each other in the list the scorer keeps the
// second, since it removes while it goes through the list; they do no harm.
func (g *graph) removeUnchanged() {
	kept := g.edges[:0]
	skip := false
	for _, e := range g.edges {
		c := g.cell(e.from, e.to)
		remove := c.noop && c.steps > 1
		if remove && !skip {
			*c = cell{}
			skip = true
			continue
		}
		skip = false
		if c.steps > 0 {
			kept = append(kept, e)
		}
	}
	g.edges = kept
}
