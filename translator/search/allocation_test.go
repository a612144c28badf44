package search

import "testing"

// A quietStepper allocates nothing. Its distribution depends on the step number only; a sentence ends when the end of
// sentence is the best token, which it is at every sixteenth step of a slot.
type quietStepper struct {
	slots    int
	counts   []int
	rows     []Slot
	logProbs []float32
	released int
}

func (q *quietStepper) Slots() int      { return q.slots }
func (q *quietStepper) Vocabulary() int { return len(q.logProbs) }
func (q *quietStepper) Encode(_ []Source, contexts []Context) {
	for i := range contexts {
		contexts[i] = Context(i)
	}
}
func (q *quietStepper) Release(Context)            { q.released++ }
func (q *quietStepper) Begin(slot Slot, _ Context) { q.counts[slot] = 0 }
func (q *quietStepper) Reorder(dst, src []Slot) {
	for i := range dst {
		q.counts[dst[i]] = q.counts[src[i]]
	}
}
func (q *quietStepper) Step(slots []Slot, _ []Token, _ bool) {
	q.rows = append(q.rows[:0], slots...)
	for _, slot := range slots {
		q.counts[slot]++
	}
}
func (q *quietStepper) Best(rows []int32, banned [][]Token, out []Scored) {
	q.Top(rows, 1, banned, out)
}
func (q *quietStepper) Top(rows []int32, k int, _ [][]Token, out []Scored) {
	for i, row := range rows {
		count := q.counts[q.rows[row]]
		for j := range k {
			token := Token(1 + (count*7+j)%(len(q.logProbs)-1))
			if count%16 == 0 && j == 0 {
				token = end
			}
			out[i*k+j] = Scored{token, float32(-j) - 0.1}
		}
	}
}
func (q *quietStepper) LogProbs(row int32) []float32 {
	for j := range q.logProbs {
		q.logProbs[j] = float32(-(j*31 + q.counts[q.rows[row]]*17) % 13)
	}
	return q.logProbs
}
func (q *quietStepper) Attention(int32) []float32 { return q.logProbs[:4] }

// TestAllocations counts allocations of whole sentences, from Encode to their result.
func TestAllocations(t *testing.T) {
	for _, test := range []struct {
		name    string
		options Options
		want    float64 // allocations for a sentence
	}{
		{"greedy", Options{Beam: 1}, 0},
		{"no repeat", Options{Beam: 1, NoRepeat: 2}, 0},
		{"greedy with scores", Options{Beam: 1, Scores: true}, 1.0 / sumsAtOnce},
		{"beam", Options{Beam: 4}, 1.0 / sumsAtOnce},
		{"beam with everything", Options{Beam: 4, NBest: 4, WordScores: true, Align: true}, 4*3 + 4.0/sumsAtOnce}, // scores, alignments in two parts
		{"top-k", Options{Beam: 1, Sampling: Sampling{Method: TopK, K: 5}}, 1.0 / sumsAtOnce},
		{"nucleus", Options{Beam: 1, Sampling: Sampling{Method: Nucleus, P: 0.9}}, 1.0 / sumsAtOnce},
		{"gumbel", Options{Beam: 4, Sampling: Sampling{Method: Gumbel}}, 1.0 / sumsAtOnce},
	} {
		stepper := &quietStepper{slots: 64, counts: make([]int, 64), logProbs: make([]float32, 100)}
		d, err := NewDecoder([]Stepper{stepper}, nil, end)
		if err != nil {
			t.Fatal(err)
		}
		test.options.MaxLengthFactor = 10
		sentences := make([]*Sentence, 16)
		for i := range sentences {
			sentences[i] = &Sentence{Source: Source{Tokens: []Token{2, 3, 4, end}}, Options: test.options}
		}
		round := func() {
			d.Encode(sentences)
			for _, s := range sentences {
				d.Start(s)
			}
			for done := 0; done < len(sentences); {
				done += len(d.Step())
			}
		}
		round()
		if got := testing.AllocsPerRun(20, round) / float64(len(sentences)); got > test.want {
			t.Errorf("%s: %v allocations for a sentence, want %v", test.name, got, test.want)
		}
	}
}

func BenchmarkDecoder(b *testing.B) {
	for name, options := range map[string]Options{
		"greedy": {Beam: 1, MaxLengthFactor: 10}, "beam4": {Beam: 4, MaxLengthFactor: 10}, "scores": {Beam: 1, Scores: true, MaxLengthFactor: 10},
	} {
		b.Run(name, func(b *testing.B) {
			stepper := &quietStepper{slots: 64, counts: make([]int, 64), logProbs: make([]float32, 100)}
			d, err := NewDecoder([]Stepper{stepper}, nil, end)
			if err != nil {
				b.Fatal(err)
			}
			s := make([]*Sentence, 64/options.Beam)
			for i := range s {
				s[i] = &Sentence{Source: Source{Tokens: []Token{2, 3, 4, end}}, Options: options}
			}
			rows := 0
			for b.Loop() {
				if d.Active() == 0 {
					d.Encode(s)
					for _, s := range s {
						d.Start(s)
					}
				}
				d.Step()
				rows += len(d.rowSlots)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(rows), "ns/row")
		})
	}
}
