package model

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/sluice-mt/sluice/internal/sharedtest"
	"github.com/sluice-mt/sluice/translator/marian"
)

func open(t testing.TB, elements ...string) *marian.File {
	t.Helper()
	file, err := marian.Open(sharedtest.Path(t, append([]string{"models"}, elements...)...))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := file.Close(); err != nil {
			t.Error(err)
		}
	})
	return file
}

// TestReference loads every transformer that Marian trained for these tests, and compares with its list of tensors.
func TestReference(t *testing.T) {
	for name, want := range map[string]Autoregression{
		"transformer-selfatt": SelfAttention, "transformer-prenorm": SelfAttention, "transformer-aan": AverageAttention,
		"transformer-aan-plain": AverageAttention, "transformer-ssru-tied": SSRU, "transformer-sru": SRU,
		"transformer-untied": SelfAttention, "transformer-rms": SelfAttention, "right-left": SelfAttention, "lm-transformer": SelfAttention,
		"multi-transformer": SelfAttention,
	} {
		t.Run(name, func(t *testing.T) {
			m, err := Load(open(t, "reference", name, "model.npz"), nil)
			if err != nil {
				t.Fatal(err)
			}
			if m.Autoregression != want {
				t.Errorf("autoregression is %v, want %v", m.Autoregression, want)
			}
			r := m.Report()
			if len(r.Unknown) > 0 {
				t.Errorf("unknown tensors %v", r.Unknown)
			}
			if listed := listedParameters(t, name); r.Parameters != listed {
				t.Errorf("%d parameters, want %d", r.Parameters, listed)
			}
			if r.Precision != "float32" || r.Alphas != 0 {
				t.Errorf("precision %q with %d alphas", r.Precision, r.Alphas)
			}
			if m.RightLeft != (name == "right-left") || m.HasEncoder() != (name != "lm-transformer") {
				t.Errorf("right-left %v, encoder %v", m.RightLeft, m.HasEncoder())
			}
		})
	}
}

// listedParameters reads the number of parameters from the last line of names.txt: "# 87 entries, 305680 parameters".
func listedParameters(t *testing.T, name string) int64 {
	data, err := os.ReadFile(sharedtest.Path(t, "models", "reference", name, "names.txt"))
	if err != nil {
		t.Fatal(err)
	}
	fields := strings.Fields(string(data[strings.LastIndex(string(data), "#"):]))
	n, err := strconv.ParseInt(fields[3], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestTiedLayers(t *testing.T) {
	m, err := Load(open(t, "reference", "transformer-ssru-tied", "model.npz"), nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(m.Decoder) != 2 || m.Decoder[0] != m.Decoder[1] {
		t.Error("the decoder's two layers should be one")
	}
}

func TestStudent(t *testing.T) {
	for _, c := range []struct {
		file, precision string
		alphas          int
	}{{"model.npz", "float16", 0}, {"model.intgemm.alphas.bin", "int8", 54}} {
		m, err := Load(open(t, "ende-tiny", c.file), nil)
		if err != nil {
			t.Fatal(err)
		}
		r := m.Report()
		if r.Precision != c.precision || r.Alphas < c.alphas || r.Parameters != 16907008 || len(r.Missing) > 0 {
			t.Errorf("%s: precision %q, %d alphas (%v missing), %d parameters", c.file, r.Precision, r.Alphas, r.Missing, r.Parameters)
		}
		if len(r.Unknown) > 0 {
			t.Errorf("%s: unknown tensors %v", c.file, r.Unknown)
		}
		if m.SourceEmbedding != m.TargetEmbedding || m.Output.W != m.TargetEmbedding {
			t.Errorf("%s: embeddings are not tied", c.file)
		}
	}
}

// TestRefused describes models of other kinds. All say what could be done.
func TestRefused(t *testing.T) {
	for _, name := range []string{"char-s2s", "transformer_s2s", "transformer-new"} {
		_, err := Describe([]byte("type: " + name))
		if !errors.Is(err, ErrUnsupported) || !strings.Contains(err.Error(), "type: "+name) || !strings.Contains(err.Error(), "marian-decoder") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

const small = "type: transformer\ndim-vocabs: [8, 9]\ndim-emb: 4\nenc-depth: 1\ndec-depth: 2\ntransformer-heads: 2\ntransformer-dim-ffn: 6\n"

func TestDescribe(t *testing.T) {
	a, err := Describe([]byte(small))
	if err != nil {
		t.Fatal(err)
	}
	if a.DecoderStack.FFNDim != 6 || a.Postprocess != "dan" || a.DecoderStack.Activation != Swish || a.AlignmentLayer != 1 || a.TargetVocabulary != 9 {
		t.Errorf("%+v", a)
	}
	for line, want := range map[string]string{
		"type: multi-s2s":                             "dim-vocabs has 2 numbers, but a model of type multi-s2s has 3",
		"type: bert-classifier":                       "type: bert-classifier",
		"type: char-s2s":                              "type: char-s2s",
		"type: what":                                  "type: what",
		"type: ''":                                    "the key type is missing",
		"type: [1]":                                   "cannot unmarshal",
		"factors-dim-emb: 3":                          "factored vocabularies",
		"transformer-pool: true":                      "transformer-pool",
		"transformer-attention-mask: alibi":           "transformer-attention-mask: alibi",
		"transformer-decoder-autoreg: other":          "transformer-decoder-autoreg: other",
		"transformer-train-positions: true":           "trained position",
		"transformer-ffn-activation: tanh":            `"tanh"`,
		"transformer-heads: 3":                        "do not divide",
		"transformer-heads: 0":                        "transformer-heads is 0",
		"dim-emb: 5000000":                            "dim-emb is 5000000",
		"dec-depth: 0":                                "dec-depth is 0",
		"dim-vocabs: [1, 2, 3]":                       "dim-vocabs has 3 numbers",
		"dim-vocabs: [-1, 2]":                         "dim-vocabs is -1",
		"transformer-postprocess: dax":                "transformer-postprocess",
		"transformer-preprocess: a":                   "transformer-preprocess",
		"transformer-tied-layers: [1]":                "transformer-tied-layers",
		"transformer-tied-layers: [0, 1]":             "numbered from 1",
		"transformer-guided-alignment-layer: 3":       "transformer-guided-alignment-layer",
		"transformer-guided-alignment-layer: nothing": "transformer-guided-alignment-layer",
	} {
		if _, err := Describe(override(line)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %q", line, err, want)
		}
	}
	if _, err := Describe(nil); !errors.Is(err, ErrNoDescription) {
		t.Errorf("no description: %v", err)
	}
}

// override replaces a line of the small description, or adds it.
func override(line string) []byte {
	key, _, _ := strings.Cut(line, ":")
	kept := []string{line}
	for other := range strings.Lines(small) {
		if !strings.HasPrefix(other, key+":") {
			kept = append(kept, strings.TrimSpace(other))
		}
	}
	return []byte(strings.Join(kept, "\n") + "\n")
}

func TestGELU(t *testing.T) {
	for version, want := range map[string]Activation{
		"v1.12.43; c9f287d": GELU, "v1.12.0 65bf82ff": GELUSigmoid, "v1.9.56": GELUSigmoid, "": GELU, "v1.12.1": GELU, "nonsense": GELU, "v2.0.0": GELU,
	} {
		a, err := Describe([]byte(small + "transformer-ffn-activation: gelu\nversion: '" + version + "'\n"))
		if err != nil {
			t.Fatal(err)
		}
		if a.EncoderStack.Activation != want {
			t.Errorf("version %q: %v, want %v", version, a.EncoderStack.Activation, want)
		}
	}
}

// synthetic returns a file with tensors of zeros under the given names and shapes.
func synthetic(description string, shapes map[string][2]int) *marian.File {
	file := &marian.File{Config: []byte(description)}
	names := make([]string, 0, len(shapes))
	for name := range shapes {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		s := shapes[name]
		file.Tensors = append(file.Tensors, &marian.Tensor{Name: name, Shape: []int{s[0], s[1]}, Type: marian.Float32, Data: make([]byte, 4*s[0]*s[1])})
	}
	return file
}

// demand finds out what a description asks for: it loads an empty file again and again, giving what is missing.
func demand(t *testing.T, description string) map[string][2]int {
	shapes := map[string][2]int{}
	for range 200 {
		_, err := Load(synthetic(description, shapes), nil)
		if err == nil {
			return shapes
		}
		for _, line := range strings.Split(err.Error(), "\n") {
			fields := strings.Fields(line)
			if len(fields) < 6 || fields[0] != "parameter" {
				continue
			}
			rows, columns, _ := strings.Cut(fields[len(fields)-1], "×")
			r, errR := strconv.Atoi(rows)
			c, errC := strconv.Atoi(columns)
			if errR != nil || errC != nil {
				t.Fatalf("error %q", line)
			}
			shapes[fields[1]] = [2]int{r, c}
		}
	}
	t.Fatal("the model is never complete")
	return nil
}

// TestNames compares the parameters of unusual descriptions with those that Marian's source makes.
func TestNames(t *testing.T) {
	for _, c := range []struct {
		lines         string
		with, without []string
	}{
		{"tied-embeddings-all: true", []string{"Wemb 9×4"}, []string{"encoder_Wemb", "decoder_Wemb", "decoder_ff_logit_out_Wt"}},
		{"type: shared-multi-transformer\ndim-vocabs: [8, 8, 9]", []string{"encoder_Wemb 8×4", "encoder_l1_self_Wq 4×4", "decoder_l1_context_enc2_Wq 4×4"}, []string{"encoder2_Wemb"}},
		{"type: multi-transformer\ndim-vocabs: [8, 7, 9]", []string{"encoder1_Wemb 8×4", "encoder2_Wemb 7×4", "encoder2_l1_ffn_W1 4×6", "decoder_l2_context_enc2_bo 1×4"}, []string{"encoder_Wemb"}},
		{"tied-embeddings-src: true", []string{"Wemb 9×4", "decoder_ff_logit_out_Wt 9×4"}, []string{"encoder_Wemb"}},
		{"tied-embeddings: true", []string{"encoder_Wemb 8×4", "decoder_Wemb 9×4"}, []string{"Wemb", "decoder_ff_logit_out_Wt"}},
		{"", []string{"encoder_Wemb 8×4", "decoder_Wemb 9×4", "decoder_ff_logit_out_Wt 9×4", "decoder_ff_logit_out_b 1×9"}, nil},
		{"output-omit-bias: true", nil, []string{"decoder_ff_logit_out_b"}},
		{"transformer-no-projection: true", []string{"encoder_l1_self_Wo_ln_scale 1×4"}, []string{"encoder_l1_self_Wo", "decoder_l2_context_Wo"}},
		{"transformer-postprocess: hn", []string{"encoder_l1_self_Wo_Wh 4×4", "encoder_l1_ffn_ffn_bh 1×4", "decoder_l2_ffn_ffn_ln_bias 1×4"}, nil},
		{"transformer-preprocess: n", []string{"encoder_l1_self_Wo_ln_scale_pre 1×4", "decoder_l1_ffn_ffn_ln_bias_pre 1×4"}, nil},
		{"transformer-postprocess-emb: nd", []string{"encoder_emb_ln_scale_pre 1×4", "decoder_emb_ln_bias_pre 1×4"}, nil},
		{"transformer-postprocess-top: ar", []string{"encoder_top_rms_scale 1×4", "decoder_top_rms_scale 1×4"}, []string{"encoder_top_rms_bias"}},
		{"transformer-ffn-depth: 3\ntransformer-decoder-ffn-depth: 1\ntransformer-decoder-dim-ffn: 7", []string{"encoder_l1_ffn_W2 6×6", "encoder_l1_ffn_W3 6×4", "decoder_l1_ffn_W1 4×4"}, []string{"decoder_l1_ffn_W2"}},
		{"transformer-decoder-autoreg: rnn\ndec-cell: ssru\ntransformer-rnn-projection: true\ntransformer-preprocess: r",
			[]string{"decoder_l1_rnn_W 4×4", "decoder_l2_rnn_bf 1×4", "decoder_l1_rnn_Wo 4×4", "decoder_l1_rnn_rms_scale_pre 1×4", "decoder_l1_rnn_ffn_ln_scale 1×4"}, []string{"decoder_l1_rnn_Wr", "decoder_l1_self_Wq"}},
		{"transformer-decoder-autoreg: rnn\ndec-cell: sru\ntransformer-tied-layers: [1, 1]", []string{"decoder_l1_rnn_Wr 4×4"}, []string{"decoder_l2_rnn_W"}},
		{"transformer-decoder-autoreg: average-attention\ntransformer-dim-aan: 5", []string{"decoder_l1_aan_W1 4×5", "decoder_l1_aan_W2 5×4", "decoder_l1_aan_Wi 4×4"}, nil},
		{"transformer-decoder-autoreg: average-attention\ntransformer-dim-aan: 4\ntransformer-aan-nogate: true", []string{"decoder_l1_aan_W1 4×4"}, []string{"decoder_l1_aan_W2", "decoder_l1_aan_Wi"}},
		{"transformer-decoder-autoreg: average-attention\ntransformer-aan-depth: 1", nil, []string{"decoder_l1_aan_W1"}},
	} {
		description := small
		for _, line := range strings.Split(c.lines, "\n") {
			if key, _, _ := strings.Cut(line, ":"); key == "type" || key == "dim-vocabs" {
				description = strings.Replace(description, "\n"+key+":", "\n#", 1)
				description = strings.Replace(description, "type: transformer\n", "\n", 1)
			}
			description += line + "\n"
		}
		if c.lines == "tied-embeddings-all: true" || c.lines == "tied-embeddings-src: true" {
			description = strings.Replace(description, "[8, 9]", "[9, 9]", 1)
		}
		shapes := demand(t, description)
		for _, want := range c.with {
			name, shape, _ := strings.Cut(want, " ")
			if s, ok := shapes[name]; !ok || strconv.Itoa(s[0])+"×"+strconv.Itoa(s[1]) != shape {
				t.Errorf("%q: %s has the shape %v, want %s", c.lines, name, s, shape)
			}
		}
		for _, name := range c.without {
			if _, ok := shapes[name]; ok {
				t.Errorf("%q: asks for %s", c.lines, name)
			}
		}
	}
}

// TestParameterErrors takes each tensor away, and misshapes it.
func TestParameterErrors(t *testing.T) {
	shapes := demand(t, small)
	for name, shape := range shapes {
		delete(shapes, name)
		_, err := Load(synthetic(small, shapes), nil)
		var problem *ParameterError
		if !errors.As(err, &problem) || problem.Name != name || !strings.Contains(err.Error(), "is missing; expected ") {
			t.Errorf("without %s: %v", name, err)
		}
		shapes[name] = [2]int{shape[0] + 1, shape[1]}
		if _, err = Load(synthetic(small, shapes), nil); !errors.As(err, &problem) || problem.Name != name || !strings.Contains(err.Error(), "has the shape ") {
			t.Errorf("with a misshapen %s: %v", name, err)
		}
		shapes[name] = shape
	}
	shapes["decoder_ff_logit_out_W"] = [2]int{4, 9}
	shapes["left_over"] = [2]int{1, 1}
	shapes["decoder_l1_ffn_W1_QuantMultA"] = [2]int{1, 1}
	delete(shapes, "decoder_ff_logit_out_Wt")
	m, err := Load(synthetic(small, shapes), nil)
	if err != nil {
		t.Fatal(err)
	}
	if !m.Output.Columns || !slices.Equal(m.Unknown, []string{"left_over"}) || m.Alphas["decoder_l1_ffn_W1"] == nil {
		t.Errorf("columns %v, unknown %v, alphas %v", m.Output.Columns, m.Unknown, m.Alphas)
	}
}

// TestVocabularyFromTensors leaves the vocabulary sizes to the matrices.
func TestVocabularyFromTensors(t *testing.T) {
	shapes := demand(t, small)
	m, err := Load(synthetic(strings.Replace(small, "dim-vocabs: [8, 9]\n", "", 1), shapes), nil)
	if err != nil {
		t.Fatal(err)
	}
	if m.SourceVocabulary != 8 || m.TargetVocabulary != 9 {
		t.Errorf("vocabularies of %d and %d", m.SourceVocabulary, m.TargetVocabulary)
	}
}

func FuzzDescribe(f *testing.F) {
	f.Add([]byte(small))
	paths, _ := filepath.Glob(filepath.Join(sharedtest.Root(), "..", "shared", "models", "reference", "*", "model.yml"))
	for _, path := range paths {
		if data, err := os.ReadFile(path); err == nil {
			f.Add(data)
		}
	}
	f.Fuzz(func(t *testing.T, description []byte) {
		a, err := Describe(description)
		if err != nil {
			return
		}
		if len(a.Facts()) == 0 || a.Recurrence == nil && a.Dim%a.Heads != 0 {
			t.Errorf("%+v", a)
		}
		if _, err := Load(&marian.File{}, description); err == nil {
			t.Error("a model without tensors")
		}
	})
}
