package cpumodel

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/sluice-mt/sluice/translator/vocab"
)

// TestStudent compares with greedy translations in float32 that another engine gave for a real student.
func TestStudent(t *testing.T) {
	v := openVocab(t, "ende-tiny/vocab.spm")
	m := loadModel(t, "ende-tiny/model.npz")
	weights := pack(t, m, Float32, Options{Suppress: []int32{v.Unk()}})
	g := greedy{stepper: weights.NewStepper(64), eos: v.EOS(), cap: tripled}
	for _, c := range []struct {
		input, want string
		lines       int
	}{
		{"data/test-multi30k-2016.en", "models/ende-tiny/ref/multi30k-2016.greedy.f32.de", 1000},
		{"data/test-mix.en", "models/ende-tiny/ref/mix-500.greedy.f32.de", 500},
	} {
		input, want := readLines(t, c.input)[:c.lines], readLines(t, c.want)
		if testing.Short() {
			input = input[:100]
		}
		same := 0
		for i, got := range g.translate(sources(v, input, false)) {
			if line := text(v, got, false); line == want[i] {
				same++
			} else {
				t.Logf("line %d is\n%s\nwant\n%s", i+1, line, want[i])
			}
		}
		t.Logf("%s: %d of %d lines are equal", c.want, same, len(input))
		if same*1000 < len(input)*995 {
			t.Errorf("%s: only %d of %d lines are equal", c.want, same, len(input))
		}
	}
}

// references are the models that Marian trained and ran for these tests, with their vocabularies.
var references = []struct{ name, source, target string }{
	{"transformer-selfatt", "joint", "joint"}, {"transformer-prenorm", "joint", "joint"}, {"transformer-aan", "joint", "joint"},
	{"transformer-aan-plain", "joint", "joint"}, {"transformer-ssru-tied", "joint", "joint"}, {"transformer-sru", "joint", "joint"},
	{"transformer-untied", "src", "trg"}, {"transformer-rms", "joint", "joint"}, {"right-left", "bpe", "bpe"},
}

func referenceVocab(t testing.TB, name string) vocab.Vocabulary {
	return openVocab(t, "reference/vocab/"+name+".spm")
}

// TestReferences compares pieces and word scores with those that marian-decoder printed.
func TestReferences(t *testing.T) {
	for _, r := range references {
		t.Run(r.name, func(t *testing.T) {
			source, target := referenceVocab(t, r.source), referenceVocab(t, r.target)
			m := loadModel(t, "reference/"+r.name+"/model.npz")
			weights := pack(t, m, Float32, Options{Suppress: []int32{target.Unk()}})
			g := greedy{stepper: weights.NewStepper(16), eos: target.EOS(), scored: true, cap: tripled}
			input, want := readLines(t, "models/reference/data/input.en"), readLines(t, "models/reference/"+r.name+"/greedy.pieces.txt")
			largest, different := 0.0, 0
			for i, got := range g.translate(sources(source, input, m.RightLeft)) {
				if input[i] == "" {
					continue // Marian does not ask the model
				}
				pieces, scores := parsePieces(t, want[i])
				if have := spelled(target, got, m.RightLeft); !slices.Equal(have, pieces) {
					different++
					t.Logf("line %d is\n%v\nwant\n%v", i+1, have, pieces)
					continue
				}
				for j, score := range got.scores {
					largest = max(largest, abs(float64(score)-scores[j]))
				}
			}
			t.Logf("%d lines differ, word scores by up to %.2g", different, largest)
			if different > 0 && r.name != "transformer-aan-plain" || different > 1 || largest > 1e-3 {
				t.Errorf("%d lines differ, word scores by up to %.2g", different, largest)
			}
		})
	}
}

// parsePieces splits "▁Die ▁Tür ||| WordScores= -1.2 -2.7 -0.1".
func parsePieces(t *testing.T, line string) (pieces []string, scores []float64) {
	left, right, ok := strings.Cut(line, " ||| WordScores=")
	if !ok {
		t.Fatalf("line %q", line)
	}
	for _, field := range strings.Fields(right) {
		score, err := strconv.ParseFloat(field, 64)
		if err != nil {
			t.Fatal(err)
		}
		scores = append(scores, score)
	}
	return strings.Fields(left), scores
}

func spelled(v vocab.Vocabulary, t translation, rightLeft bool) []string {
	var pieces []string
	for _, token := range reading(v, t, rightLeft) {
		pieces = append(pieces, v.Piece(token))
	}
	return pieces
}

func abs(x float64) float64 { return max(x, -x) }
