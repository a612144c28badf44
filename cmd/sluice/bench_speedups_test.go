package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/sluice-mt/sluice/internal/sharedtest"
	"github.com/sluice-mt/sluice/translator/cpumodel"
	"github.com/sluice-mt/sluice/translator/model"
)

// With a trained model, 16 bits and early stops change few translations, and nothing else changes any.
func TestBenchSpeedups(t *testing.T) {
	reference := sharedtest.Path(t, "models", "reference")
	input := filepath.Join(t.TempDir(), "in.en")
	if err := os.WriteFile(input, []byte("Tom is at home.\n\nI do not know what you want.\nThe weather is fine today.\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	command, out := newSpeedupsCommand(), new(bytes.Buffer)
	command.SetOut(out)
	command.SetArgs([]string{"-m", filepath.Join(reference, "s2s-gru", "model.npz"), "-v", filepath.Join(reference, "vocab", "joint.spm"),
		"-i", input, "-b", "3", "--runs", "1", "--json"})
	if err := command.Execute(); err != nil {
		t.Fatal(err)
	}
	var rows []speedupRow
	if err := json.Unmarshal(out.Bytes(), &rows); err != nil {
		t.Fatal(err)
	}
	if len(rows) != 7 || rows[0].Relative != 1 {
		t.Fatalf("rows %+v", rows)
	}
	for _, row := range rows {
		if row.Identical < 0.99 || !(row.PerSecond > 0) || !(row.MACs > 0) || row.MACs > rows[0].MACs {
			t.Errorf("%+v", row)
		}
	}
}

// The row of embeddings that are multiplied in advance has them, whether or not that would be found to pay when the model is loaded.
func TestBenchSpeedupsKnown(t *testing.T) {
	text := &speedupText{model: new(model.Model)}
	text.model.Recurrence = new(model.Recurrence)
	for asked, want := range map[int]int{0: cpumodel.DefaultKnownPieces, 5: 5} {
		b := &speedupsBench{known: asked}
		for _, row := range b.rows(text) {
			if row.options.KnownPieces != want {
				t.Errorf("%d pieces asked for: %s has %d, want %d", asked, row.Name, row.options.KnownPieces, want)
			}
		}
	}
}
