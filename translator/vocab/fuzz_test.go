package vocab

import (
	"os"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// FuzzSentencePiece: whatever a model file holds, reading it ends in an error or in a vocabulary that works.
func FuzzSentencePiece(f *testing.F) {
	for _, model := range ownModels {
		data, err := os.ReadFile(model)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data, sample)
	}
	f.Fuzz(func(t *testing.T, data []byte, text string) {
		v, err := parse(data, sentencePieceFormat)
		if err != nil {
			return
		}
		use(v)
		checkIDs(t, v, text)
	})
}

// FuzzPlain does the same for YAML, JSON and text.
func FuzzPlain(f *testing.F) {
	f.Add([]byte("</s>: 0\n<unk>: 1\n\"the\": 2\n"), "the old")
	f.Add([]byte(`{"</s>": 0, "<unk>": 1, "the": 2}`), "the old")
	f.Add([]byte("</s>\n<unk>\nthe\n"), "the old")
	f.Fuzz(func(t *testing.T, data []byte, text string) {
		for _, format := range []format{mapFormat, textFormat} {
			v, err := parse(data, format)
			if err != nil {
				continue
			}
			checkIDs(t, v, text)
		}
	})
}

// FuzzLines: YAML read line by line gives what the YAML reader gives.
func FuzzLines(f *testing.F) {
	f.Add("</s>: 0\n\"<unk>\": 1\nthe: 2\n\": \": 3\n")
	f.Add("a: 1\n\"b c\": 2")
	f.Add("größe: 5\n日本: 12\nnull: 7\n")
	f.Fuzz(func(t *testing.T, text string) {
		byLine, err := lineEntries(text)
		if byLine == nil && err == nil {
			return
		}
		byReader, readerErr := yamlEntries([]byte(text))
		if (err == nil) != (readerErr == nil) {
			t.Fatalf("%q: line by line %v, read as YAML %v", text, err, readerErr)
		}
		if err == nil && !slices.Equal(byLine.tokens, byReader.tokens) {
			t.Errorf("%q: line by line %q, read as YAML %q", text, byLine.tokens, byReader.tokens)
		}
	})
}

// FuzzDecompress: damaged archives end in an error.
func FuzzDecompress(f *testing.F) {
	f.Add(gzipped(f, []byte(sample)))
	f.Add(zstandard(f, []byte(sample)))
	f.Fuzz(func(t *testing.T, data []byte) {
		if out, err := decompress(data); err == nil && len(out) > maxFile {
			t.Errorf("%d bytes", len(out))
		}
	})
}

// checkIDs checks what holds for any vocabulary and text.
func checkIDs(t *testing.T, v Vocabulary, text string) {
	t.Helper()
	ids := v.Encode(text, nil)
	if pieces := v.EncodePieces(text); len(pieces) != len(ids) {
		t.Errorf("%d ids but %d pieces", len(ids), len(pieces))
	}
	for _, id := range ids {
		if id < 0 || int(id) >= v.Size() {
			t.Errorf("id %d in a vocabulary of %d", id, v.Size())
		}
	}
	decoded := string(v.Decode(ids, nil))
	if Clean(decoded) != decoded || !utf8.ValidString(decoded) {
		t.Errorf("decoded text %q is not clean", decoded)
	}
}

// FuzzRoundTrip: with bytes to fall back on, decoding gives the normalised text back.
func FuzzRoundTrip(f *testing.F) {
	f.Add(sample)
	for _, line := range randomLines(50) {
		f.Add(line)
	}
	var models []*sentencePiece
	for _, path := range []string{"testdata/unigram.spm", "testdata/bpe.spm"} {
		models = append(models, mustOpen(f, path).(*sentencePiece))
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, model := range models {
			checkIDs(t, model, text)
			normalized := string(model.normalizer.append(nil, text))
			// Spaces at the start are not kept, the space symbols of the text itself among them.
			want := strings.TrimLeft(Clean(strings.ReplaceAll(normalized, spaceSymbol, " ")), " ")
			got := strings.TrimLeft(string(model.Decode(model.Encode(text, nil), nil)), " ")
			if got != want {
				t.Errorf("%q\n got %q\nwant %q", text, got, want)
			}
		}
	})
}

// FuzzClean: what Clean returns has no control characters, is valid UTF-8, and is not changed again.
func FuzzClean(f *testing.F) {
	f.Add("a\tb\u0085\u2028\xff\xc2")
	f.Fuzz(func(t *testing.T, text string) {
		clean := Clean(text)
		if strings.ContainsFunc(clean, breaksLine) || !utf8.ValidString(clean) || Clean(clean) != clean {
			t.Errorf("Clean(%q) = %q", text, clean)
		}
	})
}
