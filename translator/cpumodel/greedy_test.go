package cpumodel

import (
	"bytes"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-mt/sluice/internal/sharedtest"
	"github.com/sluice-mt/sluice/translator/marian"
	"github.com/sluice-mt/sluice/translator/model"
	"github.com/sluice-mt/sluice/translator/search"
	"github.com/sluice-mt/sluice/translator/vocab"
)

// A translation is what greedy search gave.
type translation struct {
	tokens    []search.Token // with the end of sentence, if it was reached
	scores    []float32      // of the tokens, if asked for
	attention [][]float32    // of the tokens, if asked for
}

// A greedy is the simplest search there is: every sentence in a slot, the best token at every step.
type greedy struct {
	stepper *Stepper
	eos     search.Token
	scored  bool
	align   bool
	cap     func(source int) int // of the tokens of a translation
}

func (g *greedy) translate(sources []search.Source) []translation {
	out := make([]translation, len(sources))
	n := g.stepper.Slots()
	for first := 0; first < len(sources); first += n {
		end := min(first+n, len(sources))
		g.batch(sources[first:end], out[first:end])
	}
	return out
}

func (g *greedy) batch(sources []search.Source, out []translation) {
	s := g.stepper
	contexts := make([]search.Context, len(sources))
	s.Encode(sources, contexts)
	var slots []search.Slot
	var tokens []search.Token
	for i := range sources {
		s.Begin(search.Slot(i), contexts[i])
		slots, tokens = append(slots, search.Slot(i)), append(tokens, search.NoToken)
	}
	for len(slots) > 0 {
		s.Step(slots, tokens, g.align)
		best := g.best(len(slots))
		var nextSlots []search.Slot
		var nextTokens []search.Token
		for row, slot := range slots {
			t := &out[slot]
			t.tokens = append(t.tokens, best[row].Token)
			t.scores = append(t.scores, best[row].Score)
			if g.align {
				t.attention = append(t.attention, slices.Clone(s.Attention(int32(row))))
			}
			if best[row].Token != g.eos && len(t.tokens) < g.cap(len(sources[slot].Tokens)) {
				nextSlots, nextTokens = append(nextSlots, slot), append(nextTokens, best[row].Token)
			}
		}
		slots, tokens = nextSlots, nextTokens
	}
	for _, c := range contexts {
		s.Release(c)
	}
}

func (g *greedy) best(n int) []search.Scored {
	rows, out := make([]int32, n), make([]search.Scored, n)
	for i := range rows {
		rows[i] = int32(i)
	}
	if g.scored {
		g.stepper.Top(rows, 1, nil, out)
	} else {
		g.stepper.Best(rows, nil, out)
	}
	return out
}

func tripled(source int) int { return 3 * source }

func loadModel(t testing.TB, path string) *model.Model {
	t.Helper()
	file, err := marian.Open(sharedtest.Path(t, "models", path))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := file.Close(); err != nil {
			t.Error(err)
		}
	})
	m, err := model.Load(file, nil)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// pack loads a model. What is known of embeddings does not depend on measurements.
func pack(t testing.TB, m *model.Model, precision Precision, options Options) *Weights {
	t.Helper()
	if options.KnownPieces == 0 {
		options.KnownPieces = DefaultKnownPieces
	}
	w, err := Load(m, precision, options)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func openVocab(t testing.TB, path string) vocab.Vocabulary {
	t.Helper()
	v, err := vocab.Open(sharedtest.Path(t, "models", path))
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// readLines returns the lines of a file of the shared folder.
func readLines(t testing.TB, path string) []string {
	t.Helper()
	data, err := os.ReadFile(sharedtest.Path(t, path))
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for line := range bytes.Lines(data) {
		lines = append(lines, strings.TrimSuffix(string(line), "\n"))
	}
	return lines
}

// sources encodes lines. Right-left models get them reversed.
func sources(v vocab.Vocabulary, lines []string, rightLeft bool) []search.Source {
	out := make([]search.Source, len(lines))
	for i, line := range lines {
		tokens := v.Encode(line, nil)
		if rightLeft {
			slices.Reverse(tokens)
		}
		out[i].Tokens = append(tokens, v.EOS())
	}
	return out
}

// text decodes a translation.
func text(v vocab.Vocabulary, t translation, rightLeft bool) string {
	return string(v.Decode(reading(v, t, rightLeft), nil))
}

// reading returns the tokens in reading order, without the end of sentence.
func reading(v vocab.Vocabulary, t translation, rightLeft bool) []search.Token {
	tokens := slices.Clone(t.tokens)
	if n := len(tokens); n > 0 && tokens[n-1] == v.EOS() {
		tokens = tokens[:n-1]
	}
	if rightLeft {
		slices.Reverse(tokens)
	}
	return tokens
}
