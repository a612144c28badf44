package vocab

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-mt/sluice/internal/sharedtest"
)

// openContent opens a vocabulary file with the given name and content.
func openContent(t testing.TB, name, content string) (Vocabulary, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return Open(path)
}

func TestPlainFormats(t *testing.T) {
	for name, content := range map[string]string{
		"v.yml":     "\"</s>\": 0\n\"<unk>\": 1\nthe: 2\n\"farmer\": 3\n\"'\": 4\n\"\\U0001F600\": 5\n",
		"v.yaml":    "{</s>: 0, <unk>: 1, the: 2, farmer: 3, \"'\": 4, 😀: 5}\n",
		"v.json":    "{\"</s>\": 0, \"<unk>\": 1, \"the\": 2,\n\"farmer\": 3, \"'\": 4, \"\\ud83d\\ude00\": 5}",
		"v.txt":     "</s>\n<unk>\nthe\nfarmer\n'\n😀\n",
		"v.vocab":   "</s>\r\n<unk>\r\nthe\r\nfarmer\r\n'\r\n😀\r\n",
		"v.json.gz": string(gzipped(t, []byte(`{"farmer":3,"</s>":0,"<unk>":1,"'":4,"😀":5,"the":2}`))),
	} {
		v, err := openContent(t, name, content)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		text := "  the  farmer ' 😀\tthe unheard the"
		ids := v.Encode(text, nil)
		if want := []int32{2, 3, 4, 1, 1, 2}; !slices.Equal(ids, want) {
			t.Errorf("%s: ids %v, want %v", name, ids, want)
		}
		if got := v.EncodePieces(text); len(got) != len(ids) || got[3] != "😀\tthe" || got[4] != "unheard" {
			t.Errorf("%s: pieces %q", name, got)
		}
		if got := string(v.Decode([]int32{2, 3, 1, 5, 0, 9, -1}, nil)); got != "the farmer <unk> 😀" {
			t.Errorf("%s: text %q", name, got)
		}
		if v.Size() != 6 || v.EOS() != 0 || v.Unk() != 1 || !slices.Equal(v.Suppressed(), []int32{1}) || !v.IsControl(0) {
			t.Errorf("%s: size %d, end of sentence %d, unknown %d", name, v.Size(), v.EOS(), v.Unk())
		}
	}
}

// TestNematusDictionary: ids 0 and 1 may be absent, or carry the names Nematus gives them.
func TestNematusDictionary(t *testing.T) {
	for _, content := range []string{`{"the": 2, "eos": 0, "UNK": 1}`, `{"the": 2}`} {
		v, err := openContent(t, "v.json", content)
		if err != nil {
			t.Fatal(err)
		}
		if ids := v.Encode("the old", nil); v.EOS() != 0 || !slices.Equal(ids, []int32{2, 1}) {
			t.Errorf("%s: end of sentence %d, ids %v", content, v.EOS(), ids)
		}
	}
}

func TestRefusedPlain(t *testing.T) {
	for _, c := range []struct{ name, content, want string }{
		{"v.txt", "</s>\n<unk>\n\nthe\n", "line 3: an empty token"},
		{"v.txt", "</s>\n<unk>\nthe\nthe\n", "line 4: token \"the\", already defined with id 2"},
		{"v.txt", "<unk>\nthe\n", "no token </s>"},
		{"v.txt", "", "no tokens"},
		{"v.yml", "</s>: 0\n<unk>: 1\nthe: x\n", "line 3: token \"the\" has the id \"x\""},
		{"v.yml", "</s>: 0\n<unk>: 1\nthe: 1\n", "line 3: token \"the\" has the id 1, which \"<unk>\" has"},
		{"v.yml", "</s>: 0\n<unk>: 1\nthe: [2]\n", "line 3: this is not a token with its id"},
		{"v.yml", "- </s>\n- <unk>\n", "not a vocabulary"},
		{"v.yml", "\"</s>: 0\n", "not YAML"},
		{"v.yml", "", "not a vocabulary"},
		{"v.json", `{"</s>": 0, "<unk>": 1, "the": -1}`, "not between 0 and"},
		{"v.json", `{"</s>": 0, "<unk>": 1, "the": 1e9}`, "which is not a number"},
		{"v.json", `{"</s>": 0, "<unk>": 1, "the": 999999999}`, "not between 0 and"},
		{"v.json", `{"</s>": 0, "<unk>": 1, "the": {"x": 2}}`, "no number as its id"},
		{"v.json", `["</s>", "<unk>"]`, "not a vocabulary"},
		{"v.spm", "</s>\n<unk>\n", "not a SentencePiece model"},
	} {
		_, err := openContent(t, c.name, c.content)
		var placed *Error
		if !errors.As(err, &placed) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s %q: got the error %v, which should say %q", c.name, c.content, err, c.want)
		}
	}
}

func TestSharedWordVocabularies(t *testing.T) {
	v := mustOpen(t, sharedtest.Path(t, "models/reference/vocab/word.en.yml"))
	for _, line := range readLines(t, sharedtest.Path(t, "models/reference/data/input.word.en")) {
		ids := v.Encode(line, nil)
		if len(ids) != len(strings.Fields(line)) {
			t.Fatalf("%q: %d ids", line, len(ids))
		}
		if slices.Contains(ids, v.Unk()) {
			continue
		}
		if got := string(v.Decode(ids, nil)); got != strings.Join(strings.Fields(line), " ") {
			t.Errorf("%q becomes %q", line, got)
		}
	}
}
