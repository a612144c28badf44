package nbest

import (
	"bytes"
	"errors"
	"math"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/sluice-mt/sluice/internal/job"
	"github.com/sluice-mt/sluice/internal/sharedtest"
)

func TestAppendNumber(t *testing.T) {
	for want, x := range map[string]float32{
		"0": 0, "-0": float32(math.Copysign(0, -1)), "1": 1, "-1.40798": -1.40798, "-23.2": -23.2, "-20.45": -20.45,
		"123456": 123456, "1.23457e+06": 1234567, "0.0001": 0.0001, "1e-05": 0.00001, "9.99999e-05": 0.0000999999,
		"0.000272648": 0.000272648, "1e+10": 1e10, "1e+06": 999999.9, "999999": 999999, "2.5e-38": 2.5e-38,
		"inf": float32(math.Inf(1)), "-inf": float32(math.Inf(-1)), "nan": float32(math.NaN()), "0.1": 0.1, "100": 100,
		"1.4013e-45": 1e-45, "3.40282e+38": math.MaxFloat32,
	} {
		if got := string(AppendNumber([]byte("x"), x)); got != "x"+want {
			t.Errorf("%g is printed as %q, want %q", x, got[1:], want)
		}
	}
}

// TestAppendNumberLikeC compares with the program printf, whose %g is what a C++ stream writes.
func TestAppendNumberLikeC(t *testing.T) {
	printf := sharedtest.Program(t, "printf")
	var want []string
	arguments := []string{`%g\n`}
	bits := uint32(12345)
	for range 2000 {
		bits = bits*1664525 + 1013904223
		x := math.Float32frombits(bits)
		if x != x {
			continue
		}
		want = append(want, string(AppendNumber(nil, x)))
		arguments = append(arguments, strconv.FormatFloat(float64(x), 'e', -1, 64))
	}
	out, err := exec.Command(printf, arguments...).Output()
	if err != nil {
		t.Fatal(err)
	}
	for i, line := range strings.Split(strings.TrimSpace(string(out)), "\n") {
		if line != want[i] {
			t.Errorf("%s is printed as %s, printf prints %s", arguments[i+1], want[i], line)
		}
	}
}

var weights = [][]float32{
	{0.25, 0.5, 0.25},
	{0.4, 0.2, 0.4},
	{0.00001, 0.09999, 0.9},
}

func TestAlignment(t *testing.T) {
	for _, test := range []struct{ option, want string }{
		{"", ""},
		{"hard", "0-1 1-0 2-2"},
		{"1", "0-1 1-0 2-2"},
		{"0.3", "0-1 1-0 2-1 2-2"},
		{"0.95", ""},
		{"soft", "0.25,0.5,0.25 0.4,0.2,0.4 1e-05,0.09999,0.9"},
	} {
		alignment, err := ParseAlignment(test.option)
		if err != nil {
			t.Fatal(err)
		}
		if got := string(alignment.Append(nil, weights)); got != test.want {
			t.Errorf("--alignment %s prints %q, want %q", test.option, got, test.want)
		}
	}
	for _, option := range []string{"0", "-1", "1.5", "nan", "inf", "Hard", "0.3x", " "} {
		if _, err := ParseAlignment(option); !errors.Is(err, ErrAlignment) {
			t.Errorf("--alignment %q: error %v", option, err)
		}
	}
	empty := Alignment{Kind: Hard}
	if got := string(empty.Append(nil, [][]float32{{1}})); got != "0-0" {
		t.Errorf("the alignment of an empty line is %q, want 0-0", got)
	}
	if pairs := empty.Pairs([][]float32{{}, {1}}); !slices.Equal(pairs, []Pair{{0, 1}}) {
		t.Errorf("a target piece without weights gives %v", pairs)
	}
}

func TestLines(t *testing.T) {
	h := job.Hypothesis{Text: "Ein Haus.", Score: -1.5, ModelScores: []float32{-4.5, -3}, WordScores: []float32{-0.5, -1.23456789, -2e-7}, Alignment: weights}
	format := Format{Alignment: Alignment{Kind: Hard}, WordScores: true}
	const line = "Ein Haus. ||| 0-1 1-0 2-2 ||| WordScores= -0.50000 -1.23457 -0.00000"
	if got := string(format.AppendLine(nil, &h)); got != line {
		t.Errorf("line %q, want %q", got, line)
	}
	if got := string((&Format{}).AppendLine(nil, &h)); got != "Ein Haus." {
		t.Errorf("plain line %q", got)
	}
	want := "7 ||| " + line + " ||| F0= -4.5 F1= -3 ||| -1.5"
	if got := string(format.AppendNBest(nil, 7, []job.Hypothesis{h, h})); got != want+"\n"+want {
		t.Errorf("list %q, want %q twice", got, want)
	}
}

// TestRecordedLists takes Marian's own lists apart and prints them again.
func TestRecordedLists(t *testing.T) {
	for _, file := range []string{
		"models/reference/transformer-selfatt/beam4.nbest.txt",
		"models/reference/transformer-selfatt/beam6.n06.wp02.nbest.txt",
		"models/reference/ensemble/selfatt-prenorm.beam4.nbest.txt",
		"models/reference/ensemble/selfatt-ssru-gru.beam3.nbest.txt",
	} {
		data, err := os.ReadFile(sharedtest.Path(t, file))
		if err != nil {
			t.Fatal(err)
		}
		for line := range bytes.Lines(data) {
			line := strings.TrimSuffix(string(line), "\n")
			id, h, words := parse(t, line)
			format := Format{WordScores: words}
			if got := string(format.AppendNBest(nil, id, []job.Hypothesis{h})); got != line {
				t.Fatalf("%s: printed\n%s\nwant\n%s", file, got, line)
			}
		}
	}
}

func parse(t *testing.T, line string) (int64, job.Hypothesis, bool) {
	fields := strings.Split(line, " ||| ")
	number := func(s string) float32 {
		x, err := strconv.ParseFloat(s, 32)
		if err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		return float32(x)
	}
	id, err := strconv.ParseInt(fields[0], 10, 64)
	if err != nil {
		t.Fatalf("%q: %v", line, err)
	}
	h := job.Hypothesis{Text: fields[1], Score: number(fields[len(fields)-1])}
	scores := strings.Fields(fields[len(fields)-2])
	for i := 1; i < len(scores); i += 2 {
		h.ModelScores = append(h.ModelScores, number(scores[i]))
	}
	words, found := strings.CutPrefix(fields[2], "WordScores=")
	for _, score := range strings.Fields(words) {
		if found {
			h.WordScores = append(h.WordScores, number(score))
		}
	}
	return id, h, found
}
