package nbest

import (
	"errors"
	"io"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-mt/sluice/internal/sharedtest"
)

func TestParse(t *testing.T) {
	for line, want := range map[string]Entry{
		"3 ||| Ein Hund . ||| F0= -1.5 F1= -2e-05 ||| -0.75": {
			ID: 3, Text: "Ein Hund .", Features: []Feature{{"F0", []float64{-1.5}}, {"F1", []float64{-2e-05}}}, Total: -0.75,
		},
		"0 ||| a ||| 0-0 1-1 ||| WordScores= -0.1 -0.2 ||| F0= -0.3 ||| -0.15": {
			Text: "a", Before: []string{"0-0 1-1", "WordScores= -0.1 -0.2"}, Features: []Feature{{"F0", []float64{-0.3}}}, Total: -0.15,
		},
		"12 ||| b ||| LM0= -9 TM= -1 -2 ||| -3 ||| 0-0": {
			ID: 12, Text: "b", Features: []Feature{{"LM0", []float64{-9}}, {"TM", []float64{-1, -2}}}, Total: -3, After: []string{"0-0"},
		},
		"1 |||  ||| F0= 0 ||| 0": {ID: 1, Features: []Feature{{"F0", []float64{0}}}},
		"1 ||| alone":            {ID: 1, Text: "alone"},
	} {
		got, err := Parse(line)
		want.features = got.features
		want.Before, want.After = slices.Concat(want.Before), slices.Concat(want.After)
		got.Before, got.After = slices.Concat(got.Before), slices.Concat(got.After)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%q is read as\n%+v, %v\nwant\n%+v", line, got, err, want)
		}
		if printed := string(got.Append(nil)); printed != line {
			t.Errorf("%q is printed as %q", line, printed)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	for _, line := range []string{
		"", "a line", "x ||| text", "-1 ||| text", "0 ||| text ||| F0= -1", "0 ||| text ||| -1", "0 ||| text ||| F0= ||| 1",
		"0 ||| text ||| F0= 1 F0= 2 ||| 1", "0 ||| text ||| F0= one ||| 1", "0 ||| text ||| F0= 1 ||| one", "0 ||| a ||| = 1 ||| 1",
		"0 ||| text ||| WordScores= -1 ||| 1",
	} {
		if e, err := Parse(line); !errors.Is(err, ErrFormat) {
			t.Errorf("%q is read as %+v, %v", line, e, err)
		}
	}
}

// Lists that Marian wrote come out as they went in.
func TestMarianLists(t *testing.T) {
	for _, name := range []string{"transformer-selfatt/beam4.nbest.txt", "ensemble/selfatt-lm.beam4.nbest.txt"} {
		content, err := os.ReadFile(sharedtest.Path(t, "models/reference", name))
		if err != nil {
			t.Fatal(err)
		}
		var printed []byte
		for line := range strings.Lines(string(content)) {
			e, err := Parse(strings.TrimSuffix(line, "\n"))
			if err != nil {
				t.Fatal(err)
			}
			printed = append(e.Append(printed), '\n')
		}
		if string(printed) != string(content) {
			t.Errorf("%s is printed in another way", name)
		}
	}
}

func TestAdd(t *testing.T) {
	e, err := Parse("0 ||| text ||| F0= -1.50 ||| -1")
	if err != nil {
		t.Fatal(err)
	}
	e.Add("R2L0", -123.45678)
	if got := string(e.Append(nil)); got != "0 ||| text ||| F0= -1.50 R2L0= -123.457 ||| -1" {
		t.Errorf("the line is %q", got)
	}
	if got := e.Feature("R2L0"); !slices.Equal(got, []float64{-123.457}) {
		t.Errorf("the feature is %v, not what is printed", got)
	}
	bare := Entry{ID: 7, Text: "x"}
	bare.Add("A", 1)
	if got := string(bare.Append(nil)); got != "7 ||| x ||| A= 1 ||| 0" {
		t.Errorf("the line is %q", got)
	}
}

func reader(lines ...string) *Reader {
	return NewReader(func() (string, error) {
		if len(lines) == 0 {
			return "", io.EOF
		}
		line := lines[0]
		lines = lines[1:]
		return line, nil
	})
}

func TestReader(t *testing.T) {
	r := reader("0 ||| a", "0 ||| b", "1 ||| c", "2 ||| d", "2 ||| e")
	for _, want := range [][]string{{"a", "b"}, {"c"}, {"d", "e"}} {
		list, err := r.Next()
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, e := range list {
			got = append(got, e.Text)
		}
		if !slices.Equal(got, want) {
			t.Errorf("the list is %q, want %q", got, want)
		}
	}
	for range 2 {
		if _, err := r.Next(); err != io.EOF {
			t.Errorf("after the last list: %v", err)
		}
	}
}

func TestReaderRefuses(t *testing.T) {
	for _, c := range []struct {
		lines []string
		want  error
	}{
		{[]string{"1 ||| a"}, ErrOrder},
		{[]string{"0 ||| a", "2 ||| b"}, ErrOrder},
		{[]string{"0 ||| a", "1 ||| b", "0 ||| c"}, ErrOrder},
		{[]string{"0 ||| a", "b"}, ErrFormat},
		{slices.Repeat([]string{"0 ||| a"}, maxEntries+1), ErrFormat},
		{slices.Repeat([]string{"0 ||| " + strings.Repeat("x", 1<<20)}, 65), ErrFormat},
	} {
		r := reader(c.lines...)
		var err error
		for err == nil {
			_, err = r.Next()
		}
		if !errors.Is(err, c.want) {
			t.Errorf("%d lines, %.20q…: %v, want %v", len(c.lines), c.lines[0], err, c.want)
		}
	}
}

func TestWeights(t *testing.T) {
	w, err := ParseWeights("F0= 0.5 TM=1 -2\nR2L0=2")
	if err != nil {
		t.Fatal(err)
	}
	if got := w.String(); got != "F0= 0.5\nTM= 1 -2\nR2L0= 2\n" {
		t.Errorf("the weights are printed as %q", got)
	}
	e, err := Parse("0 ||| a ||| TM= 3 5 F0= 4 R2L0= 1 Other= 100 ||| 0")
	if err != nil {
		t.Fatal(err)
	}
	if got, err := w.Total(&e); got != 2+3-10+2 || err != nil {
		t.Errorf("the total is %v, %v", got, err)
	}
	if got, err := Even(&e, "Other").Total(&e); got != 13 || err != nil {
		t.Errorf("the sum is %v, %v", got, err)
	}
	for _, text := range []string{"0.5", "F0=", "F0= x", "F0= 1 F0= 2", "F0= NaN", "F0= inf"} {
		if w, err := ParseWeights(text); !errors.Is(err, ErrWeights) {
			t.Errorf("%q is read as %v, %v", text, w, err)
		}
	}
	for _, text := range []string{"F1= 1", "TM= 1"} {
		w, err := ParseWeights(text)
		if err != nil {
			t.Fatal(err)
		}
		if total, err := w.Total(&e); !errors.Is(err, ErrWeights) {
			t.Errorf("weights %q give %v, %v", text, total, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, line := range []string{"0 ||| a ||| F0= 1 ||| 2", "1 ||| b ||| 0-0 ||| WordScores= 1 ||| A= 1 2 B= 3 ||| 4 ||| x", "9", "2 |||"} {
		f.Add(line)
	}
	f.Fuzz(func(t *testing.T, line string) {
		e, err := Parse(line)
		if err != nil {
			return
		}
		again, err := Parse(string(e.Append(nil)))
		if err != nil {
			t.Fatalf("%q is printed as %q, which cannot be read: %v", line, e.Append(nil), err)
		}
		if string(again.Append(nil)) != string(e.Append(nil)) || again.Text != e.Text {
			t.Fatalf("%q is printed as %q, and then as %q", line, e.Append(nil), again.Append(nil))
		}
	})
}

func FuzzParseWeights(f *testing.F) {
	f.Add("F0= 1 TM=2 3")
	f.Fuzz(func(t *testing.T, text string) {
		w, err := ParseWeights(text)
		if err != nil {
			return
		}
		again, err := ParseWeights(w.String())
		if err != nil || !reflect.DeepEqual(again, w) {
			t.Fatalf("%q is read as %q, and that as %q, %v", text, w, again, err)
		}
	})
}
