package m2

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// The example of the paper's section 5 and of the scorer's documentation: the tokens may be edited in several ways, and the
// one that agrees with the annotator is taken.
func TestExample(t *testing.T) {
	const gold = `S The cat sat at mat .
A 3 4|||Prep|||on|||REQUIRED|||-NONE-|||0
A 4 4|||ArtOrDet|||the||a|||REQUIRED|||-NONE-|||0

S The dog .
A 1 2|||NN|||dogs|||REQUIRED|||-NONE-|||0
A -1 -1|||noop|||-NONE-|||-NONE-|||-NONE-|||1

S Giant otters is an apex predator .
A 2 3|||SVA|||are|||REQUIRED|||-NONE-|||0
A 3 4|||ArtOrDet|||-NONE-|||REQUIRED|||-NONE-|||0
A 5 6|||NN|||predators|||REQUIRED|||-NONE-|||0
A 1 2|||NN|||otter|||REQUIRED|||-NONE-|||1
`
	sentences, _, err := Read(strings.NewReader(gold))
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		candidates []string
		want       string
	}{
		{[]string{"A cat sat on the mat .", "The dog .", "Giant otters are apex predator ."}, "Precision   : 0.8000\nRecall      : 0.8000\nF_0.5       : 0.8000\n"},
		{[]string{"A cat sat on mat .", "The dog .", "Giant otters are apex predator ."}, "Precision   : 0.7500\nRecall      : 0.6000\nF_0.5       : 0.7143\n"},
	} {
		s, err := Compute(test.candidates, sentences, DefaultOptions())
		if err != nil {
			t.Fatal(err)
		}
		if got := format(s, 0.5); got != test.want {
			t.Errorf("%q: %s, want %s", test.candidates, got, test.want)
		}
	}
}

// The edits that are found make the candidate of the source, whatever the gold edits are and however long sentences are.
func TestEditsMakeTheCandidate(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	words := strings.Fields("a b c d e")
	check := func(source, candidate []string, gold []goldEdit, maxUnchanged int) {
		t.Helper()
		g := newGraph(source, candidate, maxUnchanged)
		var edits []textEdit
		for _, e := range g.bestEdits(gold) {
			from, to := g.vertices[e.from], g.vertices[e.to]
			edits = append(edits, textEdit{int(from.source), int(to.source), candidate[from.candidate:to.candidate]})
		}
		if got := apply(source, edits); !slices.Equal(got, candidate) {
			t.Fatalf("%q to %q: the edits %v make %q", source, candidate, edits, got)
		}
	}
	for range 2000 {
		source := randomTokens(random, words, random.IntN(10))
		candidate := randomTokens(random, words, random.IntN(10))
		var edits []Edit
		for _, e := range randomEdits(random, words, len(source)) {
			edits = append(edits, Edit{e.start, e.end, "", []string{strings.Join(e.text, " ")}})
		}
		check(source, candidate, golden(source, edits), random.IntN(4))
	}
	if testing.Short() {
		return
	}
	check(randomTokens(random, []string{"a", "b"}, 150), randomTokens(random, []string{"c", "d"}, 120), nil, 2)
}

// naiveBest returns the most gold edits that a way through the graph may have, with the fewest steps and then edits, by looking
// at all ways. It is for graphs in which no two edges insert at one place, where a gold edit counts once for each edge.
func naiveBest(g *graph, gold []goldEdit, at int32) [3]int {
	if int(at) == len(g.vertices)-1 {
		return [3]int{}
	}
	best := [3]int{-1 << 30}
	for to := range int32(len(g.vertices)) {
		c := g.cell(at, to)
		if c.steps == 0 {
			continue
		}
		value := naiveBest(g, gold, to)
		e := edge{at, to}
		if slices.ContainsFunc(gold, func(d goldEdit) bool { return g.matches(e, &d) }) {
			value[0]++
		} else {
			value[1] -= int(c.steps)
			if !c.noop {
				value[2]--
			}
		}
		if slices.Compare(value[:], best[:]) > 0 {
			best = value
		}
	}
	return best
}

func TestBestEditsAreBest(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	words := strings.Fields("a b c d")
	for range 300 {
		source := randomTokens(random, words, random.IntN(6))
		replaced := randomEdits(random, words, len(source))
		replaced = slices.DeleteFunc(replaced, func(e textEdit) bool { return slices.Equal(source[e.start:e.end], e.text) || e.start == e.end })
		var edits []Edit
		for _, e := range replaced {
			edits = append(edits, Edit{e.start, e.end, "", []string{strings.Join(e.text, " ")}})
		}
		g := newGraph(source, apply(source, replaced), random.IntN(3))
		gold := golden(source, edits)
		want := naiveBest(g, gold, 0)
		matched, steps := 0, 0
		for _, e := range g.bestEdits(gold) {
			if slices.ContainsFunc(gold, func(d goldEdit) bool { return g.matches(e, &d) }) {
				matched++
			} else {
				steps += int(g.cell(e.from, e.to).steps)
			}
		}
		if matched != want[0] || steps > -want[1] {
			t.Fatalf("%q to %q: %d gold edits, %d other steps; the best way has %v", source, g.candidate, matched, steps, want)
		}
	}
}

// What Extract finds, written and read, is what the corrected text is worth full marks for.
func TestExtractWriteReadScore(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	words := strings.Fields("a b c | x|y -NONE-")
	for _, unchanged := range []int{0, 2} {
		var file bytes.Buffer
		var corrected []string
		for range 300 {
			source, target := randomTokens(random, words[:5], random.IntN(9)), randomTokens(random, words[:3], random.IntN(9))
			if random.IntN(3) == 0 {
				target = source
			}
			text := strings.Join(target, " ")
			edits, err := Extract(strings.Join(source, " "), text, unchanged)
			if err != nil {
				t.Fatal(err)
			}
			s := Sentence{Source: strings.Join(source, " "), Annotations: []Annotation{{2, edits}}}
			if err := Write(&file, &s); errors.Is(err, ErrUnwritable) {
				continue
			} else if err != nil {
				t.Fatal(err)
			}
			corrected = append(corrected, text)
		}
		sentences, outside, err := Read(&file)
		if err != nil || outside != 0 || len(sentences) != len(corrected) {
			t.Fatalf("%d sentences of %d, %d edits outside, %v", len(sentences), len(corrected), outside, err)
		}
		s, err := Compute(corrected, sentences, DefaultOptions())
		if err != nil || s.F != 1 || s.Proposed != s.Gold || s.Gold < 200 {
			t.Errorf("%d unchanged: %+v, %v", unchanged, s, err)
		}
	}
	for _, text := range []string{"|", "a || b", "a\nb", "-NONE-"} {
		s := Sentence{Annotations: []Annotation{{0, []Edit{{0, 0, "", []string{text}}}}}}
		if err := Write(new(bytes.Buffer), &s); !errors.Is(err, ErrUnwritable) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestChanged(t *testing.T) {
	for _, test := range [][3]string{
		{"a b c", "a x c", "010"}, {"a b c", "a b c", "000"}, {"", "a b", "11"}, {"a b", "", ""},
		{"he go home", "he goes home now", "0101"}, {"a a a b", "b", "0"}, {"a b c d", "b c d e", "0001"},
	} {
		got := ""
		for _, c := range Changed(strings.Fields(test[0]), strings.Fields(test[1])) {
			got += map[bool]string{true: "1", false: "0"}[c]
		}
		if got != test[2] {
			t.Errorf("%q to %q: %s, want %s", test[0], test[1], got, test[2])
		}
	}
	long := make([]int32, 1<<13)
	if changed := Changed(long, long); slices.Contains(changed, false) {
		t.Error("a text that is too long to align has an unchanged token")
	}
}

func TestReadRefuses(t *testing.T) {
	for text, problem := range map[string]string{
		"A 0 1|||X|||a|||REQUIRED|||-NONE-|||0\n": "line 1 begins with neither",
		"S a\nS b\n": "line 2 begins a second sentence",
		"S a\nA 0 1|||X|||a|||REQUIRED|||-NONE-\n":      "line 2 has 5 fields",
		"S a\nA 0|||X|||a|||REQUIRED|||-NONE-|||0\n":    "line 2 has \"0\" for a span",
		"S a\nA x 1|||X|||a|||REQUIRED|||-NONE-|||0\n":  "line 2 has \"x 1\" for a span",
		"S a\nA 0 1|||X|||a|||REQUIRED|||-NONE-|||-1\n": "line 2 has \"-1\" for the number of the annotator",
		"S a\nA 0 1|||X|||a|||REQUIRED|||-NONE-|||A\n":  "line 2 has \"A\" for the number of the annotator",
		"S a\n\nB\n":                        "line 3 begins with neither",
		"S a\nB\n":                          "line 2 begins with neither",
		"S " + strings.Repeat("a", maxLine): "line 1 is longer",
		"S a\n\n\nS " + strings.Repeat("a", maxLine+100): "line 4 is longer",
	} {
		_, _, err := Read(strings.NewReader(text))
		var format *FormatError
		if !errors.As(err, &format) || !strings.HasPrefix(err.Error(), problem) {
			t.Errorf("%.60q: %v, want %s", text, err, problem)
		}
	}
	sentences, outside, err := Read(strings.NewReader("S a b\r\nI a comment\r\nA 1 3|||X|||c|||REQUIRED|||-NONE-|||0\r\n\r\n\r\nS \n"))
	if err != nil || outside != 1 || len(sentences) != 2 || sentences[0].Source != "a b" || len(sentences[0].Annotations[0].Edits) != 0 {
		t.Errorf("%+v, %d outside, %v", sentences, outside, err)
	}
}

func TestComputeRefuses(t *testing.T) {
	sentences := []Sentence{{Source: strings.Repeat("a ", 1500), Annotations: []Annotation{{}}}}
	for _, test := range []struct {
		candidates []string
		options    Options
		want       error
	}{
		{nil, DefaultOptions(), ErrInput},
		{[]string{strings.Repeat("b ", 1500)}, DefaultOptions(), ErrInput},
		{[]string{"b"}, Options{Beta: -1}, ErrOptions},
		{[]string{"b"}, Options{Beta: 1, MaxUnchanged: -1}, ErrOptions},
	} {
		if _, err := Compute(test.candidates, sentences, test.options); !errors.Is(err, test.want) {
			t.Errorf("%v, want %v", err, test.want)
		}
	}
	if _, err := Extract(sentences[0].Source, strings.Repeat("b ", 600), 0); !errors.Is(err, ErrInput) {
		t.Error(err)
	}
}

// readAndWrite checks that whatever can be read can be scored, and written so that it is read as the same.
func readAndWrite(t *testing.T, content []byte) {
	t.Helper()
	sentences, _, err := Read(bytes.NewReader(content))
	if err != nil {
		return
	}
	var candidates []string
	for i := range sentences {
		var file bytes.Buffer
		if err := Write(&file, &sentences[i]); err != nil {
			continue
		}
		again, outside, err := Read(&file)
		if err != nil || outside != 0 || !reflect.DeepEqual(again, sentences[i:i+1]) {
			t.Fatalf("%+v is read again as %+v, %v", sentences[i], again, err)
		}
	}
	for i := range sentences {
		if i == 20 || len(sentences[i].Source) > 200 {
			return
		}
		candidates = append(candidates, strings.ToUpper(sentences[i].Source))
	}
	s, err := Compute(candidates, sentences, DefaultOptions())
	if err != nil || s.F < 0 || s.F > 1 {
		t.Fatalf("%+v, %v", s, err)
	}
}

// Whatever sentences hold, they are refused or read again as they were: texts of all that means something to the format.
func TestWrittenIsReadAgain(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	pieces := []string{"a", "b", "c", "a", "b", "c", "a b", " ", "|", "||", "|||", "\n", "\r", "\x1c", "-NONE-", "noop", "S ", "A ", "I ", "0", "REQUIRED"}
	text := func() string {
		var b strings.Builder
		for range random.IntN(4) {
			b.WriteString(pieces[random.IntN(len(pieces))])
		}
		return b.String()
	}
	written, refused, several := 0, 0, 0
	for range 20_000 {
		s := Sentence{Source: text()}
		for range 1 + random.IntN(2) {
			a := Annotation{Annotator: len(s.Annotations) + random.IntN(2)}
			for range random.IntN(3) {
				e := Edit{random.IntN(3), random.IntN(3), text(), nil}
				for range random.IntN(4) {
					e.Corrections = append(e.Corrections, text())
				}
				a.Edits = append(a.Edits, e)
			}
			s.Annotations = append(s.Annotations, a)
		}
		var file bytes.Buffer
		if err := Write(&file, &s); err != nil {
			if !errors.Is(err, ErrUnwritable) || file.Len() > 0 {
				t.Fatalf("%+v: %v, and %d bytes were written", s, err, file.Len())
			}
			refused++
			continue
		}
		again, outside, err := Read(&file)
		s.Source = strings.TrimFunc(s.Source, isSpace)
		if err != nil || outside != 0 || !reflect.DeepEqual(again, []Sentence{s}) {
			t.Fatalf("%+v is read again as %+v, %v", s, again, err)
		}
		written++
		for _, a := range s.Annotations {
			for _, e := range a.Edits {
				several += len(e.Corrections) / 2
			}
		}
	}
	if written < 1000 || refused < 1000 || several < 100 {
		t.Fatalf("%d sentences were written, %d refused, %d edits had alternatives", written, refused, several)
	}
}

func TestDamagedFiles(t *testing.T) {
	gold, _ := corpus(3)
	for n := range len(gold) {
		readAndWrite(t, []byte(gold[:n]))
		for bit := range 8 {
			flipped := []byte(gold)
			flipped[n] ^= 1 << bit
			readAndWrite(t, flipped)
		}
	}
}

func FuzzRead(f *testing.F) {
	for n := range 12 {
		gold, _ := corpus(n)
		f.Add([]byte(gold))
	}
	f.Fuzz(readAndWrite)
}
