package report

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const course = `{"kind":"train","update":100,"epoch":1,"loss":5.5,"learn_rate":0.0003,"gradient_norm":1.2,"words_per_second":2000,"words":100000}
{"kind":"valid","update":100,"epoch":1,"metric":"bleu","value":10.5,"best":10.5}
{"kind":"valid","update":100,"epoch":1,"metric":"ce-mean-words","value":5,"best":5}
{"kind":"train","update":200,"epoch":2,"loss":4.5,"learn_rate":0.0003,"gradient_norm":0.9,"words_per_second":2100,"words":200000,"skipped":1}
{"kind":"valid","update":200,"epoch":2,"metric":"bleu","value":9.5,"best":10.5,"stalled":1}
{"kind":"valid","update":200,"epoch":2,"metric":"ce-mean-words","value":4.25,"best":4.25}
`

func training(t *testing.T) Training {
	t.Helper()
	model := filepath.Join(t.TempDir(), "stu<dent>.npz")
	if err := os.WriteFile(model+metricsSuffix, []byte(course), 0o666); err != nil {
		t.Fatal(err)
	}
	byModel, err := ReadTraining(model)
	if err != nil {
		t.Fatal(err)
	}
	byFile, err := ReadTraining(model + metricsSuffix)
	if err != nil {
		t.Fatal(err)
	}
	if byModel.Name != "stu<dent>" || byFile.Name != byModel.Name || len(byFile.Trained) != 2 || len(byFile.Valid) != 4 {
		t.Errorf("read %+v and %+v", byModel, byFile)
	}
	return byModel
}

func evaluations() []Evaluation {
	return []Evaluation{
		{Name: "float32", Parameters: 16907008, Bytes: 67628032, Stored: "float32", Precision: "float32",
			Sets: []Set{{"mix", 100, 1000, 1, 2, 30, 55}, {"news", 100, 3000, 3, 6, 10, 40}}},
		{Name: "int8", Parameters: 16907008, Bytes: 17140745, Stored: "intgemm8", Precision: "int8", Sets: []Set{{"mix", 100, 1000, 0.5, 1, 29, 54}}},
		{Name: "bad", Parameters: 1, Bytes: 4, Stored: "log4", Precision: "int8", Sets: []Set{{"mix", 100, 1000, 1, 2, 19, 54}}},
	}
}

// TestPage parses the page, and wants in it what was measured, escaped, and nothing that is to be fetched.
func TestPage(t *testing.T) {
	var page bytes.Buffer
	if err := WriteHTML(&page, "Students & teachers", []Training{training(t)}, evaluations()); err != nil {
		t.Fatal(err)
	}
	var words strings.Builder
	pictures := 0
	decoder := xml.NewDecoder(&page)
	decoder.Strict, decoder.AutoClose, decoder.Entity = false, xml.HTMLAutoClose, xml.HTMLEntity
	for {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		switch token := token.(type) {
		case xml.CharData:
			words.Write(token)
			words.WriteString("\n")
		case xml.StartElement:
			if token.Name.Local == "svg" {
				pictures++
			}
			for _, a := range token.Attr {
				if a.Name.Local == "href" || a.Name.Local == "src" || strings.Contains(a.Value, "url(") {
					t.Errorf("%s refers to %q", token.Name.Local, a.Value)
				}
			}
		}
	}
	for _, want := range []string{"Students & teachers", "stu<dent>", "16,907,008", "67,628,032", "30.00 / 55.00", "20.00", "10.5 (update 100)", "4.25 (update 200)", "200,000"} {
		if !strings.Contains(words.String(), want) {
			t.Errorf("%q is not on the page", want)
		}
	}
	if want := len(Figures([]Training{training(t)}, evaluations())); pictures != want || pictures < 6 {
		t.Errorf("%d pictures, want %d", pictures, want)
	}
}

func TestFigures(t *testing.T) {
	names := func(trainings []Training, evaluations []Evaluation) []string {
		var out []string
		for _, f := range Figures(trainings, evaluations) {
			out = append(out, f.Name)
		}
		return out
	}
	if got := names([]Training{training(t)}, nil); !slices.Equal(got, []string{"loss", "bleu", "learning-rate", "gradient-norm", "speed"}) {
		t.Errorf("figures of a training: %v", got)
	}
	if got := names(nil, evaluations()); !slices.Equal(got, []string{"quality-speed"}) {
		t.Errorf("figures of evaluations: %v", got)
	}
}

func TestMeans(t *testing.T) {
	e := evaluations()[0]
	if e.WordsPerSecond() != 1000 || e.WordsPerCPUSecond() != 500 || e.BLEU() != 20 || e.CHRF() != 47.5 {
		t.Errorf("%v words/s, %v, BLEU %v, chrF %v", e.WordsPerSecond(), e.WordsPerCPUSecond(), e.BLEU(), e.CHRF())
	}
	if none := new(Evaluation); !math.IsNaN(none.BLEU()) || none.WordsPerSecond() != 0 {
		t.Error("without test sets there is a mean")
	}
}

func TestBest(t *testing.T) {
	got := best([]point{{"slow", 1, 30}, {"beaten", 2, 20}, {"fast", 9, 10}, {"good", 3, 25}, {"same", 3, 25}})
	var names []string
	for _, p := range got {
		names = append(names, p.name)
	}
	if want := "slow good fast"; strings.Join(names, " ") != want {
		t.Errorf("%v, want %s", names, want)
	}
}

func TestWhatCannotBeReported(t *testing.T) {
	for _, text := range []string{"{\n", "[]\n", `{"kind":"other"}` + "\n", `{"kind":"valid","metric":"../x"}` + "\n", strings.Repeat("x", maxLine+1) + "\n"} {
		if _, err := parseTraining(strings.NewReader(text)); !errors.Is(err, ErrFormat) {
			t.Errorf("%.30q: %v", text, err)
		}
	}
	if whole, err := parseTraining(strings.NewReader(course + `{"kind":"tra`)); err != nil || len(whole.Trained) != 2 {
		t.Errorf("a file that is being written: %v", err)
	}
	for _, text := range []string{"{", "{}", `{"name":"x"}`, `[]`} {
		if _, err := parseEvaluations(strings.NewReader(text)); !errors.Is(err, ErrFormat) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func FuzzParseTraining(f *testing.F) {
	f.Add([]byte(course))
	f.Add([]byte(`{"kind":"train","update":1,"loss":1e308}` + "\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		course, err := parseTraining(bytes.NewReader(data))
		if err != nil {
			return
		}
		var page bytes.Buffer
		if err := WriteHTML(&page, "fuzz", []Training{course}, nil); err != nil {
			t.Fatal(err)
		}
	})
}

func FuzzParseEvaluations(f *testing.F) {
	f.Add([]byte(`{"name":"a","sets":[{"name":"x","bleu":1e308,"seconds":-1}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		all, err := parseEvaluations(bytes.NewReader(data))
		if err != nil {
			return
		}
		var page bytes.Buffer
		if err := WriteHTML(&page, "fuzz", nil, all); err != nil {
			t.Fatal(err)
		}
	})
}
