package align

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

func name(side string) func(int32) string {
	return func(id int32) string { return fmt.Sprint(side, id) }
}

// Worked out by hand: s0 has three links and stands alone once; s1 has one link; the name of s2 cannot be written.
func TestLexicon(t *testing.T) {
	l := NewLexicon(t.TempDir(), 0)
	for _, add := range []struct {
		source, target []int32
		links          []Link
	}{
		{[]int32{0, 1}, []int32{0, 1}, []Link{{0, 0}, {1, 1}}}, {[]int32{0, 2}, []int32{0, 2}, []Link{{0, 0}, {0, 1}, {1, 0}}}, {[]int32{0}, []int32{1}, nil},
	} {
		if err := l.Add(add.source, add.target, add.links); err != nil {
			t.Fatal(err)
		}
	}
	var out bytes.Buffer
	source := func(id int32) string { return []string{"s0", "s1", "two words"}[id] }
	if err := errors.Join(l.WriteText(&out, source, name("t")), l.Close()); err != nil {
		t.Fatal(err)
	}
	if want := "t0 s0 0.500000\nt2 s0 0.250000\nt1 s1 1.000000\n"; out.String() != want {
		t.Errorf("got\n%swant\n%s", out.String(), want)
	}
}

// TestLexiconSpills compares one that has to use files with counts in memory.
func TestLexiconSpills(t *testing.T) {
	l := NewLexicon(t.TempDir(), 0)
	random := rand.New(rand.NewPCG(1, 2))
	counts, totals := map[[2]int32]int{}, map[int32]int{}
	for range 100_000 {
		source, target := int32(random.IntN(20)), int32(random.IntN(30))
		if err := l.Add([]int32{source}, []int32{target}, []Link{{0, 0}}); err != nil {
			t.Fatal(err)
		}
		counts[[2]int32{source, target}]++
		totals[source]++
	}
	var out bytes.Buffer
	if err := errors.Join(l.WriteText(&out, name("s"), name("t")), l.Close()); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != len(counts) {
		t.Errorf("%d lines for %d pairs", len(lines), len(counts))
	}
	for pair, count := range counts {
		want := fmt.Sprintf("t%d s%d %.6f\n", pair[1], pair[0], float64(count)/float64(totals[pair[0]]))
		if !strings.Contains(out.String(), want) {
			t.Errorf("lacks %s", want)
		}
	}
}

func TestWordsBeyondTheLimit(t *testing.T) {
	w := NewWords(2)
	if got := fmt.Sprint(w.Encode("a b c a d ", nil)); got != "[0 1 2 0 2]" || w.Word(1) != "b" || w.Word(2) != "" {
		t.Errorf("%s, %q, %q", got, w.Word(1), w.Word(2))
	}
}

// FuzzCorpus: any sentences of any numbers come back as they were, or are refused.
func FuzzCorpus(f *testing.F) {
	f.Add([]byte{1, 2, 3}, []byte{4}, int32(7))
	f.Add([]byte{}, []byte{0}, int32(-1))
	f.Fuzz(func(t *testing.T, source, target []byte, factor int32) {
		c, err := NewCorpus(50, t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		var pair [2][]int32
		for side, bytes := range [2][]byte{source, target} {
			for _, b := range bytes {
				pair[side] = append(pair[side], int32(b)*factor)
			}
		}
		if factor > 1000 || factor < -1000 {
			return // the tables would be large
		}
		if err := errors.Join(c.Add(pair[0], pair[1]), c.endBlock()); err != nil {
			return
		}
		var reader blockReader
		for _, b := range c.blocks {
			err := reader.each(c, b, false, func(source, target []int32) {
				if skipped := len(source) == 0; skipped != (c.Skipped == 1) || !skipped && fmt.Sprint(source, target) != fmt.Sprint(pair[0], pair[1]) {
					t.Errorf("%v %v from %v, skipped %d", source, target, pair, c.Skipped)
				}
			})
			if err != nil {
				t.Error(err)
			}
		}
	})
}
