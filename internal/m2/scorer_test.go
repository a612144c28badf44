package m2

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// A variant is how the public scorer is called.
type variant struct {
	options   Options
	arguments []string
}

var variants = []variant{
	{DefaultOptions(), nil},
	{Options{Beta: 1, MaxUnchanged: 0}, []string{"--beta", "1", "--max_unchanged_words", "0"}},
	{Options{Beta: 0.5, MaxUnchanged: 4, IgnoreCaseAndSpace: true}, []string{"--max_unchanged_words", "4", "--ignore_whitespace_casing"}},
	{Options{Beta: 2, MaxUnchanged: 1, IgnoreCaseAndSpace: true}, []string{"--beta", "2", "--max_unchanged_words", "1", "--ignore_whitespace_casing"}},
}

// cases are corpora of a few sentences, so that a difference in one shows, and a few larger ones.
const cases = 240

// corpus makes the n-th corpus: an M² file and candidates. Sentences have few different words, so that there are many
// alignments; annotators agree in part, have alternatives, insert several times at one place, or find nothing to correct.
func corpus(n int) (gold string, candidates []string) {
	random := rand.New(rand.NewPCG(11, uint64(n)))
	words := strings.Fields("a b c the The cat . ,  Größe größe in to in-to")[:4+n%9]
	if n%3 == 0 {
		words = words[:2] // many insertions of the same words at one place
	}
	sentences := 1 + n%7
	if n%40 == 0 {
		sentences = 60
	}
	var b strings.Builder
	for range sentences {
		source := randomTokens(random, words, random.IntN(9))
		fmt.Fprintf(&b, "S %s\n", strings.Join(source, " "))
		var all []textEdit
		for annotator := range random.IntN(4) {
			edits := randomEdits(random, words, len(source))
			if len(edits) == 0 && random.IntN(2) == 0 {
				fmt.Fprintf(&b, "A -1 -1|||noop|||-NONE-|||REQUIRED|||-NONE-|||%d\n", annotator)
			}
			for _, e := range edits {
				fmt.Fprintf(&b, "A %d %d|||X|||%s|||REQUIRED|||-NONE-|||%d\n", e.start, e.end, e.field(random), annotator)
			}
			all = edits
		}
		b.WriteByte('\n')
		switch random.IntN(4) {
		case 0:
			all = randomEdits(random, words, len(source))
		case 1:
			all = all[:random.IntN(len(all)+1)]
		}
		candidates = append(candidates, strings.Join(apply(source, all), " "))
	}
	return b.String(), candidates
}

type textEdit struct {
	start, end int
	text       []string
}

func (e textEdit) field(random *rand.Rand) string {
	text := strings.Join(e.text, " ")
	if text == "" && random.IntN(2) == 0 {
		text = "-NONE-"
	}
	if random.IntN(6) == 0 {
		return text + "||another one"
	}
	return text
}

func randomTokens(random *rand.Rand, words []string, n int) []string {
	var tokens []string
	for range n {
		tokens = append(tokens, words[random.IntN(len(words))])
	}
	return tokens
}

func randomEdits(random *rand.Rand, words []string, length int) []textEdit {
	var edits []textEdit
	for at := 0; at <= length; {
		if random.IntN(3) > 0 {
			at++
			continue
		}
		end := min(length, at+random.IntN(3))
		if len(words) == 2 {
			end = at
		}
		e := textEdit{at, end, randomTokens(random, words, random.IntN(3))}
		if at < end || len(e.text) > 0 {
			edits = append(edits, e)
		}
		if len(words) > 2 || random.IntN(4) == 0 {
			at = end + random.IntN(2)
		}
	}
	return edits
}

func apply(source []string, edits []textEdit) []string {
	var out []string
	at := 0
	for _, e := range edits {
		out = append(append(out, source[at:e.start]...), e.text...)
		at = e.end
	}
	return append(out, source[at:]...)
}

// format is what the scorer prints.
func format(s Score, beta float64) string {
	return fmt.Sprintf("Precision   : %.4f\nRecall      : %.4f\nF_%.1f       : %.4f\n", s.Precision, s.Recall, beta, s.F)
}

// TestLikeTheScorer compares with what the public scorer printed about the same files. Where SLUICE_M2SCORER is a command that
// runs it, such as "python2 m2scorer.py", its numbers are recorded anew.
func TestLikeTheScorer(t *testing.T) {
	record := filepath.Join("testdata", "m2scorer.json")
	want := map[string]string{}
	command := strings.Fields(os.Getenv("SLUICE_M2SCORER"))
	if len(command) == 0 {
		content, err := os.ReadFile(record)
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(content, &want); err != nil {
			t.Fatal(err)
		}
	}
	for n := range cases {
		gold, candidates := corpus(n)
		sentences, outside, err := Read(strings.NewReader(gold))
		if err != nil || outside != 0 {
			t.Fatalf("corpus %d: %d edits outside, %v", n, outside, err)
		}
		for v, variant := range variants {
			key := strconv.Itoa(n) + "/" + strconv.Itoa(v)
			if len(command) > 0 {
				want[key] = runScorer(t, append(command, variant.arguments...), gold, candidates)
			}
			s, err := Compute(candidates, sentences, variant.options)
			if err != nil {
				t.Fatal(err)
			}
			if got := format(s, variant.options.Beta); got != want[key] {
				t.Errorf("corpus %d, %v: got\n%swant\n%s", n, variant.arguments, got, want[key])
			}
		}
	}
	if len(command) > 0 {
		content, err := json.Marshal(want)
		if err == nil {
			err = os.WriteFile(record, content, 0o666)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func runScorer(t *testing.T, command []string, gold string, candidates []string) string {
	t.Helper()
	folder := t.TempDir()
	system, annotations := filepath.Join(folder, "system"), filepath.Join(folder, "gold")
	for path, content := range map[string]string{system: strings.Join(candidates, "\n") + "\n", annotations: gold} {
		if err := os.WriteFile(path, []byte(content), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	c := exec.Command(command[0], append(command[1:], system, annotations)...)
	var stderr bytes.Buffer
	c.Stderr = &stderr
	output, err := c.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, stderr.String())
	}
	return string(output)
}
