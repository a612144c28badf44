package vocab

import (
	"bytes"
	"compress/gzip"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/sluice-mt/sluice/internal/sharedtest"
)

func TestSpecialPieces(t *testing.T) {
	for _, model := range []string{"testdata/unigram.spm", "testdata/bpe.spm"} {
		v := mustOpen(t, model)
		if v.EOS() != 0 || v.Unk() != 1 || v.Piece(0) != "</s>" || v.Piece(1) != "<unk>" {
			t.Errorf("%s: end of sentence %d %q, unknown %d %q", model, v.EOS(), v.Piece(v.EOS()), v.Unk(), v.Piece(v.Unk()))
		}
		if !v.IsControl(0) || v.IsControl(1) || v.IsControl(-1) || v.IsControl(int32(v.Size())) {
			t.Errorf("%s: IsControl is wrong", model)
		}
		if v.Piece(-1) != "" || v.Piece(int32(v.Size())) != "" {
			t.Errorf("%s: an id outside the vocabulary has a piece", model)
		}
		if text := v.Decode([]int32{-1, int32(v.Size()), 0}, nil); len(text) > 0 {
			t.Errorf("%s: ids without text give %q", model, text)
		}
		for id := range int32(v.Size()) {
			if got, ok := v.ID(v.Piece(id)); got != id || !ok {
				t.Errorf("%s: piece %q has the id %d, not %d", model, v.Piece(id), got, id)
			}
		}
		if id, ok := v.ID("no such piece"); ok || id != v.Unk() {
			t.Errorf("%s: a piece that is not there has the id %d", model, id)
		}
	}
}

func TestSuppressed(t *testing.T) {
	v := mustOpen(t, "testdata/unigram.spm")
	var want []string
	for _, id := range v.Suppressed() {
		want = append(want, v.Piece(id))
	}
	if len(want) != 2+0x20+1 || !slices.Contains(want, "<unk>") || !slices.Contains(want, "<2de>") ||
		!slices.Contains(want, "<0x0A>") || !slices.Contains(want, "<0x7F>") || slices.Contains(want, "</s>") {
		t.Errorf("suppressed are %q", want)
	}
	if !slices.IsSorted(v.Suppressed()) {
		t.Error("not in ascending order")
	}
}

// TestNoEndOfSentence: with no </s> nothing would end a translation.
func TestNoEndOfSentence(t *testing.T) {
	model := rework(t, "testdata/unigram.spm", func(_ int, p *pieceProto) {
		if p.text == "</s>" {
			p.text = "</t>"
		}
	})
	if _, err := Open(model); err == nil || !strings.Contains(err.Error(), "end of sentence") {
		t.Errorf("got the error %v", err)
	}
}

func TestRefusedPieces(t *testing.T) {
	for want, f := range map[string]func(i int, p *pieceProto){
		"already defined": func(i int, p *pieceProto) {
			if p.kind == normalPiece {
				p.text = "a"
			}
		},
		"it is empty":              func(i int, p *pieceProto) { p.text = "" },
		"not a number":             func(i int, p *pieceProto) { p.score -= p.score; p.score /= p.score },
		"zero byte":                func(i int, p *pieceProto) { p.text += "\x00" },
		"more than 4096":           func(i int, p *pieceProto) { p.text = strings.Repeat("x", 4097) },
		"no piece for the unknown": func(i int, p *pieceProto) { p.kind = max(p.kind, controlPiece) },
		"second unknown piece":     func(i int, p *pieceProto) { p.kind = unknownPiece },
		"no piece <0x41>": func(i int, p *pieceProto) {
			if p.text == "<0x41>" {
				p.kind = normalPiece
			}
		},
		"not a byte": func(i int, p *pieceProto) {
			if p.text == "<0x41>" {
				p.text = "<0x4g>"
			}
		},
	} {
		_, err := Open(rework(t, "testdata/unigram.spm", f))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got the error %v, which should say %q", err, want)
		}
	}
}

func TestCompressed(t *testing.T) {
	data, err := os.ReadFile("testdata/unigram.spm")
	if err != nil {
		t.Fatal(err)
	}
	want := mustOpen(t, "testdata/unigram.spm").Fingerprint()
	for name, content := range map[string][]byte{
		"vocab.ende.spm.gz": gzipped(t, data), "vocab.spm.zst": zstandard(t, data),
		"vocab.model": data, "unnamed": gzipped(t, data),
	} {
		path := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		if got := mustOpen(t, path).Fingerprint(); got != want {
			t.Errorf("%s: fingerprint %s, want %s", name, got, want)
		}
	}
}

func gzipped(t testing.TB, data []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := w.Write(data); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func zstandard(t testing.TB, data []byte) []byte {
	t.Helper()
	w, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	return w.EncodeAll(data, nil)
}

// TestInflated opens files that inflate to far more than a vocabulary.
func TestInflated(t *testing.T) {
	zeros := make([]byte, maxFile+1)
	for name, content := range map[string][]byte{"v.spm.gz": gzipped(t, zeros), "v.spm.zst": zstandard(t, zeros), "v.spm": zeros} {
		path := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(path); err == nil || !strings.Contains(err.Error(), "this is not a vocabulary") {
			t.Errorf("%s: got the error %v", name, err)
		}
	}
}

func TestMissingFile(t *testing.T) {
	if _, err := Open(filepath.Join(t.TempDir(), "vocab.spm")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got the error %v", err)
	}
}

func TestErrorPlace(t *testing.T) {
	data, err := os.ReadFile("testdata/unigram.spm")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "cut.spm")
	if err := os.WriteFile(path, data[:1000], 0o600); err != nil {
		t.Fatal(err)
	}
	_, err = Open(path)
	var placed *Error
	if !errors.As(err, &placed) || placed.Path != path || placed.Offset < 980 || placed.Offset > 1000 {
		t.Errorf("got the error %v", err)
	}
}

// TestTruncated cuts a model at every offset. What remains is refused, or is a model that works: a file may end after
// any of its fields.
func TestTruncated(t *testing.T) {
	for _, model := range ownModels {
		data, err := os.ReadFile(model)
		if err != nil {
			t.Fatal(err)
		}
		refused := 0
		for n := range data {
			if v, err := parse(data[:n], sentencePieceFormat); err == nil {
				use(v)
			} else {
				refused++
			}
		}
		if refused < len(data)*9/10 {
			t.Errorf("%s: only %d of %d truncated models were refused", model, refused, len(data))
		}
	}
}

// TestFlippedBytes changes bytes all over a model.
func TestFlippedBytes(t *testing.T) {
	step := 3
	if testing.Short() {
		step = 11
	}
	for _, model := range ownModels {
		data, err := os.ReadFile(model)
		if err != nil {
			t.Fatal(err)
		}
		for i := 0; i < len(data); i += step {
			flip := []byte{0x01, 0x80, 0xff, 0x10}[i/step%4]
			data[i] ^= flip
			if v, err := parse(data, sentencePieceFormat); err == nil {
				use(v)
			}
			data[i] ^= flip
		}
	}
}

const sample = "The farmer's 42 Äpfel <br>\u2581 ﬁ\u0301 Ａ\u030a\xff\x00 日本 __tag__."

// use encodes and decodes, for its panics.
func use(v Vocabulary) {
	ids := v.Encode(sample, nil)
	v.EncodePieces(sample)
	for id := range int32(min(v.Size(), 64)) {
		ids = append(ids, id)
	}
	v.Decode(ids, nil)
	v.Suppressed()
}

// TestLongLines: the time must grow with the length of a line, not with its square.
func TestLongLines(t *testing.T) {
	models := slices.Clone(ownModels)
	for _, options := range []string{"--model_type=bpe --split_by_whitespace=false", "--model_type=char"} {
		models = append(models, train(t, options))
	}
	models = append(models, sharedtest.Path(t, "models/ende-tiny/vocab.spm"))
	length := 1 << 19
	if testing.Short() {
		length = 1 << 17
	}
	lines := map[string]string{
		"words":   strings.Repeat("the old farmer sold ", length/20),
		"letter":  strings.Repeat("a", length),
		"digits":  strings.Repeat("1234567890", 5000),
		"spaces":  strings.Repeat(" ", length),
		"symbol":  strings.Repeat(spaceSymbol, length/3),
		"unknown": strings.Repeat("👩‍👩‍👧‍👦", length/25),
		"invalid": strings.Repeat("\xff", length),
	}
	for _, model := range models {
		v := mustOpen(t, model)
		for name, line := range lines {
			start := time.Now()
			ids := v.Encode(line, nil)
			v.EncodePieces(line)
			v.Decode(ids, nil)
			if took := time.Since(start); took > time.Minute {
				t.Errorf("%s: %s took %v", model, name, took)
			}
		}
	}
}

// TestConcurrentUse has the race detector look on, and checks that calls do not disturb each other.
func TestConcurrentUse(t *testing.T) {
	lines := randomLines(200)
	for _, model := range ownModels {
		v := mustOpen(t, model)
		want := make([]string, len(lines))
		for i, line := range lines {
			want[i] = string(v.Decode(v.Encode(line, nil), nil))
		}
		var group sync.WaitGroup
		for range 4 {
			group.Go(func() {
				var ids []int32
				for i, line := range lines {
					ids = v.Encode(line, ids[:0])
					if got := string(v.Decode(ids, nil)); got != want[i] {
						t.Errorf("%s: line %q gives %q, alone %q", model, line, got, want[i])
					}
				}
			})
		}
		group.Wait()
	}
}

func TestEncodeAppends(t *testing.T) {
	v := mustOpen(t, "testdata/unigram.spm")
	alone := v.Encode("the farmer", nil)
	if got := v.Encode("the farmer", []int32{7, 8}); !slices.Equal(got, append([]int32{7, 8}, alone...)) {
		t.Errorf("got %v, alone %v", got, alone)
	}
	if ids := v.Encode("", nil); len(ids) != 0 {
		t.Errorf("no text gives %v", ids)
	}
}

func TestClean(t *testing.T) {
	for text, want := range map[string]string{
		"":                              "",
		"plain text, größer – 日本":       "plain text, größer – 日本",
		"a\tb\nc\rd\x00e\x7ff":          "a b c d e f",
		"a\u0085b\u2028c\u2029d\u009f":  "a b c d ",
		"soft\u00a0space \u2027 \u202a": "soft\u00a0space \u2027 \u202a",
		"bad \xff\xfe bytes\xe2\x80":    "bad \ufffd bytes\ufffd",
		"\xc2":                          "\ufffd",
		"\ufffd":                        "\ufffd",
	} {
		if got := Clean(text); got != want {
			t.Errorf("Clean(%q) = %q, want %q", text, got, want)
		}
	}
}

// TestDecodeIsClean decodes pieces that spell control characters, one for each that exists, by bytes.
func TestDecodeIsClean(t *testing.T) {
	v := mustOpen(t, "testdata/unigram.spm")
	for r := range rune(0x2100) {
		var ids []int32
		for _, c := range []byte(string(r)) {
			id, _ := v.ID(pieceOfByte(c))
			ids = append(ids, id)
		}
		want := string(r)
		if breaksLine(r) {
			want = " "
		}
		if got := string(v.Decode(ids, []byte("a\n"))); got != "a\n"+want {
			t.Errorf("%U decodes to %q behind a line", r, got)
		}
	}
}
