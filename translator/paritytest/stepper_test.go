package paritytest

import (
	"math"
	"slices"

	"github.com/sluice-mt/sluice/translator/search"
)

// A plainStepper runs a plain model as search.Stepper.
type plainStepper struct {
	model      *plain
	vocabulary int
	suppressed []search.Token
	slots      []plainSlot
	contexts   map[search.Context]*plainContext
	next       search.Context
	rows       []search.Slot
}

type plainContext struct {
	source     *plainSource
	candidates []search.Token
}

type plainSlot struct {
	context   *plainContext
	states    []plainState
	position  int
	logProbs  []float32
	attention []float32
}

func newPlainStepper(model *plain, slots int, suppressed []search.Token) *plainStepper {
	return &plainStepper{
		model: model, vocabulary: len(model.tensor("decoder_ff_logit_out_b").values), suppressed: suppressed,
		slots: make([]plainSlot, slots), contexts: map[search.Context]*plainContext{},
	}
}

func (s *plainStepper) Slots() int      { return len(s.slots) }
func (s *plainStepper) Vocabulary() int { return s.vocabulary }

func (s *plainStepper) Encode(sources []search.Source, contexts []search.Context) {
	for i, source := range sources {
		s.next++
		contexts[i] = s.next
		s.contexts[s.next] = &plainContext{s.model.prepare(source.Tokens), source.Candidates}
	}
}

func (s *plainStepper) Release(context search.Context) { delete(s.contexts, context) }

func (s *plainStepper) Begin(slot search.Slot, context search.Context) {
	s.slots[slot] = plainSlot{context: s.contexts[context]}
}

func (s *plainStepper) Reorder(dst, src []search.Slot) {
	before := slices.Clone(s.slots)
	for i := range dst {
		s.slots[dst[i]] = before[src[i]]
	}
}

func (s *plainStepper) Step(slots []search.Slot, tokens []search.Token, _ bool) {
	s.rows = append(s.rows[:0], slots...)
	for i, slot := range slots {
		p := &s.slots[slot]
		var logits []float32
		p.states, logits, p.attention = s.model.step(p.context.source, p.states, tokens[i], p.position)
		p.position++
		p.logProbs = logSoftmax(logits, p.context.candidates)
		for j := range p.logProbs {
			if slices.Contains(s.suppressed, s.token(p, j)) {
				p.logProbs[j] = float32(math.Inf(-1))
			}
		}
	}
}

// logSoftmax normalises the logits of the candidates, or of the whole vocabulary.
func logSoftmax(logits []float32, candidates []search.Token) []float32 {
	if candidates != nil {
		chosen := make([]float32, len(candidates))
		for i, token := range candidates {
			chosen[i] = logits[token]
		}
		logits = chosen
	}
	highest, total := slices.Max(logits), 0.0
	for _, x := range logits {
		total += math.Exp(float64(x - highest))
	}
	for i, x := range logits {
		logits[i] = float32(float64(x-highest) - math.Log(total))
	}
	return logits
}

func (s *plainStepper) token(p *plainSlot, index int) search.Token {
	if p.context.candidates == nil {
		return search.Token(index)
	}
	return p.context.candidates[index]
}

func (s *plainStepper) Best(rows []int32, banned [][]search.Token, out []search.Scored) {
	s.Top(rows, 1, banned, out)
}

func (s *plainStepper) Top(rows []int32, k int, banned [][]search.Token, out []search.Scored) {
	for i, row := range rows {
		p := &s.slots[s.rows[row]]
		best := out[i*k : i*k : (i+1)*k]
		for j, x := range p.logProbs {
			token := s.token(p, j)
			if banned != nil && slices.Contains(banned[i], token) {
				continue
			}
			if len(best) == k {
				if !(x > best[k-1].Score) {
					continue
				}
				best = best[:k-1]
			}
			place := len(best)
			for place > 0 && x > best[place-1].Score {
				place--
			}
			best = slices.Insert(best, place, search.Scored{Token: token, Score: x})
		}
	}
}

func (s *plainStepper) LogProbs(row int32) []float32  { return s.slots[s.rows[row]].logProbs }
func (s *plainStepper) Attention(row int32) []float32 { return s.slots[s.rows[row]].attention }
