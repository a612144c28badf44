package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/sluice-mt/sluice/internal/sharedtest"
)

// runScript runs a program and returns its exit code and what it printed, with an environment of these variables alone.
func runScript(t *testing.T, environment []string, input, program string, arguments ...string) (code int, out, messages string) {
	t.Helper()
	command := exec.CommandContext(t.Context(), sharedtest.Program(t, program), arguments...)
	var stdout, stderr bytes.Buffer
	command.Stdin, command.Stdout, command.Stderr, command.Env = strings.NewReader(input), &stdout, &stderr, environment
	err := command.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return command.ProcessState.ExitCode(), stdout.String(), stderr.String()
}

// The students that other engines translate with are those of "bench gpu", with as many parameters.
func TestPeersOfGPU(t *testing.T) {
	const program = `
import json
from students import BATCH, LENGTH, STUDENTS, matrices
elements = lambda s: sum(rows * columns for _, (rows, columns) in matrices(s) if rows > 1)
print(json.dumps({"length": LENGTH, "students": {name: [*s, elements(s)] for name, s in STUDENTS.items()}}))
`
	folder := filepath.Join(sharedtest.Root(), "scripts", "gpubench")
	code, out, messages := runScript(t, []string{"PYTHONPATH=" + folder, "PYTHONDONTWRITEBYTECODE=1"}, "", "python3", "-S", "-c", program)
	var there struct {
		Length   int
		Students map[string][]int
	}
	if err := json.Unmarshal([]byte(out), &there); code != 0 || err != nil {
		t.Fatalf("%d, %v: %s%s", code, err, out, messages)
	}
	if there.Length != modelLength || len(there.Students) != len(students()) {
		t.Errorf("%+v", there)
	}
	for i, s := range students() {
		want := []int{s.Encoder, s.Decoder, s.Dim, s.FFN, s.Heads, s.Vocabulary, int(attentiveStudents()[i].parameters())}
		if have := there.Students[s.Name]; len(have) != len(want) || [7]int(have) != [7]int(want) {
			t.Errorf("%s: %v, want %v", s.Name, have, want)
		}
	}
}

// Without a card, or an engine's library, the comparison says what is missing, and what it does not understand.
func TestPeersAreMissing(t *testing.T) {
	script := filepath.Join(sharedtest.Root(), "scripts", "gpu-bench.sh")
	for arguments, want := range map[string]struct {
		code    int
		message string
	}{
		"0":           {2, "the number of rounds is at least 1, not 0"},
		"tiny":        {2, "the number of rounds is at least 1, not tiny"},
		"1 tiny huge": {2, "there is no student huge"},
		"1 tiny":      {1, "nvidia-smi finds no NVIDIA GPU here"},
		"":            {1, "nvidia-smi finds no NVIDIA GPU here"},
	} {
		code, out, messages := runScript(t, []string{"PATH=" + t.TempDir()}, "", "bash", append([]string{script}, strings.Fields(arguments)...)...)
		if code != want.code || out != "" || !strings.Contains(messages, want.message) {
			t.Errorf("%q: %d, %s%s, want %d, %s", arguments, code, out, messages, want.code, want.message)
		}
	}
	for program, library := range map[string]string{"torch_student.py tiny 1 cpu": "torch", "ctranslate2_student.py tiny 1 1 1 cpu": "ctranslate2"} {
		arguments := strings.Fields(filepath.Join(sharedtest.Root(), "scripts", "gpubench", program))
		code, out, messages := runScript(t, []string{"PYTHONDONTWRITEBYTECODE=1"}, "", "python3", append([]string{"-S"}, arguments...)...)
		if want := "No module named '" + library + "': pip install " + library; code != 1 || out != "" || !strings.Contains(messages, want) {
			t.Errorf("%s: %d, %s%s, want %s", program, code, out, messages, want)
		}
	}
}

// The table has the median of the rounds, of each the best number of streams, and compares within a round.
func TestPeersTable(t *testing.T) {
	const rates = `sluice tiny 1 1 1 900
sluice tiny 1 2 1 1000
CTranslate2 tiny 1 1 1 500
CTranslate2 tiny 1 4 1 450
sluice tiny 1 2 2 1200
CTranslate2 tiny 1 1 2 400
sluice tiny 1 2 3 800
CTranslate2 tiny 1 2 3 800
sluice tiny 4 1 1 300
PyTorch tiny 1 1 2 2400
`
	script := filepath.Join(sharedtest.Root(), "scripts", "gpubench", "table.py")
	code, out, messages := runScript(t, nil, rates, "python3", "-S", script)
	for _, want := range []string{`tiny +1 +sluice +2 +1,000 +3 +-`, `tiny +1 +CTranslate2 +1 +500 +3 +2\.00`, `tiny +4 +sluice +1 +300 +1 +-`,
		`tiny +1 +PyTorch +1 +2,400 +1 +0\.50`} {
		if !regexp.MustCompile(`(?m)^ *` + want + `$`).MatchString(out) {
			t.Errorf("%d: %s is not in\n%s%s", code, want, out, messages)
		}
	}
}
