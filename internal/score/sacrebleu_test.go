package score

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/sluice-mt/sluice/internal/sharedtest"
)

// job is what testdata/oracle.py understands.
type job struct {
	Do        string         `json:"do"`
	Metric    string         `json:"metric,omitempty"`
	Args      map[string]any `json:"args,omitempty"`
	Hyps      []string       `json:"hyps,omitempty"`
	Refs      [][]string     `json:"refs,omitempty"`
	Baseline  []string       `json:"baseline,omitempty"`
	Lines     []string       `json:"lines,omitempty"`
	Tokenizer string         `json:"tokenizer,omitempty"`
	Bootstrap int            `json:"bootstrap,omitempty"`
	Sentences bool           `json:"sentences,omitempty"`
	Seed      uint64         `json:"seed,omitempty"`
	Below     int            `json:"below,omitempty"`
	Count     int            `json:"count,omitempty"`
}

// ask runs all jobs in one process, since Python takes a while to start. Each answer is stored at the pointer given.
func ask(t *testing.T, jobs []job, answers ...any) {
	t.Helper()
	python := sharedtest.Program(t, "python3")
	if exec.Command(python, "-c", "import sacrebleu").Run() != nil {
		sharedtest.Program(t, "sacrebleu of python3")
	}
	var input bytes.Buffer
	encoder := json.NewEncoder(&input)
	for _, j := range jobs {
		if err := encoder.Encode(j); err != nil {
			t.Fatal(err)
		}
	}
	command := exec.Command(python, "-X", "utf8", "testdata/oracle.py")
	command.Stdin = &input
	var complaints bytes.Buffer
	command.Stderr = &complaints
	output, err := command.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, complaints.String())
	}
	decoder := json.NewDecoder(bytes.NewReader(output))
	for i, answer := range answers {
		if err := decoder.Decode(answer); err != nil {
			t.Fatalf("answer %d: %v", i, err)
		}
	}
}

func lines(t testing.TB, elements ...string) []string {
	t.Helper()
	data, err := os.ReadFile(sharedtest.Path(t, elements...))
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSuffix(string(data), "\n"), "\n")
}

// corpora are real translations, and random ones that share much with their references.
func corpora(t *testing.T) map[string][2][]string {
	t.Helper()
	random := rand.New(rand.NewPCG(3, 4))
	var hyps, refs []string
	for range 300 {
		ref := randomText(random)
		hyp := strings.Fields(ref)
		for i := range hyp {
			if random.IntN(4) == 0 {
				hyp[i] = randomText(random)
			}
		}
		refs, hyps = append(refs, ref), append(hyps, strings.Join(hyp, " "))
	}
	mix := lines(t, "models/ende-tiny/ref/mix-500.greedy.f32.de")
	return map[string][2][]string{
		"multi30k": {lines(t, "models/ende-tiny/ref/multi30k-2016.greedy.f32.de"), lines(t, "data/test-multi30k-2016.de")},
		"mix":      {mix, lines(t, "data/test-mix.de")[:len(mix)]},
		"wmt14":    {lines(t, "data/test-wmt14-en-de.en")[:300], lines(t, "data/test-wmt14-en-de.de")[:300]},
		"random":   {hyps, refs},
		"equal":    {refs, refs},
		"blank":    {make([]string, 3), refs[:3]},
	}
}

var interesting = []rune(" \t.,-'\"&<>/:;()0123456789abcÄßΣσİ’“„…–—%€°+=|~^´`\u00a0\u2009\u3000\u200b\u0301中文字。，、ＡＢ①ⅷ½٣१😀𠀀丽\u2028\x1c")

// randomText has assigned characters only: versions of Unicode differ in what the others are.
func randomText(random *rand.Rand) string {
	var b strings.Builder
	for range random.IntN(30) {
		r := interesting[random.IntN(len(interesting))]
		if random.IntN(4) == 0 {
			r = rune(random.IntN(0x30000))
		}
		if !unicode.In(r, unicode.L, unicode.M, unicode.N, unicode.P, unicode.S, unicode.Z) {
			r = 'x'
		}
		b.WriteRune(r)
	}
	return b.String()
}

func TestTokenizersLikeSacreBLEU(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	text := []string{
		"", " ", "a&amp;lt;b&quot;", "<skipped>x-\ny\nz", "1,000.5 a.b a,b .5 5. 5-6 a-b 5.", "--\n", "Don't (hi) [x] {y}~`^_",
		"2,3,4.a.b..c", "１．５、中文，ok。", "a. b, c.\u00a0d", "5,5,5,5", "x&gt;&amp;gt;",
	}
	text = append(text, lines(t, "data/test-wmt14-en-de.de")[:800]...)
	text = append(text, lines(t, "data/test-multi30k-2016.en")...)
	for range 3000 {
		text = append(text, randomText(random))
	}
	for r := range rune(0x2fb00) { // every character of its own, between letters and between digits
		if unicode.In(r, unicode.L, unicode.M, unicode.N, unicode.P, unicode.S, unicode.Z) && (r < 0x3400 || r > 0xabff && r < 0x12000 || r > 0x1d000 && r < 0x20000 || r >= 0x2f800) {
			text = append(text, fmt.Sprintf("a%cb%c 1%c2%c", r, r, r, r))
		}
	}
	tokenizers := []Tokenizer{Tokenize13a, TokenizeIntl, TokenizeZh, TokenizeChar, TokenizeNone}
	var jobs []job
	answers := make([][][]string, len(tokenizers))
	var into []any
	for i, tokenizer := range tokenizers {
		jobs = append(jobs, job{Do: "tokenize", Tokenizer: string(tokenizer), Lines: text})
		into = append(into, &answers[i])
	}
	ask(t, jobs, into...)
	for i, tokenizer := range tokenizers {
		wrong := 0
		for j, line := range text {
			if got := strings.FieldsFunc(tokenizer.Tokenize(line), isSpace); !slices.Equal(got, answers[i][j]) {
				if wrong++; wrong <= 5 {
					t.Errorf("%s: %q gives %q, want %q", tokenizer, line, got, answers[i][j])
				}
			}
		}
		if wrong > 0 {
			t.Errorf("%s: %d of %d lines differ", tokenizer, wrong, len(text))
		}
	}
}

func TestLowerLikePython(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 8))
	text := []string{"ΟΔΟΣ ΟΔΟΣ. Σ ΣΑΣ ΑΣ' Α.Σ ΑΣ.Β ΑΣ\u0301 ΑΣ\u0301Β", "İSTANBUL", "ÀÉẞǅ"}
	for range 3000 {
		text = append(text, randomText(random), "A"+randomText(random)+"Σ"+randomText(random))
	}
	var want []string
	ask(t, []job{{Do: "lower", Lines: text}}, &want)
	for i, line := range text {
		if got := lower(line); got != want[i] {
			t.Errorf("%q gives %q, want %q", line, got, want[i])
		}
	}
}

type printed struct{ Short, Text, JSON, Signature string }

// variant is one way to score, in our words and in sacreBLEU's.
type variant struct {
	ours Metric
	args map[string]any
}

var variants = []variant{
	{BLEUOptions{}, nil},
	{BLEUOptions{Tokenizer: TokenizeIntl, Lowercase: true}, map[string]any{"tokenize": "intl", "lowercase": true}},
	{BLEUOptions{Tokenizer: TokenizeZh, Smoothing: SmoothFloor}, map[string]any{"tokenize": "zh", "smooth_method": "floor"}},
	{BLEUOptions{Tokenizer: TokenizeChar, Smoothing: SmoothAddK, SmoothValue: 0.5}, map[string]any{"tokenize": "char", "smooth_method": "add-k", "smooth_value": 0.5}},
	{BLEUOptions{Tokenizer: TokenizeNone, Smoothing: SmoothNone, EffectiveOrder: true}, map[string]any{"tokenize": "none", "smooth_method": "none", "effective_order": true}},
	{CHRFOptions{}, nil},
	{CHRFOptions{WordOrder: 2}, map[string]any{"word_order": 2}},
	{CHRFOptions{WordOrder: 1, CharOrder: 3, Beta: 1, Lowercase: true, Whitespace: true, Epsilon: true},
		map[string]any{"word_order": 1, "char_order": 3, "beta": 1, "lowercase": true, "whitespace": true, "eps_smoothing": true}},
}

func (v variant) metric() string {
	if _, bleu := v.ours.(BLEUOptions); bleu {
		return "BLEU"
	}
	return "CHRF"
}

// formatter is what both kinds of score have.
type formatter interface {
	fmt.Stringer
	Format(places int) string
	JSON(places int) ([]byte, error)
	Signature() string
}

func (v variant) score(t *testing.T, hyps []string, refs [][]string) formatter {
	t.Helper()
	var result formatter
	var err error
	switch o := v.ours.(type) {
	case BLEUOptions:
		result, err = BLEU(hyps, refs, o)
	case CHRFOptions:
		result, err = CHRF(hyps, refs, o)
	}
	if err != nil {
		t.Fatal(err)
	}
	return result
}

func TestCorpusScoresLikeSacreBLEU(t *testing.T) {
	var jobs []job
	var into []any
	var check []func()
	for name, c := range corpora(t) {
		shifted := append(slices.Clone(c[1][1:]), c[0][0])
		several := [][]string{c[1], shifted, c[1]}
		for _, refs := range [][][]string{{c[1]}, several} {
			if len(refs) > 1 && len(c[0]) > 400 {
				continue // takes long
			}
			if testing.Short() && len(c[0]) > 300 {
				continue
			}
			for i, v := range variants {
				if len(c[0]) > 400 && i != 0 && i != 1 && i != 6 {
					continue
				}
				want := new(printed)
				jobs = append(jobs, job{Do: "corpus", Metric: v.metric(), Args: v.args, Hyps: c[0], Refs: refs})
				into = append(into, want)
				check = append(check, func() {
					got := v.score(t, c[0], refs)
					place := fmt.Sprintf("%s, %d references, %+v", name, len(refs), v.ours)
					equal(t, place, got.String(), want.Short)
					equal(t, place, got.Format(4), want.Text)
					equal(t, place, got.Signature(), want.Signature)
					object, err := got.JSON(1)
					if err != nil {
						t.Fatal(err)
					}
					var indented bytes.Buffer
					if err := json.Indent(&indented, object, "", " "); err != nil {
						t.Fatal(err)
					}
					equal(t, place, indented.String(), want.JSON)
				})
			}
		}
	}
	ask(t, jobs, into...)
	for _, f := range check {
		f()
	}
}

func equal(t *testing.T, place, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("%s:\n got %s\nwant %s", place, got, want)
	}
}

func TestSentenceScoresLikeSacreBLEU(t *testing.T) {
	c := corpora(t)
	hyps := append(slices.Clone(c["random"][0]), c["mix"][0][:200]...)
	first := append(slices.Clone(c["random"][1]), c["mix"][1][:200]...)
	second := append(slices.Clone(first[1:]), "")
	answers := make([][]string, len(variants))
	var jobs []job
	var into []any
	for i, v := range variants {
		jobs = append(jobs, job{Do: "corpus", Sentences: true, Metric: v.metric(), Args: v.args, Hyps: hyps, Refs: [][]string{first, second}})
		into = append(into, &answers[i])
	}
	ask(t, jobs, into...)
	for i, v := range variants {
		for j, hyp := range hyps {
			got := v.score(t, []string{hyp}, [][]string{{first[j]}, {second[j]}})
			equal(t, fmt.Sprintf("%+v, %q", v.ours, hyp), got.String(), answers[i][j])
		}
	}
}

func TestRandomNumbersOfNumpy(t *testing.T) {
	var jobs []job
	var into []any
	var answers [8][]uint32
	for i := range answers {
		jobs = append(jobs, job{Do: "draw", Seed: []uint64{12345, 1, 1 << 40, 0xffffffffffff}[i%4], Below: []int{1000, 1, 3, 1 << 31}[i/2], Count: 200})
		into = append(into, &answers[i])
	}
	ask(t, jobs, into...)
	for i, want := range answers {
		random := newNumpyRandom(jobs[i].Seed)
		for j, n := range want {
			if got := random.below(uint32(jobs[i].Below)); got != n {
				t.Fatalf("seed %d, below %d, number %d: got %d, want %d", jobs[i].Seed, jobs[i].Below, j, got, n)
			}
		}
	}
}

func TestBootstrapLikeSacreBLEU(t *testing.T) {
	c := corpora(t)["mix"]
	worse := slices.Clone(c[0])
	for i := range worse {
		if i%9 == 0 {
			worse[i] = strings.Replace(worse[i], " ", " x ", 1)
		}
	}
	refs := [][]string{c[1]}
	const samples = 300
	for _, v := range []variant{variants[0], variants[5]} {
		var single printed
		var pair []struct{ Score, P_value, Mean, CI float64 }
		ask(t, []job{
			{Do: "corpus", Metric: v.metric(), Hyps: c[0], Refs: refs, Bootstrap: samples},
			{Do: "paired", Metric: v.metric(), Hyps: worse, Baseline: c[0], Refs: refs, Bootstrap: samples},
		}, &single, &pair)
		found, err := Bootstrap(v.ours, c[0], refs, samples, Seed)
		if err != nil {
			t.Fatal(err)
		}
		switch got := v.score(t, c[0], refs).(type) {
		case BLEUScore:
			got.Interval = &found
			equal(t, "with interval", got.String(), single.Short)
			equal(t, "with interval", got.Signature(), single.Signature)
		case CHRFScore:
			got.Interval = &found
			equal(t, "with interval", got.String(), single.Short)
		}
		compared, err := PairedBootstrap(v.ours, c[0], worse, refs, samples, Seed)
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%+v", compared)
		for _, pair := range [][2]float64{
			{compared.Baseline, pair[0].Score}, {compared.BaselineInterval.Mean, pair[0].Mean}, {compared.BaselineInterval.HalfWidth, pair[0].CI},
			{compared.System, pair[1].Score}, {compared.SystemInterval.Mean, pair[1].Mean}, {compared.SystemInterval.HalfWidth, pair[1].CI},
			{compared.PValue, pair[1].P_value},
		} {
			if math.Abs(pair[0]-pair[1]) > 1e-4 { // sacreBLEU computes in single precision here
				t.Errorf("got %v, want %v", pair[0], pair[1])
			}
		}
	}
}
