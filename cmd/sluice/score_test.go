package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/sluice-mt/sluice/internal/sharedtest"
)

// ourScore runs "sluice score" with sacrebleu's abbreviations allowed.
func ourScore(t *testing.T, metric string, arguments ...string) string {
	t.Helper()
	command := newScoreCommand()
	var out bytes.Buffer
	command.SetOut(&out)
	sub, _, err := command.Find([]string{metric})
	if err != nil {
		t.Fatal(err)
	}
	command.SetArgs(append([]string{metric}, sacrebleuArguments(arguments, sub.Flags())...))
	if err := command.Execute(); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// theirScore runs the sacrebleu program.
func theirScore(t *testing.T, program string, arguments ...string) string {
	t.Helper()
	command := exec.Command(program, arguments...)
	command.Env = append(os.Environ(), "NO_COLOR=1", "SACREBLEU_SEED=12345", "PYTHONUTF8=1")
	var complaints bytes.Buffer
	command.Stderr = &complaints
	out, err := command.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, complaints.String())
	}
	return string(out)
}

func TestScoresLikeTheSacreBLEUProgram(t *testing.T) {
	program := sharedtest.Program(t, "sacrebleu")
	hypotheses := sharedtest.Path(t, "models/ende-tiny/ref/multi30k-2016.greedy.f32.de")
	references := sharedtest.Path(t, "data/test-multi30k-2016.de")
	cases := []struct {
		metric  string
		options string
	}{
		{"bleu", "-f text"},
		{"bleu", "-f json -w 4"},
		{"bleu", "-f text -tok intl -lc -s floor -sv 0.2 -w 6"},
		{"bleu", "-f text -b -w 2"},
		{"bleu", "-f text -sl -w 3"},
		{"bleu", "-f text -ci -cin 100 -nc"},
		{"chrf", "-f text -w 5"},
		{"chrf", "-f json -cw 2"},
		{"chrf", "-f text -cc 4 --chrf-lowercase --chrf-whitespace --chrf-eps-smoothing -w 4"},
	}
	if testing.Short() {
		cases = cases[:1] // every run of the program takes half a second
	}
	for _, c := range cases {
		t.Run(c.metric+" "+c.options, func(t *testing.T) {
			options := strings.Fields(c.options)
			want := theirScore(t, program, append([]string{references, "-i", hypotheses, "-m", c.metric}, options...)...)
			ours := slices.DeleteFunc(options, func(word string) bool { return word == "-nc" }) // no colours here
			if got := ourScore(t, c.metric, append([]string{references, "-i", hypotheses}, ours...)...); got != want {
				t.Errorf("got\n%.2000swant\n%.2000s", got, want)
			}
		})
	}
}

func TestPairedLikeTheSacreBLEUProgram(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	program := sharedtest.Program(t, "sacrebleu")
	baseline := sharedtest.Path(t, "models/ende-tiny/ref/multi30k-2016.greedy.f32.de")
	references := sharedtest.Path(t, "data/test-multi30k-2016.de")
	text, err := os.ReadFile(baseline)
	if err != nil {
		t.Fatal(err)
	}
	other := filepath.Join(t.TempDir(), "other")
	if err := os.WriteFile(other, bytes.ReplaceAll(text, []byte(" in "), []byte(" im ")), 0o600); err != nil {
		t.Fatal(err)
	}
	theirs := theirScore(t, program, references, "-i", baseline, other, "-m", "bleu", "-f", "text", "-w", "2", "--paired-bs", "--paired-bs-n", "200")
	ours := ourScore(t, "bleu", references, "-i", baseline, "--paired", other, "-w", "2", "-pbsn", "200")
	for _, line := range strings.Split(ours, "\n")[1:3] {
		fields := strings.Fields(strings.TrimPrefix(line, "Baseline:"))
		for _, field := range fields[1:] {
			if number := strings.Trim(field, "()*"); !strings.Contains(theirs, number) {
				t.Errorf("%q of\n%sis not in\n%s", field, ours, theirs)
			}
		}
	}
}

func TestSacreBLEUArguments(t *testing.T) {
	flags := new(cobra.Command).Flags()
	flags.String("tokenize", "", "")
	flags.Bool("confidence", false, "")
	got := sacrebleuArguments(strings.Fields("-tok zh -ci -cw 2 -tok=13a ref -- -ci"), flags)
	want := strings.Fields("--tokenize zh --confidence -cw 2 --tokenize=13a ref -- -ci")
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
