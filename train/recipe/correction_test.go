package recipe

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-mt/sluice/internal/m2"
)

// TestCorrection makes what a model that corrects is trained with and measured by.
func TestCorrection(t *testing.T) {
	folder := place(t, map[string]string{
		"text":  strings.Repeat("This is more than that is.\nNothing to confuse here\n", 50),
		"words": "# a comment\nthen than\nis are\n",
	})
	const recipe = `name: x
vocabularies: v.spm
steps:
- {name: errors, plant-errors: {text: text, confusions: words, typos: 0.5, copies: 2, to: e.tsv}}
- {name: vocabulary, vocabulary: {corpora: e.tsv, size: 320, to: v.spm}}
- {name: edits, edits: {corpora: e.tsv, gold: gold.m2, weights: w.gz, weight: 5}}
- name: model
  train: {corpora: e.tsv, weights: w.gz, to: m.npz, settings: {dim-emb: 8, transformer-heads: 2, transformer-dim-ffn: 8,
    enc-depth: 1, dec-depth: 1, tied-embeddings-all: true, after-batches: 2, cpu-threads: 1}}
`
	run(t, parse(t, folder, recipe))
	all := readPairs(t, filepath.Join(folder, "x", "e.tsv"))
	changed, again := 0, 0
	var corrected []string
	for i, p := range all {
		if p.source != p.target {
			changed++
		}
		if i >= 100 && p.source != all[i-100].source {
			again++
		}
		corrected = append(corrected, p.target)
	}
	if len(all) != 200 || changed < 60 || changed > 180 || again < 30 {
		t.Errorf("%d pairs, %d with errors, %d other ones in the second copy", len(all), changed, again)
	}
	file, err := os.Open(filepath.Join(folder, "x", "gold.m2"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	sentences, outside, err := m2.Read(file)
	if err != nil || outside != 0 {
		t.Fatal(outside, err)
	}
	if s, err := m2.Compute(corrected, sentences, m2.DefaultOptions()); err != nil || s.F != 1 || s.Gold < changed {
		t.Errorf("the corrected text scores %+v, %v", s, err)
	}
	weighted := 0
	for line, err := range Lines(filepath.Join(folder, "x", "w.gz")) {
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(line, "5") {
			weighted++
		}
	}
	if weighted < changed*9/10 || weighted > changed { // what is one letter too many leaves all target pieces, or not
		t.Errorf("%d lines have weights, %d have errors", weighted, changed)
	}
}
