package corpus

import (
	"errors"
	"math"
	"strings"
	"testing"
)

func TestConfusions(t *testing.T) {
	c := Confusions{}
	for _, set := range []string{"then than", "it's its", "in on at", "on of", "größe grösse"} {
		if err := c.Add(strings.Fields(set)); err != nil {
			t.Fatal(err)
		}
	}
	n := Noise{Confusions: c, ConfusionRate: 1}
	for _, test := range [][2]string{
		{"Then we go.", "Than we go."}, {"It's a dog; its tail", "Its a dog; it's tail"}, {"«Größe»", "«Grösse»"},
		{"  no change here…", "  no change here…"}, {"", ""}, {"\xff then", "\xff than"}, {"athen's then", "athen's than"},
	} {
		var counts Changes
		p := Pair{Source: test[0], Target: test[0]}
		if n.Apply(1, &p, &counts); p.Source != test[1] || p.Target != test[0] || (counts.Confused == 1) != (test[0] != test[1]) {
			t.Errorf("%q became %q, %q, %+v", test[0], p.Source, p.Target, counts)
		}
	}
	for _, bad := range []string{"one", "then Then", "a b2", "a, b"} {
		if err := c.Add(strings.Fields(bad)); !errors.Is(err, ErrRules) {
			t.Errorf("%q: %v", bad, err)
		}
	}
	if err := (&Noise{ConfusionRate: 2}).Check(); !errors.Is(err, ErrRules) {
		t.Error(err)
	}
}

func TestReadConfusionsRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"then than\none\n": "line 2: ", "then than\n" + strings.Repeat("a", maxConfusions+1): "line 2: it has more than 65536 bytes",
	} {
		if _, err := ReadConfusions(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.20q: %v", text, err)
		}
	}
}

// TestConfusionRate: as many words are confused as was asked for, and all others of a set are as probable.
func TestConfusionRate(t *testing.T) {
	c := Confusions{}
	if err := c.Add([]string{"in", "on", "at"}); err != nil {
		t.Fatal(err)
	}
	n := Noise{Confusions: c, ConfusionRate: 0.3}
	count := map[string]float64{}
	const lines, words = 500, 40
	for line := range uint64(lines) {
		p := Pair{Source: strings.Repeat("in ", words)}
		n.Apply(line, &p, new(Changes))
		for _, word := range strings.Fields(p.Source) {
			count[word]++
		}
	}
	for word, share := range map[string]float64{"in": 0.7, "on": 0.15, "at": 0.15} {
		deviation := math.Sqrt(share * (1 - share) * lines * words)
		if math.Abs(count[word]-share*lines*words) > 5*deviation {
			t.Errorf("%q is there %v times of %d", word, count[word], lines*words)
		}
	}
}
