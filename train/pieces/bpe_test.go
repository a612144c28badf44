package pieces

import (
	"cmp"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/sluice-mt/sluice/internal/sharedtest"
	"github.com/sluice-mt/sluice/translator/vocab"
)

// naiveMerges does what the definition says: counts all pairs, merges the best one everywhere, from left to right, and begins
// again. Merged units are known by their text.
func naiveMerges(w *words, d *divider, limit int) []string {
	var divided [][]string
	for i := range w.len() {
		var units []string
		for _, r := range w.runes(nil, w.word(i)) {
			units = append(units, string(r))
		}
		divided = append(divided, units)
	}
	var merges []string
	for len(merges) < limit {
		type candidate struct{ left, right string }
		counts := map[candidate]int64{}
		for i, units := range divided {
			for j := range len(units) - 1 {
				if c := (candidate{units[j], units[j+1]}); d.allows([]rune(c.left + c.right)) {
					counts[c] += w.counts[i]
				}
			}
		}
		var best candidate
		for c, n := range counts {
			order := cmp.Or(cmp.Compare(n, counts[best]), cmp.Compare(len([]rune(best.left+best.right)), len([]rune(c.left+c.right))),
				strings.Compare(best.left+best.right, c.left+c.right), strings.Compare(best.left, c.left))
			if best.left == "" || order > 0 {
				best = c
			}
		}
		if best.left == "" {
			break
		}
		for i, units := range divided {
			for j := 0; j+1 < len(units); j++ {
				if units[j] == best.left && units[j+1] == best.right {
					units = slices.Replace(units, j, j+2, best.left+best.right)
				}
			}
			divided[i] = units
		}
		if text := best.left + best.right; !slices.Contains(merges, text) {
			merges = append(merges, text)
		}
	}
	return merges
}

func TestMerges(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := someWords(t)
		options := Defaults()
		options.Spec.MaxPieceLength = rapid.IntRange(2, 8).Draw(t, "longest")
		options.Spec.SplitByWhitespace = rapid.Bool().Draw(t, "split")
		d := &divider{spec: &options.Spec}
		want := naiveMerges(w, d, 30)
		m := newMerger(w, d)
		var got []string
		for len(got) < 30 {
			p := m.next()
			if p == nil {
				break
			}
			if m.merge(p) {
				got = append(got, string(w.runes(nil, p.text)))
			}
		}
		// Texts of the same count that are made in two ways may trade places; sets and lengths are the same.
		if !slices.Equal(got, want) {
			t.Fatalf("merged are %q, want %q", got, want)
		}
	})
}

// TestMergesAsTheOriginal: the same pieces in nearly the same order.
func TestMergesAsTheOriginal(t *testing.T) {
	program := sharedtest.Program(t, "spm_train")
	folder := t.TempDir()
	input := filepath.Join(folder, "text")
	if err := os.WriteFile(input, []byte(strings.Join(ownText(t), "\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	output, err := exec.CommandContext(t.Context(), program, "--input="+input, "--model_prefix="+filepath.Join(folder, "theirs"), "--vocab_size=440",
		"--model_type=bpe", "--bos_id=-1", "--eos_id=0", "--unk_id=1", "--byte_fallback", "--character_coverage=0.995", "--hard_vocab_limit=false",
		"--num_threads=1", "--minloglevel=1").CombinedOutput()
	if err != nil {
		t.Fatalf("spm_train: %v\n%s", err, output)
	}
	theirs, err := vocab.Open(filepath.Join(folder, "theirs.model"))
	if err != nil {
		t.Fatal(err)
	}
	options := smallOptions()
	options.Spec.Type = vocab.BPEModel
	_, result := train(t, ownText(t), options)
	same := 0
	for _, p := range result.Model.Pieces {
		if _, ok := theirs.ID(p.Text); ok {
			same++
		}
	}
	if same < 435 || len(result.Model.Pieces) != 440 {
		t.Errorf("of %d pieces the original has %d", len(result.Model.Pieces), same)
	}
	ours, err := result.Model.Vocabulary()
	if err != nil {
		t.Fatal(err)
	}
	got, want := piecesOf(ours, ownText(t)), piecesOf(theirs, ownText(t))
	t.Logf("%d of %d pieces are the original's; the text takes %d, with the original %d", same, len(result.Model.Pieces), got, want)
	if float64(got) > 1.01*float64(want) {
		t.Errorf("the text takes %d pieces, with the original %d", got, want)
	}
}
