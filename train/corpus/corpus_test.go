package corpus

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
	"pgregory.net/rapid"

	"github.com/sluice-mt/sluice/internal/compress"
	"github.com/sluice-mt/sluice/internal/sharedtest"
)

func cleaner(t testing.TB, rules Rules) *Cleaner {
	t.Helper()
	c, err := NewCleaner(rules)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestReasons has a pair for each rule that breaks it, and one at its edge that does not.
func TestReasons(t *testing.T) {
	everything := Normaliser{Form: NFC, Controls: true, Spaces: true}
	for _, c := range []struct {
		rules          Rules
		source, target string
		want           Reason
	}{
		{Rules{}, "a", "b", Kept},
		{Rules{}, "a\xff", "b", Damaged},
		{Rules{}, "a", "b\ufffd", Damaged},
		{Rules{}, "a", "\ue000b", Damaged},
		{Rules{}, "a\ufdd0", "b", Damaged},
		{Rules{}, " ", "b", Empty},
		{Rules{}, "a", "", Empty},
		{Rules{Single: true}, "a", "", Kept},
		{Rules{Single: true}, "", "a", Empty},
		{Rules{Normalise: everything}, "a", "\u200b\u00ad", Empty},
		{Rules{MinWords: 2}, "a b", "b", Short},
		{Rules{MinWords: 2}, "a b", "b c", Kept},
		{Rules{MaxWords: 2}, "a b c", "b", Long},
		{Rules{MaxWords: 2}, "a b", "b", Kept},
		{Rules{MaxCharacters: 3}, "äöü", "b", Kept},
		{Rules{MaxCharacters: 3}, "äöü.", "b", Long},
		{Rules{MaxWord: 3}, "a bcde", "b", LongWord},
		{Rules{MaxWord: 3}, "abc bcd", "b", Kept},
		{Rules{MaxRatio: 2}, strings.Repeat("a", 10), strings.Repeat("b", 30), Kept},
		{Rules{MaxRatio: 2}, strings.Repeat("a", 10), strings.Repeat("b", 31), Ratio},
		{Rules{MaxRatio: 2}, strings.Repeat("a", 31), strings.Repeat("b", 10), Ratio},
		{Rules{MaxRatio: 2, Single: true}, strings.Repeat("a", 31), "", Kept},
		{Rules{NoCopies: true}, "Same text.", "same Text.", Copy},
		{Rules{NoCopies: true}, "Same text.", "same text!", Kept},
		{Rules{}, "Same", "Same", Kept},
		{Rules{MinLetters: 0.5}, "ab 12", "ab", Kept},
		{Rules{MinLetters: 0.5}, "ab", "ab 123", Letters},
		{Rules{Scripts: [2][]string{{"Latin"}, {"Cyrillic"}}, MinScript: 1}, "dog", "пёс 1", Kept},
		{Rules{Scripts: [2][]string{{"Latin"}, {"Cyrillic"}}, MinScript: 1}, "dog", "pёс", Script},
		{Rules{Scripts: [2][]string{{"Latin"}, {"Cyrillic"}}, MinScript: 0.6}, "dog", "pёс", Kept},
		{Rules{Scripts: [2][]string{{"Latin"}}, MinScript: 1}, "犬", "пёс", Script},
		{Rules{Scripts: [2][]string{{"Latin"}, {"Han", "Hiragana"}}, MinScript: 1}, "dog", "犬だ", Kept},
	} {
		p := Pair{Source: c.source, Target: c.target}
		if got := cleaner(t, c.rules).Clean(&p); got != c.want {
			t.Errorf("%q ||| %q with %+v: %q, want %q", c.source, c.target, c.rules, got, c.want)
		}
	}
}

func TestRulesAreChecked(t *testing.T) {
	id := NewLanguageLearner(2).Identifier()
	for _, rules := range []Rules{
		{MinWords: -1}, {MaxWords: -1}, {MaxWord: -1}, {MaxCharacters: -1}, {MinWords: 3, MaxWords: 2}, {MaxRatio: 0.5}, {MinLetters: 1.1},
		{MinScript: -0.1}, {Scripts: [2][]string{{"latin"}}}, {Identifier: id, Languages: [2]int{0, 2}}, {Identifier: id, Languages: [2]int{-1, 0}},
	} {
		if _, err := NewCleaner(rules); !errors.Is(err, ErrRules) {
			t.Errorf("%+v: %v", rules, err)
		}
	}
}

func TestNormalise(t *testing.T) {
	all := Normaliser{Form: NFKC, Controls: true, Spaces: true, Punctuation: true}
	for _, c := range []struct {
		normaliser Normaliser
		text, want string
	}{
		{Normaliser{}, " a\u0308\tb\u200b ", " a\u0308\tb\u200b "},
		{Normaliser{Form: NFC}, "a\u0308 ﬁ", "ä ﬁ"},
		{Normaliser{Form: NFKC}, "a\u0308 ﬁ Ａ", "ä fi A"},
		{Normaliser{Controls: true}, "\ufeffa\x00b\u00adc\u200dd\te\x7f", "abc\u200dd\te"},
		{Normaliser{Controls: true, Form: NFC}, "a\u200b\u0308", "ä"},
		{Normaliser{Spaces: true}, "\u00a0a \t\u3000b\u2028", "a b"},
		{Normaliser{Punctuation: true}, "„Ja“ – sagte er … ’s", `"Ja" - sagte er ... 's`},
		{all, "´\u00a0Ｘ\u2003½", "' X 1⁄2"},
	} {
		if got := c.normaliser.Text(c.text); got != c.want {
			t.Errorf("%+v of %q: %q, want %q", c.normaliser, c.text, got, c.want)
		}
	}
}

// FuzzNormalise: normalising again changes nothing, and what was promised holds.
func FuzzNormalise(f *testing.F) {
	for _, text := range []string{"a\u0308 – „b“\u200b", "\u00b4\u0301", "\ufe31\u2026", "\xff\u1100\u1161", " \u0338="} {
		f.Add(text, uint8(0xff))
	}
	f.Fuzz(func(t *testing.T, text string, options uint8) {
		n := Normaliser{Form: Form(options % 3), Controls: options&4 != 0, Spaces: options&8 != 0, Punctuation: options&16 != 0}
		if !utf8.ValidString(text) {
			return // is never normalised
		}
		once := n.Text(text)
		if again := n.Text(once); again != once {
			t.Errorf("%+v: %q, then %q, then %q", n, text, once, again)
		}
		if !utf8.ValidString(once) {
			t.Errorf("%q is not UTF-8", once)
		}
		if n.Form == NFC && !norm.NFC.IsNormalString(once) {
			t.Errorf("%q is not in form C", once)
		}
		if n.Spaces && (once != strings.TrimSpace(once) || strings.Contains(once, "  ")) {
			t.Errorf("spaces in %q", once)
		}
	})
}

// FuzzClean: no text makes it panic, what is kept is kept again, unchanged, and keeps the rules.
func FuzzClean(f *testing.F) {
	learner := NewLanguageLearner(2)
	learner.Add(0, "the quick brown fox jumps over the lazy dog")
	learner.Add(1, "zwölf boxkämpfer jagen viktor quer über den sylter deich")
	c := cleaner(f, Rules{
		Normalise: Normaliser{Form: NFC, Controls: true, Spaces: true}, MinWords: 1, MaxWords: 50, MaxWord: 30, MaxRatio: 3, NoCopies: true,
		MinLetters: 0.3, Scripts: [2][]string{{"Latin"}, {"Latin", "Greek"}}, MinScript: 0.5, Identifier: learner.Identifier(), Languages: [2]int{0, 1},
	})
	f.Add("The dog jumps over the fox.", "Der Boxkämpfer springt über den Deich.")
	f.Add("\xff", "")
	f.Add("a\u0308", "Ω")
	f.Fuzz(func(t *testing.T, source, target string) {
		p := Pair{Source: source, Target: target}
		reason := c.Clean(&p)
		if reason != Kept {
			if !slices.Contains(Reasons(), reason) {
				t.Errorf("reason %q", reason)
			}
			return
		}
		again := p
		if reason := c.Clean(&again); reason != Kept || again != p {
			t.Errorf("%+v became %+v, %q", p, again, reason)
		}
		if strings.EqualFold(p.Source, p.Target) || len(strings.Fields(p.Source)) > 50 {
			t.Errorf("kept %+v", p)
		}
	})
}

// lines reads a text of the shared folder.
func lines(t *testing.T, name string, most int) []string {
	t.Helper()
	file, err := os.Open(sharedtest.Path(t, "data/"+name))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	plain, err := compress.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	var text bytes.Buffer
	if _, err := io.CopyN(&text, plain, 3<<20); err != nil && err != io.EOF {
		t.Fatal(err)
	}
	for line := range strings.Lines(text.String()) {
		if all = append(all, strings.TrimSpace(line)); len(all) == most {
			break
		}
	}
	return all
}

// TestLanguages learns from monolingual text and judges test sets of other domains.
func TestLanguages(t *testing.T) {
	learner := NewLanguageLearner(2)
	for language, name := range []string{"mono.en.xz", "mono.de.xz"} {
		for _, line := range lines(t, name, 20_000) {
			learner.Add(language, line)
		}
	}
	id := learner.Identifier()
	for _, test := range []string{"test-tatoeba", "test-wmt14-en-de", "test-multi30k-2016"} {
		for language, suffix := range []string{".en", ".de"} {
			wrong, missed, judged := 0, 0, 0
			for _, line := range lines(t, test+suffix, 3000) {
				if measure(line, nil).letters < MinIdentified {
					continue
				}
				judged++
				if id.Lead(line, language) > DefaultMaxLead {
					wrong++
				}
				if id.Lead(line, 1-language) <= DefaultMaxLead {
					missed++
				}
			}
			t.Logf("%s%s: of %d lines %d would be left out, and %d would pass for lines of the other language", test, suffix, judged, wrong, missed)
			if 200*wrong > judged || 50*missed > judged {
				t.Error("these are too many")
			}
		}
	}
}

// TestLanguageRule: exchanged sides go, and so does what only a third language fits; short texts stay.
func TestLanguageRule(t *testing.T) {
	learner := NewLanguageLearner(3)
	for language, text := range []string{"where is the house of the old man", "wo ist das Haus des alten Mannes", "où est la maison du vieil homme"} {
		learner.Add(language, text)
	}
	c := cleaner(t, Rules{Identifier: learner.Identifier(), Languages: [2]int{0, 1}, MaxLead: DefaultMaxLead})
	for _, p := range []struct {
		source, target string
		want           Reason
	}{
		{"the house of the old man and his", "das Haus des alten Mannes und des", Kept},
		{"das Haus des alten Mannes und des", "the house of the old man and his", Language},
		{"the house of the old man and his", "la maison du vieil homme du vieil", Language},
		{"maison", "the house", Kept},
	} {
		if got := c.Clean(&Pair{Source: p.source, Target: p.target}); got != p.want {
			t.Errorf("%s ||| %s: %q, want %q", p.source, p.target, got, p.want)
		}
	}
}

// TestEachKeepsOrder: with any number of workers, every pair comes once, in order, and with its own reason.
func TestEachKeepsOrder(t *testing.T) {
	c := cleaner(t, Rules{MaxWords: 1})
	for _, workers := range []int{1, 2, 7} {
		next := 0
		err := c.Each(context.Background(), workers, func(_ context.Context, yield func(Pair) error) error {
			for i := range 3 * batchSize * 10 / 7 {
				p := Pair{Source: fmt.Sprint(i), Target: "x", Rest: "rest"}
				if i%3 == 0 {
					p.Target = "x y"
				}
				if err := yield(p); err != nil {
					return err
				}
			}
			return nil
		}, func(p Pair, reason Reason) error {
			if want := next%3 == 0; p.Source != fmt.Sprint(next) || p.Rest != "rest" || (reason == Long) != want {
				t.Fatalf("%+v, %q as number %d", p, reason, next)
			}
			next++
			return nil
		})
		if err != nil || next != 3*batchSize*10/7 {
			t.Errorf("%d workers: %d pairs, %v", workers, next, err)
		}
	}
}

// TestEachStops at the first error, whoever has it.
func TestEachStops(t *testing.T) {
	c := cleaner(t, Rules{})
	failure := errors.New("failure")
	endless := func(ctx context.Context, yield func(Pair) error) error {
		for {
			if err := yield(Pair{Source: "a", Target: "b"}); err != nil {
				return err
			}
		}
	}
	calls := 0
	err := c.Each(context.Background(), 2, endless, func(Pair, Reason) error {
		if calls++; calls == 3*batchSize {
			return failure
		}
		return nil
	})
	if !errors.Is(err, failure) {
		t.Errorf("got %v", err)
	}
	err = c.Each(context.Background(), 2, func(_ context.Context, yield func(Pair) error) error {
		return errors.Join(yield(Pair{}), failure)
	}, func(Pair, Reason) error { return nil })
	if !errors.Is(err, failure) {
		t.Errorf("got %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := c.Each(ctx, 2, endless, func(Pair, Reason) error { return nil }); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

// unique returns the pairs that are no duplicates.
func unique(t testing.TB, key Key, pairs []Pair) (kept []Pair) {
	t.Helper()
	folder := t.TempDir()
	u, err := NewUnique(key, folder, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range pairs {
		if err := u.Add(p); err != nil {
			t.Fatal(err)
		}
	}
	number := 0
	err = u.Each(func(p Pair, duplicate bool) error {
		if p != pairs[number] {
			t.Fatalf("pair %d is %+v, was %+v", number, p, pairs[number])
		}
		number++
		if !duplicate {
			kept = append(kept, p)
		}
		return nil
	})
	if err := errors.Join(err, u.Close()); err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(folder); err != nil || len(left) > 0 || number != len(pairs) {
		t.Fatalf("%v was left behind, %v; %d of %d pairs", left, err, number, len(pairs))
	}
	return kept
}

// TestUnique compares with a map, for every key.
func TestUnique(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	var pairs []Pair
	for range 30_000 { // more hashes than fit into the least memory
		text := func() string { return fmt.Sprintf("%c %d.", "aA"[random.IntN(2)], random.IntN(60)) }
		pairs = append(pairs, Pair{Source: text(), Target: text(), Rest: fmt.Sprint(random.IntN(3))})
	}
	for _, loose := range []bool{false, true} {
		for _, name := range []string{"pair", "source", "target"} {
			key, err := ParseKey(name)
			if err != nil {
				t.Fatal(err)
			}
			key.Loose = loose
			seen := map[[2]string]bool{}
			var want []Pair
			for _, p := range pairs {
				k := [2]string{p.Source, p.Target}
				if loose {
					k[0], k[1] = strings.ToLower(k[0]), strings.ToLower(k[1])
				}
				switch name {
				case "source":
					k[1] = ""
				case "target":
					k[0] = ""
				}
				if !seen[k] {
					want = append(want, p)
				}
				seen[k] = true
			}
			if got := unique(t, key, pairs); !slices.Equal(got, want) {
				t.Errorf("by %s, loose %v: %d pairs, want %d", name, loose, len(got), len(want))
			}
		}
	}
	if _, err := ParseKey("both"); !errors.Is(err, ErrRules) {
		t.Errorf("got %v", err)
	}
	// The border between the sides counts.
	if got := unique(t, Key{Source: true, Target: true}, []Pair{{Source: "a", Target: "bc"}, {Source: "ab", Target: "c"}}); len(got) != 2 {
		t.Errorf("got %v", got)
	}
}

func shuffled(t testing.TB, seed uint64, memory int64, pairs []Pair) (got []Pair) {
	t.Helper()
	s := NewShuffler(seed, t.TempDir(), memory)
	for _, p := range pairs {
		if err := s.Add(p); err != nil {
			t.Fatal(err)
		}
	}
	err := s.Each(func(p Pair) error {
		got = append(got, p)
		return nil
	})
	if err := errors.Join(err, s.Close()); err != nil {
		t.Fatal(err)
	}
	return got
}

// TestShuffle: a permutation, another one for another seed, and the same one with any memory.
func TestShuffle(t *testing.T) {
	var pairs []Pair
	for i := range 20_000 {
		pairs = append(pairs, Pair{Source: fmt.Sprintf("source %05d", i), Target: strings.Repeat("target ", i%20), Rest: "rest"})
	}
	got := shuffled(t, 1, 0, pairs)
	if slices.Equal(got, shuffled(t, 2, 0, pairs)) || slices.Equal(got, pairs) {
		t.Error("the seed does not matter")
	}
	if !slices.Equal(got, shuffled(t, 1, 1<<30, pairs)) {
		t.Error("memory matters")
	}
	slices.SortFunc(got, func(a, b Pair) int { return strings.Compare(a.Source, b.Source) })
	if !slices.Equal(got, pairs) {
		t.Error("not the same pairs")
	}
}

// TestShuffleIsFair: of four lines, all 24 orders come about equally often. The chi-square of 23 degrees of freedom is below
// 49.7 with a probability of 0.999; the seeds are fixed.
func TestShuffleIsFair(t *testing.T) {
	const trials = 4800
	counts := map[string]int{}
	for seed := range uint64(trials) {
		order := ""
		for _, p := range shuffled4(t, seed) {
			order += p.Source
		}
		counts[order]++
	}
	chi := 0.0
	for _, n := range counts {
		d := float64(n) - trials/24
		chi += d * d / (trials / 24)
	}
	if len(counts) != 24 || chi > 49.7 {
		t.Errorf("%d orders, chi-square %.1f", len(counts), chi)
	}
}

func shuffled4(t *testing.T, seed uint64) (got []Pair) {
	s := NewShuffler(seed, "", 0)
	for _, letter := range []string{"a", "b", "c", "d"} {
		if err := s.Add(Pair{Source: letter}); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Each(func(p Pair) error { got = append(got, p); return nil }); err != nil {
		t.Fatal(err)
	}
	return got
}

// FuzzPair packs and unpacks, and unpacks anything.
func FuzzPair(f *testing.F) {
	f.Add("a", "b", "\tc")
	f.Add("", "\xff\x00", "")
	f.Fuzz(func(t *testing.T, source, target, rest string) {
		p := Pair{source, target, rest}
		if got, err := unpack(p.appendTo(nil)); err != nil || got != p {
			t.Errorf("%+v, %v, want %+v", got, err, p)
		}
		if got, err := unpack([]byte(source)); err == nil && len(got.Source)+len(got.Target)+len(got.Rest) > len(source) {
			t.Errorf("%+v from %q", got, source)
		}
	})
}

// TestNoiseLaws: the same for the same seed and line, words stay words, and the target changes only as promised.
func TestNoiseLaws(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringOfN(rapid.RuneFrom([]rune("abcdefghijäöüßÄ  .!?—éжд犬\u0301")), 0, 60, -1)
		p := Pair{Source: text.Draw(t, "source"), Target: text.Draw(t, "target"), Rest: "rest"}
		share := rapid.Float64Range(0, 1)
		n := Noise{Seed: rapid.Uint64().Draw(t, "seed"), Upper: 0.3, Title: 0.3, Lower: 0.3, Unpunctuated: share.Draw(t, "ending"), Typos: share.Draw(t, "typos"), TypoRate: share.Draw(t, "rate")}
		if err := n.Check(); err != nil {
			t.Fatal(err)
		}
		line := rapid.Uint64().Draw(t, "line")
		var counts, again Changes
		first, second := p, p
		n.Apply(line, &first, &counts)
		n.Apply(line, &second, &again)
		if first != second || counts != again || counts.Lines != 1 || first.Rest != "rest" {
			t.Fatalf("%+v and %+v", first, second)
		}
		for _, side := range [][2]string{{p.Source, first.Source}, {p.Target, first.Target}} {
			if !utf8.ValidString(side[1]) || spacesOf(side[0]) != spacesOf(side[1]) {
				t.Errorf("%q became %q", side[0], side[1])
			}
		}
		if counts == (Changes{Lines: 1}) && first != p {
			t.Errorf("uncounted: %+v became %+v", p, first)
		}
		if counts.Upper+counts.Title+counts.Unpunctuated == 0 && first.Target != p.Target {
			t.Errorf("target %q became %q", p.Target, first.Target)
		}
	})
}

// spacesOf keeps the white space of a text and whether anything is between.
func spacesOf(text string) string {
	var out strings.Builder
	inWord := false
	for _, r := range text {
		space := unicode.IsSpace(r)
		switch {
		case space:
			out.WriteRune(r)
		case !inWord:
			out.WriteByte('w')
		}
		inWord = !space
	}
	return out.String()
}

// TestNoiseShares: about as many lines are changed as was asked for.
func TestNoiseShares(t *testing.T) {
	n := Noise{Seed: 3, Upper: 0.1, Title: 0.2, Lower: 0.3, Unpunctuated: 0.4, Typos: 0.5, TypoRate: 0.2}
	var counts Changes
	const count = 20_000
	for line := range uint64(count) {
		p := Pair{Source: "Something short was written here.", Target: "Hier wurde etwas Kurzes geschrieben."}
		n.Apply(line, &p, &counts)
	}
	for _, c := range []struct {
		name  string
		got   int64
		share float64
	}{
		{"upper", counts.Upper, 0.1}, {"title", counts.Title, 0.2}, {"lower", counts.Lower, 0.3}, {"unpunctuated", counts.Unpunctuated, 0.4}, {"typos", counts.Typos, 0.5},
	} {
		if got := float64(c.got) / count; got < c.share-0.015 || got > c.share+0.015 {
			t.Errorf("%s: %.3f of the lines, want %.1f", c.name, got, c.share)
		}
	}
}

func TestNoiseByKind(t *testing.T) {
	for _, c := range []struct {
		noise Noise
		want  Pair
	}{
		{Noise{}, Pair{Source: "Die Straße ist „neu“.", Target: "The street isn't old!"}},
		{Noise{Upper: 1}, Pair{Source: "DIE STRASSE IST „NEU“.", Target: "THE STREET ISN'T OLD!"}},
		{Noise{Title: 1}, Pair{Source: "Die Straße Ist „Neu“.", Target: "The Street Isn't Old!"}},
		{Noise{Lower: 1}, Pair{Source: "die straße ist „neu“.", Target: "The street isn't old!"}},
		{Noise{Unpunctuated: 1}, Pair{Source: "Die Straße ist „neu“.", Target: "The street isn't old!"}}, // the mark is behind another
	} {
		p := Pair{Source: "Die Straße ist „neu“.", Target: "The street isn't old!"}
		if c.noise.Apply(0, &p, new(Changes)); p != c.want {
			t.Errorf("%+v: %+v", c.noise, p)
		}
	}
	p := Pair{Source: "Ja?", Target: "Yes."}
	n := Noise{Unpunctuated: 1}
	if n.Apply(0, &p, new(Changes)); p != (Pair{Source: "Ja", Target: "Yes"}) {
		t.Errorf("got %+v", p)
	}
	for _, bad := range []Noise{{Upper: 0.6, Lower: 0.6}, {Typos: -1}, {TypoRate: 2}} {
		if err := bad.Check(); !errors.Is(err, ErrRules) {
			t.Errorf("%+v: %v", bad, err)
		}
	}
}

// TestCountsAsJSON: every reason is there, so that a reader need not guess.
func TestCountsAsJSON(t *testing.T) {
	c := NewCounts()
	c.Add(Kept)
	c.Add(Kept)
	c.Add(Ratio)
	c.Reject(Duplicate)
	text, err := json.Marshal(c)
	want := `{"read":3,"kept":1,"rejected":{"copy":0,"damaged":0,"duplicate":1,"empty":0,"language":0,"letters":0,"long":0,"long-word":0,"ratio":1,"script":0,"short":0}}`
	if err != nil || string(text) != want {
		t.Errorf("%s, %v", text, err)
	}
	if got := fmt.Sprint(c.Found()); got != "[ratio duplicate]" {
		t.Errorf("found %s", got)
	}
}
