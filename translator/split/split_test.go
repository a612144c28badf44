package split

import (
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"pgregory.net/rapid"
)

// words counts every word, and every Chinese character, as a piece.
func words(text string) int {
	n, inside := 0, false
	for _, r := range text {
		switch {
		case unicode.IsSpace(r):
			inside = false
		case unspaced(r):
			n++
			inside = false
		case !inside:
			n++
			inside = true
		}
	}
	return n
}

func runes(text string) int { return utf8.RuneCountInString(text) }

// pairs counts so that two parts have more or fewer pieces together than each alone: pieces of two runes, and one for the
// beginning.
func pairs(text string) int { return (runes(text)+1)/2 + 1 }

func TestSplit(t *testing.T) {
	for _, test := range []struct {
		name  string
		text  string
		limit int
		count func(string) int
		want  []string // segments, with a bar before what separates them
	}{
		{"empty", "", 5, words, []string{"|"}},
		{"short", "Just this.", 5, words, []string{"Just this.|"}},
		{"sentences", "One two three. Four five six. Seven!", 4, words, []string{"One two three.| ", "Four five six. Seven!|"}},
		{"clauses", "one two, three four five six", 4, words, []string{"one two,| ", "three four five six|"}},
		{"words", "one two three  four five", 3, words, []string{"one two three|  ", "four five|"}},
		{"sentence before clause", "A b cat. D, e f g h", 5, words, []string{"A b cat.| ", "D, e f g h|"}},
		{"too short a sentence", "Oh! one two three four five six seven eight nine", 8, words, []string{"Oh! one two three four five six seven| ", "eight nine|"}},
		{"quotation", `He said "Go." Then we went away`, 5, words, []string{`He said "Go."| `, "Then we went away|"}},
		{"quotation within", `Asked "why?" he went away`, 4, words, []string{`Asked "why?" he went| `, "away|"}},
		{"initials", "Music by J. S. Bach and others here", 6, words, []string{"Music by J. S. Bach and| ", "others here|"}},
		{"abbreviation", "Das ist z.B. Bach und Telemann hier", 5, words, []string{"Das ist z.B. Bach und| ", "Telemann hier|"}},
		{"chinese", "我喜欢猫。你喜欢狗，对吗？", 8, runes, []string{"我喜欢猫。|", "你喜欢狗，对吗？|"}},
		{"chinese clause", "我喜欢猫，你喜欢狗", 6, runes, []string{"我喜欢猫，|", "你喜欢狗|"}},
		{"chinese quotation", "他说：“走吧！”我们走了", 9, runes, []string{"他说：“走吧！”|", "我们走了|"}},
		{"digits", "12345678", 3, runes, []string{"123|", "456|", "78|"}},
		{"accents", "e\u0301e\u0301e\u0301", 3, runes, []string{"e\u0301|", "e\u0301|", "e\u0301|"}},
		{"flags", "🇩🇪🇫🇷🇬🇧", 3, runes, []string{"🇩🇪|", "🇫🇷|", "🇬🇧|"}},
		{"family", "👩‍👩‍👧👩‍👩‍👧", 4, runes, []string{"👩‍👩‍👧|", "👩‍👩‍👧|"}},
		{"spaces around", "  one two  ", 1, words, []string{"  one| ", "two|  "}},
		{"spaces only", " \t ", 1, words, []string{" \t |"}},
		{"limit of nothing", "ab", 0, runes, []string{"a|", "b|"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			var got []string
			for _, s := range Split(test.text, test.limit, test.count) {
				got = append(got, s.Text+"|"+s.Separator)
			}
			if !slices.Equal(got, test.want) {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

func TestBreaks(t *testing.T) {
	segments := Split("One. Two, three 。五六七八九十一二三四五六", 1, words)
	var kinds []Break
	for _, s := range segments[:4] {
		kinds = append(kinds, s.Break)
	}
	if want := []Break{Sentence, Clause, Space, Sentence}; !slices.Equal(kinds, want) {
		t.Errorf("breaks %v, want %v", kinds, want)
	}
	if last := segments[len(segments)-1]; last.Break != End {
		t.Errorf("the last break is %v", last.Break)
	}
}

func TestJoin(t *testing.T) {
	chinese := Split("我喜欢猫。你喜欢狗，对吗", 6, runes)
	for _, test := range []struct {
		segments     []Segment
		translations []string
		want         string
	}{
		{chinese, []string{"I like cats.", "You like dogs,", "right?"}, "I like cats. You like dogs, right?"},
		{chinese, []string{"我喜歡貓。", "你喜歡狗，", "對嗎"}, "我喜歡貓。你喜歡狗，對嗎"},
		{chinese, []string{"I like cats.", "", "right?"}, "I like cats.right?"},
		{Split("a  b ", 1, words), []string{"A", "B"}, "A  B "},
		{Split("12345", 2, runes), []string{"12", "34", "5"}, "12345"},
		{Split("", 1, runes), []string{""}, ""},
	} {
		if got := Join(test.segments, test.translations); got != test.want {
			t.Errorf("joined %q, want %q", got, test.want)
		}
	}
}

// check tests what holds for every text.
func check(t interface{ Fatalf(string, ...any) }, text string, limit int, count func(string) int) {
	read := 0
	segments := Split(text, limit, func(part string) int {
		read += len(part)
		return count(part)
	})
	var whole strings.Builder
	for i, s := range segments {
		whole.WriteString(s.Text + s.Separator)
		if count(s.Text) > limit && nextCharacter(s.Text, 0) < len(s.Text) {
			t.Fatalf("segment %q has %d pieces, limit %d", s.Text, count(s.Text), limit)
		}
		if s.Text == "" && text != "" || strings.TrimSpace(s.Separator) != "" {
			t.Fatalf("segment %d is %q with separator %q", i, s.Text, s.Separator)
		}
		if (s.Break == End) != (i == len(segments)-1) {
			t.Fatalf("break %v after segment %d of %d", s.Break, i, len(segments))
		}
	}
	if whole.String() != text {
		t.Fatalf("segments make up %q, want %q", whole.String(), text)
	}
	if limit >= longestUnit+longestCharacter && read > 4*len(text)+4*limit {
		t.Fatalf("%d bytes were counted for a text of %d", read, len(text))
	}
}

func FuzzSplit(f *testing.F) {
	for _, text := range []string{
		"", "One. Two, three; four", "我喜欢猫。你喜欢狗，对吗？", "  a  b  ", "e\u0301\u0301\u0301", "🇩🇪🇫🇷", "\xff\xfe. \x80", strings.Repeat("7", 500),
		strings.Repeat("\u0301", 300), strings.Repeat("🇩", 99), strings.Repeat("「。」", 90), "a\u00a0b\u3000c", "\u200d\u200d\u200da\u200d",
	} {
		f.Add(text, uint16(3))
		f.Add(text, uint16(200))
	}
	f.Fuzz(func(t *testing.T, text string, limit uint16) {
		check(t, text, int(limit)+1, runes)
		check(t, text, int(limit)+2, pairs)
		check(t, text, int(limit)+1, words)
	})
}

func TestSplitProperties(t *testing.T) {
	word := rapid.SampledFrom([]string{"a", "Word", "word,", "End.", "z.B.", "»Ja!«", "我", "。", "，", " ", "  ", "\t", "😀", "e\u0301", "123456789", "(so)", ";", "..."})
	rapid.Check(t, func(t *rapid.T) {
		text := strings.Join(rapid.SliceOf(word).Draw(t, "words"), rapid.SampledFrom([]string{"", " "}).Draw(t, "between"))
		count := rapid.SampledFrom([]func(string) int{runes, pairs, words}).Draw(t, "count")
		check(t, text, rapid.IntRange(2, 400).Draw(t, "limit"), count)
	})
}

// TestLinear splits long lines of every trying kind; each must be read about twice.
func TestLinear(t *testing.T) {
	const size = 1 << 20
	for name, unit := range map[string]string{
		"digits": "7", "words": "word ", "sentences": "This is one. ", "spaces": " ", "accents": "\u0301", "flags": "🇩",
		"chinese": "我喜欢猫。", "marks": "。", "closers": "。」", "commas": ", ", "stops": ".", "joiners": "\u200d", "broken": "\xff",
	} {
		t.Run(name, func(t *testing.T) {
			check(t, strings.Repeat(unit, size/len(unit)), 300, runes)
			check(t, strings.Repeat(unit, size/len(unit)), 300, words)
		})
	}
}
