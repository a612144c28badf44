package vocab

import (
	"maps"
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/sluice-mt/sluice/internal/sharedtest"
)

// rulesOf reads all rules of a compiled map back.
func rulesOf(m *characterMap) map[string]string {
	rules := map[string]string{}
	var visit func(key []byte, unit uint32)
	visit = func(key []byte, unit uint32) {
		at := childrenOf(unit, m.units[unit])
		if m.units[unit]&(1<<8) != 0 {
			rules[string(key)] = zeroTerminated(m.replacements[m.units[at]&^(1<<31):])
		}
		for c := uint32(1); c < 256; c++ {
			if child := at ^ c; child < uint32(len(m.units)) && m.units[child]&(1<<31|0xff) == c {
				visit(append(key, byte(c)), child)
			}
		}
	}
	visit(nil, 0)
	return rules
}

func mustCompile(t interface{ Fatal(...any) }, rules map[string]string) *characterMap {
	blob, err := CompileRules(rules)
	if err != nil {
		t.Fatal(err)
	}
	m, err := parseCharacterMap(string(blob), 0)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestCompiledRulesAreTheRules(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringOfN(rapid.RuneFrom([]rune("abcäß\u00ad\u30ab\U0001f600")), 1, 5, -1)
		rules := rapid.MapOfN(text, rapid.StringOfN(rapid.RuneFrom([]rune(" abcß\u30ab")), 0, 3, -1), 1, 40).Draw(t, "rules")
		m := mustCompile(t, rules)
		if got := rulesOf(m); !maps.Equal(got, rules) {
			t.Fatalf("got %q, want %q", got, rules)
		}
		input := rapid.StringOfN(rapid.RuneFrom([]rune("abcäß\u00ad\u30ab\U0001f600\x00x")), 0, 8, -1).Draw(t, "text")
		replacement, length := m.longest(input)
		wantLength := 0
		for key := range rules {
			if strings.HasPrefix(input, key) {
				wantLength = max(wantLength, len(key))
			}
		}
		if length != wantLength || length > 0 && replacement != rules[input[:length]] {
			t.Fatalf("%q begins with a rule of %d bytes that gives %q; rules %q", input, length, replacement, rules)
		}
	})
}

// TestRulesOfTheOriginalCompileAgain: what the original has compiled comes out the same, zero bytes in the text included.
func TestRulesOfTheOriginalCompileAgain(t *testing.T) {
	original := mustOpen(t, sharedtest.Path(t, "models/ende-tiny/vocab.spm")).(*sentencePiece).normalizer.rules
	rules := rulesOf(original)
	if len(rules) < 10_000 {
		t.Fatalf("%d rules", len(rules))
	}
	m := mustCompile(t, rules)
	if !maps.Equal(rulesOf(m), rules) {
		t.Fatal("the rules differ")
	}
	r := rand.New(rand.NewPCG(1, 2))
	for range 100_000 {
		text := []byte(strings.Repeat("x", r.IntN(8)))
		for i := range text {
			text[i] = byte(r.IntN([]int{4, 128, 256}[r.IntN(3)]))
		}
		wantReplacement, wantLength := original.longest(string(text))
		if replacement, length := m.longest(string(text)); length != wantLength || replacement != wantReplacement {
			t.Fatalf("%q: %q, %d bytes; the original has %q, %d", text, replacement, length, wantReplacement, wantLength)
		}
	}
	t.Logf("%d rules, %d units, the original has %d", len(rules), len(m.units), len(original.units))
}

func TestRulesThatCannotBe(t *testing.T) {
	nested := map[string]string{}
	for i := range 40 {
		nested[strings.Repeat("a", i+1)] = "b"
	}
	for name, rules := range map[string]map[string]string{
		"nothing":    {"": "a"},
		"zero":       {"a\x00": "b"},
		"to zero":    {"a": "\x00"},
		"not UTF-8":  {"\xff": "a"},
		"to invalid": {"a": "\xff"},
		"long":       {strings.Repeat("a", maxRule+1): "b"},
		"nested":     nested,
	} {
		if blob, err := CompileRules(rules); err == nil {
			t.Errorf("%s: %d bytes", name, len(blob))
		}
	}
	if blob, err := CompileRules(nil); err != nil || blob != nil {
		t.Errorf("no rules: %v, %v", blob, err)
	}
}

// FuzzCompileRules: whatever the rules, they are refused or found again.
func FuzzCompileRules(f *testing.F) {
	f.Add("a\tb\nab\tc\nß\tss", "abß")
	f.Fuzz(func(t *testing.T, table, text string) {
		rules := map[string]string{}
		for line := range strings.SplitSeq(table, "\n") {
			from, to, _ := strings.Cut(line, "\t")
			rules[from] = to
		}
		if blob, err := CompileRules(rules); err != nil || blob == nil {
			return
		}
		m := mustCompile(t, rules)
		if !maps.Equal(rulesOf(m), rules) {
			t.Fatalf("%q", rules)
		}
		for text != "" {
			_, length := m.longest(text)
			_, size := utf8.DecodeRuneInString(text)
			text = text[max(length, size):]
		}
	})
}
