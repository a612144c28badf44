package vocab

import (
	"strings"
	"testing"

	"github.com/sluice-mt/sluice/internal/sharedtest"
)

// BenchmarkOpen measures how long it takes to open a vocabulary of 32,000 pieces.
func BenchmarkOpen(b *testing.B) {
	path := sharedtest.Path(b, "models/ende-tiny/vocab.spm")
	for b.Loop() {
		if _, err := Open(path); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkEncode and BenchmarkDecode go over news text, and report source words (separated by spaces) a second.
func BenchmarkEncode(b *testing.B) {
	for _, model := range []string{"models/ende-tiny/vocab.spm", "models/reference/vocab/bpe.spm"} {
		b.Run(model, func(b *testing.B) {
			v, lines, words := news(b, model)
			var ids []int32
			for b.Loop() {
				for _, line := range lines {
					ids = v.Encode(line, ids[:0])
				}
			}
			b.ReportMetric(float64(words)*float64(b.N)/b.Elapsed().Seconds(), "words/s")
		})
	}
}

func BenchmarkDecode(b *testing.B) {
	v, lines, words := news(b, "models/ende-tiny/vocab.spm")
	encoded := make([][]int32, len(lines))
	for i, line := range lines {
		encoded[i] = v.Encode(line, nil)
	}
	var text []byte
	for b.Loop() {
		for _, ids := range encoded {
			text = v.Decode(ids, text[:0])
		}
	}
	b.ReportMetric(float64(words)*float64(b.N)/b.Elapsed().Seconds(), "words/s")
}

func news(b *testing.B, model string) (Vocabulary, []string, int) {
	b.Helper()
	v, err := Open(sharedtest.Path(b, model))
	if err != nil {
		b.Fatal(err)
	}
	lines := readLines(b, sharedtest.Path(b, "data/bench-news.en"))
	words := 0
	for _, line := range lines {
		words += len(strings.Fields(line))
	}
	return v, lines, words
}
