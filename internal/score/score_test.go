package score

import (
	"errors"
	"testing"
)

// These are worked out by hand, for where sacreBLEU is not at hand.
func TestBLEUByHand(t *testing.T) {
	// 4 of 5 words, 2 of 4 bigrams, 1 of 3 trigrams, no match in 2 four-grams, which smoothing counts as 1/4.
	got, err := BLEU([]string{"a b c x e"}, [][]string{{"a b c d e"}}, BLEUOptions{})
	if err != nil {
		t.Fatal(err)
	}
	// (80 · 50 · 33.3 · 25)^(1/4)
	if want := "BLEU = 42.73 80.0/50.0/33.3/25.0 (BP = 1.000 ratio = 1.000 hyp_len = 5 ref_len = 5)"; got.String() != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
	if want := "nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:2.6.0"; got.Signature() != want {
		t.Errorf("got %s\nwant %s", got.Signature(), want)
	}
}

func TestCHRFByHand(t *testing.T) {
	got, err := CHRF([]string{"ab c"}, [][]string{{"ab d"}}, CHRFOptions{CharOrder: 2})
	if err != nil {
		t.Fatal(err)
	}
	if want := "chrF2 = 58.33"; got.String() != want { // 2 of 3 characters, 1 of 2 bigrams, on both sides
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestMismatchedInput(t *testing.T) {
	for _, c := range []struct {
		hypotheses []string
		references [][]string
	}{{nil, [][]string{{}}}, {[]string{"a"}, nil}, {[]string{"a"}, [][]string{{"a"}, {"a", "b"}}}} {
		if _, err := BLEU(c.hypotheses, c.references, BLEUOptions{}); !errors.Is(err, ErrInput) {
			t.Errorf("%q, %q: got %v", c.hypotheses, c.references, err)
		}
	}
}

func TestUnknownChoices(t *testing.T) {
	for _, m := range []Metric{BLEUOptions{Tokenizer: "13b"}, BLEUOptions{Smoothing: "much"}, BLEUOptions{SmoothValue: -1}, CHRFOptions{CharOrder: -1}} {
		if _, err := Bootstrap(m, []string{"a"}, [][]string{{"a"}}, 10, Seed); err == nil {
			t.Errorf("%+v was accepted", m)
		}
	}
}

func TestEqualSystemsDoNotDiffer(t *testing.T) {
	text := []string{"a b c d", "e f g h"}
	got, err := PairedBootstrap(BLEUOptions{}, text, text, [][]string{{"a b c d", "e f g x"}}, 100, Seed)
	if err != nil {
		t.Fatal(err)
	}
	if got.Baseline != got.System || got.PValue > 1.0/101+1e-9 {
		t.Errorf("%+v", got)
	}
}

func FuzzTokenize(f *testing.F) {
	f.Add("a.b, 5.5 &amp;lt; <skipped>\xff\xc0中")
	f.Fuzz(func(t *testing.T, text string) {
		for _, tokenizer := range []Tokenizer{Tokenize13a, TokenizeIntl, TokenizeZh, TokenizeChar, TokenizeNone} {
			s, err := SentenceBLEU(text, []string{text}, BLEUOptions{Tokenizer: tokenizer, EffectiveOrder: true, Lowercase: true})
			if err != nil || s.HypothesisLength > 0 && (s.Score < 99.99 || s.Score > 100.01) {
				t.Errorf("%s: %q scores %v with itself, %v", tokenizer, text, s, err)
			}
		}
		if _, err := SentenceCHRF(text, []string{text}, CHRFOptions{WordOrder: 2}); err != nil {
			t.Error(err)
		}
	})
}
