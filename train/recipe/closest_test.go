package recipe

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestClosest(t *testing.T) {
	for _, c := range []struct {
		candidates []string
		reference  string
		want       string
	}{
		{[]string{"a b c d", "a b c e"}, "a b c e", "a b c e"},
		{[]string{"x y", "y x"}, "no match", "x y"}, // none is closer, so the best by the model
		{[]string{"", "a"}, "", ""},
	} {
		if got, err := closest(c.candidates, c.reference); err != nil || got != c.want {
			t.Errorf("%q: %q, %v", c.candidates, got, err)
		}
	}
}

// Every pair gets its own candidate, however many there are and however many are decided at once.
func TestWriteClosestKeepsOrder(t *testing.T) {
	folder := t.TempDir()
	corpus, list := filepath.Join(folder, "c.tsv"), filepath.Join(folder, "list.zst")
	const count = choicesAtOnce*2 + 17
	fill := func(path string, line func(i int) string) {
		err := WriteText(path, func(out *bufio.Writer) error {
			for i := range count {
				if _, err := out.WriteString(line(i)); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	fill(corpus, func(i int) string { return fmt.Sprintf("source %d\tthe target of %d\n", i, i) })
	fill(list, func(i int) string {
		if i == 5 {
			return "5 |||  ||| F0= 0 ||| 0\n"
		}
		return fmt.Sprintf("%d ||| wrong ||| F0= -1 F1= -2 ||| -3\n%d ||| the ||| target of %d ||| F0= -1 ||| -4\n", i, i, i)
	})
	for _, inverse := range []bool{false, true} {
		output := filepath.Join(folder, "out.tsv")
		counts, err := writeClosest(output, pairs(corpus), list, inverse)
		if err != nil || counts.kept != count-1 || counts.empty != 1 {
			t.Fatalf("%+v, %v", counts, err)
		}
		i := 0
		for p, err := range pairs(output) {
			if i == 5 {
				i++
			}
			want := pair{fmt.Sprintf("source %d", i), fmt.Sprintf("the ||| target of %d", i)}
			if inverse {
				want = pair{want.target, fmt.Sprintf("the target of %d", i)}
			}
			if err != nil || p != want {
				t.Fatalf("%d: %q, want %q, %v", i, p, want, err)
			}
			i++
		}
		if i != count {
			t.Errorf("%d pairs", i)
		}
	}
}

func TestUnusableTexts(t *testing.T) {
	folder := t.TempDir()
	file := func(name, content string) string {
		path := filepath.Join(folder, name)
		if err := os.WriteFile(path, []byte(content), 0o666); err != nil {
			t.Fatal(err)
		}
		return path
	}
	corpus := file("c.tsv", "a\tb\nc\td\n")
	entry := func(n int) string { return fmt.Sprintf("%d ||| x ||| F0= 1 ||| 1\n", n) }
	for list, want := range map[string]string{
		entry(0):                       "no translation of line 2",
		entry(1):                       "no translation of line 1",
		entry(0) + entry(1) + entry(2): "more lines than the 2",
		"0 ||| x ||| 1\n":              "no entry",
		"x ||| x ||| F0= 1 ||| 1\n":    "no entry",
		"-1 ||| x ||| F0= 1 ||| 1\n":   "no entry",
		"":                             "no translation of line 1",
	} {
		_, err := writeClosest(filepath.Join(folder, "out"), pairs(corpus), file("list", list), false)
		if !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", list, err, want)
		}
		if _, err := os.Stat(filepath.Join(folder, "out")); err == nil {
			t.Error("an output was left")
		}
	}
	for name, texts := range map[string][2]string{"fewer than": {"a\nb\n", "c\n"}, "has more lines": {"a\n", "b\nc\n"}} {
		for _, err := range sideBySide(plain(file("1", texts[0])), plain(file("2", texts[1]))) {
			if err != nil && (!errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), name)) {
				t.Errorf("%v, want %s", err, name)
			}
			if err != nil {
				name = ""
			}
		}
		if name != "" {
			t.Errorf("no error: %s", name)
		}
	}
	for content, want := range map[string]string{"a\tb\nno tab\n": "line 2 has no tab", strings.Repeat("x", maxLine+1): "not one sentence a line"} {
		var last error
		for _, err := range pairs(file("bad", content)) {
			last = err
		}
		if !errors.Is(last, ErrFormat) || !strings.Contains(last.Error(), want) {
			t.Errorf("%v, want %s", last, want)
		}
	}
}

func FuzzParseEntry(f *testing.F) {
	f.Add("0 ||| a ||| F0= -1 ||| -1")
	f.Add("1 ||| a ||| b ||| F0= -1 ||| -1")
	f.Fuzz(func(t *testing.T, line string) {
		id, text, err := parseEntry(line, nil, true)
		if err == nil && (id < 0 || !strings.HasPrefix(line, fmt.Sprint(id)) && !strings.HasPrefix(strings.TrimLeft(line, "+0"), fmt.Sprint(id)) && id != 0 || len(text) > len(line)) {
			t.Errorf("%q: %d, %q", line, id, text)
		}
	})
}
