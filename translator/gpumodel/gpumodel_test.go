//go:build linux && (amd64 || arm64) && !nogpu

package gpumodel

import (
	"errors"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"github.com/sluice-mt/sluice/gpukernels"
	"github.com/sluice-mt/sluice/gpukernels/cuda"
	"github.com/sluice-mt/sluice/gpukernels/emulated"
	"github.com/sluice-mt/sluice/internal/sharedtest"
	"github.com/sluice-mt/sluice/translator/cpumodel"
	"github.com/sluice-mt/sluice/translator/marian"
	"github.com/sluice-mt/sluice/translator/model"
	"github.com/sluice-mt/sluice/translator/search"
	"github.com/sluice-mt/sluice/translator/shortlist"
	"github.com/sluice-mt/sluice/translator/vocab"
)

// A comparison runs both Steppers of a pair over the same histories, those that the processor chooses, and compares everything that
// they answer. fp16 rounds, so a token may be another one if the processor's scores of the two are within the tolerance.
type comparison struct {
	t         *testing.T
	p         pair
	tolerance float64
	relative  float64 // what is tolerated of a number besides, as a part of it
	most      int     // tokens of a translation
	steps     int     // so far: every other one is asked to align
	scored    bool    // compare log-probabilities, too
	ties      int
}

func (c *comparison) run(sources []search.Source) [][]search.Token {
	c.t.Helper()
	contexts := [2][]search.Context{make([]search.Context, len(sources)), make([]search.Context, len(sources))}
	var slots []search.Slot
	var tokens []search.Token
	for i, s := range []search.Stepper{c.p.gpu, c.p.cpu} {
		s.Encode(sources, contexts[i])
		for slot, handle := range contexts[i] {
			s.Begin(search.Slot(slot), handle)
		}
	}
	for i := range sources {
		slots, tokens = append(slots, search.Slot(i)), append(tokens, search.NoToken)
	}
	translations := make([][]search.Token, len(sources))
	for len(slots) > 0 {
		best := c.step(slots, tokens)
		var goOn []search.Slot
		tokens = tokens[:0]
		for row, slot := range slots {
			translations[slot] = append(translations[slot], best[row])
			if best[row] != 0 && len(translations[slot]) < c.most {
				goOn, tokens = append(goOn, slot), append(tokens, best[row])
			}
		}
		slots = goOn
	}
	for i, s := range []search.Stepper{c.p.gpu, c.p.cpu} {
		for _, handle := range contexts[i] {
			s.Release(handle)
		}
	}
	must(c.t, c.p.gpu.Err())
	return translations
}

// step advances both and returns what the processor holds best.
func (c *comparison) step(slots []search.Slot, tokens []search.Token) []search.Token {
	c.t.Helper()
	gpu, cpu := c.p.gpu, c.p.cpu
	rows := make([]int32, len(slots))
	for i := range rows {
		rows[i] = int32(i)
	}
	c.steps++
	align := c.steps%2 == 0
	gpu.Step(slots, tokens, align)
	cpu.Step(slots, tokens, align)
	have, want := make([]search.Scored, len(rows)), make([]search.Scored, len(rows))
	gpu.Best(rows, nil, have)
	cpu.Best(rows, nil, want)
	best := make([]search.Token, len(rows))
	for i := range rows {
		best[i] = want[i].Token
		c.nearAll("attention", gpu.Attention(rows[i]), cpu.Attention(rows[i]))
	}
	c.compareTokens(have, want)
	if c.scored {
		gpu.Top(rows, 1, nil, have)
		cpu.Top(rows, 1, nil, want)
		c.compareTokens(have, want)
	}
	return best
}

// follow leads the processor along translations of the device, and compares their words and alignments with what it holds of them.
func (c *comparison) follow(sources []search.Source, translations []search.Hypothesis) {
	c.t.Helper()
	cpu, contexts := c.p.cpu, make([]search.Context, len(sources))
	cpu.Encode(sources, contexts)
	for slot, handle := range contexts {
		cpu.Begin(search.Slot(slot), handle)
	}
	before := slices.Repeat([]search.Token{search.NoToken}, len(sources))
	for word := 0; ; word++ {
		var slots []search.Slot
		var tokens []search.Token
		var rows []int32
		for i := range translations {
			if word < len(translations[i].Tokens) {
				slots, tokens, rows = append(slots, search.Slot(i)), append(tokens, before[i]), append(rows, int32(len(rows)))
			}
		}
		if len(slots) == 0 {
			break
		}
		cpu.Step(slots, tokens, true)
		have, want := make([]search.Scored, len(rows)), make([]search.Scored, len(rows))
		cpu.Best(rows, nil, want)
		for i, slot := range slots {
			t := &translations[slot]
			before[slot] = t.Tokens[word]
			have[i] = search.Scored{Token: t.Tokens[word], Score: want[i].Score}
			c.nearAll("attention", t.Alignment[word], cpu.Attention(rows[i]))
		}
		c.compareTokens(have, want)
	}
	for _, handle := range contexts {
		cpu.Release(handle)
	}
}

// compareTokens counts tokens that are others, and fails if scores are, or if the processor does not hold the other token nearly as good.
func (c *comparison) compareTokens(have, want []search.Scored) {
	c.t.Helper()
	for i := range want {
		c.near("score", float64(have[i].Score), float64(want[i].Score))
		if have[i].Token != want[i].Token {
			c.ties++
			best := make([]search.Scored, 4)
			c.p.cpu.Top([]int32{int32(i)}, len(best), nil, best)
			at := slices.IndexFunc(best, func(s search.Scored) bool { return s.Token == have[i].Token })
			if at < 0 || float64(best[0].Score-best[at].Score) > c.tolerance {
				c.t.Errorf("token %d instead of %d, where the best are %v", have[i].Token, want[i].Token, best)
			}
		}
	}
}

func (c *comparison) near(what string, have, want float64) {
	c.t.Helper()
	if !(math.Abs(have-want) <= c.tolerance+c.relative*math.Abs(want)) {
		c.t.Fatalf("%s %v, want %v", what, have, want)
	}
}

func (c *comparison) nearAll(what string, have, want []float32) {
	c.t.Helper()
	if len(have) != len(want) {
		c.t.Fatalf("%s of %d elements, want %d", what, len(have), len(want))
	}
	for i := range want {
		if math.IsInf(float64(want[i]), -1) && have[i] == want[i] {
			continue
		}
		c.near(what, float64(have[i]), float64(want[i]))
	}
}

// descriptions are variants of the small model.
var descriptions = map[string]string{
	"post-norm": "", "tied layers": "transformer-tied-layers: [1, 1]", "projection": "transformer-rnn-projection: true",
	"pre-norm":   "transformer-preprocess: n\ntransformer-postprocess: da\ntransformer-postprocess-top: n\ntransformer-rnn-projection: true",
	"own tables": "tied-embeddings-all: false", "norm behind embeddings": "transformer-postprocess-emb: nd",
	"no positions": "transformer-disable-position-embeddings: true", "no bias": "output-omit-bias: true",
	"small heads": "transformer-heads: 4", "one head": "transformer-heads: 1", "no projection": "transformer-no-projection: true",
	"swish":     "transformer-ffn-activation: swish\ntransformer-ffn-depth: 3",
	"gelu":      "transformer-ffn-activation: gelu\ntransformer-decoder-ffn-depth: 1",
	"rms norms": "transformer-preprocess: r\ntransformer-postprocess: dar", "highways": "transformer-postprocess: hn\ntransformer-rnn-projection: true",
	"top adds": "transformer-postprocess-top: an", "sru": "dec-cell: sru",
	"self-attention":           "transformer-decoder-autoreg: self-attention",
	"pre-norm self-attention":  "transformer-decoder-autoreg: self-attention\ntransformer-preprocess: n\ntransformer-postprocess: da\ntransformer-postprocess-top: n\ntransformer-no-projection: true",
	"tied self-attention":      "transformer-decoder-autoreg: self-attention\ntransformer-tied-layers: [1, 1]",
	"average attention":        "transformer-decoder-autoreg: average-attention\ntransformer-dim-aan: 96",
	"plain average attention":  "transformer-decoder-autoreg: average-attention\ntransformer-aan-nogate: true\ntransformer-aan-depth: 1",
	"two sources":              "type: multi-transformer\ndim-vocabs: [70, 70, 70]",
	"two shared sources":       "type: shared-multi-transformer\ndim-vocabs: [70, 70, 70]\ntransformer-decoder-autoreg: self-attention\ntransformer-tied-layers: [1, 1]",
	"two sources with tables":  "type: multi-transformer\ndim-vocabs: [70, 70, 70]\ntied-embeddings-all: false\ntransformer-decoder-autoreg: average-attention\ntransformer-preprocess: n",
	"language model":           "type: lm-transformer\ndim-vocabs: [70]\ntransformer-decoder-autoreg: self-attention",
	"language model of SSRUs":  "type: lm-transformer\ndim-vocabs: [70]\ntransformer-preprocess: n\ntransformer-postprocess: da",
	"gru":                      "dec-cell: gru",
	"gru with norms":           "dec-cell: gru\nlayer-normalization: true\ntransformer-tied-layers: [1, 1]",
	"gru of nematus":           "dec-cell: gru-nematus\nlayer-normalization: true\ntransformer-rnn-projection: true",
	"lstm":                     "dec-cell: lstm",
	"pre-norm lstm":            "dec-cell: lstm\ntransformer-preprocess: n\ntransformer-postprocess: da\ntransformer-postprocess-top: n",
	"mgru":                     "dec-cell: mgru\ntransformer-rnn-projection: true",
	"mlstm with norms":         "dec-cell: mlstm\nlayer-normalization: true",
	"tanh":                     "dec-cell: tanh\nlayer-normalization: true",
	"relu":                     "dec-cell: relu",
	"sru with norms":           "dec-cell: sru\nlayer-normalization: true",
	"ssru with norms":          "dec-cell: ssru\nlayer-normalization: true",
	"s2s":                      "type: s2s\ndim-rnn: 48\nenc-cell: gru\ndec-cell: gru",
	"deep s2s":                 "type: s2s\ndim-rnn: 48\nenc-cell: lstm\ndec-cell: mlstm\nlayer-normalization: true\nskip: true\nenc-type: alternating\nenc-cell-depth: 2\ndec-depth: 3\ndec-cell-base-depth: 2",
	"deep cells":               "type: s2s\ndim-rnn: 48\nenc-cell: tanh\ndec-cell: gru-nematus\nskip: true\nenc-type: bi-unidirectional\nenc-depth: 3\nenc-cell-depth: 2\ndec-cell-base-depth: 4\ndec-cell-high-depth: 2",
	"amun":                     "type: amun\ndim-rnn: 48\nenc-cell: gru\ndec-cell: gru\nenc-depth: 1\ndec-depth: 1",
	"nematus":                  "type: nematus\ndim-rnn: 72\nenc-cell: gru-nematus\ndec-cell: gru-nematus\nlayer-normalization: true\nskip: true\nenc-cell-depth: 2\ndec-cell-base-depth: 3",
	"simple recurrent units":   "type: s2s\ndim-rnn: 64\nenc-cell: sru\ndec-cell: lstm\nskip: true\nenc-depth: 3\ntied-embeddings-all: false",
	"s2s of two sources":       "type: multi-s2s\ndim-vocabs: [70, 70, 70]\ndim-rnn: 48\nenc-cell: lstm\ndec-cell: gru",
	"s2s of shared sources":    "type: shared-multi-s2s\ndim-vocabs: [70, 70, 70]\ndim-rnn: 48\nenc-cell: gru\ndec-cell: lstm\nlayer-normalization: true",
	"recurrent language model": "type: lm\ndim-vocabs: [70]\ndim-rnn: 48\ndec-cell: gru",
	"narrow heads":             "transformer-heads: 8",
	"odd heads":                "dim-emb: 60\ntransformer-heads: 3\ntransformer-dim-ffn: 90\ntransformer-decoder-autoreg: self-attention\ntransformer-postprocess-emb: nd",
	"odd heads, pre-norm":      "dim-emb: 36\ntransformer-heads: 2\ntransformer-decoder-autoreg: self-attention\ntransformer-preprocess: n\ntransformer-postprocess: da\ntransformer-no-projection: true",
	"wide heads":               "dim-emb: 144\ntransformer-heads: 1\ntransformer-decoder-autoreg: self-attention",
	"odd rows":                 "dim-emb: 46\ntransformer-heads: 2\ntransformer-dim-ffn: 51\ntransformer-preprocess: r\ntransformer-postprocess: har\ntied-embeddings-all: false",
	"odd average attention":    "dim-emb: 52\ntransformer-decoder-autoreg: average-attention\ntransformer-dim-aan: 77",
	"odd sigmoids":             "dim-emb: 4\ntransformer-heads: 2\ntransformer-decoder-autoreg: average-attention\ntransformer-dim-aan: 4\ntransformer-aan-activation: sigmoid\ntransformer-aan-nogate: true",
	"odd sru":                  "dim-emb: 44\ndec-cell: sru\ntransformer-rnn-projection: true",
	"odd lstm with norms":      "dim-emb: 44\ndec-cell: lstm\nlayer-normalization: true",
	"odd s2s":                  "type: s2s\ndim-emb: 50\ndim-rnn: 43\nenc-cell: gru\ndec-cell: gru\nlayer-normalization: true\nenc-depth: 2\ndec-depth: 2\nskip: true",
	"odd deep cells":           "type: s2s\ndim-emb: 52\ndim-rnn: 26\nenc-cell: lstm\ndec-cell: gru\nskip: true\nenc-type: bi-unidirectional\nenc-depth: 3\nenc-cell-depth: 2\ndec-cell-base-depth: 4\ndec-cell-high-depth: 2",
	"odd nematus":              "type: nematus\ndim-emb: 50\ndim-rnn: 44\nenc-cell: gru-nematus\ndec-cell: gru-nematus\nlayer-normalization: true\ndec-cell-base-depth: 3",
	"odd s2s of two sources":   "type: multi-s2s\ndim-vocabs: [70, 70, 70]\ndim-emb: 50\ndim-rnn: 42\nenc-cell: lstm\ndec-cell: mgru\nlayer-normalization: true",
	"devlin":                   "type: devlin\ndim-rnn: 48\nenc-cell: gru\ndec-cell: gru\ndec-fc-depth: 3",
	"deep devlin":              "type: devlin\ndim-emb: 50\ndim-rnn: 43\nenc-cell: lstm\ndec-cell: gru\ndec-fc-depth: 5\ndim-fc: 141\ndec-top: gru\nenc-type: bi-unidirectional\nenc-depth: 2",
	"flat devlin":              "type: devlin\ndim-emb: 96\ndim-rnn: 40\nenc-cell: gru\ndec-cell: gru\ndec-fc-depth: 0\ndec-top: gru\ntied-embeddings-all: false",
	"hard attention":           "type: hard-att\nspecial-vocab: [2, 33]\ndim-rnn: 48\nenc-cell: gru\ndec-cell: gru\ndec-depth: 2",
	"hard and soft attention":  "type: hard-soft-att\nspecial-vocab: [2, 33]\ndim-emb: 50\ndim-rnn: 43\nenc-cell: lstm\ndec-cell: lstm\ndec-depth: 2\nlayer-normalization: true\nskip: true",
	"hard, of two sources":     "type: multi-hard-att\nspecial-vocab: [2, 33]\ndim-vocabs: [70, 70, 70]\ndim-rnn: 48\nenc-cell: gru\ndec-cell: gru",
	"deep average attention":   "transformer-decoder-autoreg: average-attention\ntransformer-dim-aan: 64\ntransformer-aan-depth: 3\ntransformer-aan-activation: relu\ntransformer-preprocess: n",
}

// describe is the description of the small model with some keys set otherwise.
func describe(changes string) []byte {
	lines := strings.Split(strings.TrimSpace(string(small(""))), "\n")
	for change := range strings.Lines(changes) {
		change = strings.TrimSpace(change)
		key, _, _ := strings.Cut(change, ":")
		lines = slices.DeleteFunc(lines, func(line string) bool { return strings.HasPrefix(line, key+":") })
		lines = append(lines, change)
	}
	return []byte(strings.Join(lines, "\n"))
}

func TestSmallModels(t *testing.T) {
	d := openDevice(t)
	for name, more := range descriptions {
		t.Run(name, func(t *testing.T) {
			c := comparison{t: t, p: newPair(t, d, randomModel(t, describe(more)), 4, 5), tolerance: 0.05, most: 5, scored: true}
			c.run(randomSources(3, 17, 1, 9))
			sources := randomSources(4, 2)
			sources[0].Candidates, sources[1].Candidates = []search.Token{0, 3, 5, 8, 64}, nil
			c.run(sources)
			if c.ties > 2 {
				t.Errorf("%d other tokens", c.ties)
			}
		})
	}
}

// A model in 4 bits gives what it gives on the processor, in float16 and in 8 bits.
func TestModelsInFourBits(t *testing.T) {
	d, inBytes := openDevice(t), openInt8(t)
	for _, kind := range allProducts {
		t.Run(kind, func(t *testing.T) {
			m := inFourBits(t, randomModel(t, describe(descriptions[kind])))
			if m.TargetEmbedding.Type != marian.Log4Mixed {
				t.Fatalf("the embeddings are stored as %v", m.TargetEmbedding.Type)
			}
			c := comparison{t: t, p: newPair(t, d, m, 4, 5), tolerance: 0.05, most: 5, scored: true}
			c.run(randomSources(3, 17, 1, 9))
			if c.ties > 2 {
				t.Errorf("%d other tokens", c.ties)
			}
			likeProcessorsInt8(t, inBytes, m)
		})
	}
}

// The scores of a row are the same in whatever order rows are asked for theirs, and those of the last step.
func TestScoresInAnyOrder(t *testing.T) {
	const rows = 2*scoredTogether + 5
	s := newStepper(t, openDevice(t), randomModel(t, small("")), rows)
	sources, contexts := randomSources(7, 9, rows), make([]search.Context, rows)
	for i := range sources {
		if i%5 == 0 {
			sources[i].Candidates = []search.Token{0, 3, 5, 9, 20, 33, 69}
		}
	}
	s.Encode(sources, contexts)
	slots, tokens := make([]search.Slot, rows), slices.Repeat([]search.Token{search.NoToken}, rows)
	for i, handle := range contexts {
		slots[i] = search.Slot(i)
		s.Begin(slots[i], handle)
	}
	random := rand.New(rand.NewPCG(3, 3))
	var before [][]float32
	for range 2 {
		s.Step(slots, tokens, false)
		inOrder := make([][]float32, rows)
		for row := range inOrder {
			inOrder[row] = slices.Clone(s.LogProbs(int32(row)))
		}
		order := append(random.Perm(rows), random.Perm(rows)...)
		for _, row := range append(order, 0) { // last the one that the next step asks about first
			if !slices.Equal(s.LogProbs(int32(row)), inOrder[row]) {
				t.Fatalf("row %d has other scores after other rows", row)
			}
		}
		for row := range before {
			if slices.Equal(before[row], inOrder[row]) {
				t.Fatalf("row %d has the scores of the step before", row)
			}
		}
		before = inOrder
		for i := range tokens {
			tokens[i] = 1 + search.Token(random.IntN(smallVocabulary-1))
		}
	}
}

// Single tokens have the log-probabilities that they have among all, bit for bit the same in whatever rows others are asked for, with products of
// 16 bits and of 8.
func TestLogProbsOfTokens(t *testing.T) {
	rows, apart := 2*scoredTogether+5, 1 // every so many rows are asked about by themselves
	if testing.Short() {
		rows, apart = scoredTogether+3, 6
	}
	for _, d := range devices(t) {
		s := newStepper(t, d, randomModel(t, small("")), rows)
		sources, contexts := randomSources(slices.Repeat([]int{4, 9, 2}, rows)[:rows]...), make([]search.Context, rows)
		s.Encode(sources, contexts)
		slots, given := make([]search.Slot, rows), slices.Repeat([]search.Token{search.NoToken}, rows)
		for i, handle := range contexts {
			slots[i] = search.Slot(i)
			s.Begin(slots[i], handle)
		}
		random := rand.New(rand.NewPCG(7, 7))
		for range 2 {
			s.Step(slots, given, false)
			starts, tokens := []int32{0}, []search.Token(nil)
			for range rows {
				for range random.IntN(4) {
					tokens = append(tokens, random.Int32N(smallVocabulary))
				}
				starts = append(starts, int32(len(tokens)))
			}
			have := make([]float32, len(tokens))
			s.LogProbsOf(starts, tokens, have)
			for row := 0; row < rows; row += apart {
				first, end := starts[row], starts[row+1]
				all := s.LogProbs(int32(row))
				for i := first; i < end; i++ {
					if want := all[tokens[i]]; !(math.Abs(float64(have[i]-want)) <= 1e-5*math.Abs(float64(want))) {
						t.Fatalf("row %d, token %d: %v, and %v among all", row, tokens[i], have[i], want)
					}
				}
				alone, only := make([]float32, end-first), append(make([]int32, row+1), slices.Repeat([]int32{end - first}, rows-row)...)
				s.LogProbsOf(only, tokens[first:end], alone)
				if !slices.Equal(alone, have[first:end]) {
					t.Fatalf("row %d alone has %v, and %v among others", row, alone, have[first:end])
				}
			}
			for i := range given {
				given[i] = 1 + random.Int32N(smallVocabulary-1)
			}
		}
		must(t, s.Err())
	}
}

// Answers that are read when the next step is under way, its sentences in the place of others that have ended, are those that are read at once.
func TestQuestionsAhead(t *testing.T) {
	for _, kind := range []string{"post-norm", "pre-norm self-attention", "deep s2s", "average attention"} {
		m := randomModel(t, describe(descriptions[kind]))
		want := questioned(t, m, 0)
		for _, hasty := range []string{"", "even", "odd"} {
			setEmulated(t, "hasty", hasty, "")
			if have := questioned(t, m, 1); !slices.EqualFunc(have, want, slices.Equal) {
				t.Errorf("%s, streams %q ahead: other answers", kind, hasty)
			}
		}
		setEmulated(t, "hasty", "", "")
	}
}

// questioned returns the log-probabilities of tokens in steps of a few slots. Sentences end soon, and others take their places. So many answers are
// read after the next step has been asked for.
func questioned(t *testing.T, m *model.Model, late int) (answers [][]float32) {
	t.Helper()
	const slots, steps = 5, 9
	d := openDevice(t)
	s := newStepper(t, d, m, slots)
	random := rand.New(rand.NewPCG(3, 9))
	var contexts [slots]search.Context
	var left [slots]int // steps of a slot's sentence
	given := slices.Repeat([]search.Token{search.NoToken}, slots)
	var counts []int
	read := func() {
		answer := make([]float32, counts[0])
		s.AnswerLogProbs(answer)
		answers, counts = append(answers, answer), counts[1:]
	}
	for step := range steps {
		for i := range slots {
			if left[i] > 0 {
				left[i], given[i] = left[i]-1, 1+random.Int32N(smallVocabulary-1)
				continue
			}
			if step > 0 {
				s.Release(contexts[i])
			}
			s.Encode([]search.Source{{Tokens: randomSources(2 + random.IntN(6))[0].Tokens}}, contexts[i:i+1])
			s.Begin(search.Slot(i), contexts[i])
			left[i], given[i] = random.IntN(3), search.NoToken
		}
		s.Step([]search.Slot{0, 1, 2, 3, 4}, given, false)
		starts, tokens := []int32{0}, []search.Token(nil)
		for range slots {
			for range 1 + random.IntN(3) {
				tokens = append(tokens, random.Int32N(smallVocabulary))
			}
			starts = append(starts, int32(len(tokens)))
		}
		s.AskLogProbs(starts, tokens)
		if counts = append(counts, len(tokens)); len(counts) > late {
			read()
		}
	}
	for len(counts) > 0 {
		read()
	}
	must(t, s.Err())
	return answers
}

// What rows score is the same to the last bit beside one that has candidates, which itself has its share among these.
func TestLogProbsOfTokensBesideCandidates(t *testing.T) {
	const rows, chosen = 40, 1
	s := newStepper(t, openDevice(t), randomModel(t, small("")), rows)
	starts, tokens := []int32{0}, []search.Token(nil)
	for range rows {
		tokens = append(tokens, 5, 33)
		starts = append(starts, int32(len(tokens)))
	}
	scores := func(candidates []search.Token) (picked []float32) {
		sources, contexts := randomSources(slices.Repeat([]int{4, 9, 2}, rows)[:rows]...), make([]search.Context, rows)
		sources[chosen].Candidates = candidates
		s.Encode(sources, contexts)
		slots, given := make([]search.Slot, rows), slices.Repeat([]search.Token{search.NoToken}, rows)
		for i, handle := range contexts {
			slots[i] = search.Slot(i)
			s.Begin(slots[i], handle)
		}
		s.Step(slots, given, false)
		picked = make([]float32, len(tokens))
		s.LogProbsOf(starts, tokens, picked)
		for _, handle := range contexts {
			s.Release(handle)
		}
		must(t, s.Err())
		return picked
	}
	free, beside := scores(nil), scores([]search.Token{0, 5, 33})
	for i, token := range tokens {
		switch {
		case i/2 != chosen && beside[i] != free[i]:
			t.Errorf("token %d of row %d has %v beside a row with candidates, and %v without", token, i/2, beside[i], free[i])
		case i/2 == chosen && !(beside[i] > free[i]+0.1):
			t.Errorf("token %d has %v among 3 candidates, and %v among all", token, beside[i], free[i])
		}
	}
}

// All scores, the best k, bans and suppressed tokens, with candidates and without.
func TestScores(t *testing.T) {
	d := openDevice(t)
	p := newPair(t, d, randomModel(t, small("")), 3, 5, 8)
	c := comparison{t: t, p: p, tolerance: 0.05}
	sources := randomSources(6, 8, 3)
	sources[1].Candidates = []search.Token{0, 3, 5, 9, 20, 33, 69}
	contexts := make([]search.Context, 3)
	for _, s := range []search.Stepper{p.gpu, p.cpu} {
		s.Encode(sources, contexts)
		for i, handle := range contexts {
			s.Begin(search.Slot(i), handle)
		}
		s.Step([]search.Slot{2, 0, 1}, []search.Token{search.NoToken, search.NoToken, search.NoToken}, false)
	}
	for row := range int32(3) {
		c.nearAll("log-probability", p.gpu.LogProbs(row), p.cpu.LogProbs(row))
		if p.gpu.Attention(row) != nil {
			t.Error("attention that was not asked for")
		}
	}
	const k = 6
	rows, banned := []int32{2, 0}, [][]search.Token{{3, 9}, {1, 2}}
	have, want := make([]search.Scored, 2*k), make([]search.Scored, 2*k)
	p.gpu.Top(rows, k, banned, have)
	p.cpu.Top(rows, k, banned, want)
	for i := range want {
		if have[i].Token == search.NoToken || want[i].Token == search.NoToken {
			if have[i].Token != want[i].Token {
				t.Errorf("choice %d is %v, want %v", i, have[i], want[i])
			}
			continue
		}
		c.near("score", float64(have[i].Score), float64(want[i].Score))
	}
	for i, scored := range have {
		if scored.Token != search.NoToken && (slices.Contains(banned[i/k], scored.Token) || scored.Token == 5 || scored.Token == 8) {
			t.Errorf("choice %d is the forbidden token %d", i, scored.Token)
		}
	}
}

// Beam search moves hypotheses among slots, and slots are taken again by other sentences.
func TestBeam(t *testing.T) {
	d := openDevice(t)
	for _, kind := range autoregressions {
		p := newPair(t, d, randomModel(t, describe(descriptions[kind])), 8)
		sources := randomSources(5, 12, 3, 7, 9)
		options := search.Options{Beam: 4, Normalize: 1, MaxLengthFactor: 1}
		have, want := decode(t, p.gpu, sources, options), decode(t, p.cpu, sources, options)
		for i := range want {
			if math.Abs(float64(have[i].Score-want[i].Score)) > 0.05*float64(len(want[i].Tokens)) {
				t.Errorf("%s: sentence %d scores %v, want %v", kind, i, have[i].Score, want[i].Score)
			}
		}
		must(t, p.gpu.Err())
	}
}

// autoregressions names a description of each way to look at the words so far.
var autoregressions = []string{"post-norm", "pre-norm self-attention", "average attention", "lstm", "s2s", "odd heads, pre-norm", "deep devlin", "wide heads"}

// Translations get longer than there is room for at first, and hypotheses share and leave the rows of their words.
func TestLongTranslations(t *testing.T) {
	p := newPair(t, openDevice(t), randomModel(t, describe(descriptions["self-attention"])), 6)
	sources := randomSources(14, 2, 9)
	options := search.Options{Beam: 3, Normalize: 1, MaxLengthFactor: 5}
	have, want := decode(t, p.gpu, sources, options), decode(t, p.cpu, sources, options)
	for i := range want {
		if math.Abs(float64(have[i].Score-want[i].Score)) > 0.05*float64(len(want[i].Tokens)) {
			t.Errorf("sentence %d scores %v, want %v", i, have[i].Score, want[i].Score)
		}
	}
	if len(want[0].Tokens) <= fewestPositions {
		t.Errorf("only %d tokens", len(want[0].Tokens))
	}
	for slot := range p.gpu.slots {
		p.gpu.Begin(search.Slot(slot), 0)
	}
	if w := &p.gpu.words; len(w.free) != w.rows-mostPadding || slices.Max(w.users) > 0 || slices.Min(w.users) < 0 {
		t.Errorf("of %d rows, %d are free when nobody has any", w.rows-mostPadding, len(w.free))
	}
}

func decode(t *testing.T, s search.Stepper, sources []search.Source, options search.Options) []search.Hypothesis {
	t.Helper()
	d, err := search.NewDecoder([]search.Stepper{s}, nil, 0)
	must(t, err)
	out := make([]search.Hypothesis, len(sources))
	for done, next := 0, 0; done < len(sources); {
		for next < len(sources) {
			sentence := &search.Sentence{Source: sources[next], Options: options, Tag: next}
			if sentence.Slots() > d.Free() {
				break
			}
			d.Encode([]*search.Sentence{sentence})
			d.Start(sentence)
			next++
		}
		for _, result := range d.Step() {
			out[result.Sentence.Tag.(int)] = result.Clone().Hypotheses[0]
			done++
		}
	}
	return out
}

// A sentence gives the same bits alone, among others, in another slot, and where there are more or fewer of them.
func TestInvariance(t *testing.T) {
	kinds := autoregressions
	if testing.Short() { // as in other modes
		kinds = autoregressions[:2]
	}
	for _, d := range append(devices(t), openBFloat16(t)) {
		for _, kind := range kinds {
			testInvariance(t, newStepper(t, d, randomModel(t, describe(descriptions[kind])), 40))
		}
	}
}

func testInvariance(t *testing.T, s *Stepper) {
	lengths := []int{9, 70, 3}
	for len(lengths) < 40 {
		lengths = append(lengths, 1+len(lengths)%5)
	}
	sources := randomSources(lengths...)
	all := scoresOf(s, sources)
	for _, i := range []int{0, 1, 2, 39} {
		if alone := scoresOf(s, sources[i:i+1])[0]; !slices.Equal(alone, all[i]) {
			t.Errorf("sentence %d alone differs", i)
		}
	}
	for _, slots := range []int{3, 100} {
		other, err := s.w.NewStepper(slots)
		must(t, err)
		if few := scoresOf(other, sources[:3]); !slices.EqualFunc(few, all[:3], slices.Equal) {
			t.Errorf("three sentences differ where there are %d slots, and not %d", slots, s.Slots())
		}
		must(t, errors.Join(other.Err(), other.Close()))
	}
}

// scoresOf returns the best three of three steps for each sentence.
func scoresOf(s *Stepper, sources []search.Source) [][]search.Scored {
	contexts := make([]search.Context, len(sources))
	s.Encode(sources, contexts)
	var slots []search.Slot
	var tokens []search.Token
	var rows []int32
	for i, handle := range contexts {
		slot := search.Slot(s.Slots() - 1 - i)
		s.Begin(slot, handle)
		slots, tokens, rows = append(slots, slot), append(tokens, search.NoToken), append(rows, int32(i))
	}
	all := make([][]search.Scored, len(sources))
	for range 3 {
		s.Step(slots, tokens, false)
		best := make([]search.Scored, 3*len(rows))
		s.Top(rows, 3, nil, best)
		for i := range rows {
			all[i] = append(all[i], best[3*i:3*i+3]...)
			tokens[i] = best[3*i].Token
		}
	}
	for _, handle := range contexts {
		s.Release(handle)
	}
	return all
}

// Several workers share the weights, and each gives what one alone does.
func TestWorkers(t *testing.T) {
	for _, d := range append(devices(t), openBFloat16(t)) {
		testWorkers(t, d)
	}
}

func testWorkers(t *testing.T, d *Device) {
	w, err := d.Load(randomModel(t, small("")), Options{})
	must(t, err)
	sources := randomSources(6, 20, 3, 11)
	var all sync.WaitGroup
	results := make([][][]search.Scored, 4)
	for i := range results {
		s, err := w.NewStepper(len(sources))
		must(t, err)
		all.Go(func() {
			for range 3 {
				results[i] = scoresOf(s, sources)
			}
			if err := errors.Join(s.Err(), s.Close()); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	for i, result := range results {
		if !slices.EqualFunc(result, results[0], slices.Equal) {
			t.Errorf("worker %d differs", i)
		}
	}
	must(t, w.Close())
}

// Workers on several GPUs, all at once, give what one alone does. The emulated device refuses kernels and copies that get memory of another.
func TestSeveralGPUs(t *testing.T) {
	setEmulated(t, "devices", "2", "1")
	driver, err := cuda.Open(library(t, emulated.Unwatched))
	must(t, err)
	var gpus [2]*Device
	for number := range gpus {
		gpus[number], err = Open(driver, number)
		must(t, err)
		t.Cleanup(func() { must(t, gpus[number].Close()) })
	}
	var workers [4]*Stepper
	for i := range workers {
		d, other := gpus[i%2], gpus[1-i%2]
		before := freeMemory(t, other)
		workers[i] = newStepper(t, d, randomModel(t, describe(descriptions["pre-norm self-attention"])), 4)
		if freeMemory(t, other) != before {
			t.Errorf("worker %d of GPU %d takes memory of the other one", i, i%2)
		}
	}
	sources := randomSources(6, 20, 3, 11)
	var all sync.WaitGroup
	results := make([][][]search.Scored, len(workers))
	for i, s := range workers {
		all.Go(func() {
			for range 2 {
				results[i] = scoresOf(s, sources)
			}
		})
	}
	all.Wait()
	for i, result := range results {
		if !slices.EqualFunc(result, results[0], slices.Equal) {
			t.Errorf("worker %d, on GPU %d, differs from the first", i, i%2)
		}
	}
}

// Closing gives all memory back, after contexts and slots have made it grow.
func TestCloseFreesEverything(t *testing.T) {
	for _, d := range devices(t) {
		testCloseFreesEverything(t, d)
	}
}

// freeMemory is how many bytes of the device are free.
func freeMemory(t *testing.T, d *Device) (n uint64) {
	t.Helper()
	must(t, d.bound(func() (err error) {
		n, _, err = d.context.Memory()
		return err
	}))
	return n
}

func testCloseFreesEverything(t *testing.T, d *Device) {
	for _, kind := range []string{"post-norm", "s2s"} {
		before := freeMemory(t, d)
		w, err := d.Load(randomModel(t, describe(descriptions[kind])), Options{})
		must(t, err)
		s, err := w.NewStepper(30)
		must(t, err)
		sources := randomSources(slices.Repeat([]int{90}, 30)...)
		for i := range sources {
			sources[i].Candidates = []search.Token{0, 4, search.Token(5 + i)}
		}
		scoresOf(s, sources[:2])
		scoresOf(s, sources)
		must(t, errors.Join(s.Err(), s.Close(), w.Close()))
		if after := freeMemory(t, d); after != before {
			t.Errorf("%s: %d bytes are lost", kind, before-after)
		}
		for i, h := range []*shelf{&s.lists.shelf, &s.sourceFeed.shelf, &s.guessFeed.shelf, &s.sets} {
			if h.host != nil || h.read != nil {
				t.Errorf("%s: memory %d that the device can read is still there, want none", kind, i)
			}
		}
	}
}

// The pool lends every row once, however runs come and go.
func TestPool(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := pool{rows: 200, free: []run{{0, 200}}}
		owner := make([]bool, p.rows)
		var lent []run
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			n := rapid.IntRange(1, 30).Draw(t, "rows")
			if i := n % (len(lent) + 1); i < len(lent) && rapid.Bool().Draw(t, "give") {
				p.give(lent[i])
				for row := range lent[i].count {
					owner[lent[i].first+row] = false
				}
				lent = slices.Delete(lent, i, i+1)
				continue
			}
			if !slices.ContainsFunc(p.free, func(f run) bool { return f.count >= n }) {
				continue // it would have to grow
			}
			first, err := p.take(nil, n)
			if err != nil {
				t.Fatal(err)
			}
			for row := range n {
				if owner[first+row] {
					t.Fatalf("row %d is lent twice", first+row)
				}
				owner[first+row] = true
			}
			lent = append(lent, run{first, n})
		}
		for _, r := range lent {
			p.give(r)
		}
		if !slices.Equal(p.free, []run{{0, 200}}) {
			t.Errorf("when all is given back, %v is free", p.free)
		}
	})
}

// The demonstration model, with its shortlist, translates as the processor does in float32: by own kernels, and with products by cuBLASLt.
func TestDemoModel(t *testing.T) {
	if testing.Short() && os.Getenv(emulated.LibraryVariable) == "" {
		t.Skip("a whole model")
	}
	m := demoModel(t)
	t.Run("own", func(t *testing.T) {
		testDemoModel(t, m, func(suppress search.Token) *Stepper { return newStepper(t, openDevice(t), m, 24, suppress) })
	})
	t.Run("cuBLASLt", func(t *testing.T) {
		testDemoModel(t, m, func(suppress search.Token) *Stepper {
			return newTuned(t, openWithBLAS(t, "sliced"), m, 24, &Tuning{Way: gpukernels.LibraryProducts}, suppress)
		})
	})
}

// The same by own kernels, under the sanitizers of addresses and undefined behaviour.
func TestDemoModelUnderSanitizers(t *testing.T) {
	if testing.Short() {
		t.Skip("a whole model, slowly")
	}
	modes := slices.DeleteFunc(emulated.Modes(), func(m emulated.Mode) bool { return m.Sanitizer != emulated.Address })
	emulated.In(t, modes, func(t *testing.T, m emulated.Mode) {
		output, err := emulated.Rerun(t, m, emulated.LibraryOfBoth(t, m.Sanitizer, emulated.Sources(t)...), "^TestDemoModel$/^own$")
		if err != nil || !strings.Contains(output, "--- PASS: TestDemoModel/own ") {
			t.Fatalf("%v\n%s", err, output)
		}
	})
}

// testDemoModel lets device and processor translate freely, side by side and each in its own way. The processor then goes the way of the
// device's translations, and at each of their words must hold that word best, or as good as its best within the tolerance, and have its
// alignment. So translations that are others come of ties.
func testDemoModel(t *testing.T, m *model.Model, open func(suppress search.Token) *Stepper) {
	v, sources := demoSources(t)
	packed, err := cpumodel.Load(m, cpumodel.Float32, cpumodel.Options{Suppress: []search.Token{v.Unk()}})
	must(t, err)
	c := comparison{t: t, p: pair{open(v.Unk()), packed.NewStepper(24)}, tolerance: 0.15}
	var sentences []*search.Sentence
	for _, source := range sources {
		sentences = append(sentences, &search.Sentence{Source: source, Options: search.Options{Beam: 1, MaxLengthFactor: 3, Align: true}})
	}
	have, want := searchAll(t, []search.Stepper{c.p.gpu}, sentences), searchAll(t, []search.Stepper{c.p.cpu}, sentences)
	others := 0
	var translations []search.Hypothesis
	for i := range have {
		translation := have[i].Hypotheses[0]
		tokens := translation.Tokens
		t.Logf("%s", v.Decode(tokens[:len(tokens)-1], nil))
		if tokens[len(tokens)-1] != v.EOS() {
			t.Errorf("sentence %d does not end", i)
		}
		if !sameTokens(translation, want[i].Hypotheses[0]) {
			others++
		}
		translations = append(translations, translation)
	}
	c.follow(sources, translations)
	t.Logf("%d ties, %d of %d are other translations", c.ties, others, len(have))
	if c.ties > 2 || others > c.ties {
		t.Errorf("%d other translations, and %d words that the processor does not hold best", others, c.ties)
	}
}

// demoSources returns the vocabulary of the demonstration model and sentences for it, with candidates from its shortlist.
func demoSources(t testing.TB) (vocab.Vocabulary, []search.Source) {
	t.Helper()
	folder := filepath.Join(sharedtest.Root(), "models", "ende-tiny")
	v, err := vocab.Open(filepath.Join(folder, "vocab.spm"))
	must(t, err)
	list, err := shortlist.Open(filepath.Join(folder, "lex.s2t.bin"),
		shortlist.Options{Parameters: shortlist.Defaults(), Shared: true, Source: v, Target: v})
	must(t, err)
	var sources []search.Source
	for _, line := range demoLines {
		tokens := append(v.Encode(line, nil), v.EOS())
		sources = append(sources, search.Source{Tokens: tokens, Candidates: list.Candidates(tokens, nil)})
	}
	return v, sources
}

// demoLines are what the demonstration model translates.
var demoLines = []string{
	"A man in a red shirt is reading a newspaper.", "Two children are playing football on the beach.", "Thank you very much for your help.",
	"Where is the nearest station?", "The meeting begins tomorrow at nine.", "No.", "Do you want to save the changes before closing?",
	"It has been raining since yesterday evening.", "The book that you gave me is very interesting.", "We would like two tickets to Berlin.",
	"A dog jumps over a fence.", "She has lived in this city for ten years.", "The price of the house is too high.",
	"Please close the window when you leave the room.", "He did not know what to say.", "The train was late again.",
	"Several people are standing in front of a shop.", "My brother works in a hospital.", "This file could not be opened.",
	"The summer was hot and dry.",
}

// After a failure scores are NaN, and Err says what happened.
func TestFailures(t *testing.T) {
	if fault := os.Getenv("FAULT"); fault != "" {
		d := openDevice(t)
		m := randomModel(t, small(""))
		w, err := d.Load(m, Options{})
		must(t, err)
		s, err := w.NewStepper(2)
		must(t, err)
		contexts := make([]search.Context, 2)
		s.Encode(randomSources(5, 6), contexts)
		s.Begin(0, contexts[0])
		s.Begin(1, contexts[1])
		s.Step([]search.Slot{0, 1}, []search.Token{search.NoToken, search.NoToken}, false)
		out := make([]search.Scored, 2)
		s.Best([]int32{0, 1}, nil, out)
		for _, scored := range out {
			if scored.Score == scored.Score {
				t.Errorf("the score %v after a failure", scored.Score)
			}
		}
		if y := s.LogProbs(0); len(y) != smallVocabulary || y[0] == y[0] {
			t.Errorf("log-probabilities %v after a failure", y)
		}
		s.Release(contexts[0])
		wanted := map[string]error{"memory": cuda.ErrOutOfMemory, "lost": cuda.ErrLost}[fault]
		if !errors.Is(s.Err(), wanted) {
			t.Errorf("got %v, want %v", s.Err(), wanted)
		}
		return
	}
	if os.Getenv(emulated.LibraryVariable) != "" {
		t.Skip("needs an emulated device of its own")
	}
	at := library(t, emulated.Unwatched)
	for fault, setting := range map[string]string{
		"memory": "SLUICE_EMULATED_MEMORY=600K", "lost": "SLUICE_EMULATED_FAULT=cuLaunchKernel:9:719",
	} {
		output, err := emulated.Rerun(t, emulated.Plain(), at, "^TestFailures$", "FAULT="+fault, setting)
		if err != nil {
			t.Errorf("%s: %v\n%s", fault, err, output)
		}
	}
}

func TestRefuses(t *testing.T) {
	d := openDevice(t)
	for _, changes := range []string{
		"dim-emb: 1032\ntransformer-heads: 1",
	} {
		m, err := model.New(describe(changes))
		must(t, err)
		if _, err := d.Load(m, Options{}); !errors.Is(err, ErrUnsupported) {
			t.Errorf("%s: %v", changes, err)
		}
	}
	m := randomModel(t, small(""))
	if _, err := d.Load(m, Options{Suppress: []search.Token{70}}); err == nil || !strings.Contains(err.Error(), "token 70") {
		t.Errorf("suppressing a token that there is not: %v", err)
	}
	m.Encoder[0].FFN.Layers[0].W.Data[3] = 0x7e // a number of about 10³⁷
	if _, err := d.Load(m, Options{}); !errors.Is(err, ErrUnsupported) || !strings.Contains(err.Error(), "float16") {
		t.Errorf("a parameter that float16 cannot hold: %v", err)
	}
}

// modesTests are the tests that run in all modes: every kind of model, all searches, alone, among others and ahead, with alignments, forbidden tokens and shortlists,
// scores of given tokens, ensembles, all arithmetics, a model's multipliers, numbers that overflow, products by cuBLASLt, and several workers and GPUs.
const modesTests = "SmallModels|HardAttention|Scores|LogProbsOfTokens|QuestionsAhead|Beam|Candidates|Searches|SearchesAlone|LongTranslations|" +
	"Ahead|GraphsOfManyColumns|FewGraphs|Encodes|Jointly|EnsemblesAhead|Invariance|Workers|SeveralGPUs|Int8Models|Alphas|FP8Models|Overflow|OverflowOfHiddenUnits|OverflowOfCells|" +
	"NoOverflowOfBFloat16|LibraryProducts"

func TestModes(t *testing.T) {
	emulated.In(t, emulated.WholeModes(), func(t *testing.T, m emulated.Mode) {
		emulated.Repeat(t, m, emulated.LibraryOfBoth(t, m.Sanitizer, emulated.Sources(t)...), modesTests)
	})
}
