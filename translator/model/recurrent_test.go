package model

import (
	"slices"
	"strconv"
	"strings"
	"testing"
)

// TestRecurrentReference loads the recurrent models that Marian trained for these tests, and compares with their lists of tensors.
func TestRecurrentReference(t *testing.T) {
	for _, name := range []string{"s2s-gru", "s2s-deep", "nematus"} {
		t.Run(name, func(t *testing.T) {
			m, err := Load(open(t, "reference", name, "model.npz"), nil)
			if err != nil {
				t.Fatal(err)
			}
			r := m.Report()
			if len(r.Unknown) > 0 {
				t.Errorf("unknown tensors %v", r.Unknown)
			}
			if listed := listedParameters(t, name); r.Parameters != listed {
				t.Errorf("%d parameters, want %d", r.Parameters, listed)
			}
			if r.Precision != "float32" {
				t.Errorf("precision %q", r.Precision)
			}
			if m.Recurrent == nil || len(m.Encoder)+len(m.Decoder) > 0 {
				t.Errorf("%+v", m)
			}
		})
	}
}

const recurrent = "type: s2s\ndim-vocabs: [8, 9]\ndim-emb: 4\ndim-rnn: 5\n"

// recurrentNames are parameters of descriptions, as Marian's source names them.
var recurrentNames = []struct {
	name, lines   string
	with, without []string
}{
	{"gru", "enc-depth: 2\nenc-cell-depth: 2\ndec-depth: 2\ndec-cell-base-depth: 3",
		[]string{"encoder_bi_W 4×10", "encoder_bi_cell2_Ux 5×5", "encoder_bi_l2_cell1_W 5×10", "encoder_bi_r_l2_cell2_b 1×10", "decoder_cell2_W 10×10",
			"decoder_cell3_U 5×10", "decoder_l2_cell1_Wx 5×5", "decoder_Wc_att 10×10", "decoder_W_comb_att 5×10", "decoder_U_att 10×1", "decoder_ff_state_W 10×5",
			"decoder_ff_logit_l1_W2 10×4", "decoder_ff_logit_l2_Wt 9×4"},
		[]string{"encoder_bi_cell2_W", "decoder_cell3_W", "decoder_cell1_gamma1"}},
	{"bi-unidirectional", "enc-type: bi-unidirectional\nenc-depth: 3\nlayer-normalization: true",
		[]string{"encoder_l2_cell1_W 10×10", "encoder_l3_cell1_W 5×10", "encoder_l2_cell1_gamma1 1×15", "decoder_Wc_att 5×5", "decoder_att_gamma1 1×5",
			"decoder_ff_state_gamma 1×5", "decoder_ff_logit_l1_gamma0 1×4"},
		[]string{"encoder_bi_l2_cell1_W"}},
	{"lstm", "enc-cell: lstm\ndec-cell: lstm\nlayer-normalization: true",
		[]string{"encoder_bi_W 4×20", "decoder_cell2_W 10×20", "decoder_cell2_U 5×20", "decoder_cell1_gamma2 1×20"}, []string{"decoder_cell1_Wx"}},
	{"tanh", "enc-cell: tanh\ndec-cell: relu\nlayer-normalization: true", []string{"encoder_bi_W 4×5", "encoder_bi_gamma1 1×15", "decoder_cell1_gamma1 1×5"}, nil},
	{"multiplicative", "enc-cell: mlstm\ndec-cell: mgru\nlayer-normalization: true",
		[]string{"encoder_bi_Wm 4×5", "encoder_bi_bwm 1×5", "encoder_bi_gamma2m 1×5", "decoder_cell2_Wm 10×5", "decoder_cell2_Um 5×5"}, nil},
	{"nematus cells", "enc-cell: gru-nematus\ndec-cell: gru-nematus\nlayer-normalization: true\nenc-cell-depth: 2",
		[]string{"encoder_bi_W_lns 1×10", "encoder_bi_Wx_lnb 1×5", "encoder_bi_cell2_U_lns 1×10", "decoder_att_gamma1 1×10"}, []string{"encoder_bi_gamma1"}},
	{"sru", "dim-emb: 5\nenc-cell: sru\ndec-cell: sru\ndec-cell-base-depth: 1\nlayer-normalization: true",
		[]string{"encoder_bi_Wr 5×5", "decoder_cell1_bf 1×5", "decoder_cell1_gamma 1×5", "decoder_cell1_gammar 1×5"}, []string{"decoder_cell1_U"}},
	{"language model", "type: lm\ndim-vocabs: [9]", []string{"decoder_cell1_W 4×10", "decoder_ff_logit_l1_W1 5×4"},
		[]string{"decoder_cell2_W", "decoder_ff_state_W", "encoder_Wemb", "decoder_ff_logit_l1_W2"}},
	{"two sources", "type: multi-s2s\ndim-vocabs: [8, 7, 9]",
		[]string{"encoder1_bi_W 4×10", "encoder2_bi_r_Ux 5×5", "encoder2_Wemb 7×4", "decoder_att1_Wc_att 10×10", "decoder_att2_U_att 10×1", "decoder_ff_state_W0 10×5",
			"decoder_ff_state_W1 10×5", "decoder_cell2_W 20×10", "decoder_ff_logit_l1_W2 20×4"},
		[]string{"encoder_bi_W", "decoder_Wc_att", "decoder_ff_state_W"}},
	{"two sources, one encoder", "type: shared-multi-s2s\ndim-vocabs: [8, 8, 9]", []string{"encoder_bi_W 4×10", "decoder_att2_b_att 1×10"}, []string{"encoder1_bi_W"}},
	{"hard attention", "type: hard-att\nspecial-vocab: [2]\ndec-depth: 3\ntied-embeddings: true",
		[]string{"encoder_bi_W 4×10", "decoder_ff_state_W 10×5", "decoder_W 14×10", "decoder_Wx 14×5", "decoder_Ux 5×5", "decoder_b 1×10", "decoder_l0_W 5×10",
			"decoder_l1_Ux 5×5", "decoder_ff_logit_l1_W0 14×4", "decoder_ff_logit_l1_W1 5×4", "decoder_ff_logit_l2_Wt 9×4", "decoder_ff_logit_l2_b 1×9"},
		[]string{"decoder_cell1_W", "decoder_l2_W", "decoder_l2_cell1_W", "decoder_Wc_att", "decoder_ff_logit_l1_W2"}},
	{"hard and soft attention", "type: hard-soft-att\nspecial-vocab: [2, 3]\ndec-depth: 2\nlayer-normalization: true",
		[]string{"decoder_cell1_W 14×10", "decoder_cell1_gamma1 1×15", "decoder_cell2_Wx 10×5", "decoder_l0_gamma2 1×15", "decoder_Wc_att 10×10",
			"decoder_ff_logit_l1_W0 14×4", "decoder_ff_logit_l1_W2 10×4"},
		[]string{"decoder_W", "decoder_cell3_U", "decoder_l1_W"}},
	{"hard attention and two sources", "type: multi-hard-att\ndim-vocabs: [8, 7, 9]\nspecial-vocab: [2]\nenc-type: bi-unidirectional\nenc-depth: 2",
		[]string{"encoder1_bi_W 4×10", "encoder2_l2_cell1_W 10×10", "decoder_att1_Wc_att 5×5", "decoder_att2_U_att 5×1", "decoder_cell1_W 9×10",
			"decoder_cell2_W 10×10", "decoder_ff_state_W1 5×5", "decoder_ff_logit_l1_W0 9×4", "decoder_ff_logit_l1_W2 10×4"},
		[]string{"encoder_bi_W", "decoder_Wc_att"}},
	{"devlin", "type: devlin\ndec-fc-depth: 3\ndim-fc: 7",
		[]string{"encoder_bi_W 4×10", "decoder_ff_state_W 10×5", "decoder_Wc_att 10×10", "decoder_W_comb_att 5×10", "decoder_cell1_W 4×10", "decoder_cell1_Ux 5×5",
			"decoder_context_W 10×10", "decoder_context_Wx 10×5", "decoder_fc1_W 5×7", "decoder_fc3_W 7×7", "decoder_fc3_b 1×7", "decoder_top_W 7×4",
			"decoder_top_b 1×4", "decoder_ff_logit_l2_Wt 9×4"},
		[]string{"decoder_cell2_U", "decoder_fc4_W", "decoder_top_U", "decoder_ff_logit_l1_W0"}},
	{"devlin with a GRU on top", "type: devlin\ndec-top: gru\nenc-type: bi-unidirectional\nenc-depth: 2\ntied-embeddings: true",
		[]string{"encoder_l2_cell1_W 10×10", "decoder_context_W 5×10", "decoder_fc1_W 5×5", "decoder_fc4_W 5×5", "decoder_top_W 5×8", "decoder_top_Ux 4×4", "decoder_top_b 1×8"},
		[]string{"decoder_fc5_W", "decoder_ff_logit_l2_Wt"}},
	{"devlin without layers", "type: devlin\ndec-fc-depth: 0\ndim-fc: 7", []string{"decoder_top_W 5×4"}, []string{"decoder_fc1_W"}},
	{"tied", "tied-embeddings-all: true\ndim-vocabs: [9, 9]\noutput-omit-bias: true", []string{"Wemb 9×4"}, []string{"decoder_ff_logit_l2_Wt", "decoder_ff_logit_l2_b"}},
}

// describeRecurrent replaces lines of the small recurrent description.
func describeRecurrent(lines string) string {
	description := lines + "\n"
	for line := range strings.Lines(recurrent) {
		key, _, _ := strings.Cut(line, ":")
		if !strings.Contains("\n"+lines, "\n"+key+":") {
			description += line
		}
	}
	return description
}

func TestRecurrentNames(t *testing.T) {
	for _, c := range recurrentNames {
		t.Run(c.name, func(t *testing.T) {
			shapes := demand(t, describeRecurrent(c.lines))
			for _, want := range c.with {
				name, shape, _ := strings.Cut(want, " ")
				if s, ok := shapes[name]; !ok || strconv.Itoa(s[0])+"×"+strconv.Itoa(s[1]) != shape {
					t.Errorf("%s has the shape %v, want %s", name, s, shape)
				}
			}
			for _, name := range c.without {
				if _, ok := shapes[name]; ok {
					t.Errorf("asks for %s", name)
				}
			}
		})
	}
}

// The types of nematus and amun read a file with the names of Nematus as well as one with ours.
func TestNematusNames(t *testing.T) {
	const description = "type: nematus\ndim-vocabs: [8, 9]\ndim-emb: 4\ndim-rnn: 5\nenc-cell: gru-nematus\ndec-cell: gru-nematus\n" +
		"layer-normalization: true\nenc-cell-depth: 3\ndec-cell-base-depth: 4\n"
	shapes := demand(t, description)
	a, err := Describe([]byte(description))
	if err != nil {
		t.Fatal(err)
	}
	theirs := map[string]string{"encoder_Wemb": "Wemb", "decoder_Wemb": "Wemb_dec"}
	for their := range nematusNames {
		for _, ending := range []string{"", "_lns", "_lnb"} {
			theirs[a.fromNematus(their+ending)] = their + ending
		}
	}
	for _, their := range []string{"encoder_U_drt_1", "encoder_Ux_drt_2", "encoder_r_b_drt_1", "decoder_U_nl_drt_1", "decoder_bx_nl_drt_2"} {
		for _, ending := range []string{"", "_lns", "_lnb"} {
			theirs[a.fromNematus(their+ending)] = their + ending
		}
	}
	renamed := map[string][2]int{nematusMarker: {1, 0}, "uidx": {1, 1}, "spare": {1, 1}}
	changed := 0
	for name, shape := range shapes {
		if their := theirs[name]; their != "" {
			name = their
			changed++
		}
		renamed[name] = shape
	}
	if changed < 70 {
		t.Errorf("only %d names are translated", changed)
	}
	m, err := Load(synthetic(description, renamed), nil)
	if err != nil {
		t.Fatal(err)
	}
	if m.Recurrent.Base[3].State.Matrices[1].W == nil || !slices.Equal(m.Unknown, []string{"spare"}) {
		t.Errorf("unknown %v", m.Unknown)
	}
	delete(renamed, nematusMarker) // without it, the names are ours
	if _, err := Load(synthetic(description, renamed), nil); err == nil {
		t.Error("Nematus' names without their mark are accepted")
	}
}

func TestDeepCellNames(t *testing.T) {
	for their, want := range map[string]string{
		"encoder_U_drt_1": "encoder_bi_cell2_U", "encoder_r_bx_drt_3": "encoder_bi_r_cell4_bx", "decoder_Ux_nl_drt_2": "decoder_cell4_Ux",
		"encoder_U_drt_1_lns": "encoder_bi_cell2_U_lns", "decoder_U_nl_drt_1_lnb": "decoder_cell3_U_lnb",
		"encoder_W_drt_1": "", "decoder_U_drt_1": "", "encoder_U_drt_x": "", "encoder_U_drt_0": "",
	} {
		if want == "" {
			want = their
		}
		a := &Architecture{Type: typeNematus}
		if got := a.fromNematus(their); got != want {
			t.Errorf("%s is %s, want %s", their, got, want)
		}
	}
}

func TestRecurrentRefusals(t *testing.T) {
	for lines, want := range map[string]string{
		"enc-cell: peephole":        `"peephole"`,
		"dec-cell: sru\ndim-emb: 5": "decoder_cell2 of kind sru that reads 10 elements and gives 5",
		"enc-cell: ssru":            "encoder_bi of kind ssru that reads 4 elements and gives 5",
		"dec-cell: mlstm\nenc-cell: mgru\nenc-cell-depth: 2": "encoder_bi_cell2 of kind mgru without input",
		"enc-type: circular":                      "enc-type: circular",
		"dim-rnn: 0":                              "dim-rnn is 0",
		"dec-cell-base-depth: 0":                  "dec-cell-base-depth is 0",
		"enc-depth: 0":                            "enc-depth is 0",
		"enc-cell-depth: 1000":                    "enc-cell-depth is 1000",
		"dim-vocabs: [8]":                         "dim-vocabs has 1 numbers",
		"type: devlin\ndec-cell: lstm":            "dec-cell: lstm in a model of type devlin",
		"type: devlin\nlayer-normalization: true": "layer-normalization in a model of type devlin",
		"type: devlin\ndec-top: relu":             `dec-top is "relu"`,
		"type: devlin\ndec-fc-depth: 1000":        "dec-fc-depth is 1000",
		"type: devlin\ndim-vocabs: [8, 8, 9]":     "dim-vocabs has 3 numbers",
	} {
		_, err := Load(synthetic(describeRecurrent(lines), nil), nil)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want %q", lines, err, want)
		}
	}
}

// TestTransformerCells compares the parameters of cells in the decoders of transformers.
func TestTransformerCells(t *testing.T) {
	for lines, want := range map[string][]string{
		"dec-cell: gru": {"decoder_l1_rnn_W 4×8", "decoder_l2_rnn_Ux 4×4", "decoder_l1_rnn_bx 1×4"},
		"dec-cell: lstm\ntransformer-rnn-projection: true": {"decoder_l1_rnn_U 4×16", "decoder_l1_rnn_Wo 4×4"},
		"dec-cell: ssru\nlayer-normalization: true":        {"decoder_l1_rnn_gamma 1×4", "decoder_l1_rnn_gammaf 1×4", "decoder_l1_rnn_bf 1×4"},
	} {
		shapes := demand(t, small+"transformer-decoder-autoreg: rnn\n"+lines+"\n")
		for _, one := range want {
			name, shape, _ := strings.Cut(one, " ")
			if s, ok := shapes[name]; !ok || strconv.Itoa(s[0])+"×"+strconv.Itoa(s[1]) != shape {
				t.Errorf("%q: %s has the shape %v, want %s", lines, name, s, shape)
			}
		}
	}
}
