package pieces

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/sluice-mt/sluice/internal/sharedtest"
	"github.com/sluice-mt/sluice/translator/vocab"
)

// fromLines returns a corpus of some lines.
func fromLines(lines []string) Corpus {
	return func(yield func(string) error) error {
		for _, line := range lines {
			if err := yield(line); err != nil {
				return err
			}
		}
		return nil
	}
}

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

func readLines(t testing.TB, path string) []string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSuffix(string(data), "\n"), "\n")
}

// ownText is a small text in several scripts.
func ownText(t testing.TB) []string { return readLines(t, "../../translator/vocab/testdata/text.txt") }

// translationMap is the compiled form of nmt_nfkc, which takes a second to make.
var translationMap = sync.OnceValue(func() []byte {
	rules, err := NamedRules("nmt_nfkc")
	if err != nil {
		panic(err)
	}
	blob, err := vocab.CompileRules(rules)
	if err != nil {
		panic(err)
	}
	return blob
})

// smallOptions are those that suit ownText.
func smallOptions() Options {
	options := Defaults()
	options.Normalizer.CharacterMap = translationMap()
	options.Spec.VocabSize = 440
	options.Spec.SoftVocabLimit = true
	options.Spec.CharacterCoverage = 0.995
	return options
}

func train(t testing.TB, lines []string, options Options) ([]byte, *Result) {
	t.Helper()
	result, err := Train(t.Context(), fromLines(lines), options, quiet())
	if err != nil {
		t.Fatal(err)
	}
	data, err := result.Model.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	return data, result
}

func TestLayout(t *testing.T) {
	options := smallOptions()
	options.Spec.ControlSymbols = []string{"<2de>"}
	options.Spec.UserDefinedSymbols = []string{"__tag__"}
	_, result := train(t, ownText(t), options)
	v, err := result.Model.Vocabulary()
	if err != nil {
		t.Fatal(err)
	}
	if v.EOS() != 0 || v.Unk() != 1 || v.Piece(2) != "<2de>" || v.Piece(3) != "__tag__" || v.Piece(4) != "<0x00>" || v.Piece(259) != "<0xFF>" {
		t.Errorf("the first pieces are %q %q %q %q %q", v.Piece(0), v.Piece(1), v.Piece(2), v.Piece(3), v.Piece(4))
	}
	if v.Size() != 440 {
		t.Errorf("%d pieces", v.Size())
	}
	pieces := result.Model.Pieces[260:]
	if !slices.IsSortedFunc(pieces, func(a, b vocab.ModelPiece) int { return int(100 * (b.Score - a.Score)) }) {
		t.Error("the pieces are not sorted by their scores")
	}
	if got := v.EncodePieces("das __tag__\u4e09"); !slices.Contains(got, "__tag__") || !slices.Contains(got, "<0xE4>") {
		t.Errorf("pieces %q", got)
	}
}

// variants are options that each change one thing.
var variants = map[string]func(*Options){
	"defaults":        func(*Options) {},
	"no bytes":        func(o *Options) { o.Spec.ByteFallback = false },
	"own ids":         func(o *Options) { o.Spec.UnkID, o.Spec.BOSID, o.Spec.EOSID, o.Spec.PadID = 0, 1, 2, 7 },
	"own names":       func(o *Options) { o.Spec.UnkPiece, o.Spec.EOSPiece, o.Spec.UnkSurface = "[UNK]", "[END]", "??" },
	"symbols":         func(o *Options) { o.Spec.UserDefinedSymbols = []string{"the", "\u2581farmer", "<br>", "日本語"} },
	"control symbols": func(o *Options) { o.Spec.ControlSymbols = []string{"<2de>", "farmer"} },
	"digits":          func(o *Options) { o.Spec.SplitDigits = true },
	"suffix":          func(o *Options) { o.Spec.WhitespaceAsSuffix = true },
	"spaces kept":     func(o *Options) { o.Normalizer.RemoveExtraWhitespaces, o.Spec.WhitespaceOnlyPieces = false, true },
	"no dummy prefix": func(o *Options) { o.Normalizer.AddDummyPrefix = false },
	"across words":    func(o *Options) { o.Spec.SplitByWhitespace = false },
	"across scripts":  func(o *Options) { o.Spec.SplitByScript, o.Spec.SplitByNumber = false, false },
	"identity":        func(o *Options) { o.Normalizer.Name, o.Normalizer.CharacterMap = "identity", nil },
	"lower case":      func(o *Options) { o.Normalizer.Name, o.Normalizer.CharacterMap = "nmt_nfkc_cf", nil },
	"own rules": func(o *Options) {
		o.Normalizer.Name, o.Rules = "own", Rules{"ä": "ae", "Ä": "Ae", " - ": "-", "x": ""}
	},
	"all characters":     func(o *Options) { o.Spec.CharacterCoverage, o.Spec.VocabSize = 1, 900 },
	"BPE":                func(o *Options) { o.Spec.Type = vocab.BPEModel },
	"BPE across words":   func(o *Options) { o.Spec.Type, o.Spec.SplitByWhitespace = vocab.BPEModel, false },
	"BPE with symbols":   func(o *Options) { o.Spec.Type, o.Spec.UserDefinedSymbols = vocab.BPEModel, []string{"the", "<br>"} },
	"BPE, spaces kept":   func(o *Options) { o.Spec.Type, o.Normalizer.RemoveExtraWhitespaces = vocab.BPEModel, false },
	"required character": func(o *Options) { o.Spec.RequiredChars = "żЖ" },
}

// TestTheOriginalReadsIt: whatever the options, the original loads the vocabulary, and divides and joins text as our reader does.
func TestTheOriginalReadsIt(t *testing.T) {
	lines := append(ownText(t), hardLines...)
	for name, change := range variants {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			options := smallOptions()
			change(&options)
			data, _ := train(t, ownText(t), options)
			compareWithOriginal(t, data, lines)
		})
	}
}

// hardLines hold what normalisation changes, characters that have no pieces, and names of special symbols.
var hardLines = []string{
	"  two  spaces ", "ﬁne № ①Ａ…", "A\u030angstro\u0308m", "日本語 カタカナ", "👩‍👩‍👧 🇩🇪", "a\u00a0b\u200bc\tc", "</s> <unk> <0x41> <2de>", "\u2581", "x - y",
	"Ähnliches 12:30, 100,000 Żubr Жук", "\x01\x7f", "__tag__<br>the farmer",
}

func compareWithOriginal(t *testing.T, data []byte, lines []string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "vocab.spm")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	v, err := vocab.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	want := original(t, lines, "spm_encode", "--model="+path, "--output_format=id")
	texts := original(t, want, "spm_decode", "--model="+path, "--input_format=id")
	for i, line := range lines {
		ids := v.Encode(line, nil)
		if got := joined(ids); got != want[i] {
			t.Errorf("%q has the ids %s, in the original %s", line, got, want[i])
		}
		if got := string(v.Decode(ids, nil)); len(ids) > 0 && got != vocab.Clean(texts[i]) {
			t.Errorf("%q comes back as %q, in the original as %q", line, got, texts[i])
		}
	}
}

func joined(ids []int32) string {
	words := make([]string, len(ids))
	for i, id := range ids {
		words[i] = strconv.Itoa(int(id))
	}
	return strings.Join(words, " ")
}

// original runs a program of the original on some lines.
func original(t *testing.T, lines []string, program string, arguments ...string) []string {
	t.Helper()
	command := exec.CommandContext(t.Context(), sharedtest.Program(t, program), arguments...)
	command.Stdin = strings.NewReader(strings.Join(lines, "\n") + "\n")
	var stderr bytes.Buffer
	command.Stderr = &stderr
	output, err := command.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s", program, err, stderr.Bytes())
	}
	out := strings.Split(strings.TrimSuffix(string(output), "\n"), "\n")
	if len(out) != len(lines) {
		t.Fatalf("%s wrote %d lines for %d", program, len(out), len(lines))
	}
	return out
}

// TestAsGoodAsTheOriginal: a sample of both languages takes as many pieces as with a vocabulary that the original has trained on
// the same text with the same options, within 1 %. So does text that neither has seen.
func TestAsGoodAsTheOriginal(t *testing.T) {
	if testing.Short() {
		t.Skip("the original takes long")
	}
	program := sharedtest.Program(t, "spm_train")
	var text, unseen []string
	for _, name := range []string{"bench-short.en", "test-wmt14-en-de.de", "test-wmt15-en-de.en", "test-wmt15-en-de.de", "dev.de", "dev.en"} {
		lines := readLines(t, sharedtest.Path(t, "data", name))
		text = append(text, lines[:min(len(lines), 2000)]...)
	}
	for _, name := range []string{"test-mix.en", "test-mix.de"} {
		unseen = append(unseen, readLines(t, sharedtest.Path(t, "data", name))...)
	}
	folder := t.TempDir()
	input := filepath.Join(folder, "text")
	if err := os.WriteFile(input, []byte(strings.Join(text, "\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	output, err := exec.CommandContext(t.Context(), program, "--input="+input, "--model_prefix="+filepath.Join(folder, "theirs"), "--vocab_size=3000",
		"--bos_id=-1", "--eos_id=0", "--unk_id=1", "--byte_fallback", "--num_threads=2", "--minloglevel=1").CombinedOutput()
	if err != nil {
		t.Fatalf("spm_train: %v\n%s", err, output)
	}
	theirs, err := vocab.Open(filepath.Join(folder, "theirs.model"))
	if err != nil {
		t.Fatal(err)
	}
	options := Defaults()
	options.Spec.VocabSize, options.Normalizer.CharacterMap = 3000, translationMap()
	data, result := train(t, text, options)
	compareWithOriginal(t, data, unseen)
	ours, err := result.Model.Vocabulary()
	if err != nil {
		t.Fatal(err)
	}
	for name, lines := range map[string][]string{"trained on": text, "unseen": unseen} {
		got, want := piecesOf(ours, lines), piecesOf(theirs, lines)
		share := 100 * (float64(got)/float64(want) - 1)
		t.Logf("%s: %d sentences, %d pieces, with the original %d: %+.2f %%", name, len(lines), got, want, share)
		if share > 1 {
			t.Errorf("%s: more than 1 %% more pieces", name)
		}
		if share < -5 {
			t.Errorf("%s: so few pieces that they cannot be the same options", name)
		}
	}
}

func piecesOf(v vocab.Vocabulary, lines []string) int {
	n := 0
	var ids []int32
	for _, line := range lines {
		ids = v.Encode(line, ids[:0])
		n += len(ids)
	}
	return n
}

// TestWorkersMakeNoDifference: not to the last bit, sampling and forgetting included.
func TestWorkersMakeNoDifference(t *testing.T) {
	// Enough words for several blocks, and sentences for several chunks.
	text := make([]string, 3*chunkSize)
	r := rand.New(rand.NewPCG(1, 1))
	for i := range text {
		for range 5 {
			for range 1 + r.IntN(3) {
				text[i] += string(rune('a'+r.IntN(26))) + string("aeiou"[r.IntN(5)])
			}
			text[i] += " "
		}
	}
	var first []byte
	for _, workers := range []int{1, 2, 7} {
		options := smallOptions()
		options.Spec.VocabSize = 1000
		options.Workers = workers
		options.Spec.InputSentenceSize = len(text) * 3 / 4
		options.MaxWords = 5000
		data, result := train(t, text, options)
		if result.Forgotten == 0 || result.Words > 5000 || int(result.Sentences) != options.Spec.InputSentenceSize {
			t.Fatalf("of %d sentences %d were taken; %d words, %d forgotten", len(text), result.Sentences, result.Words, result.Forgotten)
		}
		if first == nil {
			first = data
		}
		if !bytes.Equal(data, first) {
			t.Errorf("%d workers make another vocabulary", workers)
		}
	}
}

// TestSample: exactly as many sentences as wanted, all with the same probability.
func TestSample(t *testing.T) {
	const sentences, wanted, rounds = 20, 7, 4000
	lines := make([]string, sentences)
	for i := range lines {
		lines[i] = "x"
	}
	lines = append(lines, "", strings.Repeat("x", 5000)) // which do not count
	var taken [sentences]int
	for seed := range uint64(rounds) {
		options := Defaults()
		options.Seed, options.Spec.InputSentenceSize = seed, wanted
		s, err := newSample(t.Context(), fromLines(lines), &options)
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for i := range taken {
			if s.takes() {
				taken[i]++
				n++
			}
		}
		if n != wanted {
			t.Fatalf("%d sentences of %d", n, wanted)
		}
	}
	for i, n := range taken {
		// The standard deviation is 30.
		if want := rounds * wanted / sentences; n < want-150 || n > want+150 {
			t.Errorf("sentence %d was taken %d times, not about %d", i, n, want)
		}
	}
	all := &sample{}
	if !all.takes() {
		t.Error("without a wish all are taken")
	}
}

// TestCoverage: required characters and the characters that cover the text are pieces, others are not.
func TestCoverage(t *testing.T) {
	lines := []string{strings.Repeat("a", 989), strings.Repeat("b", 6), "ccc", "dd"}
	options := Defaults()
	options.Spec.SoftVocabLimit, options.Normalizer.AddDummyPrefix = true, false
	options.Normalizer.CharacterMap = translationMap()
	options.Spec.CharacterCoverage, options.Spec.RequiredChars = 0.995, "dz"
	_, result := train(t, lines, options)
	v, err := result.Model.Vocabulary()
	if err != nil {
		t.Fatal(err)
	}
	for piece, want := range map[string]bool{"a": true, "b": true, "c": false, "d": true, "z": true} {
		if _, ok := v.ID(piece); ok != want {
			t.Errorf("%s is a piece: %v", piece, ok)
		}
	}
}

func TestWhatCannotBe(t *testing.T) {
	text := ownText(t)
	for name, c := range map[string]struct {
		change func(*Options)
		lines  []string
		want   error
		says   string
	}{
		"no text":            {func(*Options) {}, nil, ErrCorpus, "no characters"},
		"only spaces":        {func(*Options) {}, []string{" ", "\t"}, ErrCorpus, "no characters"},
		"too small":          {func(o *Options) { o.Spec.VocabSize = 270 }, text, ErrCorpus, "no room for"},
		"smaller":            {func(o *Options) { o.Spec.VocabSize = 100 }, text, ErrOptions, "no room for pieces"},
		"too large":          {func(o *Options) { o.Spec.VocabSize, o.Spec.SoftVocabLimit = 50000, false }, text, ErrCorpus, "only "},
		"hole":               {func(o *Options) { o.Spec.VocabSize, o.Spec.PadID = 50000, 49999 }, text, ErrCorpus, "none for id"},
		"ids":                {func(o *Options) { o.Spec.BOSID = 0 }, text, ErrOptions, "the same id 0"},
		"id":                 {func(o *Options) { o.Spec.PadID = 440 }, text, ErrOptions, "not below"},
		"no end of sentence": {func(o *Options) { o.Spec.EOSID = -1 }, text, ErrOptions, "needs an id"},
		"names":              {func(o *Options) { o.Spec.EOSPiece = "<unk>" }, text, ErrOptions, "two symbols"},
		"twice":              {func(o *Options) { o.Spec.UserDefinedSymbols = []string{"a", "a"} }, text, ErrOptions, "already defined"},
		"space":              {func(o *Options) { o.Spec.UserDefinedSymbols = []string{"a b"} }, text, ErrOptions, "holds a space"},
		"long symbol":        {func(o *Options) { o.Spec.ControlSymbols = []string{strings.Repeat("a", 100_000)} }, nil, ErrOptions, "100000 bytes"},
		"long unknown":       {func(o *Options) { o.Spec.UnkPiece = strings.Repeat("a", vocab.MaxPiece+1) }, nil, ErrOptions, "4097 bytes"},
		"spaced end":         {func(o *Options) { o.Spec.EOSPiece = "the end" }, nil, ErrOptions, "holds a space"},
		"empty symbol":       {func(o *Options) { o.Spec.ControlSymbols = []string{""} }, text, ErrOptions, "empty"},
		"rules":              {func(o *Options) { o.Normalizer = vocab.NormalizerSpec{Name: "nfx"} }, text, ErrOptions, "nmt_nfkc"},
		"bad rules":          {func(o *Options) { o.Rules = Rules{"": "x"} }, text, ErrOptions, "replaces nothing"},
		"coverage":           {func(o *Options) { o.Spec.CharacterCoverage = 0.5 }, text, ErrOptions, "0.98"},
		"shrinking":          {func(o *Options) { o.Spec.ShrinkingFactor = 1 }, text, ErrOptions, "0.95"},
		"iterations":         {func(o *Options) { o.Spec.SubIterations = 0 }, text, ErrOptions, "sub-iterations"},
		"length":             {func(o *Options) { o.Spec.MaxPieceLength = 0 }, text, ErrOptions, "length"},
		"sentences":          {func(o *Options) { o.Spec.InputSentenceSize = -1 }, text, ErrOptions, "sample"},
		"workers":            {func(o *Options) { o.Workers = 0 }, text, ErrOptions, "workers"},
	} {
		options := smallOptions()
		c.change(&options)
		_, err := Train(t.Context(), fromLines(c.lines), options, quiet())
		if !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %v and %q", name, err, c.want, c.says)
		}
	}
}

func TestErrorsOfTheCorpus(t *testing.T) {
	broken := errors.New("broken")
	for _, after := range []int{0, 1, chunkSize, 3*chunkSize + 1} {
		_, err := Train(t.Context(), func(yield func(string) error) error {
			for range after {
				if err := yield("a text"); err != nil {
					return err
				}
			}
			return broken
		}, smallOptions(), quiet())
		if err != broken {
			t.Errorf("after %d sentences: %v", after, err)
		}
	}
}

func TestCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	n := 0
	_, err := Train(ctx, func(yield func(string) error) error {
		for {
			if n++; n == 2*chunkSize {
				cancel()
			}
			if err := yield("a text"); err != nil {
				return err
			}
		}
	}, smallOptions(), quiet())
	if !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

// FuzzTrain: whatever the text and the options, training ends in an error or in a vocabulary that gives all text back.
func FuzzTrain(f *testing.F) {
	for _, line := range append(hardLines, "the old farmer, der alte Bauer\nthe farmer 12 12 123") {
		f.Add(line, uint16(0))
		f.Add(line, uint16(0x5a5a))
	}
	rules := Rules{"ab": "b", "\u0301": "", "é": "e"} // quicker than Unicode's
	f.Fuzz(func(t *testing.T, text string, bits uint16) {
		options := Defaults()
		options.Rules, options.Normalizer.Name = rules, "own"
		options.Spec.VocabSize = 259 + int(bits%97)
		options.Spec.SoftVocabLimit = true
		options.Workers = 1 + int(bits&1)
		if bits>>9&1 != 0 {
			options.Spec.Type = vocab.BPEModel
		}
		flags := []*bool{
			&options.Spec.SplitByScript, &options.Spec.SplitByWhitespace, &options.Spec.SplitDigits, &options.Spec.WhitespaceAsSuffix,
			&options.Spec.WhitespaceOnlyPieces, &options.Normalizer.AddDummyPrefix, &options.Normalizer.RemoveExtraWhitespaces, &options.Spec.SplitByNumber,
		}
		for i, flag := range flags {
			*flag = bits>>(i+1)&1 != 0
		}
		lines := strings.Split(text, "\n")
		result, err := Train(t.Context(), fromLines(lines), options, quiet())
		if err != nil {
			if !errors.Is(err, ErrCorpus) {
				t.Fatal(err)
			}
			return
		}
		v, err := result.Model.Vocabulary()
		if err != nil {
			t.Fatal(err)
		}
		d := newDivider(&options.Spec, nil, nil)
		for _, p := range result.Model.Pieces {
			if p.Kind == vocab.NormalPiece && !d.allows([]rune(p.Text)) {
				t.Errorf("piece %q", p.Text)
			}
		}
		for _, line := range lines {
			normalizer, err := result.Model.NewNormalizer()
			if err != nil {
				t.Fatal(err)
			}
			want := strings.ReplaceAll(string(normalizer.Append(nil, line)), spaceSymbolText, " ")
			if got := string(v.Decode(v.Encode(line, nil), nil)); strings.TrimSpace(got) != strings.TrimSpace(vocab.Clean(want)) {
				t.Errorf("%q comes back as %q, not %q", line, got, want)
			}
		}
	})
}
