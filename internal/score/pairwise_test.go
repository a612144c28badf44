package score

import (
	"errors"
	"math/rand/v2"
	"strings"
	"testing"
)

// randomTexts are much alike, with repeated words, punctuation, empty texts and letters of several bytes.
func randomTexts(random *rand.Rand, n int) []string {
	words := []string{"der", "Hund", "und", "die", "Größe,", "x", "(a)", "3.5", "…", "Hundehütte.", "\xff", " "}
	texts := make([]string, n)
	for i := range texts {
		var chosen []string
		for range random.IntN(9) {
			chosen = append(chosen, words[random.IntN(len(words))])
		}
		texts[i] = strings.Join(chosen, " ")
		if i > 0 && random.IntN(4) == 0 {
			texts[i] = texts[random.IntN(i)]
		}
	}
	return texts
}

// Pairwise gives exactly what scoring each pair as a segment gives.
func TestPairwiseIsTheSentenceScoreOfEachPair(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	for name, metric := range map[string]Metric{
		"BLEU":   BLEUOptions{EffectiveOrder: true},
		"bleu":   BLEUOptions{EffectiveOrder: true, Lowercase: true, Tokenizer: TokenizeChar, Smoothing: SmoothFloor},
		"chrF":   CHRFOptions{},
		"chrF++": CHRFOptions{WordOrder: 2, Whitespace: true},
		"chrF3":  CHRFOptions{Beta: 3, Lowercase: true, Epsilon: true},
	} {
		for range 60 {
			hypotheses, references := randomTexts(random, 1+random.IntN(8)), randomTexts(random, 1+random.IntN(8))
			if random.IntN(3) == 0 {
				references = hypotheses
			}
			got, err := Pairwise(metric, hypotheses, references)
			if err != nil {
				t.Fatal(err)
			}
			for i, hypothesis := range hypotheses {
				for j, reference := range references {
					counts, err := Counts(metric, hypothesis, []string{reference})
					if err != nil {
						t.Fatal(err)
					}
					if want := Points(metric, counts); got[i][j] != want {
						t.Fatalf("%s: %q against %q scores %v, want %v", name, hypothesis, reference, got[i][j], want)
					}
				}
			}
		}
	}
}

func TestPairwiseRefuses(t *testing.T) {
	if _, err := Pairwise(CHRFOptions{}, nil, []string{"a"}); !errors.Is(err, ErrInput) {
		t.Errorf("no hypotheses: %v", err)
	}
	if _, err := Pairwise(CHRFOptions{}, []string{"a"}, nil); !errors.Is(err, ErrInput) {
		t.Errorf("no references: %v", err)
	}
	if _, err := Pairwise(BLEUOptions{Tokenizer: "none such"}, []string{"a"}, []string{"a"}); err == nil {
		t.Error("a tokeniser that there is not was accepted")
	}
}

// Summed counts give the score of the corpus.
func TestCountsAddUp(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 8))
	hypotheses, references := randomTexts(random, 30), [][]string{randomTexts(random, 30), randomTexts(random, 30)}
	for _, metric := range []Metric{BLEUOptions{}, CHRFOptions{}} {
		var all [][]int64
		for i := range hypotheses {
			counts, err := Counts(metric, hypotheses[i], []string{references[0][i], references[1][i]})
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, counts)
		}
		want := 0.0
		switch options := metric.(type) {
		case BLEUOptions:
			s, err := BLEU(hypotheses, references, options)
			if err != nil {
				t.Fatal(err)
			}
			want = s.Score
		case CHRFOptions:
			s, err := CHRF(hypotheses, references, options)
			if err != nil {
				t.Fatal(err)
			}
			want = s.Score
		}
		if got := Points(metric, sum(all)); got != want {
			t.Errorf("%T: the counts make %v, the corpus scores %v", metric, got, want)
		}
	}
	if _, err := Counts(BLEUOptions{}, "a", nil); !errors.Is(err, ErrInput) {
		t.Errorf("no references: %v", err)
	}
}

func BenchmarkPairwise(b *testing.B) {
	random := rand.New(rand.NewPCG(9, 10))
	base := strings.Fields(strings.Repeat("Ein Mann mit einem roten Hut steht vor dem alten Haus und liest in aller Ruhe die Zeitung . ", 2))
	texts := make([]string, 64)
	for i := range texts {
		words := append([]string(nil), base...)
		for range 6 {
			words[random.IntN(len(words))] = words[random.IntN(len(words))]
		}
		texts[i] = strings.Join(words, " ")
	}
	for name, metric := range map[string]Metric{"chrF": CHRFOptions{}, "BLEU": BLEUOptions{EffectiveOrder: true}} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if _, err := Pairwise(metric, texts, texts); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(name+" pair by pair", func(b *testing.B) {
			for b.Loop() {
				for _, hypothesis := range texts {
					for _, reference := range texts {
						if _, err := Counts(metric, hypothesis, []string{reference}); err != nil {
							b.Fatal(err)
						}
					}
				}
			}
		})
	}
}
