package align

import (
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// A recorded is a line of testdata/fast_align.tsv.
type recorded struct {
	source, target   string
	forward, reverse []Link
	joined           map[Method]string
}

func readRecord(t *testing.T) []recorded {
	t.Helper()
	content, err := os.ReadFile("testdata/fast_align.tsv")
	if err != nil {
		t.Fatal(err)
	}
	var all []recorded
	for line := range strings.Lines(string(content)) {
		fields := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		r := recorded{
			source: fields[0], target: fields[1], forward: parseLinks(t, fields[2]), reverse: parseLinks(t, fields[3]),
			joined: map[Method]string{},
		}
		for method := Intersection; method <= GrowDiagFinalAnd; method++ {
			r.joined[method] = fields[4+int(method)]
		}
		all = append(all, r)
	}
	return all
}

// parseLinks reads links in Pharaoh's form and sorts them.
func parseLinks(t *testing.T, text string) (links []Link) {
	t.Helper()
	for field := range strings.FieldsSeq(text) {
		a, b, _ := strings.Cut(field, "-")
		i, err1 := strconv.Atoi(a)
		j, err2 := strconv.Atoi(b)
		if err1 != nil || err2 != nil {
			t.Fatalf("link %q", field)
		}
		links = append(links, Link{i, j})
	}
	slices.SortFunc(links, func(a, b Link) int { return 1000*(a.Source-b.Source) + a.Target - b.Target })
	return links
}

// TestSameAsFastAlign: the same links in both directions, but for ties. The original adds probabilities in another order, so
// that which of two equally probable words it takes is up to the last bit.
func TestSameAsFastAlign(t *testing.T) {
	record := readRecord(t)
	source, target := NewWords(MaxWords), NewWords(MaxWords)
	var pairs [][2][]int32
	var forward, reverse [][]Link
	for _, r := range record {
		pairs = append(pairs, [2][]int32{source.Encode(r.source, nil), target.Encode(r.target, nil)})
		forward, reverse = append(forward, r.forward), append(reverse, r.reverse)
	}
	c := corpusOf(t, pairs)
	for _, direction := range []struct {
		name    string
		reverse bool
		want    [][]Link
	}{{"forward", false, forward}, {"reverse", true, reverse}} {
		got, _ := learn(t, c, direction.reverse, DefaultOptions())
		different := 0
		for k := range got {
			if !slices.Equal(got[k], direction.want[k]) {
				different++
			}
		}
		t.Logf("%s: %d of %d lines differ, %.2f %% of the links", direction.name, different, len(got), 100*errorRate(got, direction.want))
		if different > len(got)/100 {
			t.Errorf("%s: %d of %d lines differ", direction.name, different, len(got))
		}
	}
}

// TestSameAsAtools joins the recorded directions: every line must be the same.
func TestSameAsAtools(t *testing.T) {
	var joiner Joiner
	for k, r := range readRecord(t) {
		sources, targets := make([]int, len(strings.Fields(r.target))), make([]int, len(strings.Fields(r.source)))
		for _, all := range [][]int{sources, targets} {
			for i := range all {
				all[i] = -1
			}
		}
		for _, link := range r.forward {
			sources[link.Target] = link.Source
		}
		for _, link := range r.reverse {
			targets[link.Source] = link.Target
		}
		for method, want := range r.joined {
			if got := string(AppendPharaoh(nil, joiner.Join(method, sources, targets))); got != want {
				t.Errorf("line %d, %v: %s, want %s", k+1, method, got, want)
			}
		}
	}
}
