package train

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-mt/sluice/translator/marian"
)

// writtenTensors returns the parameters of the model that a run wrote.
func writtenTensors(t *testing.T, path string) map[string][]float32 {
	t.Helper()
	file, err := marian.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	tensors := map[string][]float32{}
	for _, tensor := range file.Tensors {
		values, err := tensor.Float32()
		if err != nil {
			t.Fatal(err)
		}
		tensors[tensor.Name] = slices.Clone(values)
	}
	return tensors
}

// TestLanguageModelAsDecoder starts a translation model from a language model: the decoder is the language model's, the encoder
// and the attention to it are random.
func TestLanguageModelAsDecoder(t *testing.T) {
	folder := t.TempDir()
	toy(t, folder, 50)
	c := toyConfig(folder)
	c.DispFreq = 1
	language := c
	language.Type, language.TrainSets, language.Model = "lm-transformer", c.TrainSets[1:], filepath.Join(folder, "lm.npz")
	language.AfterBatches = 100
	mustRun(t, language)
	still := c
	still.PretrainedModel, still.AfterBatches, still.LearnRate = language.Model, 1, 1e-12
	mustRun(t, still)
	random := still
	random.PretrainedModel, random.Model = "", filepath.Join(folder, "random.npz")
	mustRun(t, random)
	decoder, own, fresh := writtenTensors(t, language.Model), writtenTensors(t, still.Model), writtenTensors(t, random.Model)
	taken := 0
	for name, values := range own {
		want := fresh[name]
		if theirs, ok := decoder[name]; ok {
			want = theirs
			taken++
		}
		for i, v := range values {
			if math.Abs(float64(v-want[i])) > 1e-6 {
				t.Fatalf("%s[%d] is %v, want %v", name, i, v, want[i])
			}
		}
	}
	if taken != len(decoder) || taken < 10 || taken == len(own) {
		t.Errorf("of %d parameters of the language model %d were taken, for a model of %d", len(decoder), taken, len(own))
	}
	other := still
	other.Model, other.DimFFN = filepath.Join(folder, "other.npz"), 48
	if _, err := Run(testContext(t), other, silence()); !errors.Is(err, ErrConfig) || !strings.Contains(err.Error(), "ffn_W1 is 32×64, but here it is 32×48") {
		t.Errorf("another size: %v", err)
	}
}

// vectorFile writes vectors for the first pieces, 0.01·(row+1) in all places of a row.
func vectorFile(t *testing.T, folder string, rows, columns int) string {
	t.Helper()
	var b strings.Builder
	fmt.Fprintf(&b, "%d %d\n", rows+1, columns)
	for row := range rows {
		fmt.Fprintf(&b, "%d%s\n", row, strings.Repeat(fmt.Sprintf(" %g", 0.01*float64(row+1)), columns))
	}
	fmt.Fprintf(&b, "9999%s\n", strings.Repeat(" 1", columns))
	path := filepath.Join(folder, "vectors")
	if err := os.WriteFile(path, []byte(b.String()), 0o666); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestEmbeddingVectors trains with embeddings from a file. Those that are fixed are the file's to the last bit.
func TestEmbeddingVectors(t *testing.T) {
	folder := t.TempDir()
	toy(t, folder, 50)
	c := toyConfig(folder)
	c.TiedEmbeddingsAll, c.TiedEmbeddings = false, true
	vectors := vectorFile(t, folder, 20, c.DimEmb)
	c.EmbeddingVectors, c.EmbeddingFixSrc, c.AfterBatches = []string{vectors, vectors}, true, 20
	mustRun(t, c)
	tensors := writtenTensors(t, c.Model)
	source, target := tensors["encoder_Wemb"], tensors["decoder_Wemb"]
	moved := false
	for i := range 20 * c.DimEmb {
		want := float32(0.01 * float64(i/c.DimEmb+1))
		if source[i] != want {
			t.Fatalf("source embedding %d is %v, want %v", i, source[i], want)
		}
		moved = moved || target[i] != want
	}
	if !moved {
		t.Error("the target's embeddings, which are not fixed, have not moved")
	}
	c.Model, c.EmbeddingFixSrc, c.EmbeddingFixTrg, c.EmbeddingNormalization = filepath.Join(folder, "normalised.npz"), false, true, true
	c.TiedEmbeddings = false
	mustRun(t, c)
	square := 0.0
	for _, v := range writtenTensors(t, c.Model)["decoder_Wemb"] {
		square += float64(v) * float64(v)
	}
	if math.Abs(square-1) > 1e-5 {
		t.Errorf("the square of normalised embeddings is %v", square)
	}
	c.Model, c.EmbeddingVectors = filepath.Join(folder, "one.npz"), []string{vectors}
	if _, err := Run(testContext(t), c, silence()); !errors.Is(err, ErrConfig) {
		t.Errorf("one file for two sides: %v", err)
	}
}

// TestSharedVectors: of a table that both sides share, the source's file and the source's setting count.
func TestSharedVectors(t *testing.T) {
	folder := t.TempDir()
	toy(t, folder, 20)
	c := toyConfig(folder)
	c.EmbeddingVectors, c.AfterBatches = []string{vectorFile(t, folder, 30, c.DimEmb), ""}, 3
	for _, test := range []struct{ source, target, fixed bool }{{true, false, true}, {false, true, false}} {
		c.Model = filepath.Join(folder, fmt.Sprint(test.fixed)+".npz")
		c.EmbeddingFixSrc, c.EmbeddingFixTrg = test.source, test.target
		mustRun(t, c)
		if same := writtenTensors(t, c.Model)["Wemb"][0] == 0.01; same != test.fixed {
			t.Errorf("%+v: the embeddings are the same: %t", test, same)
		}
	}
}

func TestReadVectorsRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"":                    "no vector",
		"2 3\n":               "line 1 is \"2 3\"",
		"2\n":                 "line 1 is \"2\"",
		"2 2\n0 1\n":          "line 2 has 2 fields",
		"2 2\n0 1 2 3\n":      "line 2 has 4 fields",
		"2 2\n0 1 2\nx 1 2\n": "line 3 begins with \"x\"",
		"2 2\n-1 1 2\n":       "line 2 begins with \"-1\"",
		"2 2\n0 1 NaN\n":      "line 2 holds \"NaN\"",
		"2 2\n0 1 1e99\n":     "line 2 holds \"1e99\"",
		"2 2\n7 1 2\n":        "no vector",
		"2 2\n" + strings.Repeat("1", maxVectorLine+1): "line 2 has more than",
	} {
		_, err := readVectors(strings.NewReader(text), 4, 2, make([]float32, 8))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40q: %v, want %q", text, err, want)
		}
	}
	into := []float32{9, 9, 9, 9}
	if found, err := readVectors(strings.NewReader("1 2\r\n1 0.5 -2\r\n"), 2, 2, into); err != nil || found != 1 || !slices.Equal(into, []float32{9, 9, 0.5, -2}) {
		t.Errorf("%v, %d found, %v", into, found, err)
	}
}

func FuzzReadVectors(f *testing.F) {
	f.Add("2 2\n0 1 2\n1 3 4\n")
	f.Add("1 2\n3 1e-3 -0\n9 0 0\n")
	f.Fuzz(func(t *testing.T, text string) {
		into := make([]float32, 10)
		found, err := readVectors(strings.NewReader(text), 4, 2, into)
		if (err == nil) != (found > 0) || found > 4 || into[8] != 0 || into[9] != 0 {
			t.Errorf("%d found, %v, %v", found, into, err)
		}
		for _, v := range into {
			if math.IsNaN(float64(v)) || math.IsInf(float64(v), 0) {
				t.Errorf("%v was read", into)
			}
		}
	})
}
