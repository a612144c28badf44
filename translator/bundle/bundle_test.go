package bundle

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

func folder(t *testing.T, names ...string) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range names {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestFind(t *testing.T) {
	tests := []struct {
		name  string
		files []string
		path  string // below the folder
		want  Bundle // paths below the folder
	}{
		{"marian folder", []string{"model.npz", "vocab.spm", "decoder.yml", "lex.s2t.gz"}, "",
			Bundle{Config: "decoder.yml", Source: "vocab.spm", Target: "vocab.spm", Shortlist: "lex.s2t.gz"}},
		{"firefox, shared vocabulary", []string{"model.ende.intgemm.alphas.bin.gz", "lex.50.50.ende.s2t.bin.gz", "vocab.ende.spm.gz"}, "",
			Bundle{Model: "model.ende.intgemm.alphas.bin.gz", Source: "vocab.ende.spm.gz", Target: "vocab.ende.spm.gz", Shortlist: "lex.50.50.ende.s2t.bin.gz"}},
		{"firefox, two vocabularies", []string{"model.enja.intgemm.alphas.bin", "lex.50.50.enja.s2t.bin", "srcvocab.enja.spm", "trgvocab.enja.spm"}, "",
			Bundle{Model: "model.enja.intgemm.alphas.bin", Source: "srcvocab.enja.spm", Target: "trgvocab.enja.spm", Shortlist: "lex.50.50.enja.s2t.bin"}},
		{"a file takes its vocabularies and its own options only",
			[]string{"a.npz", "a.npz.decoder.yml", "b.npz", "vocab.spm", "decoder.yml", "lex.s2t.gz"}, "a.npz",
			Bundle{Model: "a.npz", Config: "a.npz.decoder.yml", Source: "vocab.spm", Target: "vocab.spm"}},
		{"training leftovers are not models", []string{"model.npz", "model.npz.optimizer.npz", "source.spm", "target.spm"}, "",
			Bundle{Model: "model.npz", Source: "source.spm", Target: "target.spm"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			dir := folder(t, test.files...)
			got, err := Find(filepath.Join(dir, test.path))
			if err != nil {
				t.Fatal(err)
			}
			for _, field := range []*string{&test.want.Model, &test.want.Config, &test.want.Source, &test.want.Target, &test.want.Shortlist} {
				if *field != "" {
					*field = filepath.Join(dir, *field)
				}
			}
			if got != test.want {
				t.Errorf("got  %+v\nwant %+v", got, test.want)
			}
		})
	}
}

func TestFindRefuses(t *testing.T) {
	if _, err := Find(folder(t, "vocab.spm")); !errors.Is(err, ErrNotFound) {
		t.Errorf("folder without a model: %v", err)
	}
	if _, err := Find(folder(t, "a.npz", "b.npz")); err == nil {
		t.Error("two models in a folder: one was chosen silently")
	}
	if _, err := Find(filepath.Join(t.TempDir(), "absent")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("absent path: %v", err)
	}
}

func TestNames(t *testing.T) {
	for path, want := range map[string][2]bool{
		"a/model.npz": {true, false}, "model.bin.gz": {true, false}, "m.npz.zst": {true, false}, "lex.s2t.bin": {false, false},
		"model.npz.optimizer.npz": {false, false}, "lex.d/model.bin": {true, false}, "v.spm": {false, true}, "a/v.yml.gz": {false, true},
		"v.json": {false, true}, "v.vocab": {false, true}, "corpus.en": {false, false}, "model.npz.yml": {false, true}, "": {false, false},
	} {
		if got := [2]bool{IsModel(path), IsVocabulary(path)}; got != want {
			t.Errorf("%q is a model, a vocabulary: %v, want %v", path, got, want)
		}
	}
}
