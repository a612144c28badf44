package translator

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-mt/sluice/internal/job"
	"github.com/sluice-mt/sluice/internal/sharedtest"
	"github.com/sluice-mt/sluice/translator/vocab"
)

// A prefix belongs to the unit that is written first: the first part of a divided text, and for a model that writes from
// right to left the last part, with its pieces reversed.
func TestPrefixOfUnits(t *testing.T) {
	vocabulary, err := vocab.Open(filepath.Join(sharedtest.Root(), "models", "ende-tiny", "vocab.spm"))
	if err != nil {
		t.Fatal(err)
	}
	forward := vocabulary.Encode("Ein Hund", nil)
	backward := slices.Clone(forward)
	slices.Reverse(backward)
	long := strings.Repeat("Two men are talking. ", 10)
	for _, c := range []struct {
		text      string
		rightLeft bool
	}{{"A dog.", false}, {"A dog.", true}, {long, false}, {long, true}, {" \n" + long + " \n ", false}, {" \n" + long + " \n ", true}} {
		x := Text{Source: vocabulary, Target: vocabulary, RightLeft: c.rightLeft, MaxLength: 20}
		units := x.units(&task{segment: job.Segment{Text: c.text, Prefix: "Ein Hund"}})
		if divided := len(c.text) > len(long)/2; divided != (len(units) > 1) {
			t.Fatalf("%q makes %d units", c.text, len(units))
		}
		first, want := 0, forward
		if c.rightLeft {
			first, want = len(units)-1, backward
		}
		for i, u := range units {
			switch {
			case i == first && !slices.Equal(u.prefix, want):
				t.Errorf("%q, right to left %v: unit %d has the prefix %v, want %v", c.text, c.rightLeft, i, u.prefix, want)
			case i != first && u.prefix != nil:
				t.Errorf("%q, right to left %v: unit %d has a prefix too", c.text, c.rightLeft, i)
			}
		}
	}
	x := Text{Source: vocabulary, Target: vocabulary, Pieces: true, MaxLength: 20}
	units := x.units(&task{segment: job.Segment{Text: "▁A ▁dog", Prefix: "▁Ein ▁Hund"}})
	if !slices.Equal(units[0].prefix, forward) {
		t.Errorf("the prefix in pieces is %v, want %v", units[0].prefix, forward)
	}
}
