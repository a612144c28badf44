package align

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// positions draws an alignment of so many words to n others.
func positions(t *rapid.T, words, n int, name string) []int {
	return rapid.SliceOfN(rapid.IntRange(-1, n-1), words, words).Draw(t, name)
}

// TestJoinLaws: each method gives a subset of the next, between intersection and union, and exchanging the sides mirrors
// the methods that do not prefer a direction.
func TestJoinLaws(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n, m := rapid.IntRange(1, 8).Draw(t, "n"), rapid.IntRange(1, 8).Draw(t, "m")
		sources, targets := positions(t, m, n, "sources"), positions(t, n, m, "targets")
		var joiner Joiner
		joined := map[Method][]Link{}
		for method := Intersection; method <= GrowDiagFinalAnd; method++ {
			links := slices.Clone(joiner.Join(method, sources, targets))
			joined[method] = links
			if !slices.IsSortedFunc(links, func(a, b Link) int { return (a.Source-b.Source)*100 + a.Target - b.Target }) {
				t.Fatalf("%v: %v is not in order", method, links)
			}
		}
		for _, pair := range [][2]Method{
			{Intersection, GrowDiag}, {GrowDiag, GrowDiagFinalAnd}, {GrowDiagFinalAnd, Union}, {GrowDiag, GrowDiagFinal}, {GrowDiagFinal, Union},
		} {
			for _, link := range joined[pair[0]] {
				if !slices.Contains(joined[pair[1]], link) {
					t.Errorf("%v has %v, %v does not", pair[0], link, pair[1])
				}
			}
		}
		for j, i := range sources {
			for _, link := range []Link{{i, j}} {
				inUnion, inBoth := slices.Contains(joined[Union], link), slices.Contains(joined[Intersection], link)
				if i >= 0 && (!inUnion || inBoth != (targets[i] == j)) {
					t.Errorf("link %v: in union %v, in intersection %v", link, inUnion, inBoth)
				}
			}
		}
		checkGrown(t, joined, n, m)
	})
}

// checkGrown: grow-diag has no link left to add, and grow-diag-final no linkable word without link.
func checkGrown(t *rapid.T, joined map[Method][]Link, n, m int) {
	has := func(method Method, i, j int) bool { return slices.Contains(joined[method], Link{i, j}) }
	free := func(method Method, i, j int) (source, target bool) {
		source, target = true, true
		for _, link := range joined[method] {
			source, target = source && link.Source != i, target && link.Target != j
		}
		return source, target
	}
	for _, link := range joined[Union] {
		i, j := link.Source, link.Target
		source, target := free(GrowDiag, i, j)
		for x := max(i-1, 0); x <= min(i+1, n-1); x++ {
			for y := max(j-1, 0); y <= min(j+1, m-1); y++ {
				if (source || target) && has(GrowDiag, x, y) {
					t.Errorf("grow-diag lacks %v, beside %d-%d", link, x, y)
				}
			}
		}
		if source, target := free(GrowDiagFinal, i, j); source || target {
			t.Errorf("grow-diag-final leaves an end of %v without link", link)
		}
		if source, target := free(GrowDiagFinalAnd, i, j); source && target {
			t.Errorf("grow-diag-final-and leaves both ends of %v without link", link)
		}
	}
}

// TestJoinByHand: an intersection 0-0, from which 1-1 is reached by a corner and then 1-2; 3-0 touches nothing, and one of
// its words has a link.
func TestJoinByHand(t *testing.T) {
	sources, targets := []int{0, 1, 1}, []int{0, -1, -1, 0}
	for method, want := range map[Method]string{
		Intersection: "0-0", Union: "0-0 1-1 1-2 3-0", GrowDiag: "0-0 1-1 1-2", GrowDiagFinal: "0-0 1-1 1-2 3-0", GrowDiagFinalAnd: "0-0 1-1 1-2",
	} {
		var joiner Joiner
		if got := string(AppendPharaoh(nil, joiner.Join(method, sources, targets))); got != want {
			t.Errorf("%v: %s, want %s", method, got, want)
		}
		if parsed, err := ParseMethod(method.String()); err != nil || parsed != method {
			t.Errorf("%v: %v, %v", method, parsed, err)
		}
	}
	if _, err := ParseMethod("grow"); err == nil {
		t.Error("an unknown method was accepted")
	}
}
