package vocab

import (
	"archive/tar"
	"bufio"
	"bytes"
	"errors"
	"io"
	"iter"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/ulikunitz/xz"

	"github.com/sluice-mt/sluice/internal/sharedtest"
)

// The tests in this file compare with spm_encode and spm_decode, the programs of the original. By default they take a
// sample of the shared corpora; with SLUICE_ALL_LINES set they take every line.

// sharedModels are the SentencePiece models beside the checkout, ownModels those in testdata.
var (
	sharedModels = []string{
		"models/ende-tiny/vocab.spm",
		"models/reference/vocab/joint.spm",
		"models/reference/vocab/src.spm",
		"models/reference/vocab/trg.spm",
		"models/reference/vocab/bpe.spm",
	}
	ownModels = []string{"testdata/unigram.spm", "testdata/bpe.spm", "testdata/plain.spm"}
)

func allLines() bool { return os.Getenv("SLUICE_ALL_LINES") != "" }

func TestCorporaAsTheOriginal(t *testing.T) {
	for _, model := range sharedModels {
		t.Run(model, func(t *testing.T) {
			path := sharedtest.Path(t, model)
			total := 0
			corpusLines(t, func(lines []string) {
				compareWithOriginal(t, path, lines)
				total += len(lines)
			})
			t.Logf("%d lines", total)
		})
	}
}

// corpusLines calls f with the lines of the shared corpora, many at a time: some or all lines of each file.
func corpusLines(t *testing.T, f func(lines []string)) {
	t.Helper()
	folder := sharedtest.Path(t, "data")
	files, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	chunk := lineChunk{f: f, perFile: 400}
	switch {
	case allLines():
		chunk.perFile = 1 << 40
	case testing.Short():
		chunk.perFile = 50
	}
	for _, file := range files {
		path := filepath.Join(folder, file.Name())
		switch ext := filepath.Ext(path); {
		case strings.HasSuffix(path, ".tar.xz"):
			chunk.addArchive(t, path)
		case ext == ".xz":
			chunk.add(t, unpack(t, path))
		case ext == ".en" || ext == ".de":
			chunk.add(t, open(t, path))
		}
	}
	chunk.flush()
}

// A lineChunk collects lines and hands them on when there are many.
type lineChunk struct {
	f       func(lines []string)
	perFile int
	lines   []string
}

func (c *lineChunk) add(t *testing.T, r io.Reader) {
	t.Helper()
	n := 0
	for line := range lines(t, r) {
		c.lines = append(c.lines, line)
		if len(c.lines) == 100_000 {
			c.flush()
		}
		if n++; n == c.perFile {
			break
		}
	}
}

func (c *lineChunk) flush() {
	if len(c.lines) > 0 {
		c.f(c.lines)
	}
	c.lines = c.lines[:0]
}

// addArchive adds the files of an archive: all of them if all lines are wanted, as the archive is large and reaching
// its second file takes long.
func (c *lineChunk) addArchive(t *testing.T, path string) {
	t.Helper()
	archive := tar.NewReader(unpack(t, path))
	for {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		if header.Typeflag != tar.TypeReg {
			continue
		}
		if c.add(t, archive); !allLines() {
			return
		}
	}
}

func open(t testing.TB, path string) io.Reader {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { file.Close() })
	return bufio.NewReader(file)
}

func unpack(t testing.TB, path string) io.Reader {
	t.Helper()
	r, err := xz.NewReader(open(t, path))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func lines(t testing.TB, r io.Reader) iter.Seq[string] {
	return func(yield func(string) bool) {
		scanner := bufio.NewScanner(r)
		scanner.Buffer(nil, 1<<20)
		scanner.Split(scanRawLines)
		for scanner.Scan() {
			if !yield(scanner.Text()) {
				return
			}
		}
		if err := scanner.Err(); err != nil {
			t.Fatal(err)
		}
	}
}

// scanRawLines splits at line feeds and, unlike bufio.ScanLines, keeps carriage returns.
func scanRawLines(data []byte, atEOF bool) (int, []byte, error) {
	if i := bytes.IndexByte(data, '\n'); i >= 0 {
		return i + 1, data[:i], nil
	}
	if atEOF && len(data) > 0 {
		return len(data), data, nil
	}
	return 0, nil, nil
}

func TestRandomTextAsTheOriginal(t *testing.T) {
	n := 3000
	if testing.Short() {
		n = 300
	}
	for _, model := range ownModels {
		t.Run(model, func(t *testing.T) { compareWithOriginal(t, model, randomLines(n)) })
	}
	for _, model := range sharedModels {
		t.Run(model, func(t *testing.T) { compareWithOriginal(t, sharedtest.Path(t, model), randomLines(n)) })
	}
}

// randomLines returns lines of characters that are hard on a tokenizer. It returns the same ones every time.
func randomLines(n int) []string {
	r := rand.New(rand.NewPCG(1, 2))
	lines := make([]string, n)
	for i := range lines {
		var b strings.Builder
		for range r.IntN(40) {
			b.WriteString(randomText(r))
		}
		lines[i] = strings.ReplaceAll(b.String(), "\n", "")
	}
	return lines
}

// snippets are texts that meet special cases: spaces of all kinds, the space symbol, what normalisation changes,
// clusters of several characters, words, symbols of the models in testdata, and names of reserved pieces.
var snippets = []string{
	" ", "  ", " ", "\t", "\u00a0", "\u3000", "\u200b", "\u2028", "\u0085", "\r", "\u2581", "\u2581\u2581", " \u2581", "\u2581 ",
	"ﬁ", "A\u030a", "a\u0308", "e\u0301\u0323", "…", "ﷺ", "①", "Ａ", "ｶﾞ", "㍿", "½", "İ", "ß", "ſ", "Σς", "한국", "각",
	"👩‍👩‍👧‍👦", "🏳️‍🌈", "🇩🇪", "👍🏽", "日本語", "中文", "नमस्ते", "שלום", "مرحبا",
	"the", " the", "farmer", " größte", "Äpfel", " 10:30", "100,000", "don't", "Straßenfeger", "naïve", " —", "“",
	"__tag__", "__tag", "<br>", "<br", "<2de>", "</s>", "<unk>", "<s>", "<pad>", "<0x41>", "<0x0A>", "⁇",
	"a", "b", ".", ",", "0", "9", "\x00", "\x01", "\x1b", "\x7f", "\ufffd", "\ufeff",
	"\xff", "\xc0\xaf", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xe2\x96", "\xe2", "\xf0\x9f\x98", "\x80",
}

func randomText(r *rand.Rand) string {
	switch r.IntN(8) {
	case 0:
		return string(rune(r.IntN(0x110000)))
	case 1:
		return string(rune(r.IntN(0x3000)))
	case 2:
		return string([]byte{byte(r.IntN(256))})
	case 3, 4:
		return string(rune('a' + r.IntN(26)))
	}
	return snippets[r.IntN(len(snippets))]
}

func TestRandomIDsAsTheOriginal(t *testing.T) {
	for _, model := range ownModels {
		compareDecoding(t, model)
	}
	for _, model := range sharedModels {
		compareDecoding(t, sharedtest.Path(t, model))
	}
}

// compareDecoding decodes random ids, byte pieces and the first space above all.
func compareDecoding(t *testing.T, model string) {
	t.Helper()
	v := mustOpen(t, model)
	r := rand.New(rand.NewPCG(3, 4))
	lineFeed, _ := v.ID("<0x0A>") // would spoil the lines
	space, hasSpace := v.ID(spaceSymbol)
	sequences := make([][]int32, 2000)
	input := make([]string, len(sequences))
	for i := range sequences {
		for range 1 + r.IntN(12) {
			id := int32(r.IntN(v.Size()))
			switch {
			case r.IntN(4) == 0 && hasSpace:
				id = space
			case r.IntN(3) == 0:
				id = int32(r.IntN(min(v.Size(), 300)))
			}
			if id != lineFeed {
				sequences[i] = append(sequences[i], id)
			}
		}
		if len(sequences[i]) == 0 {
			sequences[i] = []int32{v.EOS()}
		}
		input[i] = joinIDs(sequences[i])
	}
	want := splitOutput(t, runOriginal(t, "spm_decode", model, "--input_format=id", strings.Join(input, "\n")+"\n"), len(input))
	for i, ids := range sequences {
		if got, want := string(v.Decode(ids, nil)), Clean(want[i]); got != want {
			t.Fatalf("%s: ids %v:\n got text %q\nwant text %q", model, ids, got, want)
		}
	}
}

// trainedModels are options of spm_train, each for a model that differs from the others in one thing.
var trainedModels = map[string]string{
	"user-defined symbols":  "--user_defined_symbols=the,▁farmer,<br>,__tag__,日本語,👩,New_York,a▁b",
	"user-defined, bpe":     "--model_type=bpe --user_defined_symbols=the,▁farmer,<br>,__tag__,日本語,👩,New_York,d▁a",
	"control symbols":       "--control_symbols=<2de>,farmer",
	"split digits":          "--split_digits",
	"no dummy prefix":       "--add_dummy_prefix=false",
	"spaces kept":           "--remove_extra_whitespaces=false",
	"spaces kept, bpe":      "--remove_extra_whitespaces=false --model_type=bpe",
	"spaces, no prefix":     "--remove_extra_whitespaces=false --add_dummy_prefix=false --byte_fallback",
	"space as suffix":       "--treat_whitespace_as_suffix",
	"space as suffix, bpe":  "--treat_whitespace_as_suffix --model_type=bpe",
	"pieces over spaces":    "--split_by_whitespace=false",
	"over spaces, bpe":      "--split_by_whitespace=false --model_type=bpe",
	"pieces of spaces":      "--allow_whitespace_only_pieces --remove_extra_whitespaces=false",
	"identity":              "--normalization_rule_name=identity",
	"nfkc_cf":               "--normalization_rule_name=nfkc_cf --model_type=bpe",
	"nmt_nfkc_cf":           "--normalization_rule_name=nmt_nfkc_cf",
	"nfkc":                  "--normalization_rule_name=nfkc --byte_fallback",
	"words":                 "--model_type=word",
	"characters":            "--model_type=char --user_defined_symbols=the,<br>",
	"characters and bytes":  "--model_type=char --byte_fallback",
	"default ids":           "--bos_id=1 --eos_id=2 --unk_id=0 --pad_id=3",
	"own names":             "--unk_piece=[UNK] --eos_piece=[END] --unk_surface=??",
	"denormalisation rules": "--denormalization_rule_tsv=testdata/rules.tsv",
}

func TestTrainedModelsAsTheOriginal(t *testing.T) {
	lines := append(randomLines(600), readLines(t, "testdata/text.txt")...)
	for name, options := range trainedModels {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			model := train(t, options)
			compareWithOriginal(t, model, lines)
			compareDecoding(t, model)
		})
	}
}

// train trains a small model with the given options and returns its path.
func train(t *testing.T, options string) string {
	t.Helper()
	prefix := filepath.Join(t.TempDir(), "model")
	args := []string{"--input=testdata/text.txt", "--model_prefix=" + prefix, "--vocab_size=420", "--num_threads=1",
		"--hard_vocab_limit=false", "--bos_id=-1", "--eos_id=0", "--unk_id=1", "--minloglevel=2"}
	for option := range strings.FieldsSeq(options) {
		args = append(args, strings.ReplaceAll(option, "_York", " York"))
	}
	if strings.Contains(options, "bpe") || strings.Contains(options, "word") {
		args = append(args, "--vocab_size=200")
	}
	output, err := exec.Command(sharedtest.Program(t, "spm_train"), args...).CombinedOutput()
	if err != nil {
		t.Fatalf("spm_train %s: %v\n%s", options, err, output)
	}
	return prefix + ".model"
}

func mustOpen(t testing.TB, path string) Vocabulary {
	t.Helper()
	v, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func readLines(t testing.TB, path string) []string {
	t.Helper()
	return slices.Collect(lines(t, open(t, path)))
}

// compareWithOriginal checks that lines are encoded as spm_encode does and decoded as spm_decode does.
func compareWithOriginal(t *testing.T, model string, lines []string) {
	t.Helper()
	v := mustOpen(t, model)
	input := strings.Join(lines, "\n") + "\n"
	wantIDs := splitOutput(t, runOriginal(t, "spm_encode", model, "--output_format=id", input), len(lines))
	wantPieces := splitOutput(t, runOriginal(t, "spm_encode", model, "--output_format=piece", input), len(lines))
	wantText := splitOutput(t, runOriginal(t, "spm_decode", model, "--input_format=id", strings.Join(wantIDs, "\n")+"\n"), len(lines))
	failures := 0
	check := func(i int, what, got, want string) {
		if got == want {
			return
		}
		t.Errorf("line %d %q:\n got %s %q\nwant %s %q", i+1, lines[i], what, got, what, want)
		if failures++; failures > 5 {
			t.Fatal("too many differences")
		}
	}
	var ids []int32
	for i, line := range lines {
		ids = v.Encode(line, ids[:0])
		check(i, "ids", joinIDs(ids), wantIDs[i])
		check(i, "pieces", strings.Join(v.EncodePieces(line), " "), wantPieces[i])
		if len(ids) > 0 {
			check(i, "text", string(v.Decode(ids, nil)), Clean(wantText[i]))
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
	lines := strings.Split(strings.TrimSuffix(string(output), "\n"), "\n")
	if len(lines) != n {
		t.Fatalf("the original wrote %d lines for %d", len(lines), n)
	}
	return lines
}
