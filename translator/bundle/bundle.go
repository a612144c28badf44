// Package bundle finds the files that belong to a model: its vocabularies, its shortlist, its decoder options. A
// folder as Marian's training leaves it, or as Firefox ships it, is enough to translate.
package bundle

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"strings"
)

// ErrNotFound is returned, wrapped, where a folder does not hold what is needed.
var ErrNotFound = errors.New("not found")

// A Bundle names files. Fields that nothing was found for are empty.
type Bundle struct {
	Model     string // a model file (.npz, .bin)
	Config    string // a decoder.yml
	Source    string // source vocabulary
	Target    string // target vocabulary; equal to Source where they are shared
	Shortlist string // lexical shortlist, text or binary
}

// Find looks at a path given as a model. For a folder it finds everything: the decoder.yml if there is one, otherwise
// the only model file, its vocabularies and its shortlist. For a file it finds the vocabularies beside it, and the
// configuration that Marian wrote for this very model (MODEL.decoder.yml).
func Find(path string) (Bundle, error) {
	info, err := os.Stat(path)
	if err != nil {
		return Bundle{}, fmt.Errorf("model: %w", err)
	}
	if !info.IsDir() {
		return beside(path)
	}
	names, err := listFiles(path)
	if err != nil {
		return Bundle{}, err
	}
	b := fromNames(path, names)
	if b.Config != "" {
		return b, nil
	}
	models := pick(names, isModel)
	switch len(models) {
	case 0:
		return b, fmt.Errorf("model: %s holds no .npz or .bin file and no decoder.yml: %w", path, ErrNotFound)
	case 1:
		b.Model = filepath.Join(path, models[0])
		return b, nil
	}
	return b, fmt.Errorf("model: %s holds several models (%s): name one of them", path, strings.Join(models, ", "))
}

// beside finds what lies in the folder of a model file.
func beside(model string) (Bundle, error) {
	folder := filepath.Dir(model)
	names, err := listFiles(folder)
	if err != nil {
		return Bundle{}, err
	}
	b := fromNames(folder, names)
	b.Model, b.Config, b.Shortlist = model, "", ""
	if own := model + ".decoder.yml"; exists(own) {
		b.Config = own
	}
	return b, nil
}

// fromNames recognises files by the names that Marian's tools and Firefox give them.
func fromNames(folder string, names []string) Bundle {
	var b Bundle
	full := func(name string) string { return filepath.Join(folder, name) }
	for _, name := range names {
		plain := uncompressed(name)
		switch {
		case plain == "decoder.yml" || plain == "config.decoder.yml":
			b.Config = full(name)
		case strings.HasPrefix(plain, "lex.") && b.Shortlist == "":
			b.Shortlist = full(name)
		case isVocabulary(plain) && hasAnyPrefix(plain, "srcvocab.", "source.", "src."):
			b.Source = full(name)
		case isVocabulary(plain) && hasAnyPrefix(plain, "trgvocab.", "target.", "trg.", "tgt."):
			b.Target = full(name)
		}
	}
	if b.Source != "" && b.Target != "" {
		return b
	}
	shared := pick(names, func(name string) bool {
		return isVocabulary(name) && hasAnyPrefix(name, "vocab.", "joint.")
	})
	if len(shared) == 1 {
		b.Source, b.Target = full(shared[0]), full(shared[0])
	}
	return b
}

// IsModel says whether a path has the name of a model file, compressed or not.
func IsModel(path string) bool { return isModel(uncompressed(filepath.Base(path))) }

// IsVocabulary says whether a path has the name of a vocabulary, compressed or not. A .vocab counts here, though it is never
// found by itself: the trainer of SentencePiece leaves one beside the .spm that is meant.
func IsVocabulary(path string) bool {
	name := uncompressed(filepath.Base(path))
	return isVocabulary(name) || strings.HasSuffix(name, ".vocab")
}

func isModel(name string) bool {
	return hasAnySuffix(name, ".npz", ".bin") && !strings.HasPrefix(name, "lex.") && !strings.Contains(name, ".optimizer.")
}

func isVocabulary(name string) bool { return hasAnySuffix(name, ".spm", ".yml", ".yaml", ".json") }

// uncompressed is a file's name without the ending of the compressions that models come in.
func uncompressed(name string) string {
	return strings.TrimSuffix(strings.TrimSuffix(name, ".gz"), ".zst")
}

// pick lists the names, compressed or not, whose plain form is wanted.
func pick(names []string, wanted func(string) bool) []string {
	var out []string
	for _, name := range names {
		if wanted(uncompressed(name)) {
			out = append(out, name)
		}
	}
	return out
}

func listFiles(folder string) ([]string, error) {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return nil, fmt.Errorf("model: %w", err)
	}
	var names []string
	for _, entry := range entries {
		if entry.Type().IsRegular() || entry.Type()&fs.ModeSymlink != 0 {
			names = append(names, entry.Name())
		}
	}
	sort.Strings(names)
	return names, nil
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func hasAnyPrefix(s string, prefixes ...string) bool {
	for _, prefix := range prefixes {
		if strings.HasPrefix(s, prefix) {
			return true
		}
	}
	return false
}

func hasAnySuffix(s string, suffixes ...string) bool {
	for _, suffix := range suffixes {
		if strings.HasSuffix(s, suffix) {
			return true
		}
	}
	return false
}
