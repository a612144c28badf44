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
	} {
		description := small + lines + "\n"
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
