package model

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

// TestNew makes models of unusual descriptions: their parameters must be those that loading such a model asks for.
func TestNew(t *testing.T) {
	for _, lines := range []string{
		"", "tied-embeddings: true", "transformer-no-projection: true", "transformer-postprocess: hn", "transformer-preprocess: n",
		"transformer-decoder-autoreg: rnn\ndec-cell: ssru\ntransformer-tied-layers: [1, 1]",
		"transformer-decoder-autoreg: average-attention\ntransformer-dim-aan: 5",
		"type: multi-transformer\ndim-vocabs: [8, 7, 9]", "transformer-decoder-autoreg: rnn\ndec-cell: lstm\nlayer-normalization: true",
		"type: s2s\nlayer-normalization: true\nenc-cell-depth: 2\ndec-cell-base-depth: 3", "type: devlin", "type: lm\ndim-vocabs: [9]",
	} {
		description := small + lines + "\n"
		if strings.Contains(lines, "dim-vocabs") {
			description = strings.Replace(description, "dim-vocabs: [8, 9]\n", "", 1)
		}
		if strings.Contains(lines, "type:") {
			description = strings.Replace(description, "type: transformer\n", "", 1)
		}
		m, err := New([]byte(description))
		if err != nil {
			t.Fatal(err)
		}
		want := demand(t, description)
		if len(m.Parameters()) != len(want) {
			t.Errorf("%q: %d parameters, want %d", lines, len(m.Parameters()), len(want))
		}
		for _, p := range m.Parameters() {
			if s := want[p.Name]; !slices.Equal(p.Shape, s[:]) {
				t.Errorf("%q: %s is %v, want %v", lines, p.Name, p.Shape, s)
			}
		}
	}
	var missing *ParameterError
	if _, err := New([]byte(strings.Replace(small, "dim-vocabs: [8, 9]\n", "", 1))); !errors.As(err, &missing) {
		t.Errorf("a description without vocabularies: %v", err)
	}
}

// TestNewNematus compares the names of a new model with those of a file that Marian wrote from the same description.
func TestNewNematus(t *testing.T) {
	file := open(t, "reference", "nematus", "model.npz")
	m, err := New(file.Config)
	if err != nil {
		t.Fatal(err)
	}
	var names, want []string
	for _, p := range append(m.Parameters(), m.Marker) {
		names = append(names, p.Name)
	}
	for _, p := range file.Tensors {
		want = append(want, p.Name)
	}
	slices.Sort(names)
	slices.Sort(want)
	if !slices.Equal(names, want) {
		t.Errorf("the parameters are %v, want %v", names, want)
	}
}

// TestNematusNamesBack translates names there and back.
func TestNematusNamesBack(t *testing.T) {
	a := &Architecture{Type: typeNematus}
	for their := range nematusNames {
		for _, ending := range []string{"", "_lns"} {
			if ending != "" && !strings.HasPrefix(their, "encoder") && !strings.HasPrefix(their, "decoder") {
				continue
			}
			if back := a.toNematus(a.fromNematus(their + ending)); back != their+ending {
				t.Errorf("%s becomes %s", their+ending, back)
			}
		}
	}
	for _, their := range []string{"encoder_U_drt_1", "encoder_r_bx_drt_3", "decoder_Ux_nl_drt_2", "decoder_U_nl_drt_1_lnb", "Wemb", "Wemb_dec"} {
		if back := a.toNematus(a.fromNematus(their)); back != their {
			t.Errorf("%s becomes %s", their, back)
		}
	}
	for _, ours := range []string{"decoder_W_comb_att", "decoder_ff_logit_l2_Wt", "decoder_cell2_Um"} {
		if a.toNematus(ours) != ours {
			t.Errorf("%s becomes %s", ours, a.toNematus(ours))
		}
	}
}

// TestNewRefusals describes models that Marian would not read.
func TestNewRefusals(t *testing.T) {
	for lines, want := range map[string]string{
		"type: nematus": "enc-cell: gru", "type: amun\nskip: true\ndec-depth: 1\nenc-depth: 1": "skip: true",
		"type: amun\nenc-depth: 2\ndec-depth: 1": "enc-depth above 1", "type: amun\nenc-cell: lstm": "enc-cell: lstm",
	} {
		_, err := New([]byte(describeRecurrent(lines)))
		if !errors.Is(err, ErrUnsupported) || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "type: s2s") {
			t.Errorf("%q: %v", lines, err)
		}
	}
}
