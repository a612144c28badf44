package split

import (
	"reflect"
	"strings"
	"testing"
)

func TestSentences(t *testing.T) {
	tests := map[string][]string{
		"":                                {"", ""},
		"One.":                            {"One.", ""},
		"One. Two!  Three? four.":         {"One.", " ", "Two!", "  ", "Three? four.", ""},
		"  Mr. J. S. Bach, z.B. hier.\n":  {"", "  ", "Mr.", " ", "J. S. Bach, z.B. hier.", "\n"},
		"A heading\n\nIt begins.\r\nHere": {"A heading", "\n\n", "It begins.", "\r\n", "Here", ""},
		"他来了。她走了！":                        {"他来了。", "", "她走了！", ""},
		"He said \"Go.\" Then he went.":   {"He said \"Go.\"", " ", "Then he went.", ""},
		" \n ":                            {"", " \n "},
	}
	for text, want := range tests {
		var got []string
		for _, s := range Sentences(text) {
			got = append(got, s.Text, s.Separator)
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%q:\ngot  %q\nwant %q", text, got, want)
		}
	}
}

// Nothing is lost, and only the first segment may be empty.
func FuzzSentences(f *testing.F) {
	f.Add("One. Two.\nThree")
	f.Add(" \u2028。。 a")
	f.Fuzz(func(t *testing.T, text string) {
		var b strings.Builder
		for i, s := range Sentences(text) {
			b.WriteString(s.Text)
			b.WriteString(s.Separator)
			if s.Text == "" && i > 0 {
				t.Errorf("%q: segment %d is empty", text, i)
			}
		}
		if b.String() != text {
			t.Errorf("%q became %q", text, b.String())
		}
	})
}
