package data

import (
	"testing"

	"github.com/sluice-mt/sluice/internal/sharedtest"
	"github.com/sluice-mt/sluice/translator/vocab"
)

// BenchmarkRead reads the 49,396 pairs of the example corpus, with a SentencePiece vocabulary.
func BenchmarkRead(b *testing.B) {
	v, err := vocab.Open(sharedtest.Path(b, "models/reference/vocab/joint.spm"))
	if err != nil {
		b.Fatal(err)
	}
	files := Files{TSV: sharedtest.Path(b, "data/tatoeba.en-de.tsv.xz")}
	pairs := 0
	for b.Loop() {
		c, err := Read(Config{Source: v, Target: v, Files: files, MaxLength: 100, Memory: 1 << 30})
		if err != nil {
			b.Fatal(err)
		}
		pairs += c.Stats.Pairs
	}
	b.ReportMetric(float64(pairs)/b.Elapsed().Seconds(), "pairs/s")
}
