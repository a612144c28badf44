package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-mt/sluice/internal/sharedtest"
)

// The pages in the repository are those of the program as it is, and hold what there is.
func TestReference(t *testing.T) {
	pages, err := build(sharedtest.Root())
	if err != nil {
		t.Fatal(err)
	}
	t.Run("up to date", func(t *testing.T) { expectSame(t, pages) })
	t.Run("whole", func(t *testing.T) { expectWords(t, pages) })
}

func expectSame(t *testing.T, pages map[string]string) {
	folder := filepath.Join(sharedtest.Root(), "docs", "reference")
	for name, text := range pages {
		if content, err := os.ReadFile(filepath.Join(folder, name)); err != nil || string(content) != text {
			t.Errorf("docs/reference/%s is not what the program is: run make reference (%v)", name, err)
		}
	}
	found, err := filepath.Glob(filepath.Join(folder, "*.md"))
	if err != nil || len(found) != len(pages) {
		t.Errorf("docs/reference has %d pages, and %d are generated: %v", len(found), len(pages), err)
	}
}

func expectWords(t *testing.T, pages map[string]string) {
	for name, words := range map[string][]string{
		"commands.md":     {"## sluice translate\n", "### sluice model convert\n", "#### sluice train recipe run\n", "--beam-size int"},
		"exit-codes.md":   {"| 0 | everything was done |", "| 7 | interrupted"},
		"file-formats.md": {"| `original_base64` | base64 |", "| `split` | the input was longer"},
		"fuzz-targets.md": {"| `internal/nbest` | `FuzzParse` | "},
		"job-file.md":     {"| `source.kafka.topics` | text, or several |", "| `observe.listen` |", "| `grace-period` | duration |"},
		"metrics.md":      {"| `sluice_lane_lag_records` | `lane` |"},
		"recipe.md":       {"## back-translate\n", "| `hold-back.pairs` | whole number |"},
		"training.md":     {"| `learn-rate` | `0.0003` |", "| `transformer-heads` |", "| `dim-rnn` | `1024` |", "| `dec-fc-depth` |"},
	} {
		for _, word := range words {
			if !strings.Contains(pages[name], word) {
				t.Errorf("%s lacks %q", name, word)
			}
		}
	}
	if commands := pages["commands.md"]; strings.Contains(commands, sharedtest.Root()) || strings.Count(commands, "\n## ") < 15 {
		t.Errorf("the page of commands has %d of them, or a path of this machine", strings.Count(commands, "\n## "))
	}
}
