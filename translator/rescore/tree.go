package rescore

import "github.com/sluice-mt/sluice/translator/search"

// A tree is translations of a sentence, merged where they begin alike.
type tree struct {
	source   search.Source
	leaves   []leaf // ascending by tokens, so that those that begin alike are neighbours
	width    int    // most branches that are alive at any depth
	depth    int    // tokens that were scored
	branches []branch
	spare    []search.Slot
	context  search.Context
}

// A leaf is a translation.
type leaf struct {
	tokens []search.Token // end of sentence last
	score  *Score
}

// A branch is the leaves from first to end. They share their first tokens, as many as the tree is deep, and have more.
type branch struct {
	first, end int
	slot       search.Slot // holds the history but for its last token
}

func newTree(source search.Source, leaves []leaf) *tree {
	t := &tree{source: source, leaves: leaves}
	level := []branch{{end: len(leaves)}}
	for depth := 0; len(level) > 0; depth++ {
		t.width = max(t.width, len(level))
		var deeper []branch
		for _, b := range level {
			for next := range t.split(b, depth) {
				deeper = append(deeper, next)
			}
		}
		level = deeper
	}
	return t
}

// longest is the number of tokens of the longest leaf.
func (t *tree) longest() int {
	longest := 0
	for i := range t.leaves {
		longest = max(longest, len(t.leaves[i].tokens))
	}
	return longest
}

// runs yields the runs of leaves of a branch that go on with the same token.
func (t *tree) runs(b branch, depth int) func(yield func(token search.Token, run branch) bool) {
	return func(yield func(search.Token, branch) bool) {
		for first := b.first; first < b.end; {
			token, end := t.leaves[first].tokens[depth], first+1
			for end < b.end && t.leaves[end].tokens[depth] == token {
				end++
			}
			if !yield(token, branch{first: first, end: end, slot: b.slot}) {
				return
			}
			first = end
		}
	}
}

// split yields the branches that a branch divides into behind its next token, without the leaves that end with it.
func (t *tree) split(b branch, depth int) func(yield func(branch) bool) {
	return func(yield func(branch) bool) {
		for _, run := range t.runs(b, depth) {
			for run.first < run.end && len(t.leaves[run.first].tokens) == depth+1 { // the shortest come first
				run.first++
			}
			if run.first < run.end && !yield(run) {
				return
			}
		}
	}
}

// start puts the tree into slots that hold the decoder's initial state.
func (t *tree) start(slots []search.Slot) {
	t.depth, t.spare = 0, slots[1:]
	t.branches = []branch{{end: len(t.leaves), slot: slots[0]}}
}

// lastToken is the end of a branch's history.
func (t *tree) lastToken(b branch) search.Token {
	if t.depth == 0 {
		return search.NoToken
	}
	return t.leaves[b.first].tokens[t.depth-1]
}

// grow goes one token deeper. It appends the moves of slots that have to be made.
func (t *tree) grow(dst, src []search.Slot) (newDst, newSrc []search.Slot) {
	old := t.branches
	t.branches = make([]branch, 0, len(old))
	var forks []int
	for _, b := range old {
		alive := false
		for next := range t.split(b, t.depth) {
			if alive {
				forks = append(forks, len(t.branches))
			}
			t.branches = append(t.branches, next)
			alive = true
		}
		if !alive {
			t.spare = append(t.spare, b.slot)
		}
	}
	for _, i := range forks {
		b, last := &t.branches[i], len(t.spare)-1
		dst, src = append(dst, t.spare[last]), append(src, b.slot)
		b.slot, t.spare = t.spare[last], t.spare[:last]
	}
	t.depth++
	return dst, src
}
