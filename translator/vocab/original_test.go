package vocab

import (
	"bufio"
	"bytes"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/sluice-mt/sluice/internal/sharedtest"
)

// sharedModels are the SentencePiece models beside the checkout.
var sharedModels = []string{
	"models/ende-tiny/vocab.spm",
	"models/reference/vocab/joint.spm",
	"models/reference/vocab/src.spm",
	"models/reference/vocab/trg.spm",
	"models/reference/vocab/bpe.spm",
}

// TestSharedCorpora compares with the original programs on real text.
func TestSharedCorpora(t *testing.T) {
	for _, name := range []string{"bench-news.en", "bench-short.en", "dev.de", "dev.en", "test-mix.de", "test-mix.en"} {
		lines := readLines(t, sharedtest.Path(t, "data", name))
		for _, model := range sharedModels {
			compareWithOriginal(t, sharedtest.Path(t, model), lines)
		}
	}
}

func readLines(t *testing.T, path string) []string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSuffix(string(data), "\n"), "\n")
}

// compareWithOriginal checks that lines are encoded as spm_encode does and decoded as spm_decode does.
func compareWithOriginal(t *testing.T, model string, lines []string) {
	t.Helper()
	v, err := Open(model)
	if err != nil {
		t.Fatal(err)
	}
	input := strings.Join(lines, "\n") + "\n"
	wantIDs := splitOutput(t, runOriginal(t, "spm_encode", model, "--output_format=id", input), len(lines))
	wantPieces := splitOutput(t, runOriginal(t, "spm_encode", model, "--output_format=piece", input), len(lines))
	wantText := splitOutput(t, runOriginal(t, "spm_decode", model, "--input_format=id", strings.Join(wantIDs, "\n")+"\n"), len(lines))
	failures := 0
	var ids []int32
	for i, line := range lines {
		ids = v.Encode(line, ids[:0])
		if got := joinIDs(ids); got != wantIDs[i] {
			t.Errorf("%s: line %d %q:\n got ids %s\nwant ids %s", model, i+1, line, got, wantIDs[i])
			failures++
		}
		if got := strings.Join(v.EncodePieces(line), " "); got != wantPieces[i] {
			t.Errorf("%s: line %d %q:\n got pieces %s\nwant pieces %s", model, i+1, line, got, wantPieces[i])
			failures++
		}
		if got, want := v.Decode(ids), Clean(wantText[i]); len(ids) > 0 && got != want {
			t.Errorf("%s: line %d %q:\n got text %q\nwant text %q", model, i+1, line, got, want)
			failures++
		}
		if failures > 10 {
			t.Fatal("too many differences")
		}
	}
}

func joinIDs(ids []int32) string {
	var b []byte
	for i, id := range ids {
		if i > 0 {
			b = append(b, ' ')
		}
		b = strconv.AppendInt(b, int64(id), 10)
	}
	return string(b)
}

func runOriginal(t *testing.T, program, model, format, input string) []byte {
	t.Helper()
	cmd := exec.Command(sharedtest.Program(t, program), "--model="+model, format)
	cmd.Stdin = strings.NewReader(input)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	output, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s", program, err, stderr.Bytes())
	}
	return output
}

func splitOutput(t *testing.T, output []byte, n int) []string {
	t.Helper()
	var lines []string
	scanner := bufio.NewScanner(bytes.NewReader(output))
	scanner.Buffer(nil, len(output)+1)
	scanner.Split(func(data []byte, atEOF bool) (int, []byte, error) {
		if i := bytes.IndexByte(data, '\n'); i >= 0 {
			return i + 1, data[:i], nil
		}
		return 0, nil, nil
	})
	for scanner.Scan() {
		lines = append(lines, scanner.Text())
	}
	if len(lines) != n {
		t.Fatalf("the original wrote %d lines for %d", len(lines), n)
	}
	return lines
}
