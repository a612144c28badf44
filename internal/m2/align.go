package m2

// An alignment is the table of Levenshtein's distance.
type alignment[T comparable] struct {
	first, second []T
	substitution  int32
	distance      []int32 // (len(first)+1) × (len(second)+1)
}

// align fills the table for insertions and deletions that cost 1, and substitutions of the given cost.
func align[T comparable](first, second []T, substitution int32) *alignment[T] {
	a := &alignment[T]{first, second, substitution, make([]int32, (len(first)+1)*(len(second)+1))}
	for i := range len(first) + 1 {
		for j := range len(second) + 1 {
			switch {
			case i == 0:
				*a.at(i, j) = int32(j)
			case j == 0:
				*a.at(i, j) = int32(i)
			default:
				*a.at(i, j) = min(*a.at(i-1, j-1)+a.change(i, j), *a.at(i-1, j)+1, *a.at(i, j-1)+1)
			}
		}
	}
	return a
}

func (a *alignment[T]) at(i, j int) *int32 { return &a.distance[i*(len(a.second)+1)+j] }

// change is what it costs that token j of the second stands for token i of the first; both count from 1.
func (a *alignment[T]) change(i, j int) int32 {
	if a.first[i-1] == a.second[j-1] {
		return 0
	}
	return a.substitution
}

// A step is an edit of one token, or noop: the token stays.
type step struct {
	from, to vertex
	noop     bool
}

// steps returns the edits that lie on cheapest alignments; single chooses one of them, with the token that stays or is
// substituted where there is a choice, else with the deletion.
func (a *alignment[T]) steps(single bool) []step {
	var steps []step
	seen := make([]bool, len(a.distance))
	queue := []vertex{{int32(len(a.first)), int32(len(a.second))}}
	for len(queue) > 0 {
		to := queue[0]
		queue = queue[1:]
		if at := int(to.source)*(len(a.second)+1) + int(to.candidate); seen[at] {
			continue
		} else {
			seen[at] = true
		}
		for _, s := range a.before(to) {
			steps = append(steps, s)
			queue = append(queue, s.from)
			if single {
				break
			}
		}
	}
	return steps
}

// before returns the last edits of cheapest alignments up to a vertex.
func (a *alignment[T]) before(to vertex) []step {
	i, j := int(to.source), int(to.candidate)
	var steps []step
	if i > 0 && j > 0 && *a.at(i, j) == *a.at(i-1, j-1)+a.change(i, j) {
		steps = append(steps, step{vertex{to.source - 1, to.candidate - 1}, to, a.change(i, j) == 0})
	}
	if i > 0 && *a.at(i, j) == *a.at(i-1, j)+1 {
		steps = append(steps, step{vertex{to.source - 1, to.candidate}, to, false})
	}
	if j > 0 && *a.at(i, j) == *a.at(i, j-1)+1 {
		steps = append(steps, step{vertex{to.source, to.candidate - 1}, to, false})
	}
	return steps
}
